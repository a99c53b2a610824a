"""Values of rows beyond the outermost thresholds: where half of them are expected."""

from __future__ import annotations

import math

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.partition.outermost import rows_beyond
from treeleak.release.release import Release


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
        there = ~np.isnan(table[:, j])
        side = np.where(there, np.searchsorted(cuts, table[:, j].astype(release.float_type)), -1)
        rows = np.bincount(side[there], minlength=len(cuts) + 1)
        ends = max(low[there, j].min(), first), min(high[there, j].max(), last)
        places = rows_beyond(cuts, rows.astype(float), ends)
        for own, found in zip((0, len(cuts)), places, strict=True):
            moved = (side == own) & (low[:, j] < high[:, j])
            if found is not None and moved.any():
                middle = float(np.median(found))
                out[moved, j] = middle
                typical[moved, j] = np.abs(found - middle).mean()
    return out, typical
