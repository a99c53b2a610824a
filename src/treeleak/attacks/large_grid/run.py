"""The attack where the grid of thresholds is too large to list.

Rows walk over the grid until they meet every count; the cells that they step into are all that is
ever looked at. Many datasets meet the counts, and which one is handed over decides the error. So
the walk goes on, now under what rows were found to be like, and draws more of them; the answer is
the dataset nearest to their Bayes estimate that meets every count.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import Answer
from treeleak.attacks.large_grid.bayes_estimate import estimate_rows, unweighed
from treeleak.attacks.large_grid.midpoint_constraints import say_more
from treeleak.attacks.large_grid.restarts import Attempt, WalkHistory, walkers_at
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.row_program import RowProgram
from treeleak.attacks.large_grid.walkers import Walker, WalkResult
from treeleak.core.arrays import IntArray
from treeleak.core.clock import GRACE, Clock, OutOfTime
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.text import bounded, short
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.side_information.side_information import SideInformation

_AT_ONCE = 10.0
"""Work for the integer solver before any walk, about seconds, where the program is small."""
_SOLVE = 3e-6
"""Work for the integer solver after an attempt, about seconds, for each move: about as long."""
_ALIKE = (0.85, 0.95, 1.0)
"""Least shares of their leaves that rows have in common for them to be looked for only there."""
_NARROW = 0.1
"""Share of the time that is left for what follows from the leaves that walkers never left."""
_BESIDE = 0.3
"""Share of the time in which rows that miss counts are placed by thresholds, too."""


Narrow = Callable[[RowConstraints, IntArray, Clock], RowConstraints | None]
"""From leaves (rows of A) in which rows are taken to be, shape (n_rows, n_trees), -1 where no leaf
is, to constraints that hold rows to what follows; None if that contradicts itself."""


def unchanged(constraints: RowConstraints, leaves: IntArray, clock: Clock) -> None:
    """Say that nothing follows."""


def refuse_unlisted(geometry: Geometry, side_info: SideInformation) -> None:
    """Raise NotCovered if something is given that takes a list of all grid points."""
    if geometry.schema.rules:
        raise NotCovered(
            f"rules between columns on a grid of {short(geometry.n_points)} points: too many to "
            "list"
        )
    if side_info.population is not None:
        raise NotCovered(
            f"a population on a grid of {short(geometry.n_points)} points: too many to list"
        )


def by_walking(
    constraints: RowConstraints,
    values: ValueIndex,
    clock: Clock,
    seed: int,
    why: str,
    narrow: Narrow = unchanged,
) -> Answer:
    """Rebuild rows without a list of the cells.

    ``why``: why cells are not enumerated. ``narrow``: what follows from leaves that rows never
    left; asked after each attempt. Returns "feasible" where every count is met, "likely" where rows
    that miss a few suit the thresholds better (the likeliest dataset meets all), "unknown" with the
    best rows so far when the time was up, also where no rows meet the counts. No row is proved: of
    cells that no row stepped into nothing is known.
    """
    stage = "rebuilding the rows"
    cells = f"generated: {why}"
    seen: list[WalkResult] = []
    walking = clock
    if constraints.exchangeable and say_more(constraints):
        walking = clock.part((1 - _BESIDE) * clock.left)
    with clock.cut_short():
        seen.append(_walked_until_met(constraints, values, walking, stage, seed, narrow, seen))
    if not seen:
        raise TimeUp(clock.timeout_message)
    found = seen[-1]
    likeliest = np.column_stack([found.atoms, found.label]) + values.atom_start[:-1]
    weighed = None
    with clock.cut_short(GRACE):
        weighed = estimate_rows(found, values, constraints, clock, stage)
    rows, far = weighed or (unweighed(likeliest, found.misfit, values), None)
    clock.report_progress(stage, 1.0, rows.misfit)
    numbers = {
        "grid_points": bounded(constraints.geometry.n_points),
        "equations": int((constraints.target > 0).sum()),
        "sweeps": found.sweeps,
    }
    if rows.misfit:
        numbers["missed_by_walk"] = found.misfit
    beside = rows.misfit > 0 and not found.misfit
    return Answer(
        "likely" if beside else "unknown" if rows.misfit else "feasible",
        values,
        (rows,),
        numbers=numbers,
        likeliest=likeliest if beside else None,
        ordered=not constraints.exchangeable,
        expected_distance=far,
        cells=cells,
    )


def _walked_until_met(
    constraints: RowConstraints, values: ValueIndex, clock: Clock, stage: str, seed: int,
    narrow: Narrow, bests: list[WalkResult],
) -> WalkResult:  # fmt: skip
    """Let rows walk until they meet every count, or until the clock stops.

    ``bests``: holds the best answer so far.
    """
    if (begin := constraints.of_separate_trees(seed)) is not None:
        walkers = walkers_at(constraints, seed, begin)
        clock.record(walkers[0].misfit)
        return WalkResult.of(walkers, walkers[0], 0)
    program = None if constraints.exchangeable else RowProgram(constraints, values)
    if program is not None and (found := _met_at_once(program, clock, stage, seed)) is not None:
        return found
    now, least = Attempt.first(constraints), np.inf
    while True:
        walkers, recent = now.walked(clock, stage, seed, bests)
        if bests[-1].misfit == 0 or clock.stopped:
            return bests[-1]
        now.number += 1
        narrowed = None
        if constraints.closed is not None and (reached := min(w.misfit for w in walkers)) < least:
            least, part = reached, clock.part(_NARROW * clock.left)
            narrowed = narrow(constraints, recent.never_left(constraints), part)
        if now.closed_in(narrowed):
            continue
        none = False
        if program is not None:
            # Counted in moves, not in seconds: the same on any machine.
            limit = _SOLVE * now.length * now.n_open * constraints.n_lively
            solved, none = _solved(program, walkers, recent, limit, clock, stage, seed + now.number)
            if solved is not None:
                walkers[0] = Walker.started(constraints, seed, solved)
                clock.record(walkers[0].misfit)
                return WalkResult.of(walkers, walkers[0], now.done)
        now.finish(walkers, none)


def _met_at_once(program: RowProgram, clock: Clock, stage: str, seed: int) -> WalkResult | None:
    """Ask for all rows before any walk, where the program is small."""
    constraints, solved = program.constraints, None
    if constraints.open_label.any() or not program.small:
        return None
    clock.report_progress(f"{stage}: solving for all at once", 0.0)
    nowhere = np.zeros((0, *constraints.draws.shape), dtype=np.int32)
    anywhere = np.ones(constraints.n_rows, dtype=bool)
    with suppress(OutOfTime):
        solved = program.solve(constraints.label, nowhere, anywhere, _AT_ONCE, clock, seed)[0]
    if solved is None:
        return None
    walkers = walkers_at(constraints, seed, solved)
    clock.record(walkers[0].misfit)
    return WalkResult.of(walkers, walkers[0], 0)


def _solved(
    program: RowProgram,
    walkers: list[Walker],
    recent: WalkHistory,
    limit: float,
    clock: Clock,
    stage: str,
    seed: int,
) -> tuple[NDArray[np.int32] | None, bool]:
    """Let the integer solver place rows, those that walkers agree on only where they were seen."""
    constraints, label = program.constraints, walkers[0].rows.label.astype(np.int64)
    drawn = constraints.draws > 0
    leaves = [w.rows.leaves for w in walkers]
    agreement = ((leaves[0] == leaves[1]) | ~drawn).mean(axis=1)
    seen = constraints.masks.row[np.concatenate([*recent.leaves, leaves])]
    none = False
    for least in _ALIKE:
        clock.report_progress(f"{stage}: solving for those still open", 0.7)
        try:
            solved, none = program.solve(label, seen, agreement < least, limit, clock, seed)
        except OutOfTime:
            return None, False
        if not none:
            return solved, False
    return None, none
