"""Compiled loops over the kinds of rows and their leaves, for sums over rows that trees drew.

Arrays, in all of them: ``leaf``, shape (n_cells, n_trees); ``counts``, shape (n_sums, n_kinds,
n_trees): what a row of a kind counts; ``draws``, shape (n_rows, n_trees); ``start``, shape
(n_rows + 1,), and ``kind``, shape (n_candidates,): kinds that rows may be of; ``u``, shape
(n_candidates,): their probabilities. A kind is a class times the number of cells, plus a cell.
"""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

from treeleak.core.compiled import njit

_PER_LOG = np.float32(1.0 / np.log(2.0))
_POWER = tuple(np.float32(np.log(2.0) ** k / factorial(k)) for k in range(1, 7))
"""2^r = 1 + _POWER[0] r + _POWER[1] r^2 + ..., up to 1e-7 for r from -1/2 to 1/2."""
_LOWEST, _NEVER = np.float32(-70.0), np.float32(1e-12)
"""Least logarithm of a share of a row's likeliest kind: smaller numbers are not held in full, which
takes processors a hundred times as long; and probability of a kind that counts nowhere."""


@njit(fastmath=True)
def _weighed(leaf: Any, counts: Any, at_leaf: Any) -> Any:
    s = np.float32(0)
    for t in range(len(leaf)):
        s += at_leaf[leaf[t]] * counts[t]
    return s


@njit(fastmath=True)
def score(first: int, last: int, leaf: Any, counts: Any, at_leaf: Any, out: Any) -> None:
    """Add what rows count times numbers of leaves, shape (n_sums, n_leaves), to (kind, tree)."""
    n_cells, n_trees = leaf.shape
    # No index is below zero: without the question, several are looked up at a time.
    leaf = leaf.view(np.uint32)
    for a in range(len(counts)):
        numbers = at_leaf[a]
        for kind in range(first, last):
            at, count, line = leaf[kind % n_cells], counts[a, kind], out[kind]
            for t in range(n_trees):
                line[t] += numbers[at[t]] * count[t]


@njit()
def add_sums(first: int, last: int, leaf: Any, counts: Any, drawn: Any, out: Any) -> None:
    """Add up over leaves what rows of some kinds count, ``out``, shape (n_leaves, n_sums).

    ``drawn``, shape (n_kinds, n_trees): how many rows are of a kind.
    """
    for kind in range(first, last):
        j = kind % len(leaf)
        for t in range(leaf.shape[1]):
            for a in range(len(counts)):
                out[leaf[j, t], a] += drawn[kind, t] * counts[a, kind, t]


@njit()
def add_products(first: int, last: int, leaf: Any, counts: Any, drawn: Any, out: Any) -> None:
    """Add up products of what rows count in some trees, shape (n_leaves, n_sums, n_sums)."""
    n_sums = len(counts)
    for kind in range(len(drawn)):
        j = kind % len(leaf)
        for t in range(first, last):
            for a in range(n_sums):
                x = drawn[kind, t] * counts[a, kind, t]
                for b in range(n_sums):
                    out[leaf[j, t], a, b] += x * counts[b, kind, t]


@njit()
def add_squares(first: int, last: int, leaf: Any, counts: Any, precision: Any, out: Any) -> None:
    """Add the square of what a row counts, by ``precision``, shape (n_leaves, n_sums, n_sums)."""
    n_sums = len(counts)
    for kind in range(first, last):
        j = kind % len(leaf)
        for t in range(leaf.shape[1]):
            s = 0.0
            for a in range(n_sums):
                for b in range(n_sums):
                    s += counts[a, kind, t] * precision[leaf[j, t], a, b] * counts[b, kind, t]
            out[kind, t] += s


@njit(fastmath=True)
def weigh(score: Any, highest: Any, factor: Any, total: Any) -> None:
    """Turn scores of rows, shape (n_rows, n), into factor exp(score - highest), in place.

    ``total``, shape (n_rows,): to what these are added up.
    """
    a, b, c, d, e, f = _POWER
    n = score.shape[1]
    exponent = np.empty(n, dtype=np.int32)
    power = exponent.view(np.float32)
    for k in range(len(score)):
        line, top, times, s = score[k], highest[k], factor[k], np.float32(0)
        for i in range(n):
            x = max(line[i] - top, _LOWEST) * _PER_LOG
            whole = np.floor(x + np.float32(0.5))
            exponent[i] = (np.int32(whole) + np.int32(127)) << np.int32(23)
            r = x - whole
            line[i] = np.float32(1) + r * (a + r * (b + r * (c + r * (d + r * (e + r * f)))))
        for i in range(n):
            w = line[i] * power[i] * times
            line[i] = w
            s += w
        total[k] += s


@njit(fastmath=True)
def _along(x: Any, y: Any) -> Any:
    s = np.float32(0)
    for t in range(len(x)):
        s += x[t] * y[t]
    return s


@njit(fastmath=True)
def _add(w: Any, x: Any, out: Any) -> None:
    for t in range(len(out)):
        out[t] += w * x[t]


@njit()
def sum_drawn(table: Any, draws: Any, candidate: Any, row: Any, kind: Any, out: Any) -> None:
    """Sum a table, shape (n_kinds, n_trees), over the trees that drew the row of a candidate."""
    for i in range(len(candidate)):
        out[candidate[i]] = _along(table[kind[i]], draws[row[i]])


@njit()
def add_drawn(
    draws: Any, candidate: Any, row: Any, kind: Any, u: Any, spread: bool, mass: Any, drawn: Any
) -> None:
    """Add up, over some candidates, rows expected of a kind, and of these those that trees drew.

    ``mass``, shape (n_kinds,), and ``drawn``, shape (n_kinds, n_trees); of the last, with
    ``spread``, the variances.
    """
    for i in range(len(candidate)):
        w = u[candidate[i]]
        mass[kind[i]] += w
        if w < _NEVER:
            continue
        if spread:
            w *= np.float32(1) - w
        _add(w, draws[row[i]], drawn[kind[i]])


@njit()
def soften(first: int, last: int, start: Any, kind: Any, u: Any, best: Any) -> float:
    """Turn the scores of the candidates of some rows, ``u``, into probabilities.

    Writes ``best``, shape (n_rows,), the likeliest kinds; returns the sum of the logs of
    normalisers.
    """
    log_z = 0.0
    for k in range(first, last):
        highest = u[start[k]]
        best[k] = kind[start[k]]
        for i in range(start[k], start[k + 1]):
            if u[i] > highest:
                highest = u[i]
                best[k] = kind[i]
        total = 0.0
        for i in range(start[k], start[k + 1]):
            u[i] = np.exp(max(u[i] - highest, _LOWEST))
            total += u[i]
        log_z += np.log(total) + highest
        for i in range(start[k], start[k + 1]):
            u[i] = u[i] / total
    return log_z


@njit()
def add_spread(
    first: int, last: int, leaf: Any, counts: Any, draws: Any, start: Any, kind: Any, u: Any,
    least: float, out: Any,
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
    first: int, last: int, leaf: Any, counts: Any, draws: Any, start: Any, kind: Any, u: Any,
    least: float, precision: Any, out: Any,
) -> None:  # fmt: skip
    """Add to candidates of some rows what they count times what the row is expected to count.

    ``least``: see :func:`add_spread`. ``precision``, shape (n_leaves, n_sums, n_sums), weighs
    products. ``out``, shape (n_candidates,).
    """
    n_sums = len(counts)
    # No index is below zero: without the question, several are looked up at a time.
    leaf = leaf.view(np.uint32)
    expected = np.zeros((n_sums, len(precision)), dtype=np.float32)
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
                            expected[a, at] += u[i] * precision[at, a, b] * counts[b, kind[i], t]
        for i in range(start[k], start[k + 1]):
            j = kind[i] % len(leaf)
            for a in range(n_sums):
                out[i] += _weighed(leaf[j], counts[a, kind[i]], expected[a])
        for i in range(start[k], start[k + 1]):
            if u[i] < least:
                continue
            j = kind[i] % len(leaf)
            for t in range(leaf.shape[1]):
                for a in range(n_sums):
                    expected[a, leaf[j, t]] = 0.0
