"""From rows that meet the counts to the one dataset that is handed over.

How sure rows are that miss counts is said by a second walk that started apart. A walk finds the
value of a row with some probability; else it holds any value, as often as the column does. How
often two walks agree, beyond chance, says how probable that is, column by column. By chance, two
rows agree as other rows of the same walk do, matched if the walks are: rows of the same people are
alike. Rows are of two kinds, for one that is found in many columns is likely found in the others,
too. How far both walks are apart is about how far each is from the training set.
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
from treeleak.attacks.consensus import ASTRAY, MAX_ALIGNED, aligned_shares, cheapest, confidence
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
    walks: Sequence[IntArray], best: IntArray, misfit: int, values: ValueIndex, exchangeable: bool
) -> tuple[Rows, float]:
    """Say how sure the best rows are, and how far from the training set, per row and column.

    Rows are numbered atoms, the class last. ``best``: with their ``misfit``; as in the first walk,
    or, where rows have places, near it. ``exchangeable``: whether rows have no places of their own,
    and are matched.
    """
    one = walks[0]
    two = next((other for other in walks[1:] if (other != one).any()), one)
    two, far = _matched(best, two, values, exchangeable)
    others, usual = _matched(best, best, values, exchangeable, apart=True)
    # One row more, which is led astray: walks that came to the same may be.
    far = (len(one) * far + usual) / (len(one) + 1)
    if not exchangeable:
        others = np.random.default_rng(0).permutation(two)
    chance = (one == others).mean(axis=0)
    frequent = np.bincount(np.concatenate([one, two]).ravel(), minlength=values.n_atoms)
    # Whatever all rows hold, others may not.
    share = frequent / (2 * len(one) + 1)
    sure = _sure_by_bayes(
        one, two, _found(one == two, chance), share, _matching(chance, share, values)
    )
    sure = (1.0 - ASTRAY[0]) * sure + ASTRAY[0] * share[one]
    sure *= values.prior(frequent / 2)[values.first[one]]
    none = np.zeros(len(one), dtype=bool)
    return Rows(values.first[best], sure, none, False, misfit), far / values.n_columns


def _matched(
    one: IntArray, two: IntArray, values: ValueIndex, exchangeable: bool, apart: bool = False
) -> tuple[IntArray, float]:
    """Order rows of the second walk as those of the first that they are nearest to.

    ``apart``: row k does not stand for row k. Says how far rows are from these, without the class.
    """
    out, far = two.copy(), list[float]()
    order = [
        np.lexsort(sample.T[::-1]) if exchangeable else np.arange(len(sample))
        for sample in (one, two)
    ]
    # Where rows have places, some of them say how far all are.
    n_rows = len(one) if exchangeable else min(len(one), MAX_ALIGNED)
    for begin in range(0, n_rows, MAX_ALIGNED):
        i, j = (sample[begin : begin + MAX_ALIGNED] for sample in order)
        cost, label = values.apart(one[i], two[j])
        both = cost + label
        if apart and len(i) > 1:
            np.fill_diagonal(both, SCHEDULE.most_odds)
        x, y = linear_sum_assignment(both)
        far += cost[x, y].tolist()
        if exchangeable:
            out[i[x]] = two[j[y]]
    return out, float(np.mean(far)) if far else 0.0


def _found(agree: FloatArray, chance: FloatArray) -> FloatArray:
    """How probable it is that a walk finds the value of a row, shape (n_rows, n_attributes + 1).

    Two walks agree with the probability q = t^2 + (1 - t^2) c, if each finds the value with t, and
    values agree by chance with c.
    """
    share = agree.mean(axis=1)
    kind = (share > np.median(share)).astype(float)
    for _ in range(SCHEDULE.em_rounds):
        weight = np.array([1.0 - kind, kind])
        q = (weight @ agree + SCHEDULE.pair_doubt) / (
            weight.sum(axis=1)[:, None] + 2 * SCHEDULE.pair_doubt
        )
        log = agree @ logit(q).T + np.log1p(-q).sum(axis=1)
        kind = expit(
            log[:, 1]
            - log[:, 0]
            + logit(np.clip(kind.mean(), SCHEDULE.least_odds, 1 - SCHEDULE.least_odds))
        )
    t = np.sqrt(np.clip((q - chance) / np.maximum(1.0 - chance, SCHEDULE.least_odds), 0.0, 1.0))
    return np.asarray(
        np.clip(np.column_stack([1.0 - kind, kind]) @ t, 0.0, 1.0 - SCHEDULE.least_odds)
    )


def _matching(chance: FloatArray, share: FloatArray, values: ValueIndex) -> FloatArray:
    """How probable it is that values agree because rows are matched, shape (n_attributes + 1,).

    Else they do as often as values of any two rows: c = k + (1 - k) sum m_v^2.
    """
    any_two = np.add.reduceat(share**2, values.atom_start[:-1])
    return np.asarray(
        np.clip((chance - any_two) / np.maximum(1.0 - any_two, SCHEDULE.least_odds), 0.0, 1.0)
    )


def _sure_by_bayes(
    one: IntArray, two: IntArray, t: FloatArray, share: FloatArray, k: FloatArray
) -> FloatArray:
    """How probable the first walk's values are, by Bayes' rule.

    Where x is true, a walk holds x with the probability t + (1 - t) (k + (1 - k) m_x), and any
    other value v with (1 - t) (1 - k) m_v. A second walk that is wrong holds what the first does
    with (1 - t) (k + (1 - k) m_v).
    """
    m, n = np.maximum(share[one], SCHEDULE.least_odds), np.maximum(share[two], SCHEDULE.least_odds)
    wrong = (1.0 - t) * (1.0 - k)
    same_one, same_two = ((1.0 - t) * k + wrong * number for number in (m, n))
    same = one == two
    true = m * (t + same_one) * np.where(same, t + same_one, wrong * n)
    second = np.where(same, 0.0, n * wrong * m * (t + same_two))
    rest = np.maximum(1.0 - m - np.where(same, 0.0, n), 0.0) * wrong * m
    rest *= np.where(same, same_one, wrong * n)
    return np.asarray(true / np.maximum(true + second + rest, SCHEDULE.least_odds**4))


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
) -> tuple[Rows, float] | None:
    """Choose among the datasets that meet the counts: the nearest to the Bayes estimate.

    Says how far it is from the training set. None where that takes too large tables, or too long.
    """
    if found.misfit and constraints.n_rows:
        start = values.atom_start[:-1]
        walks = [w.rows.best + start for w in sorted(found.walkers, key=lambda w: w.misfit)]
        misfit = constraints.misfit(found.atoms, found.label)
        return by_two_walks(walks, walks[0], misfit, values, constraints.exchangeable)
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
