"""Softmax over the candidates of rows, and the counts to be expected: what a fit evaluates.

The score of row k in column j is the sum over trees of b_tk lambda_te + [b_tk > 0] nu_tv. Over all
columns at once, that is a product of two matrices: the draws of rows, and the multipliers that
columns meet. So are the expected counts. Matrices multiply so much faster than multipliers are
looked up that rows with many candidates are scored over the whole grid, and others of their
columns forgotten; rows with few are scored candidate by candidate.
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws.candidates import RowProblem
from treeleak.attacks.known_draws.row_kernels import Candidates
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.compiled import njit
from treeleak.core.decisions import on_grid
from treeleak.core.parallel import THREADS, Pool, run_all
from treeleak.core.private import dataclass


@dataclass(frozen=True, eq=False)
class Softmax:
    """Probabilities of all candidates under any multipliers."""

    problem: RowProblem
    reference: FloatArray
    """Shape (n_candidates,). Logits without any count."""
    u: FloatArray
    """Shape (n_candidates,). Probabilities, as of the last evaluation."""
    best: IntArray
    """Shape (n_open,). The likeliest candidate of each row."""

    @classmethod
    def of(cls, problem: RowProblem, reference: FloatArray) -> Softmax:
        """Begin without an evaluation."""
        best = np.zeros(problem.n_open, dtype=np.int64)
        return cls(problem, reference, np.zeros(len(problem.column)), best)

    def evaluate(self, x: FloatArray, pool: Pool) -> tuple[float, FloatArray]:
        """Compute the sum of the log-normalisers and its gradient, the expected counts."""
        p, (listed, whole) = self.problem, self._rows
        none = np.zeros((0, 0))
        score = scores(p, x) if any(map(len, listed)) else none
        met = self._met(x) if any(map(len, whole)) else none
        jobs = [partial(self._part, listed[i], whole[i], score, met) for i in range(len(listed))]
        values, *sums = zip(*run_all(jobs, pool=pool), strict=True)
        n, d, by_column = (np.sum(terms, axis=0) for terms in sums)
        if len(met):
            n_trees = len(p.draws)
            n += np.bincount(p.equation.ravel(), by_column[:n_trees].ravel(), len(n))
            if len(p.d):
                d += np.bincount(self._leaf.ravel(), by_column[n_trees:].ravel(), len(d))
        return sum(values), np.append(n, d) if len(p.d) else n

    @cached_property
    def _rows(self) -> tuple[list[IntArray], list[IntArray]]:
        """Rows of each thread: those scored candidate by candidate, and over the whole grid."""
        size = np.diff(self.problem.start)
        columns, trees = len(self.problem.pair), len(self.problem.draws)
        few = (size * SCHEDULE.columns_per_lookup < columns) | (
            columns * 2 * trees > SCHEDULE.columns_met
        )
        return even(np.flatnonzero(few), size), even(np.flatnonzero(~few), size)

    @cached_property
    def _leaf(self) -> NDArray[np.int32]:
        return self.problem.equation // self.problem.n_classes

    def _met(self, x: FloatArray) -> FloatArray:
        """Multipliers that each column meets: lambda in every tree, then nu.

        Shape (n_trees [* 2], n_columns).
        """
        p = self.problem
        met = x[: len(p.n)][p.equation]
        return np.concatenate([met, x[len(p.n) :][self._leaf]]) if len(p.d) else met

    def _part(
        self, listed: IntArray, whole: IntArray, score: FloatArray, met: FloatArray
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Evaluate some rows.

        Returns the sum of their log-normalisers and the draws and distinct rows to be expected: of
        listed rows in each equation and leaf, of the others in each tree and column.
        """
        p = self.problem
        n, d = np.zeros(len(p.n)), np.zeros(len(p.n) // p.n_classes)
        total = fit_rows(listed, p.candidates, score, self.reference, self.u, n, d, self.best)
        by_column = np.zeros_like(met)
        for begin in range(0, len(whole), SCHEDULE.rows_at_once):
            rows = whole[begin : begin + SCHEDULE.rows_at_once]
            b = p.draws[:, rows].astype(float)
            b = np.concatenate([b, b > 0]) if len(p.d) else b
            logit = on_grid(b.T @ met, SCHEDULE.score_step)
            total += soften(rows, p.candidates, logit, self.reference, self.u, self.best)
            by_column += b @ logit
        return total, n, d, by_column


def scores(problem: RowProblem, x: NDArray[Any]) -> NDArray[Any]:
    """What b draws of a row in an equation add to its score: b lambda_e + nu_v."""
    n_equations = len(problem.n)
    b = np.arange(int(problem.draws.max(initial=0)) + 1, dtype=x.dtype)
    score: NDArray[Any] = b[:, None] * x[None, :n_equations]
    if len(problem.d):
        score += np.repeat(x[n_equations:], problem.n_classes)[None, :]
    return score


def even(rows: IntArray, size: IntArray) -> list[IntArray]:
    """Cut rows into runs of about as many candidates."""
    total = np.append(0, np.cumsum(size[rows]))
    cuts = np.searchsorted(total, np.linspace(0, total[-1], THREADS + 1)[1:-1])
    return [rows[a:b] for a, b in pairwise([0, *cuts.tolist(), len(rows)])]


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
