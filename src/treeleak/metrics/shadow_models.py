"""Membership inference with shadow models: models trained in the same way on parts of the rows.

Each pair of models is trained on a random half of some people and on the other half, so everybody
is a member for one of the two. A person's score under a model is how sure the model is of their
label, less how sure models are of it that did not see them: the difficulty of the person cancels
(offline likelihood ratio attack, Carlini et al. 2022; calibration by difficulty, Watson et al.
2022; shadow models, Shokri et al. 2017).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.metrics.inference import LEVEL, Interval
from treeleak.metrics.membership import Bounded, auc, clopper_pearson, share_below, to_pass

FALSE_POSITIVES = 0.01
"""Share of the people left out who are taken for members, at which members are counted."""


@dataclass(frozen=True)
class ShadowScore:
    """How well models of one size tell members from people left out.

    Attributes
    ----------
    rows : int
        Training rows of each model.
    models : int
    auc : Bounded
        How often a member scores above a person left out; 0.5 by chance.
    caught : Bounded or None
        Share of members who score above all but 1 % of the people left out; None where these are
        fewer than a hundred.
    """

    rows: int
    models: int
    auc: Bounded
    caught: Bounded | None


def halves(
    labels: NDArray[Any], rows: int, pairs: int, rng: np.random.Generator
) -> tuple[IntArray, BoolArray]:
    """Choose people, and halves of them to train pairs of models on.

    Parameters
    ----------
    labels : array, shape (n_rows,)
        Of classes; each is halved by itself. For targets that are no classes, all the same.
    rows : int
        Training rows of each model, at most n_rows // 2.
    pairs : int
    rng : Generator

    Returns
    -------
    people : int array, shape (n_people,)
        About ``2 * rows`` of them.
    inside : bool array, shape (2 * pairs, n_people)
        Whom each model sees; models 2 k and 2 k + 1 are a pair.
    """
    n = len(labels)
    people = np.sort(rng.permutation(n)[: min(2 * rows, n)])
    _, group = np.unique(labels[people], return_inverse=True)
    inside = np.zeros((2 * pairs, len(people)), dtype=bool)
    for pair in range(pairs):
        # In the order of classes, every other person: each class is halved but for one person.
        order = np.lexsort((rng.random(len(people)), group.ravel()))
        inside[2 * pair, order[::2]] = True
        inside[2 * pair + 1] = ~inside[2 * pair]
    return people, inside


def confidence_of(probabilities: FloatArray) -> FloatArray:
    """Scale the probability that a model gives to the true class: arcsin √p.

    For the share of trees that vote for a class, noise has the same variance everywhere on this
    scale (Anscombe 1948). The logit (LiRA, eq. 2) has no bound, so a share of 0 or 1 would have to
    be cut off somewhere; where decides more than what is measured.
    """
    return np.asarray(np.arcsin(np.sqrt(np.clip(probabilities, 0.0, 1.0))))


def left_out_of(scores: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Mean score of people who are in no model's rows, from as many models as for a member.

    One model of each pair, by chance: the mean of more models would be nearer to its expectation,
    and so tell these people from members who are not disclosed.

    Parameters
    ----------
    scores : array, shape (2 * pairs, n_people)
    rng : Generator

    Returns
    -------
    array, shape (n_people,)
    """
    first = rng.random((len(scores) // 2, scores.shape[1])) < 0.5
    return np.asarray(np.where(first, scores[::2], scores[1::2]).mean(axis=0))


def scored(scores: FloatArray, inside: BoolArray, level: float = LEVEL) -> ShadowScore:
    """Attack each model with the others as shadow models.

    Parameters
    ----------
    scores, inside : array, shape (2 * pairs, n_people)
        How sure each model is of each person's label, and whom it saw; two pairs or more.
    level : float
        Of intervals. They allow for the choice of people, and of halves.
    """
    models, n = scores.shape
    pairs = models // 2
    # Models of its own pair saw the other half: they stand for nobody.
    left_out = np.where(inside[::2], scores[1::2], scores[::2])
    others = (left_out.sum(axis=0) - left_out) / (pairs - 1)
    calibrated = scores - np.repeat(others, 2, axis=0)
    areas = np.empty(models)
    above, caught = np.zeros(n), np.zeros(n)
    enough = n // 2 >= 1 / FALSE_POSITIVES
    for k, (score, member) in enumerate(zip(calibrated, inside, strict=True)):
        outside, within = score[~member], score[member]
        below = share_below(within, outside)
        above[member] += below
        above[~member] += 1.0 - share_below(outside, within)
        areas[k] = below.mean()
        if enough:
            caught[member] += within > to_pass(outside, FALSE_POSITIVES)
    z = float(ndtri((1 + level) / 2))
    by_person = above / pairs
    variance = by_person.var(ddof=1) / n + areas.reshape(-1, 2).mean(axis=1).var(ddof=1) / pairs
    rates = caught / pairs
    return ShadowScore(
        rows=int(inside[0].sum()),
        models=models,
        auc=Bounded.around(float(areas.mean()), z * math.sqrt(variance)),
        caught=Bounded.around(float(rates.mean()), z * rates.std(ddof=1) / math.sqrt(n))
        if enough
        else None,
    )


@dataclass(frozen=True)
class DirectScore:
    """How well a model's predictions tell its training rows from rows of other people.

    Attributes
    ----------
    members, others : int
        Training rows, and rows of other people, that were scored.
    models : int
        Shadow models that say how hard each person's label is; 0 where none were trained.
    auc : Bounded
        How often a training row scores above another person's; 0.5 by chance.
    caught : Bounded or None
        Share of training rows that score above all but 1 % of the other people; None where these
        are fewer than a hundred.
    """

    members: int
    others: int
    models: int
    auc: Bounded
    caught: Bounded | None


def direct(members: FloatArray, others: FloatArray, models: int) -> DirectScore:
    """Compare scores of training rows with those of other people, both less their difficulty."""
    n, share = len(members), None
    if len(others) >= 1 / FALSE_POSITIVES:
        hit = members > to_pass(others, FALSE_POSITIVES)
        share = Bounded(float(hit.mean()), clopper_pearson(int(hit.sum()), n))
    return DirectScore(n, len(others), models, auc(members, others), share)


def at_full_size(scores: list[ShadowScore], n_rows: int) -> Bounded | None:
    """Bound the AUC of a model of all rows from those of smaller models.

    It falls with every doubling of the rows by no more than it fell with the last one, in the ends
    of the intervals that make this most; up to half of the rows nothing is said beyond what was
    measured, and of one size alone nothing.

    Parameters
    ----------
    scores : list of ShadowScore
        By their size, each twice that of the one before.
    n_rows : int
        Of the model.

    Returns
    -------
    Bounded or None
    """
    if not scores:
        return None
    last = scores[-1]
    doublings = max(math.log2(n_rows / 2 / last.rows), 0.0)
    if doublings < 0.5:
        return last.auc
    if len(scores) < 2:
        return None
    before = scores[-2].auc
    low, high = last.auc.interval
    kept = _kept(low, before.interval.high) ** doublings
    value = 0.5 + (last.auc.value - 0.5) * _kept(last.auc.value, before.value) ** doublings
    return Bounded(value, Interval(0.5 + (low - 0.5) * kept, high))


def _kept(after: float, before: float) -> float:
    """Share of the excess over chance that is left after a doubling; 1 at most."""
    if before <= 0.5:
        return 1.0
    return min(max(after - 0.5, 0.0) / (before - 0.5), 1.0)
