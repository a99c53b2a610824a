"""How common the values of a column are, learned from intervals that its rows lie in.

Thresholds leave one value of most numbers, and an interval of others. Real columns are not even:
half of the people work 40 hours, and limits are multiples of 10,000. So an interval is filled as
the values of other rows of the same class are (the self-consistent estimate of Turnbull 1976,
"The empirical distribution function with arbitrarily grouped, censored and truncated data").
"""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.reconstruction.granularity import ROUNDED, Grid

_ROUNDS = 60
"""Of expectation and maximisation: with many more, all would pile up where intervals overlap."""
_EVEN, _SHARED = 2.0, 10.0
"""Rows' worth of trust that values are even, and that those of a class are as those of all."""
_MOST = 2**16
"""Values on a grid that are told apart; with more, rows lie between ends of intervals."""
_ATOMS = 0.5
"""Share of the even values that is on values which some rows are known to have."""


@dataclass(frozen=True, eq=False)
class CommonValues:
    """How common values of a column are among the rows of each class.

    Values are in cells, in order: single values, and what lies between two ends of intervals.
    """

    left: FloatArray
    right: FloatArray
    """Shape (n_cells,). Ends of each cell; equal for a single value."""
    below: FloatArray
    """Shape (n_classes, n_cells + 1). Share of the rows of a class in all cells before each."""
    within: IntArray
    """Shape (n_rows,). Class of each row."""

    @classmethod
    def of(
        cls, low: FloatArray, high: FloatArray, within: IntArray, grid: Grid | None
    ) -> CommonValues:
        """Learn them from the intervals of all rows, ``low`` to ``high``, shape (n_rows,).

        ``within``: class of each row, from 0. ``grid``: values that the column can have.
        """
        left, right = _cells(low, high, grid)
        slack = 0.0 if grid is None else ROUNDED * grid.step
        first = np.searchsorted(left, low - slack)
        last = np.searchsorted(right, high + slack, side="right")
        there = first < last
        of_all = _learned(first[there], last[there], _even(left, right), _EVEN)
        shares = []
        for c in range(int(within.max(initial=-1)) + 1):
            in_class = there & (within == c)
            shares.append(_learned(first[in_class], last[in_class], of_all, _SHARED))
        return cls(left, right, _summed(np.array(shares)), within)

    def middle(self, low: FloatArray, high: FloatArray, now: FloatArray) -> FloatArray:
        """Median of what each row may be between two ends; or ``now``, if that is as common.

        Rows between whose ends no value is common stay where they are.
        """
        begin, end = self._until(low, below=True), self._until(high)
        half, cell = (begin + end) / 2, np.zeros(len(low), dtype=np.int64)
        for c, below in enumerate(self.below):
            in_class = self.within == c
            cell[in_class] = np.searchsorted(below, half[in_class]) - 1
        cell = np.clip(cell, 0, len(self.left) - 1)
        here = np.searchsorted(self.left, now, side="right") - 1
        here = np.clip(here, 0, len(self.left) - 1)
        stays = (now >= low) & (now <= high) & (self._share(here) >= self._share(cell))
        part = (half - self.below[self.within, cell]) / np.maximum(self._share(cell), 1e-300)
        found = self.left[cell] + (self.right - self.left)[cell] * np.clip(part, 0.0, 1.0)
        return np.where(stays | (begin >= end), now, np.clip(found, low, high))

    def chance(
        self, low: FloatArray, high: FloatArray, least: FloatArray, most: FloatArray
    ) -> FloatArray:
        """Probability that a row between ``low`` and ``high`` is between ``least`` and ``most``."""
        low_, high_ = np.maximum(low, least), np.minimum(high, most)
        part = self._until(high_) - self._until(low_, below=True)
        whole = self._until(high) - self._until(low, below=True)
        return np.asarray(np.clip(part / np.maximum(whole, 1e-300), 0.0, 1.0))

    def _share(self, cell: IntArray) -> FloatArray:
        return self.below[self.within, cell + 1] - self.below[self.within, cell]

    def _until(self, x: FloatArray, *, below: bool = False) -> FloatArray:
        """Share of the rows of a row's class up to a value, or ``below`` it."""
        cell = np.searchsorted(self.left, x, side="left" if below else "right") - 1
        none, cell = cell < 0, np.maximum(cell, 0)
        width = (self.right - self.left)[cell]
        part = np.where(width > 0, (x - self.left[cell]) / np.where(width > 0, width, 1.0), 1.0)
        until = self.below[self.within, cell] + self._share(cell) * np.clip(part, 0.0, 1.0)
        return np.asarray(np.where(none, 0.0, until))


def _cells(low: FloatArray, high: FloatArray, grid: Grid | None) -> tuple[FloatArray, FloatArray]:
    if grid is not None:
        values = grid.between(float(low.min()), float(high.max()), _MOST)
        if values is not None:
            return values, values
    ends, known = np.unique(np.append(low, high)), np.unique(low[low == high])
    left, right = np.append(ends[:-1], known), np.append(ends[1:], known)
    # A single value comes before what begins there.
    order = np.lexsort((right, left))
    return left[order], right[order]


def _even(left: FloatArray, right: FloatArray) -> FloatArray:
    width: FloatArray = right - left
    single: BoolArray = np.asarray(width == 0.0)
    if single.all():
        return np.full(len(left), 1.0 / len(left))
    on_values = _ATOMS if single.any() else 0.0
    even = (1.0 - on_values) * width / width.sum() + on_values * single / max(single.sum(), 1)
    return np.asarray(even)


def _learned(first: IntArray, last: IntArray, before: FloatArray, trust: float) -> FloatArray:
    """Share of rows in each cell, if row i is in one of the cells ``first[i]`` to ``last[i] - 1``.

    ``before``: what is believed without rows, and ``trust`` how many rows' worth.
    """
    share, ends = before, len(before) + 1
    for _ in range(_ROUNDS):
        until = _summed(share)
        weight = 1.0 / np.maximum(until[last] - until[first], 1e-300)
        starting, over = (np.bincount(k, weight, minlength=ends) for k in (first, last))
        share = (share * np.cumsum(starting - over)[:-1] + trust * before) / (len(first) + trust)
    return share


def _summed(share: FloatArray) -> FloatArray:
    below = np.zeros((*share.shape[:-1], share.shape[-1] + 1))
    below[..., 1:] = np.cumsum(share, axis=-1)
    return below
