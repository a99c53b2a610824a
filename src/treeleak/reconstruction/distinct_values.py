"""All distinct values of a column, where a file lists the middles between all neighbours.

Histogram methods cut a column with few distinct values halfway between each two of them, and keep
all cuts. Then the next value is twice a cut less the value before: one number is left open for the
whole column. Each value lies between its two cuts, and mostly on a grid: that leaves little.
"""

from __future__ import annotations

import math

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.reconstruction.granularity import Grid, grid_behind

_LEAST = 8
"""Borders from which on values hardly fit between them by chance, if they are no such middles."""
_MOST = 10_000
"""Values on the grid that are tried for the first, at most."""
_ROUNDED = 4.0
"""Units of rounding by which each border may be off."""
_SHORT = 0.5
"""Share of values with fewer digits than the grid has that speaks for the grid itself."""


def distinct_values(borders: FloatArray) -> FloatArray | None:
    """Work out the values whose neighbours' middles are the borders, all of them and in order.

    Returns one value more than there are borders, each between two of them; or None where no
    values have these middles, as where a column has more values than bins, or too few borders tell.
    Where several lists of values have these middles, it is one on the grid that the borders lie
    on, with as few digits as can be; else the one in the middle of what keeps each value between
    its borders.
    """
    n = len(borders)
    if n < _LEAST:
        return None
    sign = np.where(np.arange(n + 1) % 2 == 0, 1.0, -1.0)
    # Value i is rest[i] + sign[i] * (the first value).
    rest = sign * np.append(0.0, np.cumsum(2.0 * sign[1:] * borders))
    low = np.append(-math.inf, borders) - rest
    high = np.append(borders, math.inf) - rest
    off = _ROUNDED * n * float(np.finfo(float).eps) * float(np.abs(borders).max())
    begin = float(np.where(sign > 0, low, -high).max()) + off
    end = float(np.where(sign > 0, high, -low).min()) - off
    if not begin < end:
        return None
    grid = grid_behind(borders, "float64", another_digit=True)
    found = None if grid is None else _on_grid(grid, rest, sign, begin, end)
    return rest + sign * (begin + end) / 2 if found is None else found


def _on_grid(
    grid: Grid, rest: FloatArray, sign: FloatArray, begin: float, end: float
) -> FloatArray | None:
    """Choose the list whose first value is a point of the grid between two ends."""
    if end - begin > _MOST * grid.step:
        return None

    def lists(offset: float) -> FloatArray:
        low, high = ((x - offset) / grid.step for x in (begin, end))
        first = offset + np.arange(math.ceil(low), math.floor(high) + 1) * grid.step
        # The nearest to the middle is the first of those that are equally good.
        first = first[np.argsort(np.abs(first - (begin + end) / 2), kind="stable")]
        return np.asarray(np.round(rest + sign * first[:, None], grid.decimals))

    shifted, plain = lists(grid.offset), lists(0.0)
    if len(plain):
        # Values mostly have a digit less than the few with the most digits. Then neighbours add up
        # to an even last digit, as they do where all values lie halfway.
        fewer = grid.decimals - (grid.offset > 0) - 1
        short = (np.abs(plain - np.round(plain, fewer)) < grid.step / 4).mean(axis=1)
        if not grid.offset or short.max() > _SHORT:
            return np.asarray(plain[int(short.argmax())])
    return np.asarray(shifted[0]) if len(shifted) else None


def nearest(x: FloatArray, side: IntArray, values: FloatArray, of: IntArray) -> FloatArray:
    """Move each row to the value of its side that is nearest to where it stands.

    ``side`` and ``of``: between which thresholds rows and values lie. Rows of a side without values
    stay.
    """
    out = x.copy()
    for side_number in np.unique(side).tolist():
        listed, row = values[of == side_number], np.flatnonzero(side == side_number)
        if len(listed):
            out[row] = listed[np.abs(x[row, None] - listed).argmin(axis=1)]
    return out
