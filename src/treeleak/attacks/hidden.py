"""The attack on hidden draws: the posterior of the rows, with the draws summed out.

Several chains walk over datasets, first in great heat, then at 1. The prior is a tree over the
attributes, fitted to what the chains themselves find: what the counts say of most rows speaks for
those of which they say little. The answer is the middle of the samples, which errs least on
average; the likeliest dataset and the samples themselves come with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.chains import GAP, Chain, Landscape, as_kernel_prior
from treeleak.attacks.consensus import aligned_shares, cheapest
from treeleak.attacks.likelihood import DrawLikelihood
from treeleak.attacks.samples import Samples
from treeleak.attacks.search import run_all
from treeleak.attacks.space import values_of
from treeleak.attacks.tree_prior import TreePrior
from treeleak.clock import Clock
from treeleak.errors import NotCovered
from treeleak.evidence import Contradiction, HiddenDraws
from treeleak.given import NOTHING, Given
from treeleak.partition import Geometry, rules_hold
from treeleak.population import Density

__all__ = ["hidden_draws"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MANY_ROWS = 1000
"""Rows from which on chains start where the counts put the rows, and are not heated."""


@dataclass(frozen=True)
class _Plan:
    """How long the chains walk, in sweeps (steps per row).

    Attributes
    ----------
    chains : int
    cooling : int
        Stages from hot to 1.
    fits, between : int
        How often the prior is fitted, and stages before each fit.
    samples : int
        Stages after that; each ends with a sample.
    sweeps : float
        Of each stage.
    """

    chains: int = 8
    cooling: int = 20
    fits: int = 6
    between: int = 3
    samples: int = 22
    sweeps: float = 200.0

    @property
    def stages(self) -> int:
        """Of each chain."""
        return self.cooling + self.fits * self.between + self.samples


_DOUBT = 0.5
"""Samples' worth of doubt in every share."""
_SHARE = 0.8
"""Share of the time left for which walks are planned."""
_TRIAL = 20_000
"""Steps from which the speed of a walk is judged."""
_LEAST_SWEEPS = 10.0
"""Sweeps of a stage with fewer of which a search has not settled, whatever its end looks like."""
_HOT, _LOW_GAP = 10.0, 2.0
"""First heat, and first price of a row that a leaf lacks."""
_COLD, _COLD_STAGES = 0.2, 2
"""Heat, and stages, in which a chain looks for the likeliest dataset."""


def hidden_draws(
    evidence: HiddenDraws, geometry: Geometry, clock: Clock, seed: int, given: Given = NOTHING
) -> Answer:
    """Rebuild the rows behind counts of hidden draws.

    Parameters
    ----------
    evidence : HiddenDraws
    geometry : Geometry
    clock : Clock
    seed : int
    given : Given
        Rows keep their places where parts of them are known.

    Returns
    -------
    Answer
        "likely", with the samples and the likeliest dataset; "infeasible" where no draws give the
        counts; "unknown" if the time was too short for the chains to settle.
    """
    values = values_of(geometry.parts, geometry.release.n_classes)
    if (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)
    likelihood = DrawLikelihood.of(evidence)
    numbers = {
        "grid_points": geometry.n_points,
        "equations": int((likelihood.draws > 0).sum()),
        "mixed_leaves": len(likelihood.mixed_start) - 1,
    }
    clock.tell("fitting the counts", 0.0)
    land = Landscape.of(geometry, values, likelihood, evidence.n_rows, given.parts, clock)
    if (clash := _out_of_reach(land)) is not None:
        return Answer("infeasible", values, contradiction=clash, numbers=numbers)
    walk, prior = _Walk(land, _affordable(land, clock, seed), clock), _prior(land, given)
    seeds = np.random.SeedSequence(seed).generate_state(walk.plan.chains)
    chains = [Chain.started(land, as_kernel_prior(prior), int(s)) for s in seeds]
    walk.cool(chains)
    if isinstance(prior, TreePrior):
        prior = walk.learned(chains, prior)
    cooled = not clock.stopped
    samples = walk.sample(chains, prior)
    if given.population is not None:
        samples = replace(samples, value_prior=_told(samples, given.population.fitted(geometry)))
    likeliest = walk.likeliest(chains)
    numbers |= {"chains": len(chains), "samples": len(samples), "sweeps": int(walk.plan.sweeps)}
    return Answer(
        "likely" if cooled and walk.plan.sweeps >= _LEAST_SWEEPS else "unknown",
        values,
        (_middle(samples, land, clock),),
        numbers=numbers,
        ordered=given.parts is not None,
        samples=samples,
        likeliest=likeliest,
    )


def _out_of_reach(land: Landscape) -> Contradiction | None:
    """Find a leaf that counts draws where no point of a listed grid goes."""
    table, valid = land.ground.table, land.ground.valid
    if not len(table):
        return None
    draws = land.likelihood.draws.reshape(-1, land.likelihood.n_classes).sum(axis=1)
    reached = np.zeros(len(draws), dtype=bool)
    reached[table[valid] if len(valid) else table] = True
    lost = (draws > 0) & ~reached
    if not lost.any():
        return None
    v = int(lost.argmax())
    why = f"counts {draws[v]} draws where no row under this schema goes"
    return Contradiction(*land.geometry.leaf_of_row(v), why)


def _prior(land: Landscape, given: Given) -> TreePrior | FloatArray:
    """Log probability of rows before anything is counted, over the grid if there is one."""
    if given.population is None:
        return TreePrior.flat(land.radix, land.values.atom_sizes)
    density, n_points = given.population.fitted(land.geometry), len(land.ground.table)
    if n_points:
        points = np.arange(n_points)
        classes = range(land.likelihood.n_classes)
        return np.column_stack([density.log_prior(points, c) for c in classes])
    raise NotCovered(
        f"a population with hidden draws on a grid of {land.geometry.n_points:,} points"
    )


def _told(samples: Samples, density: Density) -> FloatArray:
    """Probability of each value given its atom, by the population, over the rows of the samples."""
    values = samples.values
    rows = np.unique(samples.atoms.reshape(-1, samples.atoms.shape[2]), axis=0)
    atoms = rows.astype(np.int64) + values.atom_start[:-1]
    within, total = density.within(atoms), 1e-9 * samples.value_prior
    for a in range(atoms.shape[1]):
        own = np.arange(values.start[a], values.start[a + 1])
        held = values.atom_of[own][None, :] == atoms[:, a, None]
        total[own] += np.where(held, within[:, own], 0.0).sum(axis=0)
    per_atom = np.bincount(values.atom_of, total, minlength=values.n_atoms)
    return np.asarray(total / per_atom[values.atom_of])


def _affordable(land: Landscape, clock: Clock, seed: int) -> _Plan:
    """Fewer chains, then shorter walks, where the time left would not do."""
    plan = _Plan()
    prior = as_kernel_prior(TreePrior.flat(land.radix, land.values.atom_sizes))
    chain = Chain.started(land, prior, seed)
    chain.walked(1 / land.n_rows, clock)  # what is made once is not what a step costs
    start, trial = clock.seconds, max(_TRIAL / land.n_rows, 1.0)
    chain.walked(trial, clock)
    stage = (clock.seconds - start) / trial * plan.sweeps
    runs = _SHARE * clock.left / max(stage * plan.stages / 2, 1e-9)
    if runs >= plan.chains:
        return plan
    chains = max(int(runs) // 2 * 2, 2)
    return replace(plan, chains=chains, sweeps=plan.sweeps * min(1.0, runs / chains))


@dataclass(eq=False)
class _Walk:
    """The walk of all chains, stage by stage."""

    land: Landscape
    plan: _Plan
    clock: Clock
    done: int = 0

    def cool(self, chains: Sequence[Chain]) -> None:
        """Go from the greatest heat to 1; large datasets only from a low price to the full one."""
        heated = self.land.n_rows < _MANY_ROWS

        def cooled(chain: Chain) -> None:
            for way in np.linspace(0.0, 1.0, self.plan.cooling):
                heat = 1.0 / (way + (1.0 - way) / _HOT) if heated else 1.0
                gap = _LOW_GAP + way * (GAP - _LOW_GAP)
                chain.walked(self.plan.sweeps, self.clock, heat, gap)
                self._tell("looking for likely rows")

        run_all([partial(cooled, chain) for chain in chains])

    def learned(self, chains: Sequence[Chain], prior: TreePrior) -> TreePrior:
        """Fit the prior to what the chains find, and let them go on under it."""
        for _ in range(self.plan.fits):
            if self.clock.stopped:
                break
            found = self._drawn(chains, self.plan.between, "learning what rows are like")
            atoms = np.concatenate([a for a, _, _ in found]).astype(np.int64)
            sizes = self.land.values.atom_sizes
            prior = TreePrior.fitted(atoms, self.land.n_rows, self.land.radix, sizes)
            for chain in chains:
                chain.believe(as_kernel_prior(prior))
        return prior

    def sample(self, chains: Sequence[Chain], prior: TreePrior | FloatArray) -> Samples:
        """Draw samples from every chain."""
        found = self._drawn(chains, self.plan.samples, "drawing datasets")
        values = self.land.values
        numbered = np.concatenate([a + values.atom_start[:-1] for a, _, _ in found])
        marginal = np.bincount(numbered.ravel(), minlength=values.n_atoms) / len(found)
        return Samples(
            values,
            np.array([a for a, _, _ in found]),
            np.array([c for _, c, _ in found]),
            np.array([height for _, _, height in found]),
            values.prior(marginal),
            prior,
        )

    def likeliest(self, chains: Sequence[Chain]) -> IntArray:
        """Find the likeliest dataset: atoms, numbered through."""

        def frozen(chain: Chain) -> float:
            chain.walked(_COLD_STAGES * self.plan.sweeps, self.clock, _COLD)
            return chain.log_posterior

        heights = run_all([partial(frozen, chain) for chain in chains])
        best = chains[int(np.argmax(heights))]
        return np.asarray(best.state.atoms + self.land.values.atom_start[:-1])

    def _drawn(
        self, chains: Sequence[Chain], stages: int, what: str
    ) -> list[tuple[NDArray[np.int16], int, float]]:
        """Atoms, chain and log posterior after each stage of each chain; one at least."""

        def drawn(c: int) -> list[tuple[NDArray[np.int16], int, float]]:
            out = []
            for k in range(stages):
                if k and self.clock.stopped:
                    break
                chains[c].walked(self.plan.sweeps, self.clock)
                out.append((chains[c].state.atoms.copy(), c, chains[c].log_posterior))
                self._tell(what)
            return out

        return [s for own in run_all([partial(drawn, c) for c in range(len(chains))]) for s in own]

    def _tell(self, what: str) -> None:
        self.done += 1
        self.clock.tell(what, min(1.0, self.done / (self.plan.stages * self.plan.chains)))


def _middle(samples: Samples, land: Landscape, clock: Clock) -> Rows:
    """The dataset that errs least on average over the samples, and how sure each value is."""
    values, parts = land.values, land.moves
    clock.tell("settling on one dataset", 1.0)
    share, aligned = aligned_shares(
        values,
        [samples.numbered(k) for k in range(len(samples))],
        samples.value_prior,
        parts.group,
        stopped=lambda: clock.stopped,
    )
    known = parts.allowed[:, values.atom_of][parts.group]
    # Between two values that are allowed there may lie one that is not.
    cost = np.where(known, values.expected_cost(share), np.inf)
    chosen = cheapest(cost, values.start)
    rules = land.geometry.schema.rules
    if rules:
        atoms = values.atom_of[chosen[:, :-1]] - values.atom_start[:-2]
        for k in np.flatnonzero(~rules_hold(rules, land.geometry.parts, atoms)):
            # Rows of samples meet all rules: of those that stand for this one, the nearest.
            atom_cost = np.where(
                values.atom_of == np.array([a[k] for a in aligned])[:, :, None], cost[k], np.inf
            )
            best = atom_cost.min(axis=2).sum(axis=1).argmin()
            chosen[k] = atom_cost[best].argmin(axis=1)
    n_open = np.add.reduceat(known, values.start[:-1], axis=1, dtype=np.int64)
    likely = np.take_along_axis(share, chosen, axis=1)
    # A share of all samples is no proof.
    sure = (len(samples) * likely + _DOUBT / n_open) / (len(samples) + _DOUBT)
    sure[n_open == 1] = 1.0
    label = chosen[:, -1] - values.start[-2]
    atoms = values.atom_of[chosen[:, :-1]] - values.atom_start[:-2]
    rows = land.likelihood.held(land.geometry.trace(atoms @ land.geometry.stride), label)
    proved = np.zeros(len(chosen), dtype=bool)
    return Rows(chosen, sure, proved, False, land.likelihood.missing(rows))
