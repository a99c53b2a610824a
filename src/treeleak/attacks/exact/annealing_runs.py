"""Several datasets that meet the counts of one system: which runs look for them, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from treeleak.attacks.exact.schedule import SCHEDULE
from treeleak.attacks.exact.search_space import LOOSE, TIGHT, Chain
from treeleak.attacks.exact.worlds import Solution, SolutionSampler
from treeleak.attacks.solvers.integer import IntegerProblem, NoSolution
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.core.parallel import run_all

N_WORLDS = 10
"""Worlds that are drawn at least."""


def several_worlds(
    search: SolutionSampler,
    exact: Sequence[IntArray],
    problem: IntegerProblem | None,
    clock: Clock,
    stage: str,
    seed: int,
    wanted: int | None = None,
) -> list[Solution]:
    """Search for several datasets that meet all counts.

    ``exact``: histograms over the system's cells that meet all counts, if any are known.
    ``problem``: helps when no run meets all counts: the whole of it, unless that is too large, or
    a part. ``wanted``: how many; by default, ten or more. At least one world meets all counts,
    unless time ran out. Raises NoSolution if it is proved on the way that no dataset meets all
    counts.
    """
    rng, space = np.random.default_rng(seed), search.space
    if exact and (space.too_large or search.learned):
        return [search.world_at(search.draw_points(exact[0], rng), rng) for _ in range(N_WORLDS)]
    if space.too_large:
        raise NotCovered(
            f"{len(space.code):,} points stay possible, each with {space.n_atoms} "
            "neighbours: too many to search"
        )
    if not search.can_move:
        n = wanted or N_WORLDS
        return [search.world_at(space.spread(search.w, rng), rng) for _ in range(n)]
    # Made once, before the threads ask for them.
    _ = space.neighbour, space.packed_target
    usual, chains, met = space.default_steps(), list[Chain](), list[Chain]()
    steps = max(usual // SCHEDULE.first_run_factor, SCHEDULE.least_steps)
    while not clock.stopped and len(met) < (wanted or _worlds_of(steps)):
        begin = clock.seconds
        schedule = LOOSE if steps <= usual else TIGHT
        first = seed + len(chains)
        near = space.near_weights
        jobs = [
            partial(near, search.w, steps, first + i, clock, schedule)
            for i in range(SCHEDULE.runs_at_once)
        ]
        chains += (tried := run_all(jobs))
        met += [c for c in tried if c.misfit == 0]
        least = min(c.misfit for c in chains)
        clock.record(least)
        clock.report_progress(stage, 0.7 * len(met) / (wanted or _worlds_of(steps)), least)
        missed = sum(c.misfit > 0 for c in tried)
        if missed == SCHEDULE.runs_at_once or (missed and steps < usual):
            steps *= SCHEDULE.run_growth
        if steps > usual and not (met or exact):
            points = np.unique(np.concatenate([c.points for c in chains]))
            exact = combined(search, points, problem, SCHEDULE.combining_work, clock, seed)
            if not exact and problem is not None and problem.tractable:
                exact = problem.solutions(clock, SCHEDULE.work_per_step * steps, seed)
        # What would take longer than is left is not begun, where there is an answer.
        late = SCHEDULE.run_growth * (clock.seconds - begin) > clock.left
        if (exact and steps > usual) or (met and (late or len(chains) >= SCHEDULE.most_worlds)):
            break
    worlds = [search.world_at(c.points, rng) for c in met or chains]
    if not met:
        worlds += [search.world_at(search.draw_points(m, rng), rng) for m in exact[:1]]
    return worlds or [search.world_at(space.spread(search.w, rng), rng)]


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


def _worlds_of(steps: int) -> int:
    """How many worlds are drawn by runs of so many steps."""
    return int(np.clip(SCHEDULE.cheap_steps // steps, N_WORLDS, SCHEDULE.most_worlds))
