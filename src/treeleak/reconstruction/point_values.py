"""The most likely value inside an interval between thresholds.

A splitter that looks at all values puts a threshold in the middle of two neighbours: of the rows
that reach a node, the greatest value that goes left and the least that goes right. Twice the
threshold is their sum. Every node says so of its own rows, and together these equations pin down
values of which each threshold alone says little. Where they cannot all be met, the rows are not
those that the trees saw: the share that is met tells how right rows are, without the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass
from treeleak.reconstruction.column_values import Grid, distinct_values, grid_behind, nearest
from treeleak.reconstruction.midpoints import Midpoints, Sides, meet_midpoints, tests_passed
from treeleak.reconstruction.schedule import SCHEDULE
from treeleak.release.release import Release

Draws = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class PointValues:
    """Rows with the most likely values."""

    table: FloatArray
    """Shape (n_rows, n_columns)."""
    midpoints_met: float | None = None
    """Share of the tests whose threshold is the middle between the nearest values of the rows on
    both sides, over columns with several thresholds; None where there is none, where thresholds are
    no midpoints, or it is not known which rows each tree saw."""
    midpoints_fit: bool = False
    """Whether other rows would hardly meet them: where one threshold stands for many rows, or where
    the tests are fewer than the rows, nearly all rows do."""
    grids: Mapping[int, Grid] = field(default_factory=dict)
    """Steps of the values of columns, where thresholds give them away."""


def point_values(
    release: Release,
    table: FloatArray,
    low: FloatArray,
    high: FloatArray,
    numbers: BoolArray,
    *,
    whole: BoolArray,
    draws: Draws | None = None,
    rows_separated: bool = True,
    seconds: float = math.inf,
) -> PointValues:
    """Choose values inside the intervals in which rows lie.

    Parameters
    ----------
    table : float array, shape (n_rows, n_columns)
        Rows in the columns of the release. What is not a single value stands somewhere inside its
        interval, and is where the search begins.
    low, high : float arrays, shape (n_rows, n_columns)
        Ends of the intervals, as the thresholds and the domain have them; equal for a single value,
        NaN for a missing one.
    numbers : bool array, shape (n_columns,)
        Columns whose tests compare numbers: the others hold codes.
    whole : bool array, shape (n_columns,)
        Columns that hold whole numbers.
    draws : int array, shape (n_trees, n_rows), optional
        How often each tree drew each row; without it, every tree saw every row.
    rows_separated : bool
        Whether it is known which rows each tree saw: not so where draws are hidden.
    seconds : float
        Time for it. With too little, fewer trees are heard and fewer sweeps made.

    Returns
    -------
    PointValues
        No value leaves its interval, or changes sides at any threshold.
    """
    grids: dict[int, Grid] = {}
    if release.thresholds_are != "unknown":
        for j in np.flatnonzero(numbers):
            cuts = release.thresholds[j]
            if release.thresholds_are == "values":
                # Half of a value is the middle of it and zero.
                cuts = _above(cuts, release.float_type) / 2
            if release.thresholds_are == "neighbours":
                # LightGBM takes the next number above the middle.
                cuts = np.nextafter(cuts, -np.inf)
            grid = grid_behind(cuts, release.float_type)
            if grid is not None:
                grids[int(j)] = grid
    equations, clock = None, Clock(seconds)
    if numbers.any() and release.thresholds_are == "midpoints" and rows_separated:
        half = clock.part(seconds / 2)
        equations = _Equations.of(release, table, low, high, numbers, draws, half)
    if equations is None:
        out = _integers_chosen(release, table, table, low, high, grids, whole)
        return PointValues(out, grids=grids)
    solved = equations.solved(
        table, low, high, int(min(SCHEDULE.value_looks, SCHEDULE.looks_per_second * clock.left / 2))
    )
    out = _integers_chosen(release, solved, table, low, high, grids, whole)
    if grids:
        ends = on_grids(release, out, low, high, grids)
        solved = equations.stepped(
            out,
            *ends,
            grids,
            int(min(SCHEDULE.value_looks, SCHEDULE.looks_per_second * clock.left / 2)),
        )
        out = _integers_chosen(release, solved, out, low, high, grids, whole)
    crowd = np.array([len(table) / max(len(cuts), 1) for cuts in release.thresholds])
    telling = equations.informative & (crowd[equations.column] <= SCHEDULE.crowded_rows)
    midpoints_fit = bool(telling.sum() >= len(table))
    return PointValues(out, equations.share_met(out), midpoints_fit, grids)


def on_grids(
    release: Release,
    table: FloatArray,
    low: FloatArray,
    high: FloatArray,
    grids: Mapping[int, Grid],
) -> tuple[FloatArray, FloatArray]:
    """Move the ends of intervals to the values on grids that lie between the same thresholds."""
    low, high = low.copy(), high.copy()
    for j, grid in grids.items():
        cuts, kind = release.thresholds[j], release.float_type
        first, last = grid.within(low[:, j], high[:, j])
        side = np.searchsorted(cuts, table[:, j].astype(kind))
        # What goes right at a threshold lies above it.
        first = np.where(np.searchsorted(cuts, first.astype(kind)) < side, first + grid.step, first)
        fits = first <= last
        low[fits, j], high[fits, j] = first[fits], last[fits]
    return low, high


def _integers_chosen(
    release: Release,
    wanted: FloatArray,
    valid: FloatArray,
    low: FloatArray,
    high: FloatArray,
    grids: Mapping[int, Grid],
    whole: BoolArray,
) -> FloatArray:
    """Round wanted values to the model's type, grids and lists, where that keeps their side."""
    out = valid.copy()
    for j in np.flatnonzero((low < high).any(axis=0)):
        open_ = np.flatnonzero(low[:, j] < high[:, j])
        cuts, kind = release.thresholds[j], release.float_type
        x, least, most = wanted[open_, j], low[open_, j], high[open_, j]
        if release.thresholds_are == "values":
            x = np.where(np.isin(least, cuts), _from_below(least, x, kind), x)
            if _crowded(valid[:, j].astype(kind), low[:, j].min(), cuts):
                x[least <= low[:, j].min()] = low[:, j].min()
        with np.errstate(over="ignore"):
            side = np.searchsorted(cuts, valid[open_, j].astype(kind))
            tried = [*Grid(1.0).around(x)] if whole[j] else [x, x.astype(kind).astype(float)]
            if int(j) in grids:
                tried += grids[int(j)].around(x)
            name = release.feature_names[j]
            borders = np.asarray(release.borders.get(name, ()), dtype=float)
            listed = distinct_values(borders, release.ranges.get(name))
            if listed is not None:
                of = np.searchsorted(cuts, listed.astype(kind))
                tried.append(nearest(x, side, listed, of))
            for value in tried:
                fits = (value >= least) & (value <= most) & np.isfinite(value)
                fits &= np.searchsorted(cuts, value.astype(kind)) == side
                if whole[j]:
                    fits &= value == np.round(value)
                out[open_[fits], j] = value[fits]
    return out


@dataclass(frozen=True, eq=False)
class _Equations:
    """One equation per test of numbers with rows on both sides: the rows next to its threshold."""

    cells: IntArray
    """Shape (n_cells,). Values of which they speak, as places in the flattened table."""
    sums: FloatArray
    """Shape (n_equations,). Twice the thresholds."""
    column: IntArray
    """Shape (n_equations,). Column that is tested."""
    width: FloatArray
    """Shape (n_equations,). Typical gap between the thresholds of the column."""
    start: IntArray
    members: IntArray
    """Cells on both sides, as :class:`Sides` has them."""
    informative: BoolArray
    """Shape (n_equations,). Whether the column has so many thresholds that wrong rows would hardly
    meet them."""

    @classmethod
    def of(
        cls,
        release: Release,
        table: FloatArray,
        low: FloatArray,
        high: FloatArray,
        numbers: BoolArray,
        draws: Draws | None,
        clock: Clock,
    ) -> _Equations | None:
        rows = np.ascontiguousarray(table, dtype=release.float_type)
        parts, open_ = [], numbers & ~np.isnan(table)
        for t, tree in enumerate(release.trees):
            if clock.stopped:
                break
            drawn = np.arange(len(table)) if draws is None else np.flatnonzero(draws[t])
            tests = tests_passed(tree, drawn, tree.passed(tree.apply(rows[drawn])), open_)
            # The interval nearest to the threshold that holds any of the rows holds the neighbour.
            parts.append(Midpoints.of(tree, *tests, table.shape[1]).nearest(low, high))
        if not sum(len(part.sums) for part in parts):
            return None
        midpoints = Midpoints.joined(parts)
        column = midpoints.column
        cells, member = np.unique(midpoints.at, return_inverse=True)
        gaps = np.array([_typical_gap(cuts) for cuts in release.thresholds])
        start = np.append(0, np.cumsum(np.bincount(midpoints.side)))
        many = np.array([len(cuts) >= SCHEDULE.telling_thresholds for cuts in release.thresholds])
        member = member.ravel().astype(np.int64)
        return cls(cells, midpoints.sums, column, gaps[column], start, member, many[column])

    def solved(self, table: FloatArray, low: FloatArray, high: FloatArray, work: int) -> FloatArray:
        """Meet as many as possible: first with one value for each interval, then for each row.

        Rows of an interval keep the same value where that meets most of what is said of it, or of
        all such intervals of the column, as where values are mostly zero; else they begin where
        they were. ``work``: looks at values, for either.
        """
        column = np.broadcast_to(np.arange(table.shape[1]), table.shape)
        key = np.stack([column.ravel().astype(float), low.ravel(), high.ravel()], axis=1)
        value = table.copy().ravel()
        inside = np.flatnonzero((low < high).ravel() | np.isin(np.arange(value.size), self.cells))
        ends, interval = np.unique(key[inside], axis=0, return_inverse=True)
        interval = interval.ravel()
        shared = np.bincount(interval, value[inside]) / np.bincount(interval)
        of_cell = interval[np.searchsorted(inside, self.cells)]
        self._meet(shared, ends[:, 1], ends[:, 2], of_cell, work)
        met = np.repeat(self._met(shared[of_cell]), 2)
        interval_of_equation = of_cell[self.members[self.start[:-1]]]
        agrees = _mostly(interval_of_equation, met, len(ends))
        several = np.bincount(interval)[interval_of_equation] > 1
        column = ends[:, 0].astype(np.int64)
        of_column = _mostly(column[interval_of_equation[several]], met[several], table.shape[1])
        agrees |= of_column[column]
        value[inside] = np.where(agrees[interval], shared[interval], value[inside])
        cell_values = value[self.cells]
        self._meet(
            cell_values, key[self.cells, 1], key[self.cells, 2], np.arange(len(cell_values)), work
        )
        value[self.cells] = cell_values
        return value.reshape(table.shape)

    def stepped(
        self, table: FloatArray, low: FloatArray, high: FloatArray, grids: Mapping[int, Grid],
        work: int,
    ) -> FloatArray:  # fmt: skip
        """Move values on grids by a step, where that meets equations.

        Thresholds mostly part rows of two classes. Then all values of one class may be too great by
        what those of the other are too small, and each is rounded its own way.
        """
        value, step = table.ravel().copy(), np.zeros(table.shape[1])
        for j, grid in grids.items():
            step[j] = grid.step
        cell_values, least, most = (x.ravel()[self.cells] for x in (table, low, high))
        self._meet(cell_values, least, most, np.arange(len(cell_values)), work, step[self.column])
        value[self.cells] = cell_values
        return value.reshape(table.shape)

    def _meet(
        self, value: FloatArray, low: FloatArray, high: FloatArray, of_cell: IntArray, work: int,
        step: FloatArray | None = None,
    ) -> None:  # fmt: skip
        n_sweeps = int(
            np.clip(work // len(self.members), SCHEDULE.least_value_sweeps, SCHEDULE.value_sweeps)
        )
        width, members = self.width if step is None else step, of_cell[self.members]
        sides = Sides(self.sums, width, self.start, members)
        low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
        meet_midpoints(value, low, high, sides, n_sweeps, step is not None)

    def share_met(self, table: FloatArray) -> float | None:
        """Share of the equations that the values of a table meet, of those that tell anything."""
        if not self.informative.any():
            return None
        return float(self._met(table.ravel()[self.cells])[self.informative].mean())

    def _met(self, value: FloatArray) -> BoolArray:
        """Which equations some values of the cells meet."""
        member = value[self.members]
        left = np.maximum.reduceat(member, self.start[:-1])[::2]
        right = np.minimum.reduceat(member, self.start[:-1])[1::2]
        off = np.abs(self.sums - left - right)
        return np.asarray(off <= SCHEDULE.midpoint_met * self.width + 1e-6 * np.abs(self.sums))


def _mostly(group: IntArray, met: BoolArray, n_groups: int) -> BoolArray:
    """Whether more than half of what is said of each group is met."""
    total = np.bincount(group, minlength=n_groups)
    return np.asarray(2 * np.bincount(group, met, minlength=n_groups) > total)


def _above(x: FloatArray, float_type: str) -> FloatArray:
    """Say which number of the model's type comes next, in as few digits as tell it apart."""
    kind = np.dtype(float_type).type
    return np.array([float(str(v)) for v in np.nextafter(x.astype(kind), kind(np.inf))])


def _from_below(least: FloatArray, middle: FloatArray, float_type: str) -> FloatArray:
    """Say where the middle one of the rows of an interval lies that begins with one of them.

    The others lie anywhere in it.
    """
    begin = _above(least, float_type)
    _, group_number, n = np.unique(least, return_inverse=True, return_counts=True)
    rows = n[group_number]
    return begin + (middle - begin) * np.maximum(rows - 2, 0) / np.maximum(rows - 1, 1)


def _crowded(x: FloatArray, least: float, cuts: FloatArray) -> bool:
    """Whether more rows lie below all cuts than beside: then most are taken to be the least."""
    if len(cuts) < SCHEDULE.intervals_beside + 1 or not np.isfinite(least) or not least < cuts[0]:
        return False
    below, beside = (
        (x <= cuts[0]).sum(),
        ((x > cuts[0]) & (x <= cuts[SCHEDULE.intervals_beside])).sum(),
    )
    return bool(
        below * (cuts[SCHEDULE.intervals_beside] - cuts[0])
        > SCHEDULE.crowded_density * beside * (cuts[0] - least)
    )


def _typical_gap(cuts: FloatArray) -> float:
    """Median gap between neighbouring thresholds; of one alone, what its size suggests."""
    cuts = cuts[np.isfinite(cuts)]
    if len(cuts) > 1:
        return float(np.median(np.diff(cuts)))
    return float(np.abs(cuts).max(initial=0.0)) or 1.0
