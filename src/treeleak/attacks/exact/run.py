"""The exact attack: every row used once per tree, so A m = n holds exactly.

Propagation of bounds settles deep forests at once. What it leaves open goes to the integer
solver while small, which also proves how much of the answer stands in every solution, and to
annealing, whose several worlds say where the answer is free. The answer is the middle of these
worlds, moved to the nearest dataset that meets every count. Where the grid is too large to list,
rows walk over it instead.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from treeleak.attacks.answer import Answer, Rows, status_of
from treeleak.attacks.exact.worlds import WorldSearch
from treeleak.attacks.large_grid.column_generation import fixed_point
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.run import by_walking, refuse_unlisted
from treeleak.attacks.solvers.integer import Bounds, IntegerProblem, NoSolution, bounds
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock, OutOfTime
from treeleak.evidence import Contradiction, CountSystem, ExactCounts, ExactTotals
from treeleak.partition import Geometry, GridTooLarge, enumerate_cells, enumeration_tick
from treeleak.partition.boxes import Boxes
from treeleak.partition.values import Values, values_of
from treeleak.side_information.density import Density
from treeleak.side_information.given import NOTHING, Given

_MODEL_TERMS = 2_000_000
"""Terms up to which the integer model is built."""
_PROMISING = 12
"""Open cells per equation up to which the integer solver is asked at all."""
_FIRST_TRY, _PROOF = 1.0, 1.5
"""Work for the integer solver (about seconds): before annealing, and for proofs after it."""


def exact(
    evidence: ExactCounts | ExactTotals,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    given: Given = NOTHING,
) -> Answer:
    """Rebuild the rows behind exact counts.

    An :data:`~treeleak.attacks.Attack`. Of known parts, it takes only those that stand in the
    geometry as a tree of their own.

    Returns "unique" or "feasible" where every count is met, "infeasible" with the place of the
    contradiction, "unknown" with the best rows so far when time ran out.
    """
    given.check(geometry)
    values = values_of(geometry.parts, geometry.release.n_classes)
    if (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)

    try:
        tick = enumeration_tick(geometry, clock)
        partition = enumerate_cells(geometry, evidence.open_leaves(), tick)
    except OutOfTime:
        return Answer("unknown", values)
    except GridTooLarge as why:
        refuse_unlisted(geometry, given)
        constraints = RowConstraints.of_exact(evidence, geometry)
        doubt = partial(_contradicted, evidence, geometry, seed)
        return by_walking(constraints, values, clock, seed, str(why), doubt)
    systems = list(evidence.systems(partition))
    numbers = {
        "grid_points": geometry.n_points,
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
    prior = given.density(geometry, seed)
    rows: list[Rows] = []
    for k, problem in enumerate(problems):
        unread = sum(int(p.system.target.sum()) for p in problems[k + 1 :])
        elsewhere = unread + sum(r.misfit for r in rows)
        part = clock.part(clock.left * _time_share(problems[k:]), elsewhere)
        try:
            rows.append(_solve(problem, geometry, values, prior, part, seed + 1000 * k))
        except NoSolution:
            clash = _unmet(problem, geometry, clock, seed)
            return Answer("infeasible", values, contradiction=clash, numbers=numbers)
        part.record(rows[-1].misfit)
    return Answer(status_of(rows), values, tuple(rows), numbers=numbers)


def _contradicted(
    evidence: ExactCounts | ExactTotals, geometry: Geometry, seed: int, clock: Clock
) -> Contradiction | None:
    """Look for a proof, over all cells of the grid, that no rows meet the counts."""
    open_leaves, n = evidence.open_leaves(), evidence.n
    if len(n) < geometry.leaf_start[-1]:
        return None  # Behind trees that count classes stand trees that count none.
    boxes = Boxes.of(geometry)
    ways = [(n, open_leaves, "all classes")]
    if isinstance(evidence, ExactCounts):
        classes = enumerate(geometry.release.classes)
        ways = [(n[:, c], open_leaves[:, c, None], f"class {label!r}") for c, label in classes]
    for k, (target, open_, name) in enumerate(ways):
        part = clock.part(clock.left / (len(ways) - k))
        point = fixed_point(boxes, target, open_, part, seed, settle=False)
        if point.contradiction:
            tree, node = geometry.leaf_of_row(point.worst)
            why = f"no dataset under this schema puts {target[point.worst]} rows of {name} there"
            return Contradiction(tree, node, f"{why} and meets the counts of the other trees")
    return None


def _time_share(problems: list[IntegerProblem]) -> float:
    """Share of the time left for the first system: one that is too hard must not starve the rest.

    Half of the time goes by systems, half by rows.
    """
    rows = [p.system.n_rows for p in problems if len(p.free)]
    if not len(problems[0].free):
        return 1.0
    return 0.5 / len(rows) + 0.5 * problems[0].system.n_rows / sum(rows)


def _solve(
    problem: IntegerProblem,
    geometry: Geometry,
    values: Values,
    prior: Density | None,
    clock: Clock,
    seed: int,
) -> Rows:
    system = problem.system
    stage = f"rebuilding the rows of {system.name}"
    clock.tell(stage, 0.0)
    exact_worlds: list[IntArray] = []
    tractable = problem.n_terms <= _MODEL_TERMS
    promising = tractable and len(problem.free) < _PROMISING * len(problem.equations)
    if problem.bounds.settled:
        exact_worlds = [problem.bounds.lower]
    elif promising:
        exact_worlds = problem.solutions(clock, _FIRST_TRY, seed)
    common, proved = problem.bounds.lower, problem.bounds.settled
    if exact_worlds and not proved:
        common, proved, more = problem.always(exact_worlds, clock, _FIRST_TRY, seed)
        exact_worlds += more
    known = _known(problem.bounds, common, proved, system.n_rows)
    search = WorldSearch.of(system, known, geometry, values, prior)
    found = search.worlds(exact_worlds, problem if tractable else None, clock, stage, seed)
    final = search.bayes_estimate(found, clock, stage, seed)
    if not proved and promising and final.misfit == 0:
        clock.tell(f"proving rows of {system.name}", 0.9)
        histograms = [search.histogram(w) for w in (*found, final) if w.misfit == 0]
        common, proved, _ = problem.always([*exact_worlds, *histograms], clock, _PROOF, seed)
        known = _known(problem.bounds, common, proved, system.n_rows)
    clock.tell(stage, 1.0, final.misfit)
    return search.rows(final, found, known)


def _known(found: Bounds, common: IntArray, proved: bool, n_rows: int) -> Bounds:
    """Bounds after the proof: what stands in all solutions, and all of it if that is everything."""
    lower = np.maximum(found.lower, common) if proved else found.lower
    upper = lower if lower.sum() == n_rows else found.upper
    return Bounds(lower, upper, -1)


def _empty_leaf(system: CountSystem, geometry: Geometry) -> Contradiction | None:
    """Find a leaf that holds rows but no live cell."""
    reached = np.zeros(len(system.target), dtype=bool)
    reached[system.signature.ravel()] = True
    short = np.flatnonzero((system.target > 0) & ~reached)
    if not len(short):
        return None
    equation = int(short[0])
    held = system.held(equation, geometry.release.classes)
    why = f"holds {held}, but the other trees and the schema leave no place for them there"
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
            feasible = _may_have_solution(IntegerProblem(first, found), clock, seed)
        low, high = (middle + 1, high) if feasible else (low, middle)
    start, stop = (system.first_of(int(row)) for row in geometry.leaf_start[low - 1 : low + 1])
    return _located(system, geometry, start + int(np.argmax(system.target[start:stop])))


def _may_have_solution(problem: IntegerProblem, clock: Clock, seed: int) -> bool:
    try:
        problem.solutions(clock, 5.0, seed)
    except NoSolution:
        return False
    return True
