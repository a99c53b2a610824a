"""Maximum entropy over the candidates of rows, through its smooth dual; and proofs from it.

Let u_kj be the probability that row k is column j. The u of largest entropy whose expected counts
are the released ones is u_kj ~ exp(sum over t of b_tk lambda_te + [b_tk > 0] nu_tv), where e and v
are the equation and the leaf of column j in tree t. The dual, the sum of the log-normalisers minus
lambda n minus nu d, is convex and smooth.

Any lambda, nu give every assignment of candidates that meets the counts the same total score. So
if an assignment meets the counts and gives every row its best score, strictly, it is the only one.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from treeleak.attacks import _row_kernels as kernels
from treeleak.attacks.rows import THREADS, RowProblem
from treeleak.clock import Clock

__all__ = ["Fit", "fit", "is_only"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MEMORY = 20
_TOLERANCE = 1e-4
_EVALUATIONS = 5000
_PATIENCE, _PROGRESS = 60, 0.002
_BITS = 2.0**24


@dataclass(frozen=True, eq=False)
class Fit:
    """Where the fit stands.

    Attributes
    ----------
    u : float array, shape (n_candidates,)
        Probability of each candidate.
    multipliers : float array, shape (n_equations [+ n_leaves],)
        lambda, then nu where distinct counts are used.
    choice : int array, shape (n_open,)
        Likeliest column of each row.
    misfit : int
        Of ``choice``.
    """

    u: FloatArray
    multipliers: FloatArray
    choice: IntArray
    misfit: int


class _Done(Exception):
    pass


def fit(
    problem: RowProblem,
    clock: Clock,
    tell: Callable[[Fit], None] = lambda _: None,
    start: FloatArray | None = None,
    log_prior: FloatArray | None = None,
) -> Fit:
    """Fit u until its likeliest assignment meets every count, or nothing more is gained.

    Parameters
    ----------
    problem : RowProblem
    clock : Clock
    tell : callable
        Gets every evaluation.
    start : float array, optional
        Multipliers to start from.
    log_prior : float array, shape (n_columns,), optional
        What each column weighs before any count is seen.
    """
    n_equations, use_d = len(problem.n), len(problem.d) > 0
    target = np.concatenate([problem.n, problem.d]).astype(float)
    prior = np.zeros(len(problem.pair)) if log_prior is None else log_prior
    u = np.zeros(len(problem.column))
    best = np.zeros(problem.n_open, dtype=np.int64)
    edges = _even(problem.start)
    sure: list[float] = []
    latest: list[Fit] = []

    def evaluate(x: FloatArray) -> tuple[float, FloatArray]:
        score = _scores(problem, x)
        expected = np.zeros((THREADS, n_equations))
        expected_d = np.zeros((THREADS, n_equations // problem.n_classes))
        jobs = [
            pool.submit(
                kernels.fit_rows, edges[i], edges[i + 1], problem.start, problem.column,
                problem.equation, problem.draws, score, prior, u, expected[i], expected_d[i],
                best, problem.n_classes,
            )
            for i in range(THREADS)
        ]  # fmt: skip
        value = sum(job.result() for job in jobs) - float(x @ target)
        gradient = expected.sum(axis=0)
        if use_d:
            gradient = np.concatenate([gradient, expected_d.sum(axis=0)])
        choice = problem.column[best].astype(np.int64)
        now = Fit(u, x.copy(), choice, problem.misfit(choice))
        latest[:] = [now]
        tell(now)
        sure.append(float(u[best].mean()))
        stuck = len(sure) > _PATIENCE and sure[-1] - sure[-_PATIENCE] < _PROGRESS
        if now.misfit == 0 or stuck or clock.stopped:
            raise _Done
        return value, gradient - target

    x = np.zeros(len(target)) if start is None else start
    options: Any = {
        "maxcor": _MEMORY, "maxfun": _EVALUATIONS, "maxiter": _EVALUATIONS,
        "ftol": 0.0, "gtol": _TOLERANCE,
    }  # fmt: skip
    with ThreadPoolExecutor(THREADS) as pool, suppress(_Done):
        minimize(evaluate, x, jac=True, method="L-BFGS-B", options=options)
    return latest[-1]


def is_only(problem: RowProblem, choice: IntArray, multipliers: FloatArray) -> bool:
    """Prove, in whole numbers, that no other candidates meet the counts that ``choice`` meets.

    Parameters
    ----------
    choice : int array, shape (n_open,)
        Column of each open row; must meet every count.
    multipliers : float array
        Any; those of a fit whose likeliest candidates are ``choice`` will do.

    Returns
    -------
    bool
        False if these multipliers prove nothing.
    """
    if not problem.n_open:
        return True
    score = np.rint(_scores(problem, np.rint(multipliers * _BITS))).astype(np.int64)
    gap = np.zeros(problem.n_open, dtype=np.int64)
    kernels.slack(
        problem.start, problem.column, problem.equation, problem.draws, score, choice, gap
    )
    return bool((gap > 0).all())


def _scores(problem: RowProblem, x: FloatArray) -> FloatArray:
    """What b draws of a row in an equation add to its score: b lambda_e + nu_v."""
    n_equations = len(problem.n)
    b = np.arange(int(problem.draws.max(initial=0)) + 1, dtype=float)
    score = b[:, None] * x[None, :n_equations]
    if len(problem.d):
        score += np.repeat(x[n_equations:], problem.n_classes)[None, :]
    return score


def _even(start: IntArray) -> list[int]:
    """Cut the rows into runs of about as many candidates."""
    cuts = np.searchsorted(start, np.linspace(0, start[-1], THREADS + 1)[1:-1])
    return [0, *(int(c) for c in cuts), len(start) - 1]
