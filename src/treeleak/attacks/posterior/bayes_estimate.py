"""The one dataset that errs least on average over samples of a posterior."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from treeleak.attacks.answer import Rows
from treeleak.attacks.consensus import (
    MAX_ALIGNED,
    aligned_shares,
    cheapest,
    confidence,
    expected_distance,
)
from treeleak.attacks.posterior.schedule import SCHEDULE
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.samples import Samples
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import clearly_less
from treeleak.core.private import dataclass
from treeleak.partition import rules_hold
from treeleak.partition.value_index import ValueIndex


@dataclass(frozen=True, eq=False)
class BayesEstimate:
    """The dataset that errs least on average over samples."""

    chosen: IntArray
    """Shape (n_rows, n_attributes + 1). Values, numbered over all attributes."""
    share: FloatArray
    """Shape (n_rows, n_values). Probability of each value in each row."""
    n_samples: int
    """How many it was made of."""
    error: float
    """Mean distance, per row and column, from the samples that judge it, each matched with it."""


def bayes_estimate(
    samples: Samples, target: PosteriorTarget, clock: Clock, judges: Samples, seed: int
) -> tuple[Rows, float]:
    """Find the dataset that errs least on average over the samples, and how sure each value is.

    Parameters as for :func:`middle`.

    Returns
    -------
    Rows
    float
        See :attr:`BayesEstimate.error`.
    """
    found = middle(samples, target, clock, judges, seed)
    rows = weighed(found.chosen, found.share, found.n_samples, samples.values, target)
    return rows, found.error


def middle(
    samples: Samples, target: PosteriorTarget, clock: Clock, judges: Samples, seed: int
) -> BayesEstimate:
    """Find the dataset that errs least on average over the samples.

    Two are compared. The first takes the likeliest value wherever leaves do not tell values apart,
    which is then the same one in many rows. The second begins with values drawn there: rows that
    differ as those of a dataset do are nearer to them, each to another. With more rows than are
    aligned at once, there is the first only.

    Parameters
    ----------
    judges : Samples
        May be others. Values are drawn for their atoms.
    """
    clock.report_progress("settling on one dataset", 1.0)
    values = samples.values
    numbered = [samples.numbered(k) for k in range(len(samples))]
    best = _central(values, numbered, samples.value_prior, target, clock, order=samples.in_turn)
    if target.n_rows > MAX_ALIGNED:
        # Rows are then matched in parts, at little cost where they are equal: drawn ones are not.
        others = [judges.numbered(k) for k in range(len(judges))]
        far = partial(_distance, values, others, judges.value_prior, target)
        return BayesEstimate(*best, far(best[0]))
    alone, certain = values.listed, np.ones(values.n_values)
    most, rng = (
        min(SCHEDULE.most_sampled_rows // max(target.n_rows, 1), SCHEDULE.most_samples),
        np.random.default_rng(seed),
    )
    few, judging = samples.thinned(most), judges.thinned(most)
    others = [judging.draw_values(judging.numbered(k), rng) for k in range(len(judging))]
    far = partial(_distance, alone, others, certain, target)
    error = far(best[0])
    if not clock.stopped and (np.bincount(values.atom_of)[values.atom_of[best[0]]] > 1).any():
        start = few.draw_values(values.atom_of[best[0]], rng)
        drawn = [few.draw_values(few.numbered(k), rng) for k in range(len(few))]
        varied = _central(alone, drawn, certain, target, clock, start, few.in_turn)
        if clearly_less(reached := far(varied[0]), error):
            best, error = varied, reached
    return BayesEstimate(*best, error)


def distance(chosen: IntArray, judges: Samples, seed: int) -> float:
    """Mean distance of samples, with a value drawn for each atom, from one dataset of values.

    Rows are matched across classes, as errors are measured.
    """
    judging = judges.thinned(
        min(SCHEDULE.most_sampled_rows // max(len(chosen), 1), SCHEDULE.most_samples)
    )
    values, rng = judging.values, np.random.default_rng(seed)
    others = [judging.draw_values(judging.numbered(k), rng) for k in range(len(judging))]
    far = expected_distance(values.listed, chosen, others, np.ones(values.n_values))
    return far / values.n_columns


def _distance(
    values: ValueIndex,
    others: Sequence[IntArray],
    value_prior: FloatArray,
    target: PosteriorTarget,
    chosen: IntArray,
) -> float:
    """Mean distance of datasets from one of values, per row and column.

    Rows are matched on all columns, as errors are measured: a row may stand for one of which other
    values are known, if that is nearer. What was known is no error.
    """
    start, moves = target.values.atom_start, target.moves
    one = np.add.reduceat(moves.allowed, start[:-1], axis=1, dtype=np.int64) == 1
    known = (one & (np.diff(start) > 1))[moves.group][:, :-1]
    far = expected_distance(values, chosen, others, value_prior, known=known)
    return far / values.n_columns


def _central(
    values: ValueIndex,
    samples: Sequence[IntArray],
    value_prior: FloatArray,
    target: PosteriorTarget,
    clock: Clock,
    start: IntArray | None = None,
    order: IntArray | None = None,
) -> tuple[IntArray, FloatArray, int]:
    """Take the cheapest values over aligned samples.

    With them come the shares of all values, and how many samples there was time for.
    """
    share, aligned = aligned_shares(
        values, samples, value_prior, target.moves.group, stopped=lambda: clock.stopped,
        start=start, order=order,
    )  # fmt: skip
    # Between two values that are allowed there may lie one that is not.
    cost = np.where(_allowed(target), values.expected_cost(share), np.inf)
    chosen = cheapest(cost, values.start)
    if rules := target.geometry.schema.rules:
        for k in np.flatnonzero(~rules_hold(rules, target.geometry.parts, _atoms(chosen, target))):
            # Rows of samples meet all rules: of those that stand for this one, the nearest.
            allowed_cost = np.where(
                values.atom_of == np.array([a[k] for a in aligned])[:, :, None], cost[k], np.inf
            )
            chosen[k] = allowed_cost[allowed_cost.min(axis=2).sum(axis=1).argmin()].argmin(axis=1)
    return chosen, share, len(aligned)


def weighed(
    chosen: IntArray, share: FloatArray, n_samples: int, values: ValueIndex, target: PosteriorTarget
) -> Rows:
    """Say how sure each value is, and how many counts the rows miss."""
    n_open = np.add.reduceat(_allowed(target), values.start[:-1], axis=1, dtype=np.int64)
    likely = np.take_along_axis(share, chosen, axis=1)
    sure = confidence(likely, n_samples, SCHEDULE.sample_doubt, n_open)
    sure[n_open == 1] = 1.0
    label = chosen[:, -1] - values.start[-2]
    leaves = target.geometry.trace_atoms(_atoms(chosen, target))
    missing = target.likelihood.missing(target.likelihood.held(leaves, label))
    return Rows(chosen, sure, np.zeros(len(chosen), dtype=bool), False, missing)


def _allowed(target: PosteriorTarget) -> BoolArray:
    """Which values each row may have, shape (n_rows, n_values)."""
    return np.asarray(target.moves.allowed[:, target.values.atom_of][target.moves.group])


def _atoms(chosen: IntArray, target: PosteriorTarget) -> IntArray:
    """Atoms of the values of rows, counted from 0 in each attribute; without the class."""
    values = target.values
    return np.asarray(values.atom_of[chosen[:, :-1]] - values.atom_start[:-2])
