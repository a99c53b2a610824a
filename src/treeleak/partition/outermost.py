"""Where rows beyond the outermost thresholds of a column lie: as far away as so many rows reach.

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

from treeleak.core.arrays import FloatArray

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


def rows_beyond(
    cuts: FloatArray, rows: FloatArray, ends: tuple[float, float]
) -> tuple[FloatArray | None, FloatArray | None]:
    """Say where rows below the first and above the last threshold of a column lie.

    Parameters
    ----------
    cuts : float array, shape (n_cuts,)
        Thresholds, rising.
    rows : float array, shape (n_cuts + 1,)
        Rows below the first, between them, and above the last.
    ends : tuple of float
        Lowest and highest value that a row may have.

    Returns
    -------
    tuple of float arrays, shape (n_densities, n_places)
        Values that are equally likely, a line for each density beside the threshold that is as
        likely as the others. None on the side where nothing says so.
    """
    low = _distances(-cuts[::-1], rows[::-1], -ends[0])
    high = _distances(cuts, rows, ends[1])
    below = None if low is None else np.clip(cuts[0] - low, *ends)
    return below, None if high is None else np.clip(cuts[-1] + high, *ends)


def _distances(cuts: FloatArray, rows: FloatArray, end: float) -> FloatArray | None:
    """Say how far above the last threshold the rows beyond it lie."""
    if len(cuts) < 2 or not rows[-1] > 0 or not end > cuts[-1]:
        return None
    beside = rows[-2:0:-1].cumsum()
    k = min(int(np.searchsorted(beside, max(_LEAST, _SHARE * rows[-1]))), len(beside) - 1)
    reach = rows[-1] * float(cuts[-1] - cuts[-2 - k]) / max(beside[k], 1.0)
    width = float(end - cuts[-1])
    if not math.isfinite(reach):
        return None
    return np.array([_places(reach * factor, width) for factor in _FACTORS])


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
