"""How much the counts leave open of the rows, whatever else is found out about them."""

from __future__ import annotations

import numpy as np
from scipy.special import entr

from treeleak.attacks.known_draws.candidates import RowProblem
from treeleak.core.arrays import FloatArray, IntArray

_LEAST_VARIANCE = 1e-9
_ROUNDING = 1.0 / 12.0


def entropy_left(problem: RowProblem, u: FloatArray, least: float = -np.inf) -> float:
    """Bound from below the entropy of the open rows once all counts are known, in nats.

    For rows that lie in their candidates with probabilities ``u``, each on its own. What a tree
    counts is worth no more than its own entropy, and whole numbers of covariance S have no more
    than normal ones of S + 1/12: 1/2 log det 2 pi e (S + I / 12). Trees that say the same are
    counted twice, so that more may be left than this, but not less.

    ``least``: trees are no longer asked once no more than that is left.
    """
    left, t = float(entr(u).sum()), 0
    while left > least and t < len(problem.draws):
        left -= _counts_say(problem, u, t)
        t += 1
    return left


def _counts_say(problem: RowProblem, u: FloatArray, t: int) -> float:
    """Bound the entropy of what tree t counts: draws by class, and distinct rows, of each leaf."""
    first, end = problem.first[t], problem.first[t + 1]
    width, n_classes = int(end - first), problem.n_classes
    at = problem.owner * width + problem.equation[t, problem.column] - first
    share = np.asarray(np.bincount(at, u, problem.n_open * width).reshape(-1, width), dtype=float)
    draws = problem.draws[t].astype(np.int64)
    covariance = _covariance(share, draws * draws)
    if len(problem.d):
        starts = np.arange(0, width, n_classes)
        both = np.add.reduceat(_covariance(share, draws), starts, axis=1)
        seen = _covariance(np.add.reduceat(share, starts, axis=1), np.minimum(draws, 1))
        covariance = np.block([[covariance, both], [both.T, seen]])
    open_ = np.diag(covariance) > _LEAST_VARIANCE
    covariance = covariance[np.ix_(open_, open_)] + _ROUNDING * np.eye(int(open_.sum()))
    return 0.5 * float(np.linalg.slogdet(2.0 * np.pi * np.e * covariance)[1])


def _covariance(share: FloatArray, weight: IntArray) -> FloatArray:
    """Covariance of where rows lie, summed with a weight for each; ``share``: rows x equations."""
    weighted = share * weight[:, None]
    return np.asarray(np.diag(weighted.sum(axis=0)) - weighted.T @ share)
