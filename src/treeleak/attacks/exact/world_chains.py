"""Chains over the datasets that almost meet exact counts, of all classes at once.

A chain holds one dataset and learns on the way what rows are like, as chains behind noise do. As
these it never changes: what walks on is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.exact.schedule import SCHEDULE
from treeleak.attacks.exact.world_kernels import Places, set_log_priors, walk
from treeleak.attacks.exact.worlds import SolutionSampler
from treeleak.attacks.posterior.chains import as_prior, hierarchy_of
from treeleak.attacks.posterior.draw_kernels import GridArrays, Prior
from treeleak.attacks.posterior.prior_kernels import HierarchicalPrior, relearn
from treeleak.attacks.posterior.target import grid_without_table
from treeleak.attacks.samples import Info
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.compiled import copied
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex


@dataclass(frozen=True, eq=False)
class ChainContext:
    """What all chains share."""

    searches: tuple[SolutionSampler, ...]
    geometry: Geometry
    values: ValueIndex
    fixed: tuple[NDArray[np.int16], ...]
    """Atoms of the rows of each system that do not move, counted from 0 in each attribute."""
    grid: GridArrays
    warm: float
    """Temperature of samples. It is lower where a row stands in few different equations: a row in a
    wrong place misses two counts for each, and that must cost more than what the chain takes rows
    to be like can gain by it."""

    @classmethod
    def of(
        cls, searches: Sequence[SolutionSampler], geometry: Geometry, values: ValueIndex
    ) -> ChainContext:
        """Lay out the points that rows of each system may take."""
        begin, fixed = values.atom_start[:-1], []
        for search in searches:
            still = np.concatenate([search.fixed_points, search.anchored])
            fixed.append((search.atoms[still] - begin).astype(np.int16))
        radix = np.append(geometry.radix, np.diff(values.atom_start)[-1])
        grid = grid_without_table(geometry, radix, values)
        spaces = [s.space for s in searches if len(s.space.packed)]
        n = max((float((s.packed >= 0).sum(axis=1).mean()) for s in spaces), default=0.0)
        warm = float(np.clip(n / SCHEDULE.many_equations, SCHEDULE.coldest, 1.0))
        return cls(tuple(searches), geometry, values, tuple(fixed), grid, warm)

    @cached_property
    def places(self) -> tuple[Places, ...]:
        """The points of each system, as walks need them."""
        begin = self.values.atom_start[:-1]
        return tuple(
            s.space.places(s.tilt, (s.atoms[s.live_of] - begin).astype(np.int16))
            for s in self.searches
        )

    def points(self, atoms: NDArray[np.signedinteger[Any]]) -> tuple[IntArray, ...]:
        """Points of the open rows of each system, of datasets as chains give them.

        ``atoms``, shape (..., n_rows, n_attributes + 1).
        """
        out, begin = [], 0
        stride = np.append(self.geometry.stride, self.geometry.n_points)
        for fixed, search in zip(self.fixed, self.searches, strict=True):
            begin += len(fixed)
            part = atoms[..., begin : begin + search.space.n_rows, :].astype(np.int64)
            out.append(np.searchsorted(search.space.code, part @ stride))
            begin += search.space.n_rows
        return tuple(out)

    @property
    def n_rows(self) -> int:
        """Of all systems."""
        return sum(len(f) + s.space.n_rows for f, s in zip(self.fixed, self.searches, strict=True))


@dataclass(frozen=True, eq=False)
class WorldChain:
    """One dataset on its walk. Made by :meth:`started`; :meth:`walked` gives the next one."""

    context: ChainContext
    points: tuple[IntArray, ...]
    """Of each system, the points of its open rows."""
    residual: tuple[IntArray, ...]
    log_prior: tuple[FloatArray, ...]
    hierarchy: HierarchicalPrior
    """What the prior is learned with."""
    fixed_prior: Prior | None
    """The prior, where it is not learned."""
    rng: NDArray[np.uint64]

    @classmethod
    def started(cls, context: ChainContext, seed: int, prior: Prior | None = None) -> WorldChain:
        """Start near the maximum of entropy; without a prior, it is learned."""
        rng = np.random.default_rng(seed)
        points = tuple(s.space.spread(s.w, rng).astype(np.int64) for s in context.searches)
        state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        residual = tuple(s.space.residual(p) for s, p in zip(context.searches, points, strict=True))
        log_prior, hierarchy = (np.zeros(len(p)) for p in points), hierarchy_of(context.values, 0)
        chain = cls(context, points, residual, tuple(log_prior), hierarchy, prior, state)
        return chain.learned()

    @property
    def prior(self) -> Prior:
        """What rows are taken to be like."""
        return as_prior(self.hierarchy) if self.fixed_prior is None else self.fixed_prior

    @property
    def atoms(self) -> NDArray[np.int16]:
        """The rows of all systems, in each those that do not move first."""
        both = zip(self.context.fixed, self.context.places, self.points, strict=True)
        return np.concatenate([part for f, at, p in both for part in (f, at.atoms[p])])

    def misfit_of(self, s: int) -> int:
        """Sum over the distinct equations of a system of |A m - n|."""
        return int(np.abs(self.residual[s]).sum())

    def learned(self) -> WorldChain:
        """Redraw what rows are like from those of the chain, unless the prior is fixed."""
        out = self._copied()
        if self.fixed_prior is None:
            relearn(out.rng, out.atoms, self.context.grid, out.hierarchy)
        radix = self.context.grid.radix
        for at, points, log_prior in zip(
            self.context.places, out.points, out.log_prior, strict=True
        ):
            set_log_priors(points, at, out.prior, radix, log_prior)
        return out

    @property
    def height(self) -> float:
        """Log likelihood, with what is missed at the price of samples."""
        return -sum(self.misfit_of(s) for s in range(len(self.points))) / self.context.warm

    def under(self, prior: Prior | None) -> WorldChain:
        """Go on under another prior, or learn it."""
        return replace(self, fixed_prior=prior).learned()

    def walked(
        self,
        sweeps: float,
        clock: Clock,
        temperature: float = 1.0,
        missing_row_penalty: float = 0.0,  # noqa: ARG002
    ) -> tuple[WorldChain, Info]:
        """Learn and move on in turns, or until the clock stops.

        ``temperature``: that of samples is 1, whatever a missed count costs there.
        """
        turns, out, done = max(round(sweeps / SCHEDULE.learning_sweeps), 1), self, (0, 0)
        for _ in range(turns):
            if clock.stopped:
                break
            warm = temperature * self.context.warm
            out, info = out.learned().moved(sweeps / turns, warm)
            done = done[0] + info.steps, done[1] + info.taken
        return out, Info(*done)

    def moved(
        self, sweeps: float, temperature: float, only: int | None = None, until_met: bool = False
    ) -> tuple[WorldChain, Info]:
        """Move on by so many steps per row, in all systems or in one."""
        out, context, done = self._copied(), self.context, np.zeros(2, dtype=np.int64)
        for s in range(len(self.points)) if only is None else (only,):
            steps = max(int(sweeps * len(self.points[s])), 1)
            space = context.searches[s].space
            if space.can_move:
                free = np.zeros((0, space.n_atoms), dtype=np.float32)
                done += walk(
                    steps, temperature, SCHEDULE.swaps, until_met, out.points[s], out.log_prior[s],
                    out.residual[s], context.places[s], out.prior, context.grid.radix, free,
                    np.zeros(0, dtype=np.int64), np.zeros(2), out.rng,
                )  # fmt: skip
        return out, Info(*done.tolist())

    def frozen(self, s: int, power: float, longer: int, clock: Clock) -> WorldChain:
        """Look for a world of one system near by.

        ``power``: to which what rows are like counts. ``longer``: how many times as long.
        """
        prior = self.prior
        out = self.under(prior._replace(log_share=power * prior.log_share))
        for temperature in np.geomspace(
            SCHEDULE.freezing_from, SCHEDULE.freezing_to, longer * SCHEDULE.freezing_stages
        ):
            if clock.stopped:
                break
            out, _ = out.moved(SCHEDULE.learning_sweeps, temperature, only=s, until_met=True)
            if out.misfit_of(s) == 0:
                break
        return self.at(s, out.points[s], out.rng)

    def at(self, s: int, points: IntArray, rng: NDArray[np.uint64] | None = None) -> WorldChain:
        """Go on with the open rows of one system at other points."""
        out, context = self._copied(), self.context
        out.points[s][:], out.residual[s][:] = points, context.searches[s].space.residual(points)
        set_log_priors(points, context.places[s], out.prior, context.grid.radix, out.log_prior[s])
        return out if rng is None else replace(out, rng=rng)

    def _copied(self) -> WorldChain:
        return replace(
            self,
            points=tuple(array.copy() for array in self.points),
            residual=tuple(array.copy() for array in self.residual),
            log_prior=tuple(array.copy() for array in self.log_prior),
            hierarchy=copied(self.hierarchy),
            rng=self.rng.copy(),
        )
