"""How probable the counts of a place are with a row in it, by the law of all other rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit, put

_LEAST = 1e-150
_MOST = 30.0
"""Largest size of what a message adds to a log."""
_SMALL = 256
"""Most numbers of draws and rows of a leaf, multiplied, up to which their law is worked out; from
there on it is taken to be normal."""
_ROUNDED = 0.25
"""Variance of what is counted in whole numbers, beside what rows bring."""
_NEVER = 1e-7
"""Probability up to which a row is left out of a law."""


@njit()
def _add(law: Any, p: Any, b: Any, step: Any) -> None:
    """One more row of a place: with probability p, b draws and ``step`` distinct rows."""
    n_draws, n_distinct = law.shape
    for s in range(n_draws - 1, -1, -1):
        for d in range(n_distinct - 1, -1, -1):
            before = law[s - b, d - step] if s >= b and d >= step else 0.0
            law[s, d] = (1.0 - p) * law[s, d] + p * before


@njit()
def _without(law: Any, p: Any, b: Any, step: Any) -> Any:
    """Log of how much more probable the counts are with a row than without it, among all others.

    What the others come to is what all come to less the row itself, from few draws up; p is at most
    a half, so that errors do not grow.
    """
    n_draws, n_distinct = law.shape
    back = (n_draws - 1) // b if not step else min((n_draws - 1) // b, n_distinct - 1)
    there, absent = 0.0, 0.0
    for i in range(back, -1, -1):
        there = absent
        absent = law[n_draws - 1 - i * b, n_distinct - 1 - i * step]
        absent = max((absent - p * there) / (1.0 - p), 0.0)
    return log_ratio(there, absent)


@njit()
def log_ratio(there: Any, absent: Any) -> Any:
    """Log of a ratio, of limited size."""
    ratio = max(there, _LEAST) / max(absent, _LEAST)
    return min(max(np.log(max(ratio, _LEAST)), -_MOST), _MOST)


@njit()
def exact_ratios(p: Any, b: Any, n: Any, d: Any, out: Any) -> None:
    """Fill in log ratios of rows from the law of all others."""
    step = 1 if d >= 0 else 0
    few = np.zeros((n + 1, max(d, 0) + 1))
    few[0, 0] = 1.0
    likely = np.flatnonzero(p > 0.5)
    for i in range(len(p)):
        if _NEVER < p[i] <= 0.5:
            _add(few, p[i], b[i], step)
    every = few.copy()
    for k in likely:
        _add(every, p[k], b[k], step)
    for i in range(len(p)):
        if p[i] <= 0.5:
            out[i] = _without(every, p[i] if p[i] > _NEVER else 0.0, b[i], step)
    law = few.copy()
    for k in likely:
        for s in range(n + 1):
            put(law[s], few[s])
        for j in likely:
            if j != k:
                _add(law, p[j], b[j], step)
        out[k] = _without(law, 0.0, b[k], step)


@njit()
def _by_normal_law(p: Any, b: Any, n: Any, d: Any, out: Any) -> None:
    """The same where many rows are counted: draws and distinct rows are normal, and go together."""
    mean_rows, mean, rows, both, draws = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(p)):
        spread = p[i] * (1.0 - p[i])
        mean_rows += p[i]
        mean += b[i] * p[i]
        rows += spread
        both += b[i] * spread
        draws += b[i] * b[i] * spread
    for i in range(len(p)):
        spread = p[i] * (1.0 - p[i])
        missing, lacking = n - (mean - b[i] * p[i]), d - (mean_rows - p[i])
        v, w = draws - b[i] * b[i] * spread + _ROUNDED, rows - spread + _ROUNDED
        c = both - b[i] * spread
        if d < 0:
            ratio = (missing * missing - (missing - b[i]) ** 2) / (2.0 * v)
        else:
            with_ = _square(missing - b[i], lacking - 1.0, v, c, w)
            ratio = (_square(missing, lacking, v, c, w) - with_) / 2.0
        out[i] = min(max(ratio, -_MOST), _MOST)


@njit()
def _square(x: Any, y: Any, v: Any, c: Any, w: Any) -> Any:
    """How far (x, y) is from its mean, squared, with variances v and w and covariance c."""
    return (w * x * x - 2.0 * c * x * y + v * y * y) / (v * w - c * c)


@njit()
def count_ratios(p: Any, b: Any, n: Any, d: Any, out: Any) -> None:
    """Log of how much more probable the counts of a place are with a row in it, of each row.

    ``p``, shape (n_rows,): how probable each row is there; ``b``: how often it was drawn.
    """
    if n * max(d, 1) <= _SMALL:
        exact_ratios(p, b, n, d, out)
    else:
        _by_normal_law(p, b, n, d, out)
