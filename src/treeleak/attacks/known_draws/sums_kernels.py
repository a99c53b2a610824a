"""Compiled loops over the kinds of rows and their leaves, for sums over rows that trees drew.

Arrays, in all of them: ``leaf``, shape (n_cells, n_trees); ``counts``, shape (n_sums, n_kinds,
n_trees): what a row of a kind counts; ``draws``, shape (n_rows, n_trees); ``start``, shape
(n_rows + 1,), and ``kind``, shape (n_candidates,): kinds that rows may be of; ``u``, shape
(n_candidates,): their probabilities. A kind is a class times the number of cells, plus a cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit


@njit(fastmath=True)
def score(leaf: Any, counts: Any, at_leaf: Any, out: Any) -> None:
    """Add what rows count times numbers of leaves, shape (n_sums, n_leaves), to (kind, tree)."""
    n_cells, n_trees = leaf.shape
    for a in range(len(counts)):
        for kind in range(len(out)):
            j = kind % n_cells
            for t in range(n_trees):
                out[kind, t] += at_leaf[a, leaf[j, t]] * counts[a, kind, t]


@njit()
def add_sums(leaf: Any, counts: Any, drawn: Any, first: int, last: int, out: Any) -> None:
    """Add up over the leaves of some trees what rows count, ``out``, shape (n_leaves, n_sums).

    ``drawn``, shape (n_kinds, n_trees): how many rows are of a kind.
    """
    for kind in range(len(drawn)):
        j = kind % len(leaf)
        for t in range(first, last):
            for a in range(len(counts)):
                out[leaf[j, t], a] += drawn[kind, t] * counts[a, kind, t]


@njit()
def add_products(leaf: Any, counts: Any, drawn: Any, out: Any) -> None:
    """Add up products of what rows count, ``out``, shape (n_leaves, n_sums, n_sums)."""
    n_sums = len(counts)
    for kind in range(len(drawn)):
        j = kind % len(leaf)
        for t in range(leaf.shape[1]):
            for a in range(n_sums):
                x = drawn[kind, t] * counts[a, kind, t]
                for b in range(n_sums):
                    out[leaf[j, t], a, b] += x * counts[b, kind, t]


@njit()
def add_squares(leaf: Any, counts: Any, precision: Any, out: Any) -> None:
    """Add the square of what a row counts, by ``precision``, shape (n_leaves, n_sums, n_sums)."""
    n_sums = len(counts)
    for kind in range(len(out)):
        j = kind % len(leaf)
        for t in range(leaf.shape[1]):
            s = 0.0
            for a in range(n_sums):
                for b in range(n_sums):
                    s += counts[a, kind, t] * precision[leaf[j, t], a, b] * counts[b, kind, t]
            out[kind, t] += s


@njit(fastmath=True)
def _along(x: Any, y: Any) -> Any:
    s = np.float32(0)
    for t in range(len(x)):
        s += x[t] * y[t]
    return s


@njit()
def sum_drawn(table: Any, draws: Any, start: Any, kind: Any, out: Any) -> None:
    """Sum a table, shape (n_kinds, n_trees), over the trees that drew the row of a candidate."""
    for k in range(len(draws)):
        for i in range(start[k], start[k + 1]):
            out[i] = _along(table[kind[i]], draws[k])


@njit()
def weigh(
    score: Any, draws: Any, start: Any, kind: Any, reaction: Any, share: Any, spread: bool,
    u: Any, best: Any, mass: Any, drawn: Any,
) -> float:  # fmt: skip
    """Work out the probabilities of the candidates of some rows.

    Writes ``u``, from the first candidate of these rows, and ``best``, the likeliest kinds; adds
    up ``mass``, shape (n_kinds,), and ``drawn``, shape (n_kinds, n_trees): probabilities, or if
    ``spread``, variances. Returns the sum of the logs of normalisers.
    """
    log_z, first = 0.0, start[0]
    for k in range(len(draws)):
        highest = -np.inf
        for i in range(start[k], start[k + 1]):
            s = _along(score[kind[i]], draws[k]) + share * reaction[i]
            u[i - first] = s
            if s > highest:
                highest = s
                best[k] = kind[i]
        total = 0.0
        for i in range(start[k], start[k + 1]):
            u[i - first] = np.exp(np.float32(u[i - first] - highest))
            total += u[i - first]
        log_z += np.log(total) + highest
        for i in range(start[k], start[k + 1]):
            w = np.float32(u[i - first] / total)
            u[i - first] = w
            mass[kind[i]] += w
            if spread:
                w *= np.float32(1) - w
            row = drawn[kind[i]]
            for t in range(len(row)):
                row[t] += w * draws[k, t]
    return log_z


@njit()
def add_spread(
    leaf: Any, counts: Any, draws: Any, start: Any, kind: Any, u: Any, least: float,
    first: int, last: int, out: Any,
) -> None:  # fmt: skip
    """Add the covariance of all sums in the leaves of some trees.

    ``least``: candidates less probable than this are left out. ``out``, shape (n_leaves, n_sums,
    n_sums).
    """
    n_sums = len(counts)
    mean = np.zeros((len(out), n_sums))
    for k in range(len(draws)):
        for i in range(start[k], start[k + 1]):
            if u[i] < least:
                continue
            j = kind[i] % len(leaf)
            for t in range(first, last):
                if draws[k, t] > 0:
                    for a in range(n_sums):
                        x = u[i] * counts[a, kind[i], t]
                        mean[leaf[j, t], a] += x
                        for b in range(n_sums):
                            out[leaf[j, t], a, b] += x * counts[b, kind[i], t]
        for i in range(start[k], start[k + 1]):
            if u[i] < least:
                continue
            j = kind[i] % len(leaf)
            for t in range(first, last):
                at = leaf[j, t]
                if mean[at, 0] != 0 or mean[at, n_sums - 1] != 0:
                    for a in range(n_sums):
                        for b in range(n_sums):
                            out[at, a, b] -= mean[at, a] * mean[at, b]
                    for a in range(n_sums):
                        mean[at, a] = 0.0


@njit()
def add_reaction(
    leaf: Any, counts: Any, draws: Any, start: Any, kind: Any, u: Any, least: float,
    precision: Any, first: int, last: int, out: Any,
) -> None:  # fmt: skip
    """Add to candidates of some rows what they count times what the row is expected to count.

    ``least``: see :func:`add_spread`. ``precision``, shape (n_leaves, n_sums, n_sums), weighs
    products. ``out``, shape (n_candidates,).
    """
    n_sums = len(counts)
    expected = np.zeros((len(precision), n_sums))
    for k in range(first, last):
        for i in range(start[k], start[k + 1]):
            if u[i] < least:
                continue
            j = kind[i] % len(leaf)
            for t in range(leaf.shape[1]):
                if draws[k, t] > 0:
                    at = leaf[j, t]
                    for a in range(n_sums):
                        for b in range(n_sums):
                            expected[at, a] += u[i] * precision[at, a, b] * counts[b, kind[i], t]
        for i in range(start[k], start[k + 1]):
            j = kind[i] % len(leaf)
            s = 0.0
            for t in range(leaf.shape[1]):
                for a in range(n_sums):
                    s += expected[leaf[j, t], a] * counts[a, kind[i], t]
            out[i] += s
        for i in range(start[k], start[k + 1]):
            if u[i] < least:
                continue
            j = kind[i] % len(leaf)
            for t in range(leaf.shape[1]):
                for a in range(n_sums):
                    expected[leaf[j, t], a] = 0.0
