"""Intervals that thresholds leave of values, where leaves alone leave more of them.

The leaves of the trees that drew a row bound its values. So do the other rows: a threshold lies in
the middle between the greatest value on its left and the least on its right, of the rows that
reach its node. Where it is known which rows these are, what bounds one of the two bounds the other,
and so on from node to node. Where bounds contradict each other, some rows are wrong: those bounds
are not believed.
"""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass
from treeleak.reconstruction.midpoints import Midpoints, told
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
    clock = Clock(seconds)
    rows = np.ascontiguousarray(table, dtype=release.float_type)
    leaf = [tree.apply(rows) for tree in release.trees]
    low, high = low.copy(), high.copy()
    drawn, parts, n_passed = [], [], 0
    for tree, own, times in zip(release.trees, leaf, draws, strict=True):
        drawn.append(np.flatnonzero(times))
        passed = tree.passed(own[drawn[-1]])
        n_passed += len(passed[0])
        row, node, right = told(tree, drawn[-1], passed, open_)
        if n_passed > _MOST or clock.stopped:
            return None
        at = row, tree.feature[node]
        np.maximum.at(low, tuple(x[right] for x in at), tree.threshold[node[right]])
        np.minimum.at(high, tuple(x[~right] for x in at), tree.threshold[node[~right]])
        parts.append(Midpoints.of(tree, row, node, right, table.shape[1]))
    midpoints = Midpoints.joined(parts)
    for _ in range(_SWEEPS):
        if clock.stopped or not _narrow(midpoints, low, high):
            break
    moved = _moved(table, low, high, open_)
    rows = np.ascontiguousarray(moved, dtype=release.float_type)
    for tree, own, k in zip(release.trees, leaf, drawn, strict=True):
        # What lies right at a threshold may be rounded to its other side.
        off = k[tree.apply(rows[k]) != own[k]]
        moved[off] = table[off]
    return Narrowed(moved, _chance(release, moved, low, high, open_))


def _narrow(midpoints: Midpoints, low: FloatArray, high: FloatArray) -> bool:
    """Narrow the ends of values by each test once; say whether any of them changed."""
    sums, test, right = midpoints.sums, midpoints.test, midpoints.right
    left: BoolArray = np.asarray(~right)
    own_low: FloatArray = low.ravel()[midpoints.at]
    own_high: FloatArray = high.ravel()[midpoints.at]
    # Ends of the greatest value on the left, and of the least on the right.
    n, half = len(sums), sums / 2
    a_low, a_high = np.full((2, n), -np.inf)
    b_low, b_high = np.full((2, n), np.inf)
    np.maximum.at(a_low, test[left], own_low[left])
    np.maximum.at(a_high, test[left], own_high[left])
    np.minimum.at(b_low, test[right], own_low[right])
    np.minimum.at(b_high, test[right], own_high[right])
    a_high, b_low = np.minimum(a_high, half), np.maximum(b_low, half)
    a_low, a_high, b_low, b_high = (
        np.maximum(a_low, sums - b_high), np.minimum(a_high, sums - b_low),
        np.maximum(b_low, sums - a_high), np.minimum(b_high, sums - a_low),
    )  # fmt: skip
    near = _EQUAL * (1 + np.abs(sums))
    agrees = (a_low <= a_high + near) & (b_low <= b_high + near)
    told: BoolArray = np.asarray(agrees[test])
    new_low, new_high = low.copy(), high.copy()
    own = told & left
    np.minimum.at(new_high.reshape(-1), midpoints.at[own], a_high[test[own]])
    own = told & right
    np.maximum.at(new_low.reshape(-1), midpoints.at[own], b_low[test[own]])
    # The only value that can be the greatest, or the least, is.
    reach = left & (own_high >= (a_low - near)[test])
    only = told & reach & (np.bincount(test[reach], minlength=n)[test] == 1)
    np.maximum.at(new_low.reshape(-1), midpoints.at[only], a_low[test[only]])
    reach = right & (own_low <= (b_high + near)[test])
    only = told & reach & (np.bincount(test[reach], minlength=n)[test] == 1)
    np.minimum.at(new_high.reshape(-1), midpoints.at[only], b_high[test[only]])
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
