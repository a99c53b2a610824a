"""The attack where the grid of thresholds is too large to list.

Rows walk over the grid until they meet every count; the cells that they step into are all that is
ever looked at. Many datasets meet the counts, and which one is handed over decides the error. So
the walk goes on, now under what rows were found to be like, and draws more of them; the answer is
the dataset nearest to their Bayes estimate that meets every count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treeleak.attacks.answer import Answer
from treeleak.attacks.large_grid.bayes_estimate import estimate_rows, unweighed
from treeleak.attacks.large_grid.restarts import Attempt, walkers_at
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.schedule import SCHEDULE
from treeleak.attacks.large_grid.walkers import WalkResult
from treeleak.core.arrays import IntArray
from treeleak.core.clock import GRACE, Clock
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.text import bounded, short
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.side_information.side_information import SideInformation

Narrow = Callable[[RowConstraints, IntArray, Clock], RowConstraints | None]
"""From leaves (rows of A) in which rows are taken to be, shape (n_rows, n_trees), -1 where no leaf
is, to constraints that hold rows to what follows; None if that contradicts itself."""


def unchanged(constraints: RowConstraints, leaves: IntArray, clock: Clock) -> None:
    """Say that nothing follows."""


def refuse_rules(geometry: Geometry) -> None:
    """Raise NotCovered if a schema has rules: these take a list of all grid points."""
    if geometry.schema.rules:
        raise NotCovered(
            f"rules between columns on a grid of {short(geometry.n_points)} points: too many to "
            "list; a schema without rules is covered"
        )


def refuse_unlisted(geometry: Geometry, side_info: SideInformation) -> None:
    """Raise NotCovered if something is given that takes a list of all grid points."""
    refuse_rules(geometry)
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
    left; asked after each attempt. Returns "feasible" where every count is met, "unknown" with the
    best rows so far when the time was up, also where no rows meet the counts. No row is proved: of
    cells that no row stepped into nothing is known.
    """
    stage = "rebuilding the rows"
    cells = f"generated: {why}"
    seen: list[WalkResult] = []
    with clock.cut_short():
        seen.append(_walked_until_met(constraints, clock, stage, seed, narrow, seen))
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
    return Answer(
        "unknown" if rows.misfit else "feasible",
        values,
        (rows,),
        numbers=numbers,
        ordered=not constraints.exchangeable,
        expected_distance=far,
        cells=cells,
    )


def _walked_until_met(
    constraints: RowConstraints, clock: Clock, stage: str, seed: int, narrow: Narrow,
    bests: list[WalkResult],
) -> WalkResult:  # fmt: skip
    """Let rows walk until they meet every count, or until the clock stops.

    ``bests``: holds the best answer so far.
    """
    if (begin := constraints.of_separate_trees(seed)) is not None:
        walkers = walkers_at(constraints, seed, begin)
        clock.record(walkers[0].misfit)
        return WalkResult.of(walkers, walkers[0], 0)
    now, least = Attempt.first(constraints), np.inf
    while True:
        walkers, recent = now.walked(clock, stage, seed, bests)
        if bests[-1].misfit == 0 or clock.stopped:
            return bests[-1]
        now.number += 1
        narrowed = None
        if constraints.closed is not None and (reached := min(w.misfit for w in walkers)) < least:
            least, part = reached, clock.part(SCHEDULE.narrowing_share * clock.left)
            narrowed = narrow(constraints, recent.never_left(constraints), part)
        if not now.closed_in(narrowed):
            now.finish(walkers)
