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

from treeleak.core.arrays import FloatArray
from treeleak.core.private import dataclass

_LEAST, _SHARE = 5.0, 0.5
"""Rows beside the outermost threshold by which their density is known: so many at least, and as a
share of those beyond it."""
_STEEPEST, _SHALLOWEST, _HALVINGS = 500.0, 1e6, 80
"""Logarithms of the factors by which the density may grow and fall within the domain, at most; and
how often their range is halved to find one."""
_FLAT = 1e-9
"""Logarithm of a factor that changes nothing."""
_POINTS = (np.arange(21) + 0.5) / 21
"""Shares of rows at which their places are looked up."""
_FACTORS = np.array([math.exp(NormalDist(0.0, 0.8).inv_cdf((k + 0.5) / 5)) for k in range(5)])
"""By which the density may be off, each as likely. On columns of five tables, cut at random, values
were then as far off as is said."""


@dataclass(frozen=True)
class Outer:
    """What lies beyond an outermost threshold of a column, and beside it."""

    sign: float
    """1 above the last threshold, -1 below the first."""
    edge: float
    """The threshold."""
    n_beside: int
    """Intervals on its other side in which rows are as dense as right beyond it."""
    width: float
    """Of these together."""
    odds: float
    """Rows beyond it, over those in these intervals."""
    room: float
    """From the threshold to the end of the domain."""

    def places(self, odds: FloatArray) -> FloatArray:
        """Values of rows of which so many are beyond the threshold for one beside it.

        Returns, with two axes more than ``odds``, values that are equally likely, a line for each
        density beside the threshold that is as likely as the others.
        """
        reach = odds[..., None] * self.width * _FACTORS
        far = np.minimum(_distances(reach, self.room), self.room)
        return np.asarray(self.edge + self.sign * far)


def outer_sides(cuts: FloatArray, rows: FloatArray, ends: tuple[float, float]) -> list[Outer]:
    """Look at both ends of a column; leaves out those of which nothing is said.

    Parameters
    ----------
    cuts : float array, shape (n_cuts,)
        Thresholds, rising.
    rows : float array, shape (n_cuts + 1,)
        Rows below the first, between them, and above the last.
    ends : tuple of float
        Lowest and highest value that a row may have.
    """
    out = []
    for sign, end in zip((-1.0, 1.0), ends, strict=True):
        steps, held = (sign * cuts, rows) if sign > 0 else (sign * cuts[::-1], rows[::-1])
        if len(steps) < 2 or not held[-1] > 0 or not sign * end > steps[-1]:
            continue
        beside = held[-2:0:-1].cumsum()
        k = int(np.searchsorted(beside, max(_LEAST, _SHARE * held[-1])))
        k = min(k, len(beside) - 1)
        width, odds = float(steps[-1] - steps[-2 - k]), float(held[-1] / max(beside[k], 1.0))
        if math.isfinite(width * odds):
            room = float(sign * end - steps[-1])
            out.append(Outer(sign, float(sign * steps[-1]), k + 1, width, odds, room))
    return out


def _distances(reach: FloatArray, width: float) -> FloatArray:
    """Place rows that would fill ``reach`` at the density beside the threshold, within ``width``.

    Densities e^(-s x / width) that begin with that one: reach / width = (1 - e^-s) / s. Returns,
    with an axis more than ``reach``, distances from the threshold at :data:`_POINTS`.
    """
    if not math.isfinite(width):
        return np.asarray(-reach[..., None] * np.log1p(-_POINTS))
    low, high = np.full(reach.shape, -_STEEPEST), np.full(reach.shape, _SHALLOWEST)
    for _ in range(_HALVINGS):
        s = (low + high) / 2
        flat = np.abs(s) < _FLAT
        filled = np.where(flat, 1.0, -np.expm1(-s) / np.where(flat, 1.0, s))
        more = filled > reach / width
        low, high = np.where(more, s, low), np.where(more, high, s)
    s = ((low + high) / 2)[..., None]
    flat = np.abs(s) < _FLAT
    share = -np.log1p(_POINTS * np.expm1(-s)) / np.where(flat, 1.0, s)
    return np.asarray(width * np.where(flat, _POINTS, share))
