"""Chains over the datasets that almost meet exact counts, of all classes at once.

A chain holds one dataset and learns on the way what rows are like, as chains behind noise do. As
these it never changes: what walks on is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

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

_MANY, _COLDEST = 20, 0.25
"""Equations of a row from which on samples are as warm as planned; how cold those of few are."""


@dataclass(frozen=True)
class Plan:
    """How long the chains walk, in stages of so many sweeps (steps per row)."""

    chains: int = 8
    cooling: int = 40
    """Stages from hot to warm."""
    between: int = 40
    """Stages after that, before the first sample."""
    samples: int = 24
    thin: int = 2
    """Stages between two samples."""
    sweeps: float = 40.0
    hot: float = 6.0
    warm: float = 1.0
    """Temperatures, as in :func:`~treeleak.attacks.exact.world_kernels.walk`; of samples, the
    last, where rows stand in many equations."""
    frozen: int = 40
    """Stages in which a chain then looks for a world,"""
    thaw: float = 1.2
    frost: float = 0.6
    """from one temperature to another;"""
    doubted: tuple[tuple[float, int], ...] = ((1.0, 1), (0.25, 2))
    """until some chain has found one: what rows are like counts to such a power, for so many times
    as long. It keeps chains from places that some worlds need."""
    swaps: float = 0.3

    @property
    def stages(self) -> int:
        """Of each chain."""
        return self.cooling + self.between + self.samples * self.thin

    def for_equations(self, n: float) -> Plan:
        """Keep samples colder where a row stands in few different equations, ``n`` on average.

        A row in a wrong place misses two counts for each. That must cost more than what the chain
        takes rows to be like can gain by it.
        """
        return replace(self, warm=float(np.clip(n / _MANY, _COLDEST, self.warm)))


@dataclass(frozen=True, eq=False)
class ChainContext:
    """What all chains share."""

    searches: tuple[SolutionSampler, ...]
    geometry: Geometry
    values: ValueIndex
    fixed: tuple[NDArray[np.int16], ...]
    """Atoms of the rows of each system that do not move, counted from 0 in each attribute."""
    grid: GridArrays

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
        return cls(tuple(searches), geometry, values, tuple(fixed), grid)

    @cached_property
    def places(self) -> tuple[Places, ...]:
        """The points of each system, as walks need them: rows behind one tree are drawn without."""
        begin = self.values.atom_start[:-1]
        return tuple(
            s.space.places(s.tilt, (s.atoms[s.live_of] - begin).astype(np.int16))
            for s in self.searches
        )

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
        return cls.resting(context, points, hierarchy_of(context.values, 0), prior, state).learned()

    @classmethod
    def resting(
        cls,
        context: ChainContext,
        points: tuple[IntArray, ...],
        hierarchy: HierarchicalPrior,
        prior: Prior | None,
        rng: NDArray[np.uint64],
    ) -> WorldChain:
        """Hold rows at some points; before it walks, a chain has to learn."""
        residual = tuple(s.space.residual(p) for s, p in zip(context.searches, points, strict=True))
        log_prior = tuple(np.zeros(len(p)) for p in points)
        return cls(context, points, residual, log_prior, hierarchy, prior, rng)

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
        """Redraw what rows are like, given those that the chain holds, unless it was told."""
        out = self._copied()
        if self.fixed_prior is None:
            relearn(out.rng, out.atoms, self.context.grid, out.hierarchy)
        radix = self.context.grid.radix
        for at, points, log_prior in zip(
            self.context.places, out.points, out.log_prior, strict=True
        ):
            set_log_priors(points, at, out.prior, radix, log_prior)
        return out

    def walked(
        self,
        sweeps: float,
        temperature: float,
        swaps: float,
        only: int | None = None,
        until_met: bool = False,
    ) -> tuple[WorldChain, Info]:
        """Move on by so many steps per row, in all systems or in one."""
        out, context, done = self._copied(), self.context, np.zeros(2, dtype=np.int64)
        for s in range(len(self.points)) if only is None else (only,):
            steps = max(int(sweeps * len(self.points[s])), 1)
            space = context.searches[s].space
            if space.can_move:
                free = np.zeros((0, space.n_atoms), dtype=np.float32)
                done += walk(
                    steps, temperature, swaps, until_met, out.points[s], out.log_prior[s],
                    out.residual[s], context.places[s], out.prior, context.grid.radix, free,
                    np.zeros(0, dtype=np.int64), np.zeros(2), out.rng,
                )  # fmt: skip
        return out, Info(*done.tolist())

    def frozen(self, s: int, power: float, longer: int, plan: Plan, clock: Clock) -> WorldChain:
        """Look for a world of one system near by; ``power``, ``longer``: see the plan."""
        prior = self.prior
        out = replace(self, fixed_prior=prior._replace(log_share=power * prior.log_share)).learned()
        for temperature in np.geomspace(plan.thaw, plan.frost, longer * plan.frozen):
            if clock.stopped:
                break
            out, _ = out.walked(plan.sweeps, temperature, plan.swaps, only=s, until_met=True)
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
