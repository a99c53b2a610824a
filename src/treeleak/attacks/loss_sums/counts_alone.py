"""Rows behind counts alone, by least squares, where walks do not come to datasets that meet them.

Many datasets may meet all counts. So there are several fits, each from other numbers of rows: they
end at other real numbers of rows that meet all counts. From the answer they lie about as far as the
training set does, and say how sure each value is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from treeleak.attacks.answer import Answer, Rows, status_of
from treeleak.attacks.loss_sums.certificate import only_one
from treeleak.attacks.loss_sums.columns import Columns
from treeleak.attacks.loss_sums.integral import whole_near, whole_rows
from treeleak.attacks.loss_sums.kernels import compile_all
from treeleak.attacks.loss_sums.labels import ClassConstraints
from treeleak.attacks.loss_sums.least_squares import Fit, fit
from treeleak.attacks.loss_sums.run import written
from treeleak.attacks.loss_sums.search import MOST_SURE, NEAR, CellFit, ColumnSet
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.text import bounded
from treeleak.evidence import ExactTotals
from treeleak.evidence.class_counts_from_gradients import UNTOLD
from treeleak.partition import Partition
from treeleak.partition.value_index import ValueIndex

_SHARE = 0.5
"""Share of the time that is left for each step."""
_FITS, _STARTS = 8, 1_000
"""Fits of other rows, and cells with rows that each starts from."""
_MET = 1e-7
"""How far off a count may be, weighed, that real numbers of rows meet."""


def by_counts(
    evidence: ExactTotals, partition: Partition, values: ValueIndex, clock: Clock, seed: int
) -> Answer | None:
    """Rebuild the rows behind exact totals; None where leaves tell of classes, or time ran out.

    "unknown" with rows near real numbers that meet all counts, where no whole ones were found.
    """
    if not partition.alive.all():
        return None
    geometry = partition.geometry
    clock.untimed(compile_all)
    none = np.zeros(partition.n_cells, dtype=np.int64)
    columns = Columns.of(geometry, evidence.statements(), partition.signature, none)
    n_rows = evidence.n_rows
    whole, first = _fitted(columns, clock.part(_SHARE * clock.left))
    proved = whole is not None and only_one(columns, *whole, clock.part(_SHARE * clock.left))
    part = clock.part(_SHARE * clock.left)
    fits = [] if proved else _others(partition, columns, first, n_rows, part, seed)
    if not (proved or fits):
        return None
    if whole is None:
        part = clock.part(_SHARE * clock.left)
        part.report_progress("looking for whole numbers of rows", 0.9)
        whole = whole_rows(columns, n_rows, part, seed)
        whole = whole or whole_near(columns, first.chosen, first.x, n_rows, part, seed)
    cells, m = whole or _rounded(fits, n_rows)
    order = np.argsort(cells, kind="stable")
    cells, m = cells[order], m[order]
    sure = _shared(partition, cells, m, fits)
    found = _found(columns, partition, cells, m, sure)
    rows = written(found, proved, partition, values, clock, seed)
    rows = _without_classes(rows, values, seed)
    numbers = {"grid_points": bounded(geometry.n_points), "cells": partition.n_cells}
    return Answer(status_of([rows]), values, (rows,), numbers=numbers)


def _fitted(columns: Columns, clock: Clock) -> tuple[tuple[IntArray, IntArray] | None, Fit]:
    """Fit the counts; with cells and whole numbers of rows that meet them, if they come of it."""
    got: list[tuple[IntArray, IntArray]] = []

    def accept(chosen: IntArray, x: FloatArray) -> bool:
        m = np.rint(x).astype(np.int64)
        if np.abs(x - m).max(initial=0.0) > NEAR or not columns.met(chosen, m):
            return False
        got.append((chosen[m > 0], m[m > 0]))
        return True

    def report(residual: FloatArray) -> None:
        off = float(np.abs(residual).sum()) / max(float(np.abs(columns.right).sum()), 1e-300)
        clock.report_progress("fitting the counts", 0.7 * (1.0 - min(off, 1.0)))

    ended = fit(columns, clock, accept, report)
    return (got[0] if got else None), ended


def _others(
    partition: Partition, columns: Columns, first: Fit, n_rows: int, clock: Clock, seed: int
) -> list[tuple[IntArray, FloatArray]]:
    """Fit real numbers of rows that meet all counts, each time from other rows that are likely."""
    out: list[tuple[IntArray, FloatArray]] = []
    likely = _likely(partition, first)
    most = min(_STARTS, int((likely > 0).sum()))

    def met(chosen: IntArray, x: FloatArray) -> bool:
        return float(np.abs(columns.take(chosen).T @ x - columns.right).max(initial=0.0)) < _MET

    for k in range(_FITS):
        clock.report_progress("looking for other rows", 0.7 + 0.2 * k / _FITS)
        rng = np.random.default_rng((seed, k))
        chosen = rng.choice(len(likely), most, replace=False, p=likely)
        x = rng.exponential(size=most)
        ended = fit(columns, clock, met, start=(chosen, x * (n_rows / x.sum())))
        if not ended.accepted and clock.stopped:
            break
        out.append((ended.chosen[ended.x > 0], ended.x[ended.x > 0]))
    return out


def _likely(partition: Partition, first: Fit) -> FloatArray:
    """Probability of each cell, as if columns were independent: their shares are those of a fit."""
    geometry = partition.geometry
    x = np.zeros(partition.n_cells)
    x[first.chosen] = first.x
    point_weight = (x / np.bincount(partition.cell))[partition.cell]
    log = np.zeros(len(point_weight))
    for atom, part in zip(geometry.atoms(partition.points).T, geometry.parts, strict=True):
        share = np.bincount(atom, point_weight, len(part.atoms)) + 1.0
        log += np.log(share / share.sum())[atom]
    weight = np.bincount(partition.cell, np.exp(log - log.max()))
    return np.asarray(weight / weight.sum())


def _rounded(fits: Sequence[tuple[IntArray, FloatArray]], n_rows: int) -> tuple[IntArray, IntArray]:
    """Round what the fits have in the middle."""
    every, at = np.unique(np.concatenate([chosen for chosen, _ in fits]), return_inverse=True)
    x = np.bincount(at.ravel(), np.concatenate([x for _, x in fits]), len(every))
    x *= n_rows / x.sum()
    m = np.floor(x).astype(np.int64)
    m[np.argsort(m - x, kind="stable")[: n_rows - int(m.sum())]] += 1
    return every[m > 0], m[m > 0]


def _shared(
    partition: Partition,
    cells: IntArray,
    m: IntArray,
    fits: Sequence[tuple[IntArray, FloatArray]],
) -> FloatArray:
    """Share of each value of each cell's rows that the fits have, too, on average.

    Rows that lie elsewhere there are matched with those that are there instead. Shape (n_cells,
    n_attributes + 1); the class is as sure as anything can be.
    """
    geometry = partition.geometry
    first = np.zeros(partition.n_cells, dtype=np.int64)
    first[partition.cell[::-1]] = np.arange(len(partition.cell))[::-1]
    off = np.zeros((len(cells), len(geometry.parts) + 1))
    for chosen, x in fits:
        every = np.union1d(cells, chosen)
        more = np.zeros(len(every))
        more[np.searchsorted(every, cells)] += m
        more[np.searchsorted(every, chosen)] -= x
        gone, there = np.maximum(more, 0.0), np.maximum(-more, 0.0)
        size = int(np.ceil(min(gone.sum(), there.sum())))
        if not size:
            continue
        mine, theirs = (_spread(part, size) for part in (gone, there))
        a, b = (geometry.atoms(partition.points[first[every[side]]]) for side in (mine, theirs))
        differ = a[:, None, :] != b[None, :, :]
        i, j = linear_sum_assignment(differ.sum(axis=2))
        at = np.searchsorted(cells, every[mine[i]])
        np.add.at(off[:, :-1], at, differ[i, j] * (gone.sum() / size / len(fits)))
    return np.minimum(1.0 - off / m[:, None], MOST_SURE)


def _spread(weight: FloatArray, n: int) -> IntArray:
    """Choose so many entries by their weights, evenly apart."""
    edge = np.cumsum(weight)
    return np.asarray(np.searchsorted(edge, (np.arange(n) + 0.5) * (edge[-1] / n)))


def _found(
    columns: Columns,
    partition: Partition,
    cells: IntArray,
    m: IntArray,
    sure: FloatArray,
) -> CellFit:
    """Give the rows of each cell classes in turn: no count tells them."""
    geometry = partition.geometry
    k, leaf = geometry.release.n_classes, partition.signature[cells]
    turn = (np.cumsum(m) - m)[:, None] + (k - 1) - np.arange(k)
    by_class = (turn + m[:, None]) // k - turn // k
    none = np.full(int(geometry.leaf_start[-1]), UNTOLD)
    constraints = ClassConstraints(leaf, m, none, np.zeros(leaf.shape[1], dtype=np.int64), k)
    return CellFit(
        cells, sure, constraints, by_class, columns.missed(cells, m), ColumnSet(columns, cells)
    )


def _without_classes(rows: Rows, values: ValueIndex, seed: int) -> Rows:
    """Say that classes are a guess, where there are several."""
    first, n_classes = int(values.start[-2]), int(values.start[-1] - values.start[-2])
    if n_classes == 1:
        return rows
    sure = rows.confidence.copy()
    sure[:, -1] = 1.0 / n_classes
    worlds = rows.worlds
    if worlds is not None:
        label = np.random.default_rng(seed).integers(n_classes, size=worlds.shape[:2])
        worlds = np.concatenate([worlds[..., :-1], values.atom_of[first + label][..., None]], -1)
    none = np.zeros(len(sure), dtype=bool)
    return replace(rows, confidence=sure, proved=none, unique=False, worlds=worlds, fixed=None)
