"""Targets from sums over leaves: intervals, and least squares where they leave something open."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import lsmr

from treeleak.core.arrays import FloatArray
from treeleak.core.private import dataclass

_SWEEPS = 30
_LEAST_GAIN = 1e-3
"""Sweeps over intervals, and the share by which one must narrow them for another."""
_FINE = 1e-9
"""Width of an interval, as a share of the spread, from which on a target counts as known."""
_MOST_WORK = 2e10
"""Most operations on a full matrix."""
_CUTS = (1e-12, 1e-9, 1e-6, 1e-4)
"""Shares of the greatest singular value below which directions are left out: each is tried."""
_FAR = 1e3
"""How far from the middle targets may lie, in spreads, for what an inverse leaves over."""
_LEAK = 1e-6
"""How much an inverse may leave over of a target that is called determined."""


@dataclass(frozen=True, eq=False)
class Solved:
    """Targets, or means of those that nothing tells apart."""

    value: FloatArray
    low: FloatArray
    high: FloatArray
    """Shape (n_items,). Each lies between these two; the ends may be infinite."""
    met: bool
    """Whether all sums can be met."""


def solve(
    times: csr_array,
    right: FloatArray,
    off: FloatArray,
    low: FloatArray,
    high: FloatArray,
    about: FloatArray,
    spread: float,
) -> Solved:
    """Find y with times @ y = right, give or take ``off``, between ``low`` and ``high``.

    ``times``, shape (n_statements, n_items), has no negative entries. ``about``, shape (n_items,):
    what targets are taken for where sums leave them open; ``spread``: how far apart they lie.
    """
    # Near zero, less is lost to rounding.
    right = right - times @ about
    low, high = narrowed(times, right, off, low - about, high - about)
    known = high - low <= _FINE * spread
    value = np.clip(0.0, low, high)
    value[known] = (low[known] + high[known]) / 2
    met = not (low > high).any()
    informative = np.asarray(times[:, ~known].sum(axis=1)).ravel() > 0
    if met and informative.any():
        A, fixed = times[informative][:, ~known], times[informative][:, known]
        left = right[informative] - fixed @ value[known]
        blur = off[informative] + fixed @ (high - low)[known] / 2
        found = _least_squares(A, left, blur, spread)
        met = found.met
        value[~known] = found.value
        if met:
            low[~known] = np.maximum(low[~known], found.low)
            high[~known] = np.minimum(high[~known], found.high)
            low, high = narrowed(times, right, off, low, high)
    met &= not (low > high + _FINE * spread).any()
    ends = np.minimum(low, high), np.maximum(low, high)
    return Solved(np.clip(value, *ends) + about, ends[0] + about, ends[1] + about, met)


def narrowed(
    times: csr_array, right: FloatArray, off: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Narrow intervals by what each sum leaves to one target when the others are at their ends."""
    entries = times.tocoo()
    row, item, a = entries.row, entries.col, entries.data
    low, high = low.copy(), high.copy()

    def rest(end: FloatArray) -> FloatArray:
        """Of each entry, what the others of its sum add up to at one end."""
        part, open_ = a * end[item], ~np.isfinite(end[item])
        finite = np.where(open_, 0.0, part)
        n_open = np.bincount(row, open_, len(right))[row] - open_
        others = np.bincount(row, finite, len(right))[row] - finite
        return np.where(n_open > 0, np.nan, others)

    for _ in range(_SWEEPS):
        width = high - low
        most, least = rest(high), rest(low)
        with np.errstate(invalid="ignore"):
            from_ = np.where(np.isnan(most), -np.inf, (right[row] - off[row] - most) / a)
            to = np.where(np.isnan(least), np.inf, (right[row] + off[row] - least) / a)
        np.maximum.at(low, item, from_)
        np.minimum.at(high, item, to)
        with np.errstate(invalid="ignore"):
            gained = (high - low) < (1 - _LEAST_GAIN) * width
        if not gained.any() or (low > high).any():
            break
    return low, high


def _least_squares(A: csr_array, right: FloatArray, off: FloatArray, spread: float) -> Solved:
    """Solve for what is open: means that sums determine, and how far they may be off."""
    n_sums, n = A.shape
    weighed, aim = diags_array(1.0 / off) @ A, right / off
    wide = np.full(n, np.inf)
    if n_sums * n * min(n_sums, n) > _MOST_WORK:
        value = lsmr(weighed, aim, atol=1e-12, btol=1e-12, maxiter=2_000)[0]
        return Solved(value, -wide, wide, True)
    U, s, Vt = np.linalg.svd(weighed.toarray(), full_matrices=False)
    # What sums leave open stays about where it is.
    value, radius = Vt.T @ (s / (s**2 + spread**-2.0) * (U.T @ aim)), wide.copy()
    met = True
    for cut in _CUTS:
        significant = s > cut * s[0]
        back = Vt[significant].T / s[significant]
        solution = back @ (U[:, significant].T @ aim)
        if cut == _CUTS[0]:
            # Were the rows right, the truth would miss no sum by more than it may be off.
            met = bool(np.linalg.norm(weighed @ solution - aim) <= np.sqrt(n_sums))
        leak = np.abs(Vt[significant].T @ Vt[significant] - np.eye(n)).sum(axis=1)
        blur = np.abs(back @ U[:, significant].T).sum(axis=1) + leak * _FAR * spread
        blur += n * np.finfo(float).eps * (s[0] / s[significant][-1]) * np.abs(solution).max()
        better = (leak <= _LEAK) & (blur < radius)
        value, radius = np.where(better, solution, value), np.where(better, blur, radius)
    return Solved(value, value - radius, value + radius, met)
