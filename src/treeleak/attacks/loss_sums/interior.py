"""The middle of all x >= 0 with A x = b, by an interior-point method.

Where more than one x will do, least squares and linear programs end at one or other of them. The
middle shows which numbers all of them agree on, as far as it is far from zero elsewhere: the method
of Mehrotra (1992) for a linear program without an objective ends near the analytic centre.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from treeleak.core.arrays import FloatArray
from treeleak.core.clock import Clock

_ROUNDS = 60
_NEAR = 1e-5
"""By how much equations may be missed at the end."""
_MIDDLE, _EDGE = 1e-7, 1e-12
"""Mean product of numbers and their prices at the end; the second where equations stay missed."""
_FAR, _WHOLE = 1e-3, 1e-3
"""By how much equations that no point meets are missed; how near to whole a whole number is."""
_SOFT = 1e-12
"""How soft the equations are."""
_ROUNDED = 1e-14
"""Share of its diagonal that is added to a matrix, so that it has a factor."""
_INSIDE = 0.99
"""Share of the way to the next edge that is gone."""


def orthonormal(A: FloatArray, b: FloatArray, cut: float) -> tuple[FloatArray, FloatArray]:
    """Write equations A x = b with orthonormal rows; without what rounding blurs.

    ``cut``: least share of the greatest singular value that counts.
    """
    U, size, rows = np.linalg.svd(A, full_matrices=False)
    independent = size > cut * size.max(initial=0.0)
    return rows[independent], (U[:, independent].T @ b) / size[independent]


def midpoints(
    A: FloatArray, b: FloatArray, start: FloatArray, clock: Clock, n_most: int
) -> Iterator[FloatArray]:
    """Give the middle; then the middles where one number after the other is made whole.

    Rows of A are orthonormal, ``start`` is above 0, ``n_most``: points that are looked for at most.
    The number that is least whole is rounded, the nearer way first, the other way if that does not
    end well.
    """
    fixed: list[dict[int, float]] = [{}]
    for _ in range(n_most):
        if not fixed or clock.stopped:
            return
        now = fixed.pop()
        x = start.copy()
        x[list(now)] = list(now.values())
        free = np.setdiff1d(np.arange(len(x)), list(now))
        rest = b - A @ np.where(np.isin(np.arange(len(x)), free), 0.0, x)
        x[free] = middle(A[:, free], rest, start[free], clock)
        if now and np.abs(A @ x - b).max() > _FAR:
            continue  # There is nothing in this corner.
        yield x
        off = np.abs(x - np.rint(x))
        worst = int(off.argmax())
        if off[worst] > _WHOLE:
            near = np.rint(x[worst])
            other = near + (1 if x[worst] > near else -1)
            fixed += [now | {worst: other}, now | {worst: near}]


def middle(A: FloatArray, b: FloatArray, start: FloatArray, clock: Clock) -> FloatArray:
    """Find the middle: rows of A are nearly orthonormal, ``start`` is above 0."""
    x, price = start.copy(), start.mean() / np.maximum(start, 1e-3 * start.mean())
    y = np.zeros(len(b))
    for _ in range(_ROUNDS):
        gap = float(x @ price) / len(x)
        missed, unpriced = b - A @ x - _SOFT * y, -(A.T @ y + price)
        done = gap < _MIDDLE and np.abs(missed).max(initial=0.0) < _NEAR
        if done or gap < _EDGE or clock.stopped:
            break
        wide = A * np.sqrt(x / price)
        gram = wide @ wide.T
        gram[np.diag_indices(len(b))] += _SOFT + _ROUNDED * gram.diagonal().max(initial=0.0)
        factor = cho_factor(gram, overwrite_a=True, check_finite=False)

        def step(
            aim: FloatArray,
            x: FloatArray = x,
            price: FloatArray = price,
            missed: FloatArray = missed,
            unpriced: FloatArray = unpriced,
            factor: tuple[FloatArray, bool] = factor,
        ) -> tuple[FloatArray, FloatArray, FloatArray]:
            """Newton's step towards products ``aim`` of x and prices."""
            dy = cho_solve(factor, missed - A @ ((aim - x * unpriced) / price))
            dprice = unpriced - A.T @ dy
            return (aim - x * dprice) / price, dy, dprice

        dx, dy, dprice = step(-x * price)
        ahead = (x + _most(x, dx) * dx) @ (price + _most(price, dprice) * dprice) / len(x)
        keep = min(max((float(ahead) / gap) ** 3, 1e-3), 0.9)
        dx, dy, dprice = step(keep * gap - x * price - dx * dprice)
        far, far_price = _INSIDE * _most(x, dx), _INSIDE * _most(price, dprice)
        x, y, price = x + far * dx, y + far_price * dy, price + far_price * dprice
    return x


def _most(x: FloatArray, dx: FloatArray) -> float:
    """How far x may go in a direction, and stay above 0: 1 at most."""
    down = dx < 0
    return min(1.0, float((-x[down] / dx[down]).min(initial=np.inf)))
