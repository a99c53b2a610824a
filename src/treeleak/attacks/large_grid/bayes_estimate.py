"""From rows that meet the counts to the one dataset that is handed over.

Of rows that miss counts, nothing says how probable they are. A second walk that started apart says
how often walks come to the same, column by column: so often, samples keep a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import expit, logit

from treeleak.attacks.answer import Rows
from treeleak.attacks.consensus import MAX_ALIGNED, aligned_shares, cheapest, confidence
from treeleak.attacks.large_grid.learned_prior import learned, near
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.schedule import SCHEDULE
from treeleak.attacks.large_grid.walk_kernels import WalkSettings
from treeleak.attacks.large_grid.walkers import Walker, WalkResult, all_walked, taught
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import MOST_SURE
from treeleak.partition.value_index import ValueIndex


def by_two_walks(
    walks: Sequence[IntArray], misfit: int, values: ValueIndex, exchangeable: bool
) -> Rows:
    """Take the first walk's rows, each column as sure as a second walk comes to the same.

    Rows are numbered atoms, the class last. ``exchangeable``: whether rows have no places of their
    own, and are matched with those that they are nearest to.
    """
    one = walks[0]
    two = next((other for other in walks[1:] if (other != one).any()), one)
    if exchangeable:
        two = _matched(one, two, values)
    # The rule of succession: what two walks did not meet is not impossible, nor the rest certain.
    same = ((one == two).sum(axis=0) + 1) / (len(one) + 2)
    none = np.zeros(len(one), dtype=bool)
    return Rows(values.first[one], np.tile(same, (len(one), 1)), none, False, misfit)


def _matched(one: IntArray, two: IntArray, values: ValueIndex) -> IntArray:
    """Order rows of the second walk as those of the first that they are nearest to."""
    out = two.copy()
    first, second = (np.lexsort(rows.T[::-1]) for rows in (one, two))
    for begin in range(0, len(one), MAX_ALIGNED):
        i, j = (order[begin : begin + MAX_ALIGNED] for order in (first, second))
        cost, label = values.apart(one[i], two[j])
        x, y = linear_sum_assignment(cost + label)
        out[i[x]] = two[j[y]]
    return out


_SAMPLE = WalkSettings(2.2, 0.0, 0.0, 4, False, False, False)
_NEAR = WalkSettings(2.5, 0.0, 0.4, 4, False, False, True)
"""How rows walk where they meet every count, and from the Bayes estimate to where they do."""
_MOST_SHARES, _LATE = 2**27, 2**20
"""Most (row, value) pairs, and most pairs of values of an attribute, over all: 1 GiB; and once the
time is up, when more would take longer than a step may go on."""


def estimate_rows(
    found: WalkResult,
    values: ValueIndex,
    constraints: RowConstraints,
    clock: Clock,
    stage: str,
) -> tuple[Rows, float | None] | None:
    """Choose among the datasets that meet the counts: the nearest to the Bayes estimate.

    Says how far it is from the training set, if counts are met. None where that takes too large
    tables, or too long.
    """
    if found.misfit and constraints.n_rows:
        start = values.atom_start[:-1]
        walks = [w.rows.best + start for w in sorted(found.walkers, key=lambda w: w.misfit)]
        misfit = constraints.misfit(found.atoms, found.label)
        return by_two_walks(walks, misfit, values, constraints.exchangeable), None
    if _too_many(constraints, values, _MOST_SHARES):
        return None
    samples = [np.column_stack([found.atoms, found.label]) + values.atom_start[:-1]]
    if constraints.n_rows:
        samples += _drawn(found, constraints, values, clock, stage)
    if clock.stopped and _too_many(constraints, values, _LATE):
        return None
    share, aligned = _shares(samples, values, found, constraints, clock)
    atoms, cost = aligned[0], values.expected_cost(share)
    if len(samples) > 1:
        atoms = _nearest(atoms, cost, values, constraints, clock, stage)
    chosen = values.cheapest(atoms, cost)
    sure = _sure(chosen, share, aligned, values)
    proved = np.zeros(len(chosen), dtype=bool)
    rows = Rows(chosen, sure, proved, False, found.misfit, np.stack(aligned))
    return rows, values.mean_cost(chosen, cost)


def _too_many(constraints: RowConstraints, values: ValueIndex, most: int) -> bool:
    pairs = int(np.square(np.diff(values.start)).sum())
    return max(constraints.n_rows * values.n_values, pairs) > most


def _shares(
    samples: list[IntArray],
    values: ValueIndex,
    found: WalkResult,
    constraints: RowConstraints,
    clock: Clock,
) -> tuple[FloatArray, list[IntArray]]:
    """Shares of datasets in which rows have each value, and the datasets with rows in order."""
    marginal = np.bincount(np.concatenate(samples).ravel(), minlength=values.n_atoms)
    prior = values.prior(marginal / len(samples))
    group = found.label if constraints.exchangeable else np.arange(constraints.n_rows)
    return aligned_shares(values, samples, prior, group, stopped=lambda: clock.stopped)


def _sure(
    chosen: IntArray, share: FloatArray, aligned: list[IntArray], values: ValueIndex
) -> FloatArray:
    """Say how probable values are that so many datasets have: as probable as one more has them.

    Each dataset in turn is held against the others (Good and Turing): of a value that j of the
    other n - 1 have, the held one has it with the probability (j + 1) N_j+1 / ((j + 1) N_j+1 +
    (n - j) N_j), where N_j values of rows are in j of all.
    """
    likely, n = np.take_along_axis(share, chosen, axis=1), len(aligned)
    if n == 1:
        # An interval is listed as one value and holds many: it is never certain.
        return confidence(likely, n, SCHEDULE.sample_doubt, np.maximum(np.diff(values.start), 2))
    row, atom, others = np.arange(len(chosen)), values.atom_of[chosen], np.arange(n)
    times, hits, misses = np.zeros(chosen.shape), *np.zeros((2, chosen.shape[1], n))
    for a, (begin, end) in enumerate(pairwise(values.atom_start)):
        seen = np.zeros((len(chosen), end - begin), dtype=np.int64)
        for one in aligned:
            seen[row, one[:, a] - begin] += 1
        there = np.bincount(seen.ravel(), minlength=n + 1)
        hits[a], misses[a] = (others + 1) * there[1:], (n - others) * there[:-1]
        times[:, a] = seen[row, atom[:, a] - begin]
    # Columns of few rows say little of themselves.
    usual = (hits.sum(axis=0) + 0.5) / (hits.sum(axis=0) + misses.sum(axis=0) + 1.0)
    again = (hits + usual) / (hits + misses + 1.0)
    once_more = np.column_stack(
        [
            np.interp(column_times * (n - 1) / n, others, odds)
            for column_times, odds in zip(times.T, logit(again), strict=True)
        ]
    )
    inside = likely * n / np.maximum(times, 1.0)
    return np.asarray(np.clip(expit(once_more) * inside, 1.0 - MOST_SURE, MOST_SURE))


def _drawn(
    found: WalkResult, constraints: RowConstraints, values: ValueIndex, clock: Clock, stage: str
) -> list[IntArray]:
    """Let the rows walk on under what they are found to be like, and note where they are."""
    walkers = [walker.forgetful() for walker in found.walkers]
    labels = [w.rows.label.astype(np.int64) for w in walkers]
    drawn: list[NDArray[np.int32]] = []
    for k in range(SCHEDULE.prior_fits + SCHEDULE.samples):
        if clock.stopped:
            break
        fitting = k < SCHEDULE.prior_fits
        if k and k <= SCHEDULE.prior_fits:
            likes = learned(constraints, drawn, labels * (len(drawn) // len(walkers)))
            walkers = taught(walkers, likes)
            drawn = []
        for _ in range(SCHEDULE.datasets_per_fit if fitting else 1):
            if drawn and clock.stopped:
                break
            sweeps = SCHEDULE.sweeps_per_fit if fitting else SCHEDULE.sweeps_apart
            walkers = all_walked(walkers, sweeps, _SAMPLE)
            drawn += [w.atoms for w in walkers]
        clock.report_progress(
            f"{stage}: drawing datasets",
            0.7 + 0.2 * k / (SCHEDULE.prior_fits + SCHEDULE.samples),
            0,
        )
    both = [np.column_stack(pair) for pair in zip(drawn, labels * len(drawn), strict=False)]
    return [b.astype(np.int64) + values.atom_start[:-1] for b in both]


def _nearest(
    atoms: IntArray,
    cost: FloatArray,
    values: ValueIndex,
    constraints: RowConstraints,
    clock: Clock,
    stage: str,
) -> IntArray:
    """Go from the Bayes estimate to a dataset that meets the counts, if that is near."""
    atom_cost = np.minimum.reduceat(cost, values.first, axis=1)
    n_atoms = values.atom_start[-2]
    estimate = cheapest(atom_cost[:, :n_atoms], values.atom_start[:-1]) - values.atom_start[:-2]
    estimate = np.where(constraints.held < 0, estimate, constraints.held)
    label = atoms[:, -1:] - values.atom_start[-2]
    walker = Walker.started(constraints, 0, np.hstack([estimate, label]).astype(np.int32))
    walker = replace(
        walker, likes=near(constraints, atom_cost[:, :n_atoms], SCHEDULE.distance_strength)
    )
    done = 0
    while walker.misfit and done < SCHEDULE.nearest_sweeps and not clock.stopped:
        walker, sweeps = walker.walked(SCHEDULE.nearest_sweeps // 20, _NEAR)
        done += sweeps
        clock.report_progress(
            f"{stage}: settling on one", 0.9 + 0.1 * done / SCHEDULE.nearest_sweeps, 0
        )
    if walker.misfit:
        return atoms
    there = walker.rows.best.astype(np.int64) + values.atom_start[:-1]
    ways = [float(np.take_along_axis(atom_cost, a, axis=1).sum()) for a in (atoms, there)]
    return there if ways[1] < ways[0] else atoms


def unweighed(atoms: IntArray, misfit: int, values: ValueIndex) -> Rows:
    """Rows where there are too many values to weigh them against each other."""
    chosen = values.first[atoms]
    proved = np.zeros(len(atoms), dtype=bool)
    return Rows(chosen, np.full(chosen.shape, SCHEDULE.unweighed), proved, False, misfit)
