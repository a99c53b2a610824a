"""How chains go about it: tempered first, then sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.posterior.chains import MISSING_ROW_PENALTY, Chain, as_kernel_prior
from treeleak.attacks.posterior.draw_kernels import Prior
from treeleak.attacks.posterior.schedule import SCHEDULE
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.samples import Info, Samples
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import on_grid
from treeleak.core.errors import NotCovered
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass
from treeleak.core.text import short
from treeleak.side_information.density import Density

_TRIAL = 20_000
"""Steps from which the speed of a walk is judged."""


@dataclass(frozen=True)
class Plan:
    """How long the chains walk, in sweeps (steps per row)."""

    chains: int
    cooling: int
    """Stages from hot to 1."""
    fits: int
    between: int
    """How often a prior that all chains share is fitted to what they find, and stages before each
    fit; chains that learn on their own walk as long."""
    samples: int
    """Stages after that; each ends with a sample."""
    sweeps: float
    """Of each stage."""
    hot: float
    """First temperature; 1 for none."""
    low_penalty: float = MISSING_ROW_PENALTY
    """First price of a row that a leaf lacks."""
    share: float = 0.8
    """Of the time left, for which walks are planned."""
    least_sweeps: float = 10.0
    """Sweeps of a stage with fewer of which a search has not settled, whatever its end looks
    like."""
    stage: str = "drawing datasets"
    """What is done at last, for messages."""
    by_factors: bool = False
    """Whether the temperature falls by the same factor at each stage; else its inverse grows by the
    same amount, which spends less time where it is hot."""

    @property
    def stages(self) -> int:
        """Of each chain."""
        return self.cooling + self.fits * self.between + self.samples


class Walking(Protocol):
    """One dataset on its walk, which never changes: what walks on is another one."""

    @property
    def atoms(self) -> NDArray[np.int16]:
        """Shape (n_rows, n_attributes + 1). Counted from 0 in each attribute; the class is last."""

    @property
    def height(self) -> float:
        """Log posterior (log likelihood, where each chain has its own prior)."""

    def under(self, prior: Prior | None) -> Self:
        """Go on under another prior, or learn it."""

    def walked(
        self,
        sweeps: float,
        clock: Clock,
        temperature: float = ...,
        missing_row_penalty: float = ...,
    ) -> tuple[Self, Info]:
        """Move on by so many steps per row, or until the clock stops."""


C = TypeVar("C", bound=Walking)


def affordable(
    plan: Plan,
    target: PosteriorTarget,
    prior: TreePrior | FloatArray | None,
    clock: Clock,
    seed: int,
) -> Plan:
    """Take fewer chains, then shorter walks, where the time left would not do."""
    chain = Chain.started(target, None if prior is None else as_kernel_prior(prior), seed)
    return within_time(plan, chain, target.n_rows, clock)


def within_time(plan: Plan, chain: Walking, n_rows: int, clock: Clock) -> Plan:
    """The same, by how fast a chain is."""
    chain, _ = clock.untimed(partial(chain.walked, 1 / n_rows, clock))
    start, trial = clock.seconds, max(_TRIAL / n_rows, 1.0)
    chain.walked(trial, clock)
    stage = (clock.seconds - start) / trial * plan.sweeps
    runs = plan.share * clock.left / max(stage * plan.stages / 2, 1e-9)
    if runs >= plan.chains:
        return plan
    chains = max(int(runs) // 2 * 2, 2)
    return replace(plan, chains=chains, sweeps=plan.sweeps * min(1.0, runs / chains))


@dataclass(frozen=True, eq=False)
class ChainRun:
    """Where chains have walked to."""

    target: PosteriorTarget
    plan: Plan
    clock: Clock
    chains: Sequence[Any]
    """All of one kind."""
    drawn: Sequence[Drawn]
    prior: TreePrior | FloatArray | None
    """What all chains share; None where each learned its own."""
    converged: bool
    """Whether there was time to cool, and to learn what rows are like."""

    @cached_property
    def for_all(self) -> TreePrior | FloatArray:
        """A prior for all; where each chain learned its own, it is fitted to what they found."""
        return fitted(self.target, self.drawn) if self.prior is None else self.prior

    def samples(self, density: Density | None = None) -> Samples:
        """Put what chains drew together.

        With the density of a population, the values of each atom are as probable as it has them in
        these rows.
        """
        samples = together(self.target, self.drawn, self.for_all)
        return samples if density is None else _with_population(samples, density)

    def likeliest(self) -> IntArray:
        """Find the likeliest dataset under one prior for all: atoms, each attribute from 0."""
        kernel_prior = as_kernel_prior(self.for_all)

        def frozen(chain: Chain) -> Chain:
            sweeps = SCHEDULE.cold_stages * self.plan.sweeps
            return chain.under(kernel_prior).walked(sweeps, self.clock, SCHEDULE.cold)[0]

        ended = run_all([partial(frozen, chain) for chain in self.chains])
        heights = [chain.height for chain in ended]
        return np.asarray(ended[int(on_grid(heights).argmax())].atoms, dtype=np.int64)

    @property
    def numbers(self) -> dict[str, int]:
        """How much was walked, for an answer."""
        made = {"chains": len(self.chains), "samples": len(self.drawn)}
        return made | {"sweeps": int(self.plan.sweeps)}


def run_posterior(
    target: PosteriorTarget,
    plan: Plan,
    prior: TreePrior | FloatArray | None,
    clock: Clock,
    seed: int,
    part: tuple[float, float] = (0.0, 1.0),
    at: IntArray | None = None,
) -> ChainRun:
    """Cool chains, let them learn what rows are like, and draw samples.

    ``prior``: for all chains; a tree is fitted anew to what they find. Without it, each chain
    learns its own. ``part``: what of the progress this is. ``at``: rows that all chains start from.
    """
    kernel_prior = None if prior is None else as_kernel_prior(prior)
    seeds = np.random.SeedSequence(seed).generate_state(plan.chains)
    chains = [Chain.started(target, kernel_prior, int(s), at) for s in seeds]
    return run_chains(chains, target, plan, prior, clock, part)


def run_chains(
    chains: Sequence[C],
    target: PosteriorTarget,
    plan: Plan,
    prior: TreePrior | FloatArray | None,
    clock: Clock,
    part: tuple[float, float] = (0.0, 1.0),
) -> ChainRun:
    """Do that with chains of any kind, where they are."""
    walk = _Walk(plan, clock, part)
    chains = walk.cooled(chains)
    for _ in range(plan.fits):
        if clock.stopped:
            break
        chains, found = walk.drawn(chains, plan.between)
        if isinstance(prior, TreePrior):
            prior = fitted(target, found)
            kernel_prior = as_kernel_prior(prior)
            chains = [chain.under(kernel_prior) for chain in chains]
    converged = not clock.stopped and plan.sweeps >= plan.least_sweeps
    chains, found = walk.drawn(chains, plan.samples, plan.stage)
    return ChainRun(target, plan, clock, chains, found, prior, converged)


@dataclass(eq=False)
class _Walk:
    """The walk of all chains, stage by stage; it tells how far they are."""

    plan: Plan
    clock: Clock
    part: tuple[float, float]
    done: int = 0

    def cooled(self, chains: Sequence[C]) -> list[C]:
        """Go from the highest temperature to 1, and from the lowest penalty to the full one."""
        plan = self.plan

        def cooled(chain: C) -> C:
            for way in np.linspace(0.0, 1.0, plan.cooling):
                temperature = 1.0 / (way + (1.0 - way) / plan.hot)
                if plan.by_factors:
                    temperature = plan.hot ** (1.0 - way)
                missing_row_penalty = plan.low_penalty + way * (
                    MISSING_ROW_PENALTY - plan.low_penalty
                )
                chain, _ = chain.walked(plan.sweeps, self.clock, temperature, missing_row_penalty)
                self._report("looking for likely rows")
            return chain

        return run_all([partial(cooled, chain) for chain in chains])

    def drawn(
        self, chains: Sequence[C], stages: int, what: str = "learning what rows are like"
    ) -> tuple[list[C], list[Drawn]]:
        """Walk, and note the dataset after each stage of each chain; one at least."""

        def drawn(c: int) -> tuple[C, list[Drawn]]:
            out, chain = list[Drawn](), chains[c]
            for k in range(stages):
                if k and self.clock.stopped:
                    break
                chain, _ = chain.walked(self.plan.sweeps, self.clock)
                out.append((chain.atoms, c, chain.height))
                self._report(what)
            return chain, out

        ended = run_all([partial(drawn, c) for c in range(len(chains))])
        return [chain for chain, _ in ended], [d for _, datasets in ended for d in datasets]

    def _report(self, what: str) -> None:
        self.done += 1
        way = self.done / (self.plan.stages * self.plan.chains)
        self.clock.report_progress(what, float(np.interp(way, (0.0, 1.0), self.part)))


Drawn = tuple[NDArray[np.int16], int, float]
"""Atoms, chain, and log posterior (log likelihood, where each chain has its own prior)."""


def fitted(target: PosteriorTarget, drawn: Sequence[Drawn]) -> TreePrior:
    """Fit a prior to datasets."""
    atoms = np.concatenate([a for a, _, _ in drawn]).astype(np.int64)
    values = target.values
    radix = np.diff(values.atom_start)
    return TreePrior.fitted(atoms, target.n_rows, radix, values.atom_weights, values.bins)


def together(
    target: PosteriorTarget, drawn: Sequence[Drawn], prior: TreePrior | FloatArray
) -> Samples:
    """Put datasets together."""
    atoms = np.array([a for a, _, _ in drawn])
    numbered = (atoms + target.values.atom_start[:-1]).ravel()
    marginal = np.bincount(numbered, minlength=target.values.n_atoms) / len(drawn)
    values = target.values.with_tails(target.geometry.release, marginal)
    chain, height = np.array([c for _, c, _ in drawn]), np.array([h for _, _, h in drawn])
    return Samples(values, atoms, chain, height, values.prior(marginal), prior)


def population_prior(density: Density | None, target: PosteriorTarget) -> FloatArray | None:
    """Log probability of rows by the population, over the grid, shape (n_points, n_classes).

    None where it is not known.

    Raises NotCovered if the grid is too large to list.
    """
    if density is None:
        return None
    if not target.grid.listed:
        n = target.geometry.n_points
        raise NotCovered(f"a population on a grid of {short(n)} points: too many to list")
    points = np.arange(density.geometry.n_points)
    classes = range(target.likelihood.n_classes)
    return np.column_stack([density.log_prior(points, c) for c in classes])


def _with_population(samples: Samples, density: Density) -> Samples:
    """Take the values of each atom as probable as the population has them, in these rows."""
    values = samples.values
    rows = np.unique(samples.atoms.reshape(-1, samples.atoms.shape[2]), axis=0)
    atoms = rows.astype(np.int64) + values.atom_start[:-1]
    within, total = density.within(atoms), 1e-9 * samples.value_prior
    for a in range(atoms.shape[1]):
        columns = np.arange(values.start[a], values.start[a + 1])
        held = values.atom_of[columns][None, :] == atoms[:, a, None]
        total[columns] += np.where(held, within[:, columns], 0.0).sum(axis=0)
    per_atom = np.bincount(values.atom_of, total, minlength=values.n_atoms)
    return replace(samples, value_prior=np.asarray(total / per_atom[values.atom_of]))
