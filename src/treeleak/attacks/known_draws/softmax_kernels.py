"""Compiled loops of a softmax over the candidates of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.attacks.known_draws.row_kernels import Candidates
from treeleak.core.compiled import njit


@njit(fastmath=True)
def fit_rows(
    row_numbers: Any,
    rows: Candidates,
    score: Any,
    reference: Any,
    u: Any,
    expected: Any,
    expected_d: Any,
    best: Any,
) -> Any:
    """Softmax over the candidates of some rows, and the counts to be expected from them.

    ``row_numbers``: which. ``reference`` holds the logits without any count, ``score[b, e]`` what b
    draws in equation e add. Returns the sum of the log-normalisers.
    """
    start, column, equation, _, draws, n_classes = rows
    # No index is below zero: without the question, several are looked up at a time.
    column, equation = column.view(np.uint32), equation.view(np.uint32)
    n_trees = len(draws)
    most = 0
    for k in row_numbers:
        most = max(most, start[k + 1] - start[k])
    logit = np.empty(most, dtype=np.float64)
    likely = np.empty(most, dtype=np.int64)
    # Of distinct rows, as of draws: to divide for the leaf of each would take most of the time.
    distinct = np.zeros(len(expected))
    total = 0.0
    for k in row_numbers:
        s, size = start[k], start[k + 1] - start[k]
        columns = column[s : s + size]
        for i in range(size):
            logit[i] = reference[s + i]
        for t in range(n_trees):
            b = draws[t, k]
            if b:
                gain, place = score[b], equation[t]
                for i in range(size):
                    logit[i] += gain[place[columns[i]]]
        top = 0
        for i in range(1, size):
            if logit[i] > logit[top]:
                top = i
        best[k] = s + top
        highest = logit[top]
        z = 0.0
        for i in range(size):
            logit[i] = np.exp(logit[i] - highest)
            z += logit[i]
        total += highest + np.log(z)
        n_likely = 0
        for i in range(size):
            p = logit[i] / z
            logit[i] = p
            u[s + i] = p
            if p > 1e-12:
                likely[n_likely] = i
                n_likely += 1
        for t in range(n_trees):
            b = draws[t, k]
            if b:
                place = equation[t]
                for x in range(n_likely):
                    e = place[columns[likely[x]]]
                    expected[e] += b * logit[likely[x]]
                    distinct[e] += logit[likely[x]]
    for e in range(len(distinct)):
        expected_d[e // n_classes] += distinct[e]
    return total


@njit(fastmath=True)
def soften(
    row_numbers: Any, rows: Candidates, logit: Any, reference: Any, u: Any, best: Any
) -> Any:
    """Softmax over the candidates of some rows whose scores are there, column by column.

    ``logit``, shape (n_own, n_columns): what counts add; becomes the probabilities, 0 for columns
    that are no candidate. Returns the sum of the log-normalisers.
    """
    start, column = rows.start, rows.column.view(np.uint32)
    total = 0.0
    for r in range(len(row_numbers)):
        k = row_numbers[r]
        s, size = start[k], start[k + 1] - start[k]
        columns, p, line = column[s : s + size], u[s : s + size], logit[r]
        top = 0
        for i in range(size):
            p[i] = line[columns[i]] + reference[s + i]
            if p[i] > p[top]:
                top = i
        best[k] = s + top
        highest = p[top]
        z = 0.0
        for i in range(size):
            p[i] = np.exp(p[i] - highest)
            z += p[i]
        total += highest + np.log(z)
        line[:] = 0.0
        for i in range(size):
            p[i] /= z
            line[columns[i]] = p[i]
    return total
