"""Loops of least squares over many columns: what columns are worth, descent, and factors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray
from treeleak.core.compiled import njit

Single = NDArray[np.float32]
Leaves = NDArray[np.int32]
NEXT_TO_NOTHING = 1e-9
"""Rows of a column that count nothing: of a million columns, they are a thousandth of a row."""


@njit(fastmath=True)
def weigh(leaf: Leaves, flat: FloatArray, counts: Single, dual: FloatArray) -> FloatArray:
    """Sum up, for each column, what its leaves weigh.

    ``leaf``, shape (n_columns, n_trees). ``flat``, shape (n_leaves,): weights of leaves in
    statements where each row counts 1. ``counts``, shape (n_families, n_columns, n_trees), and
    ``dual``, shape (n_families, n_leaves): what columns count in other statements, and weights.
    """
    out = np.empty(len(leaf))
    for j in range(len(leaf)):
        total = 0.0
        for t in range(leaf.shape[1]):
            v = leaf[j, t]
            total += flat[v]
            for f in range(len(counts)):
                total += counts[f, j, t] * dual[f, v]
        out[j] = total
    return out


@njit(fastmath=True)
def lengths(leaf: Leaves, flat: FloatArray, counts: Single, dual: FloatArray) -> FloatArray:
    """Give the length of each column: parameters as for :func:`weigh`, squares of weights."""
    out = np.empty(len(leaf))
    for j in range(len(leaf)):
        total = 0.0
        for t in range(leaf.shape[1]):
            v = leaf[j, t]
            total += flat[v]
            for f in range(len(counts)):
                total += counts[f, j, t] ** 2 * dual[f, v]
        out[j] = np.sqrt(total)
    return out


@njit(fastmath=True)
def add_up(leaf: Leaves, counts: Single, x: FloatArray, flat: FloatArray, dual: FloatArray) -> None:
    """Add up in ``flat`` and ``dual`` what so many rows of each column count in leaves.

    Other parameters as for :func:`weigh`. Next to nothing is left out.
    """
    for j in range(len(leaf)):
        if x[j] > NEXT_TO_NOTHING:
            for t in range(leaf.shape[1]):
                v = leaf[j, t]
                flat[v] += x[j]
                for f in range(len(counts)):
                    dual[f, v] += counts[f, j, t] * x[j]


def compile_all() -> None:
    """Compile all loops, in the types that they are called with."""
    leaf, counts = np.zeros((1, 1), np.int32), np.zeros((1, 1, 1), np.float32)
    one, square = np.ones(1), np.ones((1, 1))
    add_up(leaf, counts, np.ones(1), np.zeros(1), np.zeros((1, 1)))
    weigh(leaf, one, counts, square)
    lengths(leaf, one, counts, square)
    descend(square, one, np.zeros(1), 0, 1)
    drop(np.ones((1, 1)), 1, 0)
    solve(square, 1, one)


@njit()
def descend(gram: FloatArray, right: FloatArray, x: FloatArray, free: int, sweeps: int) -> None:
    """Lower x'Gx / 2 - c'x coordinate by coordinate; all but the first ``free`` stay >= 0."""
    slope = gram @ x - right
    for _ in range(sweeps):
        for i in range(len(x)):
            new = x[i] - slope[i] / gram[i, i]
            if i >= free and new < 0.0:
                new = 0.0
            step = new - x[i]
            if step != 0.0:
                x[i] = new
                for k in range(len(x)):
                    slope[k] += step * gram[i, k]


@njit()
def drop(factor: FloatArray, size: int, i: int) -> None:
    """Take column i out of an upper Cholesky factor of this size, by Givens rotations in place."""
    for j in range(i, size - 1):
        for r in range(j + 2):
            factor[r, j] = factor[r, j + 1]
    for j in range(i, size - 1):
        a, b = factor[j, j], factor[j + 1, j]
        length = np.hypot(a, b)
        if length == 0.0:
            continue
        c, s = a / length, b / length
        factor[j, j], factor[j + 1, j] = length, 0.0
        for q in range(j + 1, size - 1):
            u, v = factor[j, q], factor[j + 1, q]
            factor[j, q] = c * u + s * v
            factor[j + 1, q] = c * v - s * u


@njit()
def solve(factor: FloatArray, size: int, right: FloatArray) -> FloatArray:
    """Solve R'R z = c for an upper factor R of this size."""
    z = right.copy()
    for i in range(size):
        pivot = z[i] / factor[i, i]
        z[i] = pivot
        for q in range(i + 1, size):
            z[q] -= pivot * factor[i, q]
    for i in range(size - 1, -1, -1):
        pivot = z[i]
        for q in range(i + 1, size):
            pivot -= factor[i, q] * z[q]
        z[i] = pivot / factor[i, i]
    return z
