"""The middle of several worlds: aligned rows, and how often each value stands in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from treeleak.attacks.space import Values

__all__ = ["MAX_ALIGNED", "align", "most_central", "shares"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MAX_ALIGNED = 1500
"""Most rows that are aligned: minimum-cost matching takes cubic time."""


def align(values: Values, reference: IntArray, other: IntArray) -> tuple[IntArray, float]:
    """Order the rows of ``other`` so that row k stands for row k of ``reference``.

    Returns
    -------
    order : int array
    cost : float
        Total distance of the matched rows.
    """
    cost = values.between(reference, other)
    i, j = linear_sum_assignment(cost)
    return j, float(cost[i, j].sum())


def most_central(values: Values, worlds: Sequence[IntArray], allowed: Sequence[bool]) -> int:
    """Choose the world with the least total distance to all others, among those allowed."""
    n = len(worlds)
    cost = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1, n):
            cost[i, j] = cost[j, i] = align(values, worlds[i], worlds[j])[1]
    return int(np.argmin(np.where(allowed, cost.sum(axis=1), np.inf)))


def shares(values: Values, reference: IntArray, worlds: Sequence[IntArray]) -> FloatArray:
    """Share of the worlds in which row k has a value, after alignment; (n_rows, n_values)."""
    out = np.zeros((len(reference), values.n_values))
    row = np.arange(len(reference))[:, None]
    for world in worlds:
        order, _ = align(values, reference, world)
        out[row, world[order]] += 1.0 / len(worlds)
    return out
