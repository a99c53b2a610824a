"""Compiled loops over (row, candidate) pairs, for rows that are told apart by their draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.core.compiled import njit


class Candidates(NamedTuple):
    """Rows, and the columns that each may be: (cell, class) pairs."""

    start: Any
    column: Any
    """Candidates of row k are ``column[start[k]:start[k + 1]]``."""
    equation: Any
    """Shape (n_trees, n_columns). Where a column stands in each tree: leaf * n_classes + class."""
    first: Any
    """First equation of each tree, and the end."""
    draws: Any
    """Shape (n_trees, n_rows)."""
    n_classes: int


@njit()
def narrow(trees: Any, rows: Candidates, alive: Any, n: Any, d: Any) -> Any:
    """Strike out candidates that one tree's counts rule out, given the bounds on its equations.

    In equation e, sum over rows k of b_k [k in e] = n_e: rows that can only be in e give a lower
    bound, rows that may be an upper one. A row that would exceed n_e is out of e; one without
    which n_e is not reached is in e. The same with [b_k > 0] and d. Returns an equation that
    cannot be met, or -1. Threads may share ``alive``: it only shrinks,
    and bounds from an earlier state hold later.
    """
    start, column, equation, first, draws, n_classes = rows
    column, equation = column.view(np.uint32), equation.view(np.uint32)
    n_rows, widest, most = len(start) - 1, 0, int(draws.max())
    for t in trees:
        widest = max(widest, first[t + 1] - first[t])
    leaf = np.empty(widest, dtype=np.int64)
    for e in range(widest):
        leaf[e] = e // n_classes
    low, high, low_d, high_d = np.empty((4, widest), dtype=np.int64)
    seen, seen_d = np.empty((2, widest), dtype=np.int64)
    places, leaves = np.empty((2, n_rows), dtype=np.int64)
    tight = np.empty((most + 1, widest), dtype=np.bool_)
    use_d = len(d) > 0
    for t in trees:
        base, width, tree_equation = first[t], first[t + 1] - first[t], equation[t]
        low[:width], high[:width], low_d[:width], high_d[:width] = 0, 0, 0, 0
        seen[:width], seen_d[:width] = -1, -1
        first_leaf = base // n_classes
        for k in range(n_rows):
            b = int(draws[t, k])
            if b == 0:
                continue
            n_places, n_leaves, last = 0, 0, 0
            for q in range(start[k], start[k + 1]):
                if not alive[q]:
                    continue
                e = np.int64(tree_equation[column[q]]) - base
                if seen[e] != k:
                    seen[e] = k
                    n_places += 1
                    last = e
                    high[e] += b
                    v = leaf[e]
                    if seen_d[v] != k:
                        seen_d[v] = k
                        n_leaves += 1
                        high_d[v] += 1
            if n_places == 1:
                low[last] += b
            if n_leaves == 1:
                low_d[leaf[last]] += 1
            places[k], leaves[k] = n_places, n_leaves
        for e in range(width):
            v, wanted = leaf[e], n[base + e]
            if low[e] > wanted or high[e] < wanted:
                return base + e
            last_one = False
            if use_d:
                if low_d[v] > d[first_leaf + v] or high_d[v] < d[first_leaf + v]:
                    return base + e
                last_one = low_d[v] == d[first_leaf + v] or high_d[v] == d[first_leaf + v]
            for b in range(1, most + 1):
                tight[b, e] = last_one or low[e] + b > wanted or high[e] - b < wanted
        for k in range(n_rows):
            b = int(draws[t, k])
            if b == 0 or places[k] == 1:
                continue
            has_single, must, must_d = False, -1, -1
            for q in range(start[k], start[k + 1]):
                e = np.int64(tree_equation[column[q]]) - base
                if alive[q] and tight[b, e]:
                    has_single = True
                    if high[e] - b < n[base + e]:
                        must = e
                    if use_d and high_d[leaf[e]] == d[first_leaf + leaf[e]]:
                        must_d = leaf[e]
            if not has_single:
                continue
            for q in range(start[k], start[k + 1]):
                if not alive[q]:
                    continue
                e = np.int64(tree_equation[column[q]]) - base
                v = leaf[e]
                out = low[e] + b > n[base + e] or (must >= 0 and e != must)
                if use_d and leaves[k] > 1:
                    out = out or low_d[v] == d[first_leaf + v] or (must_d >= 0 and v != must_d)
                if out:
                    alive[q] = False
    return -1


@njit()
def best_scores(
    rows: Candidates, score: Any, choice: Any, mine: Any, other: Any, rival: Any
) -> None:
    """Add up, in whole numbers, the score of each row's own column and the best of the others.

    Marks the others that score as much or more.
    """
    start, column, equation, _, draws, _ = rows
    most = 0
    for k in range(len(start) - 1):
        most = max(most, start[k + 1] - start[k])
    total = np.empty(most, dtype=np.int64)
    for k in range(len(start) - 1):
        s, size = start[k], start[k + 1] - start[k]
        columns = column[s : s + size]
        total[:size] = 0
        for t in range(len(draws)):
            b = draws[t, k]
            if b:
                gain, place = score[b], equation[t]
                for i in range(size):
                    total[i] += gain[place[columns[i]]]
        other[k] = -(2**62)
        for i in range(size):
            if columns[i] == choice[k]:
                mine[k] = total[i]
            else:
                other[k] = max(other[k], total[i])
        for i in range(size):
            rival[s + i] = columns[i] != choice[k] and total[i] >= mine[k]


@njit()
def spread(trees: Any, rows: Candidates, u: Any, var_n: Any, cov: Any, var_d: Any) -> None:
    """Variances of each equation's draws and distinct rows, and their covariance, under u."""
    start, column, equation, first, draws, n_classes = rows
    widest = 0
    for t in trees:
        widest = max(widest, first[t + 1] - first[t])
    inside = np.zeros(widest, dtype=np.float64)
    leaf = np.zeros(widest, dtype=np.float64)
    touched = np.empty(widest, dtype=np.int64)
    for t in trees:
        base, place = first[t], equation[t]
        for k in range(len(start) - 1):
            b = np.float64(draws[t, k])
            if b == 0:
                continue
            n_touched = 0
            for q in range(start[k], start[k + 1]):
                e = place[column[q]] - base
                if inside[e] == 0.0:
                    inside[e] = 1e-300
                    touched[n_touched] = e
                    n_touched += 1
                inside[e] += u[q]
            for x in range(n_touched):
                e = touched[x]
                p = min(inside[e], 1.0)
                var_n[base + e] += b * b * p * (1.0 - p)
                cov[base + e] += b * p * (1.0 - p)
                leaf[e // n_classes] += inside[e]
                inside[e] = 0.0
            for x in range(n_touched):
                v = touched[x] // n_classes
                p = min(leaf[v], 1.0)
                var_d[base // n_classes + v] += p * (1.0 - p)
                leaf[v] = 0.0


@njit()
def reaction(row_numbers: Any, rows: Candidates, u: Any, gain: Any, most: float, out: Any) -> None:
    """Add up, per candidate, ``gain[b, e]`` (2 p - 1): p is the row's probability to be in e."""
    start, column, equation, first, draws, _ = rows
    n_trees = len(draws)
    widest = 0
    for t in range(n_trees):
        widest = max(widest, first[t + 1] - first[t])
    inside = np.zeros(widest, dtype=np.float64)
    for k in row_numbers:
        for q in range(start[k], start[k + 1]):
            out[q] = 0.0
        for t in range(n_trees):
            b = draws[t, k]
            if b == 0:
                continue
            base, place = first[t], equation[t]
            for q in range(start[k], start[k + 1]):
                inside[place[column[q]] - base] += u[q]
            for q in range(start[k], start[k + 1]):
                e = place[column[q]]
                x = gain[b, e] * (2.0 * min(inside[e - base], 1.0) - 1.0)
                out[q] += min(max(x, -most), most)
            for q in range(start[k], start[k + 1]):
                inside[place[column[q]] - base] = 0.0


@njit()
def descend(rows: Candidates, off: Any, off_d: Any, choice: Any) -> Any:
    """Move each row in turn to the candidate with which most counts are met.

    ``off`` and ``off_d`` hold released minus present counts, and are kept up to date. Returns
    whether any row moved; each move meets more counts than before.
    """
    start, column, equation, _, draws, n_classes = rows
    most = 0
    for k in range(len(start) - 1):
        most = max(most, start[k + 1] - start[k])
    change = np.empty(most, dtype=np.int64)
    use_d = len(off_d) > 0
    moved = False
    for k in range(len(start) - 1):
        s, size = start[k], start[k + 1] - start[k]
        columns = column[s : s + size]
        now = choice[k]
        missed = False
        for t in range(len(draws)):
            b = draws[t, k]
            if b:
                e = equation[t, now]
                missed = missed or off[e] != 0 or (use_d and off_d[e // n_classes] != 0)
                off[e] += b
                if use_d:
                    off_d[e // n_classes] += 1
        best = now
        if missed:
            change[:size] = 0
            for t in range(len(draws)):
                b = np.int64(draws[t, k])
                if b:
                    place = equation[t]
                    for i in range(size):
                        e = place[columns[i]]
                        change[i] += abs(off[e] - b) - abs(off[e])
                        if use_d:
                            v = e // n_classes
                            change[i] += abs(off_d[v] - 1) - abs(off_d[v])
            least = np.int64(2**62)
            for i in range(size):
                if columns[i] == now:
                    least = change[i]
            for i in range(size):
                if change[i] < least:
                    least = change[i]
                    best = columns[i]
                    moved = True
        choice[k] = best
        for t in range(len(draws)):
            b = draws[t, k]
            if b:
                e = equation[t, best]
                off[e] -= b
                if use_d:
                    off_d[e // n_classes] -= 1
    return moved
