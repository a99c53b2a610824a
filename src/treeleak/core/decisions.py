"""Decisions between computed numbers that the rounding of a processor does not change.

Libraries sum in another order on other processors, so the last digits of a sum differ. Where a
status, an answer, a branch or an order follows from a comparison, equal numbers must count as equal
first: put them on a grid, or ask for more than a margin.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from treeleak.core.arrays import FloatArray, IntArray

GRID = 2.0**-30
"""A billionth: far above what rounding changes in numbers around 1, far below what matters."""


TINY = 1e-300
"""Least number that is divided by, or whose logarithm is taken: next to nothing, and not zero."""
RANK = 1e-9
"""Share of the greatest eigenvalue, or of a square length, up to which one counts as zero. Rounding
leaves less of it: 1e-12 for thousands of rows. Whole numbers, if they add anything, add more."""


def clearly_less(a: float, b: float) -> bool:
    """Whether ``a`` is less than ``b`` by more than a share :data:`GRID` of the greater one."""
    return a < b and not math.isclose(a, b, rel_tol=GRID, abs_tol=GRID**1.5)


def on_grid(x: ArrayLike, step: float = GRID) -> FloatArray:
    """Round to multiples of a step: for probabilities, and for distances in columns.

    Equal ones become equal, and sums of millions of them are exact, in whatever order.
    """
    return np.asarray(np.round(np.asarray(x) / step) * step)


def rounded(x: ArrayLike) -> FloatArray:
    """Round each number to a share :data:`GRID` of it: for weights of any size."""
    share, power = np.frexp(x)
    return np.asarray(np.ldexp(np.round(share / GRID) * GRID, power))


def first_least(x: FloatArray, axis: int = -1) -> IntArray:
    """Place of the least entry; of those that equal it but for rounding, the first."""
    return np.asarray(on_grid(x).argmin(axis=axis))


def falling(x: FloatArray) -> IntArray:
    """Order of entries from the greatest down; equal ones, but for rounding, stay as they are."""
    return np.argsort(-rounded(x), kind="stable")


def greatest(x: FloatArray, n: int) -> IntArray:
    """Places of the ``n`` greatest entries, rising; of those that equal the last, the first."""
    if n >= len(x):
        return np.arange(len(x))
    x = rounded(x)
    least = np.partition(x, len(x) - n)[len(x) - n]
    above, equal = np.flatnonzero(x > least), np.flatnonzero(x == least)
    return np.sort(np.append(above, equal[: n - len(above)]))


MOST_SURE = 0.9999
"""Probability of what is not proved, at most."""
