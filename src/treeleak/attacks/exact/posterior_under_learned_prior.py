"""Where counts leave several datasets: those that rows are like, as the counts themselves tell.

Chains walk over datasets of all classes at once and learn on the way what rows are like, as behind
noise. A dataset that misses counts is not ruled out but made unlikely: worlds that meet them all
lie apart, and only through others does a walk get from one to the next. Each chain ends with a
world. The middle of all that the chains saw errs least on average, but is itself no world; the one
nearest to it comes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from treeleak.attacks.answer import Rows
from treeleak.attacks.consensus import MAX_ALIGNED, confidence
from treeleak.attacks.exact.annealing_runs import combined
from treeleak.attacks.exact.schedule import SCHEDULE
from treeleak.attacks.exact.world_chains import ChainContext, WorldChain
from treeleak.attacks.exact.worlds import Solution, SolutionSampler
from treeleak.attacks.posterior.bayes_estimate import BayesEstimate, distance, middle
from treeleak.attacks.posterior.noise_likelihood import PresenceLikelihood
from treeleak.attacks.posterior.target import MAX_ATOMS, PosteriorTarget
from treeleak.attacks.posterior.walks import (
    Plan,
    fitted,
    run_chains,
    together,
    within_time,
)
from treeleak.attacks.samples import Samples
from treeleak.attacks.solvers.integer import IntegerProblem
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import clearly_less
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.release.noise.laws import LabelNoise
from treeleak.side_information.side_information import KnownParts

PLAN = Plan(
    chains=8, cooling=20, fits=1, between=20, samples=24, sweeps=80.0, hot=6.0, share=0.5,
    least_sweeps=20.0, by_factors=True,
)  # fmt: skip
"""Its first temperature is that of a missed count."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What chains saw."""

    context: ChainContext
    target: PosteriorTarget
    samples: Samples
    middle: BayesEstimate
    chains: tuple[WorldChain, ...]
    seen: tuple[IntArray, ...]
    """Points of the open rows of each system in any sample."""

    def near(
        self,
        s: int,
        problem: IntegerProblem | None,
        clock: Clock,
        seed: int,
        powers: Sequence[tuple[float, int]] = SCHEDULE.prior_powers,
    ) -> Learned:
        """Let chains look for worlds of system ``s``, until some chain has found one.

        ``problem``: part of it is asked when none did: what a world needs, different
        chains often have between them.
        """
        if not self.context.searches[s].can_move or all(c.misfit_of(s) == 0 for c in self.chains):
            return self
        chains = self.chains
        for power, longer in powers:
            jobs = [partial(c.frozen, s, power, longer, clock) for c in chains]
            chains = tuple(run_all(jobs))
            if any(c.misfit_of(s) == 0 for c in chains) or clock.stopped:
                return replace(self, chains=chains)
        search, rng = self.context.searches[s], np.random.default_rng(seed)
        best = min(chains, key=lambda c: c.misfit_of(s))
        around = search.space.neighbour[best.points[s]]
        ends = [chain.points[s] for chain in chains]
        points = np.unique(np.concatenate([self.seen[s], around[around >= 0], *ends]))
        found = combined(search, points, problem, SCHEDULE.chains_combining_work, clock, seed)
        more = [best.at(s, search.draw_points(m, rng)) for m in found]
        return replace(self, chains=(*chains, *more))

    def worlds(self, s: int) -> list[Solution]:
        """Give the worlds of system ``s`` at which chains ended; none has values."""
        none = np.zeros((0, len(self.context.values.start) - 1), dtype=np.int64)
        return [Solution(c.points[s], none, 0) for c in self.chains if c.misfit_of(s) == 0]

    def world(
        self, s: int, more: Sequence[IntArray], clock: Clock, seed: int
    ) -> tuple[Solution, FloatArray]:
        """Find the world of system ``s`` that is nearest to the middle, and how sure it is.

        ``more``: points of open rows that meet all counts, beside those that chains ended with.
        """
        search = self.context.searches[s]
        share = self.middle.share[self._rows(s)][len(search.fixed_points) :]
        cost = self.context.values.expected_cost(share)
        ends = [(chain.points[s], chain.misfit_of(s)) for chain in self.chains]
        least = min([m for _, m in ends] + [0] * len(more))
        starts = [p for p, m in ends if m == least] + (list(more) if least == 0 else [])
        found = search.nearest(cost, starts, clock, seed)
        return found, self._sure(found.values, share)

    def nearer(self, worlds: tuple[Rows, ...], seed: int) -> tuple[tuple[Rows, ...], float]:
        """Of the nearest worlds and the middle, take what errs less on average, and say how much.

        ``worlds``: all rows of the nearest world of each system. What is proved stands in the
        middle, too. Its rows do not meet all counts: it must be worth that.
        """
        between = tuple(self._between(s, rows) for s, rows in enumerate(worlds))
        error, least = self.error(worlds, seed), self.error(between, seed)
        better = clearly_less(least, (1.0 - SCHEDULE.estimate_gain) * error)
        return (between, least) if better else (worlds, error)

    def error(self, rows: Sequence[Rows], seed: int) -> float:
        """Mean distance of the rows of all systems, per row and column, from the samples."""
        chosen = np.concatenate([part.values for part in rows])
        return distance(chosen, self.samples.judges, seed)

    def _between(self, s: int, world: Rows) -> Rows:
        """Rows of a system in the middle, with what is proved of the world."""
        row_slice = self._rows(s)
        chosen = self.middle.chosen[row_slice]
        sure = self._sure(chosen, self.middle.share[row_slice])
        stands = world.proved[:, None] | (world.confidence == 1.0)
        values = np.where(stands, world.values, chosen)
        geometry, atom_start = self.context.geometry, self.context.values.atom_start
        leaves = geometry.trace_atoms(self.context.values.atom_of[values[:, :-1]] - atom_start[:-2])
        target = self.context.searches[s].system.target
        counted = np.bincount(leaves.ravel(), minlength=len(target))
        return replace(
            world,
            values=values,
            confidence=np.where(stands, world.confidence, sure),
            unique=False,
            misfit=int(np.abs(counted - target).sum()),
        )

    def _sure(self, chosen: IntArray, share: FloatArray) -> FloatArray:
        """Probability of each value; an interval, listed as one, holds many: none is certain."""
        n_open = np.maximum(np.diff(self.context.values.start), 2)
        likely = np.take_along_axis(share, chosen, axis=1)
        return confidence(likely, self.middle.n_samples, SCHEDULE.pseudo_samples, n_open)

    def _rows(self, s: int) -> slice:
        """Places of the rows of a system in a sample."""
        sizes = [
            len(f) + search.space.n_rows
            for f, search in zip(self.context.fixed, self.context.searches, strict=True)
        ]
        begin = sum(sizes[:s])
        return slice(begin, begin + sizes[s])


def posterior_under_learned_prior(
    searches: Sequence[SolutionSampler],
    geometry: Geometry,
    values: ValueIndex,
    clock: Clock,
    seed: int,
    plan: Plan | None = None,
) -> Learned | None:
    """Walk over the datasets of all systems, and take the middle of what the chains saw.

    Returns None where nothing can move, where there are too many rows or points, or too little
    time.
    """
    if not any(s.can_move for s in searches) or any(s.space.too_large for s in searches):
        return None
    if np.diff(values.atom_start).max() > MAX_ATOMS:
        return None
    context = ChainContext.of(searches, geometry, values)
    if context.n_rows > MAX_ALIGNED:
        return None
    target = _target(context)
    plan = PLAN if plan is None else plan
    plan = replace(plan, hot=max(plan.hot / context.warm, 1.0))
    plan = within_time(plan, WorldChain.started(context, seed), context.n_rows, clock)
    if plan.sweeps < plan.least_sweeps:
        return None
    seeds = np.random.SeedSequence(seed).generate_state(plan.chains)
    run = run_chains(
        [WorldChain.started(context, int(s)) for s in seeds], target, plan, None, clock
    )
    if not run.converged:
        return None
    samples = together(target, run.drawn, fitted(target, run.drawn)).weighed()
    seen = tuple(np.unique(points) for points in context.points(samples.atoms))
    most = int(
        np.clip(SCHEDULE.most_sampled_rows // max(context.n_rows, 1), 20, SCHEDULE.most_samples)
    )
    judges = samples.judges.thinned(most // 4)
    centre = middle(samples.makers.thinned(most), target, clock, judges, seed)
    return Learned(context, target, samples, centre, tuple(run.chains), seen)


def _target(context: ChainContext) -> PosteriorTarget:
    """Lay out what is asked of samples: rows of a system are exchanged with each other only."""
    group, allowed = [], np.zeros((2 * len(context.searches), context.values.n_atoms), dtype=bool)
    for s, search in enumerate(context.searches):
        sizes = len(search.fixed_points), len(search.anchored) + search.space.n_rows
        group.append(np.repeat([2 * s, 2 * s + 1], sizes))
        times = np.bincount(search.atoms.ravel(), minlength=context.values.n_atoms)
        allowed[2 * s : 2 * s + 2] = times > 0
    parts = KnownParts(np.concatenate(group), allowed)
    n_classes = int(context.grid.radix[-1])
    # It says nothing: counts are checked where the worlds are.
    named = np.zeros((int(context.geometry.leaf_start[-1]), n_classes), dtype=bool)
    silent = PresenceLikelihood(named, named[:, 0], LabelNoise("present", 1.0), context.n_rows)
    return PosteriorTarget.without_walk(context.geometry, context.values, silent, parts)
