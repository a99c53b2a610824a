"""How chains come to samples behind exact counts: they walk, or rows are drawn leaf by leaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from treeleak.attacks.exact.one_tree import LeafChain, Leaves
from treeleak.attacks.exact.world_chains import ChainContext, Plan, WorldChain
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.posterior.walks import Drawn, fitted, together
from treeleak.attacks.samples import Samples
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import clearly_less
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass

LEARNING = "learning what rows are like"
"""What chains do first, for messages."""
_LEAST_SWEEPS = 10.0
"""Sweeps of a stage with fewer of which nothing is learned."""
_SHARE = 0.5
"""Of the time left, for which walks are planned."""
_AGREED, _LONGER = 1.1, 3
"""R-hat up to which chains agree; else they walk on, up to so many times as far between samples."""

Sample = tuple[Drawn, tuple[IntArray, ...]]
"""What a chain drew, and the points of the open rows of each system."""
Ended = tuple[WorldChain, list[Sample]]
"""Where a chain ends, and what it drew on the way."""
Way = Callable[[int, int], Ended]
"""How a chain, by its number and seed, comes to samples."""


@dataclass(frozen=True, eq=False)
class ChainSamples:
    """What chains drew."""

    samples: Samples
    points: tuple[tuple[IntArray, ...], ...]
    """Of each sample, the points of the open rows of each system."""
    ends: tuple[WorldChain, ...]
    """Where the chains are."""


def run_chains(
    context: ChainContext,
    leaves: Leaves | None,
    target: PosteriorTarget,
    plan: Plan,
    clock: Clock,
    seed: int,
) -> ChainSamples | None:
    """Let chains learn what rows are like, and draw datasets; None if there is no time for it.

    ``leaves``: those of a single tree, behind which rows need not walk.
    """
    way = (
        _walks(context, plan, clock, seed) if leaves is None else _draws(leaves, plan, clock, seed)
    )
    if way is None:
        return None
    seeds = np.random.SeedSequence(seed).generate_state(plan.chains)
    finished: list[int] = []

    def each(_: object) -> None:
        finished.append(1)
        clock.report_progress(LEARNING, len(finished) / plan.chains)

    begin = clock.seconds
    ended = run_all([partial(way, c, int(s)) for c, s in enumerate(seeds)], each)
    # Where time ends, those that drew something stay.
    found = [(chain, ended_chain) for chain, ended_chain in ended if ended_chain]
    if not found:
        return None
    samples = _together(target, found)
    if isinstance(way, _Walk):
        stage = (clock.seconds - begin) / plan.stages
        found, samples = _agreed(way, found, samples, target, stage)
    points = tuple(points for _, ended_chain in found for _, points in ended_chain)
    return ChainSamples(samples, points, tuple(chain for chain, _ in found))


def _together(target: PosteriorTarget, found: Sequence[Ended]) -> Samples:
    drawn = [d for _, ended_chain in found for d, _ in ended_chain]
    return together(target, drawn, fitted(target, drawn)).weighed()


def _agreed(
    walk: _Walk, found: list[Ended], samples: Samples, target: PosteriorTarget, stage: float
) -> tuple[list[Ended], Samples]:
    """Let chains walk on, farther from sample to sample, until they agree.

    ``stage``: how many seconds a stage of all chains takes.
    """
    clock, plan, thin = walk.clock, walk.plan, 2 * walk.plan.thin
    while thin <= _LONGER * plan.thin and clearly_less(_AGREED, samples.disagreement):
        if stage * thin * plan.samples > _SHARE * clock.left:
            break
        clock.report_progress("walking until chains agree", thin / (2 * _LONGER * plan.thin))
        ended = run_all([partial(walk.on, c, s, thin) for c, (s, _) in enumerate(found)])
        if clock.stopped:
            break
        found, samples, thin = ended, _together(target, ended), thin + plan.thin
    return found, samples


def _walks(context: ChainContext, plan: Plan, clock: Clock, seed: int) -> Way | None:
    """How a chain walks: in shorter stages where the time left would not do, if at all."""
    chain = WorldChain.started(context, seed)
    chain = clock.untimed(lambda: chain.walked(1e-9, plan.hot, plan.swaps)[0].learned())
    runs = _affordable(
        lambda: chain.walked(plan.sweeps, plan.hot, plan.swaps)[0].learned(), plan, clock
    )
    sweeps = plan.sweeps * min(1.0, runs / plan.chains)
    if sweeps < min(_LEAST_SWEEPS, plan.sweeps):
        return None
    return _Walk(context, plan, sweeps, clock)


def _draws(leaves: Leaves, plan: Plan, clock: Clock, seed: int) -> Way | None:
    """How rows are drawn behind one tree; None where there is no time for it."""
    chain = clock.untimed(lambda: LeafChain.started(leaves, seed).redrawn(1))
    runs = _affordable(lambda: chain.redrawn(1), plan, clock)
    return None if runs < plan.chains else partial(_redrawn, leaves, plan, clock)


def _affordable(stage: Callable[[], object], plan: Plan, clock: Clock) -> float:
    """For how many chains there is time, by how long a stage takes."""
    start = clock.seconds
    stage()
    took = clock.seconds - start
    return _SHARE * clock.left / max(took * plan.stages / 2, 1e-9)


@dataclass(frozen=True, eq=False)
class _Walk:
    """How a chain comes to samples by walking."""

    context: ChainContext
    plan: Plan
    sweeps: float
    """Of each stage."""
    clock: Clock

    def __call__(self, c: int, seed: int) -> Ended:
        """Let a chain cool, learn, and draw samples."""
        plan, chain = self.plan, WorldChain.started(self.context, seed)
        for temperature in np.geomspace(plan.hot, plan.warm, plan.cooling):
            chain = self._stage(chain, temperature)
        for _ in range(plan.between):
            chain = self._stage(chain, plan.warm)
        return self.on(c, chain, plan.thin)

    def on(self, c: int, chain: WorldChain, thin: int) -> Ended:
        """Draw samples, so many stages apart, on a chain's way on."""
        drawn = list[Sample]()
        for _ in range(self.plan.samples):
            for _ in range(thin):
                chain = self._stage(chain, self.plan.warm)
            if self.clock.stopped:
                break
            missed = sum(chain.misfit_of(s) for s in range(len(self.context.searches)))
            drawn.append(((chain.atoms, c, -missed / self.plan.warm), chain.points))
        return chain, drawn

    def _stage(self, chain: WorldChain, temperature: float) -> WorldChain:
        if self.clock.stopped:
            return chain
        return chain.learned().walked(self.sweeps, temperature, self.plan.swaps)[0]


def _redrawn(leaves: Leaves, plan: Plan, clock: Clock, c: int, seed: int) -> Ended:
    """The same, with rows drawn leaf by leaf: there is nothing to cool."""
    chain = LeafChain.started(leaves, seed).redrawn(plan.cooling + plan.between)
    drawn = list[Sample]()
    for _ in range(plan.samples):
        if clock.stopped:
            break
        chain = chain.redrawn(plan.thin)
        drawn.append(((chain.atoms, c, 0.0), chain.points))
    return chain.resting, drawn
