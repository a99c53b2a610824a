"""The attack on boosted models: rows from sums in leaves, by least squares and rounding.

Rows from what leaves add, where nothing counts them.

Non-negative least squares give how many rows of each class there are in each cell: near whole
numbers, where the steps of leaves are as exact as they should be; or of shares, which have to be
multiplied until they are whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import Answer, Rows, Status
from treeleak.attacks.consensus import MAX_ALIGNED, aligned_shares
from treeleak.attacks.exact.annealing_runs import N_WORLDS, several_worlds
from treeleak.attacks.exact.worlds import Solution, SolutionSampler
from treeleak.attacks.loss_sums.certificate import independent, only_one
from treeleak.attacks.loss_sums.kernels import compile_all
from treeleak.attacks.loss_sums.labels import system_of
from treeleak.attacks.loss_sums.least_squares import fit
from treeleak.attacks.loss_sums.raw_rows import raw_rows
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.attacks.loss_sums.search import MOST_SURE, CellFit, Search
from treeleak.attacks.solvers.integer import Bounds, IntegerProblem, NoSolution, bounds
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.message import static_message
from treeleak.core.text import bounded
from treeleak.evidence import MAX_ROWS, Contradiction, ExactTotals, LeafValueEvidence, LossSums
from treeleak.evidence.systems import NO_PLACE, unplaced
from treeleak.partition import Geometry, GridTooLarge, Partition, enumerate_cells, enumeration_tick
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.side_information.side_information import NOTHING, SideInformation

MOST_ENTRIES = 2**26
"""Most (cell, tree) pairs, with two kinds of rows in a cell: each takes up to 32 bytes, and 12 more
for each further kind."""
UNEXPLAINED = static_message(
    "the file holds no numbers of rows, and the attack found none that explain its leaf "
    "values. The values may allow several answers, the training may differ from the "
    "assumptions, or the schema may be wrong",
    "run_unexplained",
)
_NOT_MET = "no rows of listed cells were found that meet all sums"


def loss_sums(
    evidence: LossSums | LeafValueEvidence,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows behind the sums of the loss, or behind what leaves add alone.

    An :data:`~treeleak.attacks.Attack`.

    Returns "unique" or "feasible" where every statement is met, "infeasible" where two trees count
    different numbers of rows, "unknown" with the best rows so far when time ran out; none are so
    far where no leaf counts them.

    Raises
    ------
    GridTooLarge
        Where the cells cannot be listed.
    NotCovered
        Where no rows explain what leaves add.
    """
    side_info.refuse("the attack on sums of the loss")
    values = values_in(geometry)
    if (clash := evidence.contradiction()) is not None:
        return Answer("infeasible", values, contradiction=clash)
    clock.untimed(compile_all)
    if not isinstance(evidence, LossSums):
        return _by_cells(evidence, geometry, values, clock, seed)
    interval = any(part.intervals for part in geometry.parts)
    part = clock.part(SCHEDULE.cells_share * clock.left) if interval else clock
    try:
        answer = _by_cells(evidence, geometry, values, part, seed)
    except GridTooLarge as why:
        # Walks that meet the counts may follow, where every tree counts its rows.
        counted = not np.isnan(evidence.n).any()
        part = clock.part(SCHEDULE.raw_share * clock.left) if counted else clock
        raw = raw_rows(evidence, geometry, values, part, str(why))
        n_solved = 0 if raw is None else raw.numbers["trees_settled"]
        if raw is None or (counted and 2 * n_solved < len(geometry.release.trees)):
            raise
        return raw
    if interval and answer.status == "unknown":
        raw = raw_rows(evidence, geometry, values, clock, _NOT_MET)
        if raw is not None and raw.status == "feasible":
            return raw
    return answer


def _by_cells(
    evidence: LossSums | LeafValueEvidence,
    geometry: Geometry,
    values: ValueIndex,
    clock: Clock,
    seed: int,
) -> Answer:
    """Rebuild rows from a list of all cells; raises GridTooLarge where they are too many."""
    try:
        columns_per_cell = max(1.0, geometry.release.n_classes / 2)
        partition = enumerated(evidence, geometry, clock, columns_per_cell)
    except OutOfTime:
        return Answer("unknown", values)
    counted, proved = isinstance(evidence, LossSums), False
    if isinstance(evidence, LossSums):
        row = unplaced(evidence.n, partition.signature)
        if row is not None:
            why = NO_PLACE.format(held=f"{evidence.n[row]:,.0f} rows")
            clash = Contradiction(*partition.geometry.leaf_of_row(row), why)
            return Answer("infeasible", values, contradiction=clash)
    writing = (
        evidence.n_rows * len(geometry.release.trees) / SCHEDULE.entries_written if counted else 0.0
    )
    part = clock.part(clock.left - min(writing, SCHEDULE.writing_share * clock.left))
    search = Search(evidence, partition, part, seed)
    found = search.found() if counted else rows_from_steps(search)
    if found is None and part.stopped:
        return Answer("unknown", values)
    if found is None:
        raise NotCovered(UNEXPLAINED)
    if counted and not found.missed and not clock.stopped:
        clock.report_progress("proving the rows", 0.8, 0)
        part = clock.part(
            min(
                SCHEDULE.proof_share * clock.left,
                SCHEDULE.proof_factor * clock.seconds + SCHEDULE.proof_seconds,
            )
        )
        with suppress(TimeUp), part.enforced(SCHEDULE.worlds_late):
            proved = only_one(found.column_set.columns, *found.used(), part)
        if not proved and not clock.stopped:
            found = search.by_steps(found)
    rows = written(found, proved, partition, values, clock, seed)
    clock.report_progress("rebuilding the rows", 1.0, rows.misfit)
    status: Status = "unknown" if rows.misfit else "feasible"
    if rows.unique and (rows.confidence == 1).all():
        status = "unique"
    numbers = {
        "grid_points": bounded(geometry.n_points),
        "cells": partition.n_cells,
        "statements": sum(len(constraints.right) for constraints in evidence.statements()),
        "rounds": found.rounds,
    }
    return Answer(status, values, (rows,), numbers=numbers)


def enumerated(
    evidence: LossSums | LeafValueEvidence | ExactTotals,
    geometry: Geometry,
    clock: Clock,
    columns_per_cell: float = 1.0,
) -> Partition:
    """List the cells; raises GridTooLarge or OutOfTime.

    ``columns_per_cell``: how many times as much is held of a cell as is usual.
    """
    tick = enumeration_tick(geometry, clock)
    partition = enumerate_cells(geometry, evidence.open_leaves(), tick)
    if columns_per_cell * partition.signature.size > MOST_ENTRIES:
        raise GridTooLarge(
            f"{partition.n_cells:,} cells in {partition.signature.shape[1]:,} trees; "
            f"treeleak holds at most {int(MOST_ENTRIES / columns_per_cell):,} pairs of them"
        )
    return partition


def written(
    found: CellFit, proved: bool, partition: Partition, values: ValueIndex, clock: Clock, seed: int
) -> Rows:
    """Write rows of cells, with classes, as values.

    What is open yet, classes and the points of a cell, is the middle of several worlds.
    """
    system = system_of(partition, found.cells, found.constraints, found.by_class)
    if found.by_class is None:
        known = bounds(system)
        problem = IntegerProblem(system, known)
    else:
        m = found.by_class.T.ravel()
        known, problem = Bounds(m, m, -1), None
    stage = "sharing out the classes"
    exact = [known.lower] if known.determined else []
    if known.broken >= 0:
        known, problem = Bounds(np.zeros_like(known.lower), known.upper, -1), None
    search = SolutionSampler.of(system, known, partition.geometry, values, learns=True)
    try:
        worlds = several_worlds(search, exact, problem, clock, stage, seed)
    except NoSolution:
        # The rows are not quite those that gave the sums: no classes fit all leaves.
        worlds = several_worlds(search, exact, None, clock, stage, seed)
    n = len(found.cells)
    try:
        with clock.enforced(SCHEDULE.worlds_late):
            final = search.bayes_estimate(worlds, clock, seed)
            few = len(final.values) > MAX_ALIGNED or len(worlds) < N_WORLDS
            sure = _sure(search, final, worlds, n) if few else None
            rows = search.rows(final, worlds, known, sure)
    except TimeUp:
        # To hold many rows of several worlds against each other takes seconds: one will do.
        final = min(worlds, key=lambda world: world.misfit)
        rows = search.rows(final, worlds, known, _sure(search, final, worlds, n))
    missed = found.missed + final.misfit
    if proved and not missed:
        return rows
    least = np.minimum(rows.confidence, found.sure)
    return replace(rows, confidence=least, proved=np.zeros_like(rows.proved), unique=False,
                   misfit=missed, fixed=None)  # fmt: skip


def _sure(
    search: SolutionSampler, final: Solution, worlds: Sequence[Solution], n_cells: int
) -> FloatArray:
    """How often each value stands in the worlds: rows are held against those of their cell."""

    def in_order(world: Solution) -> tuple[IntArray, IntArray, IntArray]:
        cell = search.cells(world)[len(search.fixed_points) :] % n_cells
        at = np.argsort(cell, kind="stable")
        return at, cell[at], search.values.atom_of[world.values[at]]

    at, group, start = in_order(final)
    # Worlds that miss counts may hold another number of rows of a cell.
    every = [in_order(world) for world in worlds]
    held = [atoms for _, cell, atoms in every if np.array_equal(cell, group)] or [start]
    share, _ = aligned_shares(search.values, held, search.value_prior, group, 1, start=start)
    out = np.empty(final.values.shape)
    out[at] = np.take_along_axis(share, final.values[at], axis=1)
    return out


def rows_from_steps(search: Search) -> CellFit | None:
    """Find rows whose leaves would have taken the steps that they took; None if there are none yet.

    What is found meets all steps, within their rounding.
    """
    evidence, got = search.evidence, list[CellFit]()
    assert isinstance(evidence, LeafValueEvidence)  # noqa: S101
    column_set = search.by_class(evidence.statements())
    # No leaf was grown for nobody; those that no cell reaches are not asked.
    some = np.unique(search.partition.signature)
    size = float(np.abs(column_set.columns.right).sum())

    def report(residual: FloatArray) -> None:
        off = float(np.abs(residual).sum()) / size
        search.clock.report_progress("fitting what leaves add", 0.7 * (1.0 - min(off, 1.0)))

    def accept(chosen: IntArray, x: NDArray[Any]) -> bool:
        for m in _whole(x, shares=evidence.shares_only):
            leaf = column_set.columns.leaf[chosen]
            held = np.bincount(
                leaf.ravel(), np.repeat(m, leaf.shape[1]), column_set.columns.n_leaves
            )
            if not held[some].all():
                continue
            known = replace(search, evidence=replace(evidence, held=held.astype(np.int64)))
            known_columns = known.by_class(known.evidence.statements())
            tied = not evidence.shares_only or independent(column_set.columns, chosen[m > 0])
            sure = MOST_SURE if tied else SCHEDULE.shares_sure
            found = replace(known.classed(known_columns, chosen, m), sure=sure)
            if not found.missed:
                got.append(found)
                return True
        return False

    ended = fit(column_set.columns, search.clock, accept, report)
    return replace(got[0], rounds=ended.rounds) if got else None


def _whole(x: FloatArray, *, shares: bool) -> list[IntArray]:
    """Whole numbers near some numbers; of shares, near multiples of them, small ones first."""
    used = x > SCHEDULE.used_share * x.max(initial=0.0)
    if not used.any():
        return []
    unit = float(x[used].min())
    out = []
    for times in range(1, SCHEDULE.rarest_rows + 1) if shares else (1,):
        rows = x * (times / unit if shares else 1.0)
        m = np.rint(rows)
        near = SCHEDULE.whole_off_shares if shares else SCHEDULE.whole_off
        if np.abs(rows - m).max() <= near and 0 < m.sum() <= MAX_ROWS:
            out.append(m.astype(np.int64))
    return out
