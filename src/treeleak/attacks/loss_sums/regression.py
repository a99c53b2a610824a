"""Rows of a regression from counts and from sums of targets, where counts alone leave some open.

Targets are not known, but a model was trained to come near them: each lies not far below or above
what it predicts for the row, and is a mean of these two ends. So a row counts as so much of a row
with the lower one and so much of one with the higher: two columns for each cell, and the same least
squares as for two classes. The nearer the ends, the sooner is it clear which rows there are; ends
that are too near for some target leave sums that nothing meets, and the next try takes wider ones.
Numbers of rows are whole, parts of them are not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.exact.annealing_runs import N_WORLDS
from treeleak.attacks.exact.run import exact, of_cells
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.run import by_walking
from treeleak.attacks.loss_sums.columns import Columns
from treeleak.attacks.loss_sums.integral import whole_groups
from treeleak.attacks.loss_sums.kernels import compile_all
from treeleak.attacks.loss_sums.labels import ClassConstraints
from treeleak.attacks.loss_sums.least_squares import fit
from treeleak.attacks.loss_sums.run import enumerated, written
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.attacks.loss_sums.search import CellFit, ColumnSet
from treeleak.attacks.targets import solve
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock, OutOfTime
from treeleak.evidence import ExactTotals
from treeleak.evidence.class_counts_from_gradients import UNTOLD
from treeleak.evidence.target_sums import squared_statements, target_sums
from treeleak.partition import Geometry, GridTooLarge, Partition
from treeleak.partition.value_index import values_in
from treeleak.side_information.side_information import NOTHING, SideInformation


def regression(
    evidence: ExactTotals,
    geometry: Geometry,
    clock: Clock,
    seed: int,
    side_info: SideInformation = NOTHING,
) -> Answer:
    """Rebuild the rows behind exact totals; with sums of targets, where the model has them.

    An :data:`~treeleak.attacks.Attack`: the answer of :func:`~treeleak.attacks.exact.run.exact`,
    unless sums of targets tell more.
    """
    if not side_info.nothing:
        return exact(evidence, geometry, clock, seed, side_info)
    ensemble = geometry.release.ensemble
    fitting = None if ensemble is None else ensemble.fitting
    summed = fitting is not None and fitting.loss == "squared"
    try:
        partition = enumerated(evidence, geometry, clock, columns_per_cell=2 if summed else 1)
    except (OutOfTime, GridTooLarge):
        partition = None
    if partition is None or evidence.contradiction() is not None:
        return exact(evidence, geometry, clock, seed, side_info)
    values = values_in(geometry)
    if not (summed or partition.alive.all()):
        return of_cells(evidence, partition, values, clock, seed)  # Leaves tell of classes.
    many = len(partition.points) > SCHEDULE.sparse_points * evidence.n_rows
    if many and not summed and not geometry.schema.rules:
        constraints = RowConstraints.of_exact(evidence, geometry)
        why = f"{len(partition.points):,} points are too many for {evidence.n_rows:,} rows"
        with clock.cut_short():
            walked = by_walking(
                constraints, values, clock.part(SCHEDULE.sparse_walk_share * clock.left), seed, why
            )
            if walked.status == "feasible":
                return walked
    part = clock.part(SCHEDULE.regression_counts_share * clock.left)
    first = of_cells(evidence, partition, values, part, seed)
    if first.status in ("unique", "infeasible") or clock.stopped:
        return first
    with clock.cut_short():
        if summed:
            return _by_sums(evidence, partition, first, clock, seed)
        return _longer(evidence, partition, first, clock, seed)
    return first


def _longer(
    evidence: ExactTotals, partition: Partition, first: Answer, clock: Clock, seed: int
) -> Answer:
    """Walk for longer, where there was no time for as many worlds as there should be."""
    few = any(rows.worlds is None or len(rows.worlds) < N_WORLDS for rows in first.rows)
    if clock.stopped or not (few or first.status == "unknown"):
        return first
    return min(first, of_cells(evidence, partition, first.values, clock, seed), key=_missed)


def _by_sums(
    evidence: ExactTotals, partition: Partition, first: Answer, clock: Clock, seed: int
) -> Answer:
    """Rebuild the rows with sums of targets; ``first`` is what counts alone say."""
    m = _fitted(evidence, partition, clock.part(SCHEDULE.regression_sums_share * clock.left))
    if m is not None:
        return _answered(evidence, partition, m, first, clock, seed)
    return _longer(evidence, partition, first, clock, seed)


def _missed(answer: Answer) -> float:
    return sum(rows.misfit for rows in answer.rows) if answer.rows else np.inf


def _answered(
    evidence: ExactTotals, partition: Partition, m: IntArray, first: Answer, clock: Clock, seed: int
) -> Answer:
    """Write rows of cells; ``first`` is what counts alone say."""
    geometry = partition.geometry
    cells = np.flatnonzero(m)
    leaf, held = partition.signature[cells], m[cells]
    none = np.full(int(geometry.leaf_start[-1]), UNTOLD)
    constraints = ClassConstraints(leaf, held, none, np.zeros(leaf.shape[1], dtype=np.int64), 1)
    column_set = ColumnSet(Columns.of(geometry, evidence.statements(), leaf, held), cells)
    found = CellFit(cells, constraints, held[:, None], 0, column_set)
    rows = written(found, False, partition, first.values, clock, seed)
    rows = _with_proofs(rows, first.rows)
    return replace(first, status="feasible", rows=(rows,))


def _fitted(evidence: ExactTotals, partition: Partition, clock: Clock) -> IntArray | None:
    """Find whole numbers of rows of cells that meet all counts and sums."""
    geometry, n = partition.geometry, partition.n_cells
    clock.untimed(compile_all)
    leaf = np.tile(partition.signature, (2, 1))
    tried: set[bytes] = set()
    good: list[IntArray] = []

    def accept(chosen: IntArray, x: FloatArray) -> bool:
        m = np.rint(np.bincount(chosen % n, x, n)).astype(np.int64)
        if m.sum() == evidence.n_rows and (m >= 0).all() and m.tobytes() not in tried:
            tried.add(m.tobytes())
            if _meet(evidence, partition, m):
                good.append(m)
        return bool(good)

    for k, beyond in enumerate(SCHEDULE.target_ranges):
        statements = squared_statements(geometry, beyond)
        if statements is None:
            return None
        columns = Columns.of(geometry, statements, leaf, np.repeat([0, 1], n))
        size = float(np.abs(columns.right).sum())

        def report(residual: FloatArray, size: float = size) -> None:
            off = float(np.abs(residual).sum())
            clock.report_progress("fitting sums of targets", 0.7 * (1.0 - min(off / size, 1.0)))

        last = k + 1 == len(SCHEDULE.target_ranges)
        part = clock.part((0.9 if last else 0.5) * clock.left)
        ended = fit(columns, part, accept, report)
        if not good and np.abs(ended.residual).max() < SCHEDULE.regression_met:
            # The sums are met, and rows of some cells might as well be in others, in part.
            x = whole_groups(
                columns,
                ended.chosen,
                ended.x,
                ended.chosen % n,
                clock.part(SCHEDULE.regression_whole_seconds),
            )
            if x is not None:
                accept(ended.chosen, x)
        if good or clock.stopped:
            break
    return good[0] if good else None


def _meet(evidence: ExactTotals, partition: Partition, m: IntArray) -> bool:
    """Whether so many rows of each cell meet all counts, and all sums of targets."""
    cells = np.flatnonzero(m)
    leaf = partition.signature[cells].astype(np.int64)
    held = np.bincount(leaf.ravel(), np.repeat(m[cells], leaf.shape[1]), len(evidence.n))
    if not np.array_equal(held, evidence.n):
        return False
    row = np.repeat(np.arange(len(cells)), m[cells])
    release = partition.geometry.release
    sums = target_sums(release, leaf[row], None, np.ones(len(row), dtype=bool))
    if sums is None:
        return False
    ones = csr_array((np.ones(len(row)), (np.arange(len(row)), row)))
    about = np.bincount(row, sums.predicted) / m[cells]
    wide = np.full(len(cells), np.inf)
    times = (sums.times @ ones).tocsr()
    return solve(times, sums.right, sums.off, -wide, wide, about, sums.spread).met


def _with_proofs(rows: Rows, before: tuple[Rows, ...]) -> Rows:
    """Keep what counts alone prove: all rows that meet them have these among them."""
    sure = {}
    left: Counter[bytes] = Counter()
    for known in before:
        for k in np.flatnonzero(known.proved).tolist():
            key = known.values[k].tobytes()
            sure[key] = known.confidence[k]
            left[key] += 1
    proved, confidence = rows.proved.copy(), rows.confidence.copy()
    for k, values in enumerate(rows.values):
        key = values.tobytes()
        if left[key]:
            left[key] -= 1
            proved[k], confidence[k] = True, np.maximum(confidence[k], sure[key])
    return replace(rows, proved=proved, confidence=confidence)
