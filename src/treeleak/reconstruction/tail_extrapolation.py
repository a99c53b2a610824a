"""Values of rows beyond the outermost thresholds: as far away as so many rows like them reach.

How many rows lie beyond a threshold for one beside it depends on what else they are: nobody of
school age is right below 40. So these odds are fitted to all rows on both sides.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.partition.untested_priors import outer_sides
from treeleak.release.release import Release

_MOST, _STEPS = 2000, 8
"""Rows on both sides to which odds are fitted, and Newton steps."""


def beyond(
    release: Release,
    table: FloatArray,
    label: IntArray,
    low: FloatArray,
    high: FloatArray,
    numbers: BoolArray,
) -> tuple[FloatArray, FloatArray]:
    """Move values beyond the outermost thresholds to where half of them are expected.

    Parameters
    ----------
    release : Release
    table : float array, shape (n_rows, n_columns)
        Rows, with values somewhere in their intervals.
    label : int array, shape (n_rows,)
        Their classes.
    low, high : float arrays, shape (n_rows, n_columns)
        Ends of the intervals; equal where a value is known, NaN where one is missing.
    numbers : bool array, shape (n_columns,)
        Columns of which values are moved.

    Returns
    -------
    table : float array, shape (n_rows, n_columns)
    typical : float array, shape (n_rows, n_columns)
        How far values are from those moved, on average; NaN where nothing was.
    """
    out, typical = table.copy(), np.full(table.shape, np.nan)
    open_ = np.flatnonzero(numbers & (low < high).any(axis=0)).tolist()
    both = _scaled(np.column_stack([table, label])) if open_ else table
    for j in open_:
        name, cuts = release.feature_names[j], release.thresholds[j]
        first, last = release.ranges.get(name, (-math.inf, math.inf))
        # One that is missing lies on neither side, and bounds nothing.
        there = ~np.isnan(table[:, j])
        side = np.where(there, np.searchsorted(cuts, table[:, j].astype(release.float_type)), -1)
        rows = np.bincount(side[there], minlength=len(cuts) + 1)
        ends = max(low[there, j].min(), first), min(high[there, j].max(), last)
        others = np.delete(both, j, axis=1)
        for outer in outer_sides(cuts, rows.astype(float), ends):
            # Thresholds between a row and the end.
            inside = len(cuts) - side if outer.sign > 0 else side
            outside, near = there & (inside == 0), there & (inside <= outer.n_beside)
            moved = np.flatnonzero(outside & (low[:, j] < high[:, j]))
            if not len(moved):
                continue
            more = _log_odds(others[near], outside[near])
            odds = np.zeros(len(table))
            odds[near] = outer.odds * np.exp(more)
            places = outer.places(odds[moved]).reshape(len(moved), -1)
            middle = np.median(places, axis=1)
            # Rounded to the model's type, a value may be the threshold.
            same_side = np.searchsorted(cuts, middle.astype(release.float_type)) == side[moved]
            out[moved[same_side], j] = middle[same_side]
            typical[moved, j] = np.abs(places - out[moved, j, None]).mean(axis=1)
    return out, typical


def _scaled(table: FloatArray) -> FloatArray:
    """Bring columns to a spread of about 1, around 0, where missing values are.

    Columns of two values reach over 2: a rare value is as far from the others as a common one.
    """
    there = ~np.isnan(table)
    n, out = np.maximum(there.sum(axis=0), 1), np.where(there, table, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.where(there, out - out.sum(axis=0) / n, 0.0)
        spread = np.sqrt((out**2).sum(axis=0) / n)
        two = np.array([len(np.unique(x[~np.isnan(x)])) <= 2 for x in table.T])
        spread = np.where(two, np.ptp(out, axis=0) / 2, spread)
        return np.nan_to_num(out / np.where(spread > 0, spread, 1.0), posinf=0.0, neginf=0.0)


def _log_odds(columns: FloatArray, beyond: BoolArray) -> FloatArray:
    """Say how the log odds of being beyond a threshold differ from those of all rows.

    Logistic regression by Newton's method from no difference. Coefficients of d columns of spread 1
    have the law N(0, 1 / d): before any row is counted, log odds of rows have a spread of 1.
    """
    few = np.unique(np.linspace(0, len(beyond) - 1, min(len(beyond), _MOST)).astype(np.int64))
    X, y = columns[few], beyond[few].astype(float)
    if not 0 < y.sum() < len(y):
        return np.zeros(len(beyond))
    share = y.mean()
    first = math.log(share / (1.0 - share))
    X = np.column_stack([np.ones(len(X)), X])
    ridge = np.diag(np.append(1e-6, np.full(columns.shape[1], float(columns.shape[1]))))
    w = np.append(first, np.zeros(columns.shape[1]))
    for _ in range(_STEPS):
        p = expit(X @ w)
        slope = X.T @ (y - p) - ridge @ w
        w += np.linalg.solve((X.T * (p * (1.0 - p))) @ X + ridge, slope)
    return np.asarray(w[0] + columns @ w[1:] - first)
