"""Values beyond the outermost thresholds of columns: as far away as so many rows reach.

No threshold says how far values go on there. But it is known how many rows lie there, and how many
beside them, between thresholds. If their density goes on as it is beside the last threshold, and
falls or grows by the same factor from step to step until the domain ends, so many rows leave only
one such factor.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from scipy.optimize import brentq

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.release.release import Release

_LEAST, _SHARE = 5.0, 0.5
"""Rows beside the outermost threshold by which their density is known: so many at least, and as a
share of those beyond it."""
_STEEPEST, _SHALLOWEST, _FLAT = 500.0, 1e6, 1e-9
"""Logarithms of the factors by which the density may grow and fall within the domain, at most; and
of one that changes nothing."""
_POINTS = (np.arange(21) + 0.5) / 21
"""Shares of rows at which their places are looked up."""
_FACTORS = tuple(math.exp(NormalDist(0.0, 0.8).inv_cdf((k + 0.5) / 5)) for k in range(5))
"""By which the density may be off, each as likely. On columns of five tables, cut at random, values
were then as far off as is said."""


def beyond(
    release: Release, table: FloatArray, low: FloatArray, high: FloatArray, numbers: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Move values beyond the outermost thresholds to where half of them are expected.

    Parameters
    ----------
    release : Release
    table : float array, shape (n_rows, n_columns)
        Rows, with values somewhere in their intervals.
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
    for j in np.flatnonzero(numbers & (low < high).any(axis=0)).tolist():
        name, cuts = release.feature_names[j], release.thresholds[j]
        first, last = release.ranges.get(name, (-math.inf, math.inf))
        # One that is missing lies on neither side, and bounds nothing.
        x, there = table[:, j].astype(release.float_type), ~np.isnan(table[:, j])
        ends = max(low[there, j].min(), first), min(high[there, j].max(), last)
        for sign, end in zip((-1.0, 1.0), ends, strict=True):
            steps = np.sort(sign * cuts)
            side = np.searchsorted(steps, sign * x, side="right" if sign < 0 else "left")
            far = _distances(steps, side[there], sign * end)
            moved = there & (side == len(steps)) & (low[:, j] < high[:, j])
            if far is not None and moved.any():
                middle = far[len(far) // 2]
                out[moved, j] = sign * (steps[-1] + middle)
                typical[moved, j] = np.abs(far - middle).mean()
    return out, typical


def _distances(cuts: FloatArray, side: IntArray, end: float) -> FloatArray | None:
    """Say how far from the last threshold the rows beyond it lie, at :data:`_POINTS`.

    ``cuts``: rising. ``side``, shape (n_rows,): cuts below each value. None where nothing says so.
    """
    n_beyond = int((side == len(cuts)).sum())
    if len(cuts) < 2 or not n_beyond or not end > cuts[-1]:
        return None
    # Rows beside the threshold, interval by interval.
    rows = np.bincount(side, minlength=len(cuts) + 1)[-2:0:-1].cumsum()
    k = min(int(np.searchsorted(rows, max(_LEAST, _SHARE * n_beyond))), len(rows) - 1)
    reach = n_beyond * (cuts[-1] - cuts[-2 - k]) / max(int(rows[k]), 1)
    width = float(end - cuts[-1])
    return np.sort(np.concatenate([_places(reach * factor, width) for factor in _FACTORS]))


def _places(reach: float, width: float) -> FloatArray:
    """Place rows that would fill ``reach`` at the density beside the threshold, within ``width``.

    Densities e^(-s x / width) that begin with that one: reach / width = (1 - e^-s) / s.
    """
    if not math.isfinite(width):
        return np.asarray(-reach * np.log1p(-_POINTS))

    def off(s: float) -> float:
        return (-math.expm1(-s) / s if s else 1.0) - reach / width

    s = -_STEEPEST
    if off(s) > 0:
        s = brentq(off, s, _SHALLOWEST) if off(_SHALLOWEST) < 0 else _SHALLOWEST
    share = -np.log1p(_POINTS * np.expm1(-s)) / s if abs(s) > _FLAT else _POINTS
    return np.asarray(width * share)
