"""Several datasets that meet the counts of one system: which runs look for them, and how long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from treeleak.attacks.exact.search_space import LOOSE, TIGHT, Chain, Schedule
from treeleak.attacks.exact.worlds import Solution, SolutionSampler
from treeleak.attacks.solvers.integer import IntegerProblem, NoSolution
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.core.parallel import run_all

N_WORLDS = 10
"""Worlds that are drawn at least."""
_MORE_WORLDS, _CHEAP_STEPS = 40, 40_000_000
"""Worlds that are drawn at most, and the steps that all beyond the least may take together."""
_MIX = 1.0
"""Work for the integer solver (about seconds) to combine runs that miss some counts."""
_SHORT, _PROBES, _LEAST_STEPS = (16, 4), 4, 20_000
"""How many times shorter runs are tried first, how many of them, and of what length at least."""
_TRIAL = 200_000
"""Steps from which the speed of a run is judged."""
_STEP_WORK = 1e-7
"""Work of the integer solver that goes with one step of a run."""
_AT_ONCE = 2
"""Runs that look for one world, at a time."""
_AGAIN, _LONGER = 6, 2
"""Most runs that are tried again because they missed counts, and how many times longer."""


def several_worlds(
    search: SolutionSampler,
    exact: Sequence[IntArray],
    problem: IntegerProblem | None,
    clock: Clock,
    stage: str,
    seed: int,
) -> list[Solution]:
    """Search for several datasets that meet all counts.

    ``exact``: histograms over the system's cells that meet all counts, if any are known.
    ``problem``: helps when no run meets all counts: the whole of it, unless that is too large, or
    a part. At least one world meets all counts, unless time ran out. Raises NoSolution if it is
    proved on the way that no dataset meets all counts.
    """
    rng = np.random.default_rng(seed)
    if exact and (search.space.too_large or search.learned):
        return [search.world_at(search.spots(exact[0], rng), rng) for _ in range(N_WORLDS)]
    if search.space.too_large:
        raise NotCovered(
            f"{len(search.space.code):,} points stay possible, each with {search.space.n_atoms} "
            "neighbours: too many to search"
        )
    if not search.can_move:
        return [search.world_at(search.space.spread(search.w, rng), rng) for _ in range(N_WORLDS)]
    # Made once, before the threads ask for them.
    _ = search.space.neighbour, search.space.packed_target
    usual = search.space.default_steps()
    n, steps = _affordable(search, _worlds_of(usual), usual, clock, seed)
    chains: list[Chain] = []
    if (n, steps) == (_worlds_of(usual), usual):  # Time is not short: some is left for trials.
        steps, chains = _probed(search, usual, clock, stage, seed)
        n = _worlds_of(steps) - len(chains)
    chains += _run(search, n, steps, LOOSE, clock, stage, seed)
    if missed := sum(c.misfit > 0 for c in chains):
        again, steps = min(missed, _AGAIN), _LONGER * steps
        chains = [c for c in chains if c.misfit == 0]
        chains += _run(search, again, steps, TIGHT, clock, stage, seed + n)
    return _until_met(search, chains, exact, problem, steps, clock, stage, seed)


def some_world(
    search: SolutionSampler, problem: IntegerProblem | None, clock: Clock, stage: str, seed: int
) -> list[Solution]:
    """Search until one dataset meets all counts; gives all that were tried.

    ``problem``: as in :func:`several_worlds`, whose remarks hold here, too.
    """
    if not search.can_move:
        rng = np.random.default_rng(seed)
        return [search.world_at(search.space.spread(search.w, rng), rng)]
    _ = search.space.neighbour, search.space.packed_target
    _, steps = _affordable(search, _AT_ONCE, search.space.default_steps(), clock, seed)
    chains = _run(search, _AT_ONCE, steps, LOOSE, clock, stage, seed)
    while all(c.misfit for c in chains) and len(chains) < N_WORLDS and not clock.stopped:
        chains += _run(search, _AT_ONCE, steps, LOOSE, clock, stage, seed + len(chains))
    return _until_met(search, chains, (), problem, steps, clock, stage, seed)


def _until_met(
    search: SolutionSampler,
    chains: list[Chain],
    exact: Sequence[IntArray],
    problem: IntegerProblem | None,
    steps: int,
    clock: Clock,
    stage: str,
    seed: int,
) -> list[Solution]:
    """Search on, by other ways and ever longer, until one dataset meets all counts."""
    rng = np.random.default_rng(seed)
    while not exact and min(c.misfit for c in chains) and not clock.stopped:
        points = np.unique(np.concatenate([c.points for c in chains]))
        exact = combined(search, points, problem, _MIX, clock, seed)
        if not exact:
            steps *= _LONGER
            more, exact = _run_beside(search, problem, steps, clock, stage, seed + steps)
            chains += more
    worlds = [search.world_at(c.points, rng) for c in chains]
    if all(w.misfit for w in worlds):
        worlds += [search.world_at(search.spots(m, rng), rng) for m in exact[:1]]
    return worlds


def _probed(
    search: SolutionSampler, steps: int, clock: Clock, stage: str, seed: int
) -> tuple[int, list[Chain]]:
    """Find how short runs may be that meet all counts; with those that did on the way."""
    met: list[Chain] = []
    for k, part in enumerate(_SHORT):
        short = max(steps // part, _LEAST_STEPS)
        tried = _run(search, _PROBES, short, LOOSE, clock, stage, seed + 1_000 * (k + 1))
        met += [c for c in tried if c.misfit == 0]
        if all(c.misfit == 0 for c in tried):
            return short, met
    return steps, met


def _affordable(
    search: SolutionSampler, n: int, steps: int, clock: Clock, seed: int
) -> tuple[int, int]:
    """Fewer, then shorter runs, where the time left would not do for all of them.

    A run that is cut off while hot is worth nothing; a short one that ends cold is.
    """
    search.space.near_weights(search.w, 1, seed, clock)  # what is made once is not what a run costs
    start = clock.seconds
    search.space.near_weights(search.w, _TRIAL, seed, clock)
    each = (clock.seconds - start) / _TRIAL * steps
    share = 0.8 * clock.left / max(each / 2, 1e-9)
    if share >= n:
        return n, steps
    runs = max(int(share), 2)
    return runs, max(int(steps * min(1.0, share / runs)), _TRIAL)


def _run(
    search: SolutionSampler,
    n: int,
    steps: int,
    schedule: Schedule,
    clock: Clock,
    stage: str,
    seed: int,
) -> list[Chain]:
    misfits: list[int] = []

    def each(chain: Chain) -> None:
        misfits.append(chain.misfit)
        clock.record(min(misfits))
        clock.report_progress(stage, 0.7 * len(misfits) / n, min(misfits))

    near = search.space.near_weights
    jobs = [partial(near, search.w, steps, seed + i, clock, schedule) for i in range(n)]
    return run_all(jobs, each)


def combined(
    search: SolutionSampler,
    points: IntArray,
    problem: IntegerProblem | None,
    limit: float,
    clock: Clock,
    seed: int,
) -> list[IntArray]:
    """Look for a solution among the cells of points, and those that do not move.

    ``limit``: in units of the solver's work.
    """
    if problem is None:
        return []
    fixed = np.concatenate([search.fixed_points, search.anchored])
    live = np.concatenate([search.live_of[points], fixed])
    cells = np.unique(search.system.cell[search.live[live]])
    part = problem.within(cells)
    if not part.tractable:
        return []
    try:
        return part.solutions(clock, limit, seed)
    except NoSolution:
        return []


def _run_beside(
    search: SolutionSampler,
    problem: IntegerProblem | None,
    steps: int,
    clock: Clock,
    stage: str,
    seed: int,
) -> tuple[list[Chain], list[IntArray]]:
    """Run longer, with the integer solver on the other thread for about as long."""

    def walk(i: int) -> Chain:
        chain = search.space.near_weights(search.w, steps, seed + i, clock, TIGHT)
        clock.record(chain.misfit)
        clock.report_progress(stage, 0.5, chain.misfit)
        return chain

    def beside() -> Chain | list[IntArray]:
        if problem is None or not problem.tractable:
            return walk(1)
        return problem.solutions(clock, _STEP_WORK * steps, seed)

    jobs: list[Callable[[], Chain | list[IntArray]]] = [partial(walk, 0), beside]
    done = run_all(jobs)
    chains = [d for d in done if isinstance(d, Chain)]
    return chains, [m for d in done if not isinstance(d, Chain) for m in d]


def _worlds_of(steps: int) -> int:
    """How many worlds are drawn by runs of so many steps."""
    return int(np.clip(_CHEAP_STEPS // steps, N_WORLDS, _MORE_WORLDS))
