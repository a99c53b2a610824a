"""Fits over the candidates that are likely enough: a few in a hundred, for a large table.

A fit over all candidates soon says of nearly all that they are not it, long before it says of each
row where it is. What goes on with the others alone is many times faster; now and then all are
looked at again under the multipliers that came of it, and what has become likely joins.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import entr

from treeleak.attacks.known_draws.candidates import RowProblem, Unmet
from treeleak.attacks.known_draws.dual import Fit, fit
from treeleak.attacks.known_draws.schedule import SCHEDULE
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock

Report = Callable[[RowProblem, Fit], None]
HARDLY = 1e-6
"""A candidate this much less likely than the row's best is set aside while rows are sharpened, and
in the first try at a proof."""


def likely_candidates(problem: RowProblem, u: FloatArray, share: float) -> BoolArray:
    """Say which candidates are no less likely than this share of their row's best."""
    most = np.maximum.reduceat(u, problem.start[:-1])[problem.owner]
    return np.asarray(u >= share * most)


def fewer(problem: RowProblem, u: FloatArray) -> tuple[RowProblem, FloatArray]:
    """Set unlikely candidates aside, but none where each row would have one left."""
    part = problem.only(likely_candidates(problem, u, HARDLY))
    return (part, part.carried(problem, u)) if part.n_open else (problem, u)


def fit_likely(
    problem: RowProblem, first: Fit, expected: FloatArray | None, clock: Clock, report: Report
) -> tuple[RowProblem, Fit | None]:
    """Go on from a fit until every count is met, or nothing more is gained.

    ``expected``, shape (n_pairs,): rows that the population lets expect in each pair. No fit comes
    back where narrowing alone leaves every row one candidate.
    """
    now, shares = first, list(SCHEDULE.unlikely_candidate)
    found: tuple[RowProblem, Fit] | None = None
    for _ in range(SCHEDULE.likely_rounds):
        try:
            part = problem.only(likely_candidates(problem, now.u, shares[0])).narrowed(clock)
            if not part.n_open:
                return part, None
            found = part, _go_on(part, now, expected, clock, report)
        except Unmet:
            # Something true was set aside.
            del shares[0]
            if not shares:
                break
            continue
        last = found[1]
        if not last.misfit or last.levelled or clock.stopped:
            break
        now = _go_on(problem, last, expected, clock, report, 1)
    if found is None:
        found = (
            problem,
            _go_on(
                problem,
                first,
                expected,
                clock,
                report,
                SCHEDULE.likely_evaluations * SCHEDULE.likely_rounds,
            ),
        )
    return found


def _go_on(
    part: RowProblem, now: Fit, expected: FloatArray | None, clock: Clock, report: Report,
    evaluations: int = SCHEDULE.likely_evaluations,
) -> Fit:  # fmt: skip
    reference = None if expected is None else np.log(expected[part.pair])[part.column]
    return fit(
        part, clock, reference=reference, start=now.multipliers, evaluations=evaluations,
        report=lambda fit: report(part, fit),
    )  # fmt: skip


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
    open_ = np.diag(covariance) > SCHEDULE.open_variance
    covariance = covariance[np.ix_(open_, open_)] + SCHEDULE.rounding_variance * np.eye(
        int(open_.sum())
    )
    return 0.5 * float(np.linalg.slogdet(2.0 * np.pi * math.e * covariance)[1])


def _covariance(share: FloatArray, weight: IntArray) -> FloatArray:
    """Covariance of where rows lie, summed with a weight for each; ``share``: rows x equations."""
    weighted = share * weight[:, None]
    return np.asarray(np.diag(weighted.sum(axis=0)) - weighted.T @ share)
