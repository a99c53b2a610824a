"""The exact attack: every row used once per tree, so A m = n holds exactly.

Propagation of bounds settles deep forests at once. What it leaves open goes to the integer
solver while small, which also proves how much of the answer stands in every solution, and to
walks, whose several worlds say where the answer is free. Walks learn what rows are like, unless a
population says it. The answer is then the middle of what they saw, with the nearest dataset that
meets every count beside it; or that dataset, where it errs hardly more. Where the grid is too large
to list, rows walk over it instead.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from treeleak.attacks.answer import Answer, Rows, status_of
from treeleak.attacks.consensus import led_astray
from treeleak.attacks.exact.annealing_runs import several_worlds
from treeleak.attacks.exact.posterior_under_learned_prior import (
    Learned,
    posterior_under_learned_prior,
)
from treeleak.attacks.exact.schedule import SCHEDULE
from treeleak.attacks.exact.worlds import Solution, SolutionSampler
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.run import by_walking, refuse_unlisted
from treeleak.attacks.solvers.integer import Bounds, IntegerProblem, NoSolution, bounds
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass
from treeleak.core.text import bounded
from treeleak.evidence import Contradiction, CountSystem, ExactCounts, ExactTotals
from treeleak.evidence.systems import NO_PLACE, unplaced
from treeleak.partition import Geometry, GridTooLarge, Partition, enumerate_cells, enumeration_tick
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.side_information.side_information import NOTHING, SideInformation


def exact(
    evidence: ExactCounts | ExactTotals,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows behind exact counts.

    An :data:`~treeleak.attacks.Attack`. Of known parts, it takes only those that are a tree of
    the geometry.

    Returns "unique" or "feasible" where every count is met, "likely" with rows that err less on
    average and, as the likeliest dataset, one that meets every count, "infeasible" with the place
    of the contradiction, "unknown" with the best rows so far when time ran out.
    """
    side_info.check(geometry)
    values = values_in(geometry)
    if (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)

    try:
        tick = enumeration_tick(geometry, clock)
        partition = enumerate_cells(geometry, evidence.open_leaves(), tick)
    except OutOfTime:
        return Answer("unknown", values)
    except GridTooLarge as why:
        refuse_unlisted(geometry, side_info)
        constraints = RowConstraints.of_exact(evidence, geometry)
        answer = by_walking(constraints, values, clock, seed, str(why))
    else:
        answer = of_cells(evidence, partition, values, clock, seed, side_info)
    if (
        isinstance(evidence, ExactCounts)
        and (np.diff(values.start[:-1]) > SCHEDULE.plain_values).any()
    ):
        answer = replace(answer, rows=led_astray(answer.rows, values))
    return answer


def of_cells(
    evidence: ExactCounts | ExactTotals,
    partition: Partition,
    values: ValueIndex,
    clock: Clock,
    seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows behind exact counts that do not contradict each other, of listed cells.

    The answer is that of :func:`exact`.
    """
    geometry = partition.geometry
    systems = list(evidence.systems(partition))
    numbers = {
        "grid_points": bounded(geometry.n_points),
        "live_points": len(partition.points),
        "cells": sum(len(s.signature) for s in systems),
        "equations": sum(int((s.target > 0).sum()) for s in systems),
    }
    problems = []
    for system in systems:
        if (clash := _empty_leaf(system, geometry)) is not None:
            return Answer("infeasible", values, contradiction=clash, numbers=numbers)
        found = bounds(system)
        if found.broken >= 0:
            clash = _located(system, geometry, found.broken)
            return Answer("infeasible", values, contradiction=clash, numbers=numbers)
        problems.append(IntegerProblem(system, found))
    numbers["open_cells"] = sum(len(p.free) for p in problems)
    prior = side_info.density(geometry, seed)
    # A population says what rows are like; else it is learned where counts distinguish classes.
    learns = prior is None and isinstance(evidence, ExactCounts)
    learns = learns and all(s.only is None for s in systems)
    states, rows = [], list[Rows]()
    for k, problem in enumerate(problems):
        part = clock.part(clock.left * _time_share(problems[k:]))
        try:
            tried = not (learns and _wide(problem))
            states.append(_state_of(problem, tried, part, seed + 1000 * k))
        except NoSolution:
            clash = _unmet(problem, geometry, clock, seed)
            return Answer("infeasible", values, contradiction=clash, numbers=numbers)
    searches = run_all(
        partial(
            SolutionSampler.of,
            problem.system,
            state.known,
            geometry,
            values,
            prior,
            learns=not learns,
        )
        for problem, state in zip(problems, states, strict=True)
    )
    learned = None
    if learns:
        learned = posterior_under_learned_prior(searches, geometry, values, clock, seed)
    for k, (state, search) in enumerate(zip(states, searches, strict=True)):
        unread = sum(int(p.system.target.sum()) for p in problems[k + 1 :])
        elsewhere = unread + sum(r.misfit for r in rows)
        part = clock.part(clock.left * _time_share(problems[k:]), elsewhere)
        if learned is not None:
            learned = learned.near(k, state.problem, part, seed + 1000 * k)
        try:
            rows.append(_solved(state, search, learned, k, part, seed + 1000 * k))
        except NoSolution:
            clash = _unmet(state.problem, geometry, clock, seed)
            return Answer("infeasible", values, contradiction=clash, numbers=numbers)
        part.record(rows[-1].misfit)
    answer = Answer(status_of(rows), values, tuple(rows), numbers=numbers)
    if learned is None:
        return answer
    return _near_samples(answer, learned, seed)


def _near_samples(answer: Answer, learned: Learned, seed: int) -> Answer:
    """Add what chains saw; where their middle errs less than the nearest world, it is the answer.

    ``answer``: that world, or what comes nearest to one.
    """
    if answer.status == "unique":
        return replace(answer, expected_distance=learned.error(answer.rows, seed))
    answer = replace(answer, samples=learned.samples)
    # An interval is listed as one value: how far values in it lie apart, samples do not know.
    if any(part.intervals for part in answer.values.parts):
        return replace(answer, expected_distance=learned.error(answer.rows, seed))
    rows, error = learned.nearer(answer.rows, seed)
    missed = sum(r.misfit for r in answer.rows)
    between = rows is not answer.rows
    return replace(
        answer,
        status="likely" if any(r.misfit for r in rows) and not missed else answer.status,
        rows=rows,
        numbers=answer.numbers | ({"nearest_misses": missed} if between and missed else {}),
        likeliest=answer.values.atom_of[np.concatenate([r.values for r in answer.rows])],
        expected_distance=error,
    )


def _time_share(problems: list[IntegerProblem]) -> float:
    """Share of the time left for the first system: one that is too hard must not starve the rest.

    Half of the time goes by systems, half by rows.
    """
    rows = [p.system.n_rows for p in problems if len(p.free)]
    if not len(problems[0].free):
        return 1.0
    return 0.5 / len(rows) + 0.5 * problems[0].system.n_rows / sum(rows)


@dataclass(frozen=True, eq=False)
class _SystemState:
    """A system, and what the integer solver says of it."""

    problem: IntegerProblem
    exact: list[IntArray]
    """Histograms over the cells that meet all counts."""
    known: Bounds
    proved: bool

    @property
    def stage(self) -> str:
        """For messages."""
        return f"rebuilding the rows of {self.problem.system.name}"


def _state_of(problem: IntegerProblem, tried: bool, clock: Clock, seed: int) -> _SystemState:
    """Ask the integer solver what of a system stays open, if that is to be."""
    system = problem.system
    clock.report_progress(f"rebuilding the rows of {system.name}", 0.0)
    exact: list[IntArray] = []
    if problem.bounds.determined:
        exact = [problem.bounds.lower]
    elif tried and _promising(problem):
        exact = problem.solutions(clock, SCHEDULE.first_work, seed)
    common, proved = problem.bounds.lower, problem.bounds.determined
    if exact and not proved:
        common, proved, more = problem.always(exact, clock, SCHEDULE.first_work, seed)
        exact += more
    known = _known(problem.bounds, common, proved, system.n_rows)
    return _SystemState(problem, exact, known, proved)


def _solved(
    state: _SystemState,
    search: SolutionSampler,
    learned: Learned | None,
    k: int,
    clock: Clock,
    seed: int,
) -> Rows:
    """Rebuild the rows of system ``k``: near what chains saw, or else near several worlds."""
    problem, stage = state.problem, state.stage
    sure, found = None, list[Solution]()
    if learned is not None:
        clock.report_progress(stage, 0.5)
        rng = np.random.default_rng(seed)
        more = [search.draw_points(m, rng) for m in state.exact]
        if not more and not learned.worlds(k):
            # What a chain takes rows to be like keeps it from places that some worlds need.
            found = several_worlds(search, (), problem, clock, stage, seed, wanted=1)
            more = [w.points for w in found if w.misfit == 0]
        final, sure = learned.world(k, more, clock, seed)
    else:
        found = several_worlds(search, state.exact, problem, clock, stage, seed)
        final = search.bayes_estimate(found, clock, seed)
    known = state.known
    if not state.proved and _promising(problem) and final.misfit == 0:
        clock.report_progress(f"proving rows of {problem.system.name}", 0.9)
        worlds = (*found, *([] if learned is None else learned.worlds(k)), final)
        histograms = [search.histogram(w) for w in worlds if w.misfit == 0]
        limit = (
            SCHEDULE.wide_proof_work
            if learned is not None and _wide(problem)
            else SCHEDULE.proof_work
        )
        common, proved, _ = problem.always([*state.exact, *histograms], clock, limit, seed)
        known = _known(problem.bounds, common, proved, problem.system.n_rows)
    clock.report_progress(stage, 1.0, final.misfit)
    return search.rows(final, found, known, sure)


def _promising(problem: IntegerProblem) -> bool:
    return problem.tractable and len(problem.free) < SCHEDULE.promising_cells * len(
        problem.equations
    )


def _wide(problem: IntegerProblem) -> bool:
    """Whether walks find worlds sooner than the integer solver does."""
    return len(problem.free) >= SCHEDULE.wide_cells * len(problem.equations)


def _known(found: Bounds, common: IntArray, proved: bool, n_rows: int) -> Bounds:
    """Bounds after the proof: what stands in all solutions, and all of it if that is everything."""
    lower = np.maximum(found.lower, common) if proved else found.lower
    upper = lower if lower.sum() == n_rows else found.upper
    return Bounds(lower, upper, -1)


def _empty_leaf(system: CountSystem, geometry: Geometry) -> Contradiction | None:
    """Find a leaf that holds rows but no live cell."""
    if (equation := unplaced(system.target, system.signature)) is None:
        return None
    why = NO_PLACE.format(held=system.held(equation, geometry.release.classes))
    return Contradiction(*geometry.leaf_of_row(system.row_of(equation)), why)


def _located(system: CountSystem, geometry: Geometry, equation: int) -> Contradiction:
    held = system.held(equation, geometry.release.classes)
    why = f"no dataset under this schema puts {held} there and meets the counts of the other trees"
    return Contradiction(*geometry.leaf_of_row(system.row_of(equation)), why)


def _unmet(problem: IntegerProblem, geometry: Geometry, clock: Clock, seed: int) -> Contradiction:
    """Name the tree without which the rest can be met, or else the last one."""
    system = problem.system
    n_trees = system.signature.shape[1]
    low, high = 1, n_trees
    # The shortest run of first trees that cannot be met together ends with the culprit.
    while low < high:
        middle = (low + high) // 2
        first = replace(
            system,
            signature=np.ascontiguousarray(system.signature[:, :middle]),
            target=system.target[: system.first_of(int(geometry.leaf_start[middle]))],
        )
        found = bounds(first)
        feasible = found.broken < 0
        if feasible:
            try:
                IntegerProblem(first, found).solutions(clock, 5.0, seed)
            except NoSolution:
                feasible = False
        low, high = (middle + 1, high) if feasible else (low, middle)
    start, stop = (system.first_of(int(row)) for row in geometry.leaf_start[low - 1 : low + 1])
    return _located(system, geometry, start + int(np.argmax(system.target[start:stop])))
