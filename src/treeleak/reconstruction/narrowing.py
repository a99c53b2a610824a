"""Intervals that thresholds leave of values, where leaves alone leave more of them.

The leaves of the trees that drew a row bound its values. So do the other rows: a threshold lies in
the middle between the greatest value on its left and the least on its right, of the rows that
reach its node. Where it is known which rows these are, what bounds one of the two bounds the other,
and so on from node to node. Where bounds contradict each other, some rows are wrong: those bounds
are not believed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass
from treeleak.reconstruction.column_values import ROUNDED, CommonValues, Grid, grid_behind
from treeleak.reconstruction.midpoints import Midpoints, tests_passed
from treeleak.reconstruction.point_values import Draws
from treeleak.reconstruction.schedule import SCHEDULE
from treeleak.release.release import Release

_EQUAL = 1e-9
_ABOVE = 2 * ROUNDED
"""Part of a step that lies safely above a threshold."""
_LOST = 8.0
"""Roundings of the model's numbers between a value and an end that stands for it."""


@dataclass(frozen=True, eq=False)
class Narrowed:
    """Values inside what thresholds leave of them."""

    table: FloatArray
    """Shape (n_rows, n_columns). Each value is in the middle of what is left, as values of the
    column are spread; or where it was, if that is as common."""
    chance: FloatArray
    """Shape (n_rows, n_columns). Probability of the interval of each value, if all rows are right,
    and of the value itself in columns of whole numbers. 0 where nothing is known."""


@dataclass(frozen=True, eq=False)
class Movable:
    """Which values of rows are numbers that may be moved, and where."""

    open: BoolArray
    """Shape (n_rows, n_columns)."""
    low: FloatArray
    high: FloatArray
    """Shape (n_columns,). Ends of the domain of each column."""
    whole: BoolArray
    """Shape (n_columns,). Columns that the schema says to hold whole numbers."""

    def grids(self, release: Release) -> Mapping[int, Grid]:
        """Steps of the values of columns, as the schema says or thresholds give them away."""
        found, eps = {}, float(np.finfo(np.dtype(release.float_type)).eps)
        for j in np.flatnonzero(self.open.any(axis=0)).tolist():
            cuts = release.thresholds[j]
            # A test against infinity parts missing values from known ones.
            size = float(np.abs(cuts[np.isfinite(cuts)]).max(initial=0.0))
            if self.whole[j]:
                # A half of a whole number is exact up to there.
                if size < 1.0 / eps:
                    found[j] = Grid(1.0)
                continue
            grid, lost = grid_behind(cuts, release.float_type), _LOST * eps * size
            if grid is not None and lost < ROUNDED * grid.step:
                found[j] = grid
        return found


def narrowed(
    release: Release,
    table: FloatArray,
    label: IntArray,
    numbers: Movable,
    draws: Draws,
    seconds: float,
) -> Narrowed | None:
    """Move values to where thresholds leave them; no tree that drew a row counts it elsewhere.

    ``table``, shape (n_rows, n_columns); ``label``, shape (n_rows,): classes, from 0. ``draws``,
    shape (n_trees, n_rows): how often each tree drew each row. ``seconds``: time for it. None if
    that is too little, or the forest too large.
    """
    clock, grids = Clock(seconds), numbers.grids(release)
    # Whole numbers too large to be told from their neighbours stay where they are.
    stays = numbers.whole & ~np.isin(np.arange(table.shape[1]), list(grids))
    open_ = numbers.open & ~stays
    rows = np.ascontiguousarray(table, dtype=release.float_type)
    leaf = [tree.apply(rows) for tree in release.trees]
    low, high = (np.tile(ends, (len(table), 1)) for ends in (numbers.low, numbers.high))
    drawn, parts, n_passed = [], [], 0
    for tree, selected, times in zip(release.trees, leaf, draws, strict=True):
        drawn.append(np.flatnonzero(times))
        passed = tree.passed(selected[drawn[-1]])
        n_passed += len(passed[0])
        row, node, right = tests_passed(tree, drawn[-1], passed, open_)
        if n_passed > SCHEDULE.narrowing_tests or clock.stopped:
            return None
        at = row, tree.feature[node]
        np.maximum.at(low, tuple(x[right] for x in at), tree.threshold[node[right]])
        np.minimum.at(high, tuple(x[~right] for x in at), tree.threshold[node[~right]])
        parts.append(Midpoints.of(tree, row, node, right, table.shape[1]))
    # What goes right at a threshold lies above it.
    _to_grids(grids, low, high, above=low > numbers.low)
    midpoints = Midpoints.joined(parts)
    for j, grid in grids.items():
        selected = midpoints.column == j
        midpoints.sums[selected] = grid.sums(midpoints.sums[selected])
    for _ in range(SCHEDULE.narrowing_sweeps):
        if clock.stopped or not _narrow(midpoints, low, high):
            break
        _to_grids(grids, low, high)
    left = {
        j: left
        for j in np.flatnonzero(open_.any(axis=0)).tolist()
        if (left := _Left.of(low[:, j], high[:, j], open_[:, j], label, grids.get(j))) is not None
    }
    moved = _moved(release, table, low, high, open_, grids)
    for j, column in left.items():
        column.choose(moved[:, j], whole=bool(numbers.whole[j]))
    rows = np.ascontiguousarray(moved, dtype=release.float_type)
    for tree, selected, k in zip(release.trees, leaf, drawn, strict=True):
        # What lies right at a threshold may be rounded to its other side.
        off = k[tree.apply(rows[k]) != selected[k]]
        moved[off] = table[off]
    return Narrowed(moved, _chance(release, moved, low, high, left, numbers))


def _narrow(midpoints: Midpoints, low: FloatArray, high: FloatArray) -> bool:
    """Narrow the ends of values by each test once; say whether any of them changed."""
    sums, test, right = midpoints.sums, midpoints.test, midpoints.right
    left: BoolArray = np.asarray(~right)
    row_low: FloatArray = low.ravel()[midpoints.at]
    row_high: FloatArray = high.ravel()[midpoints.at]
    # Ends of the greatest value on the left, and of the least on the right.
    n, half = len(sums), sums / 2
    a_low, a_high = np.full((2, n), -np.inf)
    b_low, b_high = np.full((2, n), np.inf)
    np.maximum.at(a_low, test[left], row_low[left])
    np.maximum.at(a_high, test[left], row_high[left])
    np.minimum.at(b_low, test[right], row_low[right])
    np.minimum.at(b_high, test[right], row_high[right])
    a_high, b_low = np.minimum(a_high, half), np.maximum(b_low, half)
    a_low, a_high, b_low, b_high = (
        np.maximum(a_low, sums - b_high), np.minimum(a_high, sums - b_low),
        np.maximum(b_low, sums - a_high), np.minimum(b_high, sums - a_low),
    )  # fmt: skip
    near = _EQUAL * (1 + np.abs(sums))
    agrees = (a_low <= a_high + near) & (b_low <= b_high + near)
    consistent: BoolArray = np.asarray(agrees[test])
    new_low, new_high = low.copy(), high.copy()
    affected = consistent & left
    np.minimum.at(new_high.reshape(-1), midpoints.at[affected], a_high[test[affected]])
    affected = consistent & right
    np.maximum.at(new_low.reshape(-1), midpoints.at[affected], b_low[test[affected]])
    # The only value that can be the greatest, or the least, is.
    reach = left & (row_high >= (a_low - near)[test])
    only = consistent & reach & (np.bincount(test[reach], minlength=n)[test] == 1)
    np.maximum.at(new_low.reshape(-1), midpoints.at[only], a_low[test[only]])
    reach = right & (row_low <= (b_high + near)[test])
    only = consistent & reach & (np.bincount(test[reach], minlength=n)[test] == 1)
    np.minimum.at(new_high.reshape(-1), midpoints.at[only], b_high[test[only]])
    wrong = new_low > new_high + _EQUAL * (1 + np.abs(new_high))
    new_low[wrong], new_high[wrong] = low[wrong], high[wrong]
    changed = bool((new_low > low + _EQUAL).any() or (new_high < high - _EQUAL).any())
    low[:], high[:] = new_low, new_high
    return changed


def _to_grids(
    grids: Mapping[int, Grid], low: FloatArray, high: FloatArray, above: BoolArray | None = None
) -> None:
    """Narrow the ends of values to those that their columns can have.

    ``above``: which values lie above their low end, and not on it.
    """
    for j, grid in grids.items():
        begin = low[:, j] if above is None else low[:, j] + _ABOVE * grid.step * above[:, j]
        first, last = grid.within(begin, high[:, j])
        there = ~np.isnan(first)
        low[there, j], high[there, j] = first[there], last[there]


def _moved(
    release: Release,
    table: FloatArray,
    low: FloatArray,
    high: FloatArray,
    open_: BoolArray,
    grids: Mapping[int, Grid],
) -> FloatArray:
    outside = open_ & _outside(table, low, high)
    with np.errstate(invalid="ignore"):
        middle = (low + high) / 2
    above = np.nextafter(low.astype(np.float32), np.float32(np.inf)).astype(float)
    middle = np.where(np.isfinite(high), np.where(np.isfinite(low), middle, high), above)
    moved = np.where(outside, middle, table)
    for j, grid in grids.items():
        x, cuts = moved[:, j], np.array([-np.inf, *release.thresholds[j], np.inf])
        value = grid.around(np.clip(x, low[:, j], high[:, j]))[1]
        # An interval between thresholds that holds a value of the grid is settled later.
        side = np.searchsorted(cuts[1:-1], x)
        empty = np.isnan(grid.within(cuts[side] + _ABOVE * grid.step, cuts[side + 1])[0])
        off = open_[:, j] & np.isfinite(value) & (outside[:, j] | empty)
        moved[off, j] = value[off]
    return moved


def _outside(x: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:
    """Where values lie outside by more than what is lost where they are rounded to float32."""
    lost = 1e-6 * np.abs(x) + _EQUAL
    return np.asarray((x < low - lost) | (x > high + lost))


@dataclass(frozen=True, eq=False)
class _Left:
    """What thresholds leave of the values of a column."""

    rows: IntArray
    """Those whose value may be moved."""
    low: FloatArray
    high: FloatArray
    """Shape (n_open,). Ends of the values of these rows."""
    common: CommonValues
    grid: Grid | None

    @classmethod
    def of(
        cls, low: FloatArray, high: FloatArray, open_: BoolArray, label: IntArray, grid: Grid | None
    ) -> _Left | None:
        """Learn how common values are; None where nothing bounds any.

        What nothing bounds on one side ends where the others end.
        """
        rows = np.flatnonzero(open_)
        low, high = low[rows], high[rows]
        ends = np.concatenate([x[np.isfinite(x)] for x in (low, high)])
        if not len(ends):
            return None
        low, high = np.maximum(low, ends.min()), np.minimum(high, ends.max())
        if grid is not None:
            first, last = grid.within(low, high)
            low, high = (np.where(np.isnan(x), y, x) for x, y in ((first, low), (last, high)))
        # Ends of a single value are apart by what sums of values lost.
        high = np.maximum(low, high)
        return cls(rows, low, high, CommonValues.of(low, high, label[rows], grid), grid)

    def choose(self, x: FloatArray, *, whole: bool) -> None:
        """Move values, in place, to the middle of what is left of them, as values are spread.

        ``whole``: whether they are known to be whole numbers, and not only where thresholds lie.
        """
        now = x[self.rows]
        found = self.common.middle(self.low, self.high, now)
        if self.grid is not None:
            on_grid = self.grid.around(found)[1]
            inside = (on_grid >= self.low) & (on_grid <= self.high)
            found = np.where(inside, on_grid, now if whole else found)
        several = self.high - self.low > _EQUAL * (1 + np.abs(self.high))
        x[self.rows] = np.where(several, found, now)


def _chance(
    release: Release,
    table: FloatArray,
    low: FloatArray,
    high: FloatArray,
    left: Mapping[int, _Left],
    numbers: Movable,
) -> FloatArray:
    out = np.zeros(table.shape)
    for j, column in left.items():
        x = table[column.rows, j]
        if numbers.whole[j]:
            least = most = np.clip(x, column.low, column.high)
        else:
            cuts = np.array([-np.inf, *release.thresholds[j], np.inf])
            side = np.searchsorted(cuts[1:-1], x)
            least, most = cuts[side], cuts[side + 1]
        found = column.common.chance(column.low, column.high, least, most)
        outside = _outside(x, low[column.rows, j], high[column.rows, j])
        out[column.rows, j] = np.where(outside, 0.0, found)
    return out
