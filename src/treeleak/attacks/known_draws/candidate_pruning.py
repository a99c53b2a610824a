"""Fits over the candidates that are likely enough: a few in a hundred, for a large table.

A fit over all candidates soon says of nearly all that they are not it, long before it says of each
row where it is. What goes on with the others alone is many times faster; now and then all are
looked at again under the multipliers that came of it, and what has become likely joins.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treeleak.attacks.known_draws.candidates import RowProblem, Unmet
from treeleak.attacks.known_draws.dual import Fit, fit
from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.clock import Clock

_UNLIKELY = (1e-12, 1e-24)
"""A candidate this much less likely than the row's best is set aside: at first, and if what is
left meets no counts. After a hundred evaluations over 5,000 rows, one in a thousand rows was in a
place that looked a million times less likely than another, and none in one of 1e-12."""
_ROUND, _ROUNDS = 100, 8
"""Evaluations with the likely candidates until all are looked at again, and how often that is."""

Report = Callable[[RowProblem, Fit], None]


def likely_candidates(problem: RowProblem, u: FloatArray, share: float) -> BoolArray:
    """Say which candidates are no less likely than this share of their row's best."""
    most = np.maximum.reduceat(u, problem.start[:-1])[problem.owner]
    return np.asarray(u >= share * most)


def fewer(problem: RowProblem, u: FloatArray, share: float) -> tuple[RowProblem, FloatArray]:
    """Keep the likely candidates, with their probabilities."""
    part = problem.only(likely_candidates(problem, u, share))
    return part, part.carried(problem, u)


def fit_likely(
    problem: RowProblem, first: Fit, expected: FloatArray | None, clock: Clock, report: Report
) -> tuple[RowProblem, Fit | None]:
    """Go on from a fit until every count is met, or nothing more is gained.

    ``expected``, shape (n_pairs,): rows that the population lets expect in each pair. No fit comes
    back where narrowing alone leaves every row one candidate.
    """
    now, shares = first, list(_UNLIKELY)
    found: tuple[RowProblem, Fit] | None = None
    for _ in range(_ROUNDS):
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
        found = problem, _go_on(problem, first, expected, clock, report, _ROUND * _ROUNDS)
    return found


def _go_on(
    part: RowProblem, now: Fit, expected: FloatArray | None, clock: Clock, report: Report,
    evaluations: int = _ROUND,
) -> Fit:  # fmt: skip
    reference = None if expected is None else np.log(expected[part.pair])[part.column]
    return fit(
        part, clock, reference=reference, start=now.multipliers, evaluations=evaluations,
        report=lambda fit: report(part, fit),
    )  # fmt: skip
