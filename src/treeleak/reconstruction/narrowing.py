"""Intervals that thresholds leave of values, where leaves alone leave more of them.

The leaves of the trees that drew a row bound its values. So do the other rows: a threshold lies in
the middle between the greatest value on its left and the least on its right, of the rows that
reach its node. Where it is known which rows these are, what bounds one of the two bounds the other,
and so on from node to node. Where bounds contradict each other, some rows are wrong: those bounds
are not believed.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.reconstruction.point_values import Draws
from treeleak.release.release import Release

_SWEEPS = 100
_MOST = 2 * 10**7
"""Tests on the ways of all rows through all trees; with more, values stay where they are."""
_EQUAL = 1e-9


@dataclass(frozen=True, eq=False)
class Narrowed:
    """Values inside what thresholds leave of them."""

    table: FloatArray
    """Shape (n_rows, n_columns). Where a value lay outside, it is in the middle of what is left."""
    chance: FloatArray
    """Shape (n_rows, n_columns). Probability of the interval of each value, if all rows are right:
    one over the number of intervals between thresholds that are left. 0 where nothing is known."""


def narrowed(
    release: Release,
    table: FloatArray,
    low: FloatArray,
    high: FloatArray,
    open_: BoolArray,
    draws: Draws,
    seconds: float,
) -> Narrowed | None:
    """Move values to where thresholds leave them; no tree that drew a row counts it elsewhere.

    ``table``, ``low``, ``high``, shape (n_rows, n_columns): rows, and the ends of their domain.
    ``open_``, shape (n_rows, n_columns): which values are numbers that may be moved. ``draws``,
    shape (n_trees, n_rows): how often each tree drew each row. ``seconds``: time for it. None if
    that is too little, or the forest too large.
    """
    until = time.perf_counter() + seconds
    rows = np.ascontiguousarray(table, dtype=release.float_type)
    leaf = [tree.apply(rows) for tree in release.trees]
    ways, drawn, n_tests = [], [], 0
    for tree, own, times in zip(release.trees, leaf, draws, strict=True):
        drawn.append(np.flatnonzero(times))
        place, node, right = tree.passed(own[drawn[-1]])
        row, column = drawn[-1][place], tree.feature[node]
        told = open_[row, column] & np.isfinite(tree.threshold[node])
        n_tests += len(node)
        ways.append(tuple(x[told] for x in (row, node, right == 1, column)))
        if n_tests > _MOST or time.perf_counter() > until:
            return None
    low, high = low.copy(), high.copy()
    for tree, (row, node, right, column) in zip(release.trees, ways, strict=True):
        at = row * table.shape[1] + column
        np.maximum.at(low.reshape(-1), at[right], tree.threshold[node[right]])
        np.minimum.at(high.reshape(-1), at[~right], tree.threshold[node[~right]])
    equations = _Equations.of(release, ways, table.shape[1])
    for _ in range(_SWEEPS):
        if time.perf_counter() > until or not equations.narrow(low, high):
            break
    moved = _moved(table, low, high, open_)
    rows = np.ascontiguousarray(moved, dtype=release.float_type)
    for tree, own, k in zip(release.trees, leaf, drawn, strict=True):
        # What lies right at a threshold may be rounded to its other side.
        off = k[tree.apply(rows[k]) != own[k]]
        moved[off] = table[off]
    return Narrowed(moved, _chance(release, moved, low, high, open_))


@dataclass(frozen=True, eq=False)
class _Equations:
    """Per test with rows on both sides: the values on its left, and on its right."""

    at: IntArray
    """Values, as places in the flattened table."""
    test: IntArray
    right: BoolArray
    """Test and side of each of these."""
    twice: FloatArray
    """Twice the threshold of each test."""

    @classmethod
    def of(
        cls, release: Release, ways: list[tuple[NDArray[np.int64], ...]], n_columns: int
    ) -> _Equations:
        at, test, right, twice = [], [], [], []
        n_tests = 0
        for tree, (row, node, side, column) in zip(release.trees, ways, strict=True):
            sides = np.zeros((2, tree.n_nodes), dtype=bool)
            sides[side.astype(np.int64), node] = True
            both = np.asarray(sides.all(axis=0))
            number, own = np.cumsum(both) - 1, both[node]
            at.append((row * n_columns + column)[own])
            test.append(number[node[own]] + n_tests)
            right.append(side[own].astype(bool))
            twice.append(2.0 * tree.threshold[both])
            n_tests += len(twice[-1])
        return cls(*(np.concatenate(x) for x in (at, test, right, twice)))

    def narrow(self, low: FloatArray, high: FloatArray) -> bool:
        """Narrow the ends of values by each test once; say whether any of them changed."""
        left: BoolArray = np.asarray(~self.right)
        own_low: FloatArray = low.ravel()[self.at]
        own_high: FloatArray = high.ravel()[self.at]
        # Ends of the greatest value on the left, and of the least on the right.
        n, half = len(self.twice), self.twice / 2
        a_low, a_high = np.full((2, n), -np.inf)
        b_low, b_high = np.full((2, n), np.inf)
        np.maximum.at(a_low, self.test[left], own_low[left])
        np.maximum.at(a_high, self.test[left], own_high[left])
        np.minimum.at(b_low, self.test[self.right], own_low[self.right])
        np.minimum.at(b_high, self.test[self.right], own_high[self.right])
        a_high, b_low = np.minimum(a_high, half), np.maximum(b_low, half)
        a_low, a_high, b_low, b_high = (
            np.maximum(a_low, self.twice - b_high), np.minimum(a_high, self.twice - b_low),
            np.maximum(b_low, self.twice - a_high), np.minimum(b_high, self.twice - a_low),
        )  # fmt: skip
        near = _EQUAL * (1 + np.abs(self.twice))
        agrees = (a_low <= a_high + near) & (b_low <= b_high + near)
        told: BoolArray = np.asarray(agrees[self.test])
        new_low, new_high = low.copy(), high.copy()
        own = told & left
        np.minimum.at(new_high.reshape(-1), self.at[own], a_high[self.test[own]])
        own = told & self.right
        np.maximum.at(new_low.reshape(-1), self.at[own], b_low[self.test[own]])
        # The only value that can be the greatest, or the least, is.
        reach = left & (own_high >= (a_low - near)[self.test])
        only = told & reach & (np.bincount(self.test[reach], minlength=n)[self.test] == 1)
        np.maximum.at(new_low.reshape(-1), self.at[only], a_low[self.test[only]])
        reach = self.right & (own_low <= (b_high + near)[self.test])
        only = told & reach & (np.bincount(self.test[reach], minlength=n)[self.test] == 1)
        np.minimum.at(new_high.reshape(-1), self.at[only], b_high[self.test[only]])
        wrong = new_low > new_high + _EQUAL * (1 + np.abs(new_high))
        new_low[wrong], new_high[wrong] = low[wrong], high[wrong]
        changed = bool((new_low > low + _EQUAL).any() or (new_high < high - _EQUAL).any())
        low[:], high[:] = new_low, new_high
        return changed


def _moved(table: FloatArray, low: FloatArray, high: FloatArray, open_: BoolArray) -> FloatArray:
    outside = open_ & _outside(table, low, high)
    with np.errstate(invalid="ignore"):
        middle = (low + high) / 2
    above = np.nextafter(low.astype(np.float32), np.float32(np.inf)).astype(float)
    middle = np.where(np.isfinite(high), np.where(np.isfinite(low), middle, high), above)
    return np.where(outside, middle, table)


def _outside(x: FloatArray, low: FloatArray, high: FloatArray) -> BoolArray:
    """Where values lie outside by more than what is lost where they are rounded to float32."""
    lost = 1e-6 * np.abs(x) + _EQUAL
    return np.asarray((x < low - lost) | (x > high + lost))


def _chance(
    release: Release, table: FloatArray, low: FloatArray, high: FloatArray, open_: BoolArray
) -> FloatArray:
    out = np.zeros(table.shape)
    for j in np.flatnonzero(open_.any(axis=0)):
        k = np.flatnonzero(open_[:, j])
        cuts = release.thresholds[j]
        first = np.searchsorted(cuts, low[k, j] + _EQUAL, side="right")
        last = np.searchsorted(cuts, high[k, j] - _EQUAL)
        inside = ~_outside(table[k, j], low[k, j], high[k, j])
        out[k, j] = np.where(inside, 1.0 / np.maximum(last - first + 1, 1), 0.0)
    return out
