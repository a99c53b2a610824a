"""How well scores separate members of the training set from control people.

Shadow models are trained in the same way on parts of the rows: each pair on a random half of some
people and on the other half, so everybody is a member for one of the two. A person's score under a
model is how sure the model is of their label, less how sure models are of it that did not see them:
the difficulty of the person cancels (offline likelihood ratio attack, Carlini et al. 2022;
calibration by difficulty, Watson et al. 2022; shadow models, Shokri et al. 2017).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput
from treeleak.core.message import MessageTemplate
from treeleak.core.private import dataclass
from treeleak.metrics.inference import LEVEL, Interval, Rate, newcombe

FALSE_POSITIVES = (0.01, 0.001)
"""Shares of the other people that are taken for members, at which members are counted."""

TOO_FEW = MessageTemplate(
    "membership_too_few_control_rows",
    "a share of {share} of false positives needs {needed:number} control rows or more, not "
    "{there:people}",
)


def clopper_pearson(hits: int, n: int, level: float = LEVEL) -> Interval:
    """Bound the probability of a success exactly; from 0 to 1 where nothing was tried."""
    if not 0 <= hits <= n:
        raise BadInput(f"{hits} successes in {n} tries")
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 1 - tail))
    return Interval(low, high)


@dataclass(frozen=True)
class Bounded:
    """A figure, and an interval of 95 % around it."""

    value: float
    interval: Interval

    @classmethod
    def around(cls, value: float, half: float) -> Bounded:
        """Put an interval of this half width around a share, from 0 to 1 at most."""
        return cls(value, Interval(max(value - half, 0.0), min(value + half, 1.0)))

    def to_dict(self) -> dict[str, Any]:
        """Describe it (formats/audit.schema.json)."""
        return {"value": self.value, **self.interval._asdict()}


@dataclass(frozen=True)
class Caught:
    """Members that are told at a low share of false positives.

    Attributes
    ----------
    false_positives : float
        Share of the other people that may be taken for members.
    hits, n : int
        Members above the threshold, and all members.
    needed : int
        Other people that there must be, for this share to be that of one of them at least.
    n_others : int
    """

    false_positives: float
    hits: int
    n: int
    needed: int
    n_others: int

    @property
    def assessed(self) -> bool:
        """Whether there were people enough."""
        return self.n_others >= self.needed

    @property
    def share(self) -> float:
        """Share of the members."""
        return self.hits / self.n

    @property
    def why_not(self) -> str:
        """Why it was not assessed; empty where it was."""
        if self.assessed:
            return ""
        share = f"{100 * self.false_positives:g}%"
        return TOO_FEW(share=share, needed=self.needed, there=self.n_others)

    def to_dict(self) -> dict[str, Any]:
        """Describe it (formats/audit.schema.json); the share is null where not assessed."""
        summary = None
        if self.assessed:
            interval = clopper_pearson(self.hits, self.n)
            summary = {"share": self.share, "n": self.n, **interval._asdict()}
        return {"false_positives": self.false_positives, "true_positives": summary,
                "needed": self.needed}  # fmt: skip


@dataclass(frozen=True)
class Calibration:
    """How far probabilities of membership are from the shares of members.

    Attributes
    ----------
    error : float
        On average over people, in ten bins of equal width (the expected calibration error).
    by_chance : float
        What probabilities that are right would show, of as many people.
    """

    error: float
    by_chance: float


def calibration(members: FloatArray, others: FloatArray, bins: int = 10) -> Calibration:
    """Hold probabilities of membership against shares, both sides of the same weight."""
    off, variance = np.zeros(bins), np.zeros(bins)
    for probability, sign in ((members, 1.0), (others, -1.0)):
        weight = (probability if sign < 0 else 1.0 - probability) / (2.0 * len(probability))
        at = np.minimum((probability * bins).astype(np.int64), bins - 1)
        here = np.bincount(at, weight, bins)
        off += sign * here
        variance += np.bincount(at, weight**2, bins) - here**2 / len(probability)
    # Of a normal error, the mean is this part of the standard deviation.
    chance = math.sqrt(2.0 / math.pi) * np.sqrt(np.maximum(variance, 0.0)).sum()
    return Calibration(float(np.abs(off).sum()), float(chance))


def caught(members: FloatArray, others: FloatArray, false_positives: float) -> Caught:
    """Count members whose score is above that of all but a share of the other people.

    Of people with equal scores, all are told or none.
    """
    most = math.floor(false_positives * len(others) + 1e-9)
    # Above the score of the first that must not be told.
    threshold = np.sort(others)[::-1][most] if most < len(others) else -np.inf
    needed = round(1 / false_positives)
    return Caught(
        false_positives, int((members > threshold).sum()), len(members), needed, len(others)
    )


def auc(members: FloatArray, others: FloatArray, level: float = LEVEL) -> Bounded:
    """Area under the curve: how often a member's score is above that of a control person.

    Equal scores count half. The interval is DeLong's; where scores part all members from all others
    its width would be nothing, so the exact one of as many tries as there are people on the smaller
    side stands there.
    """
    m, n = len(members), len(others)
    if min(m, n) < 2:
        raise BadInput(f"{m} members and {n} other people: two of each are needed")
    above, below = share_below(members, others), 1.0 - share_below(others, members)
    area = float(above.mean())
    sd = math.sqrt(above.var(ddof=1) / m + below.var(ddof=1) / n)
    if sd == 0.0 and area in (0.0, 1.0):
        k = min(m, n)
        return Bounded(area, clopper_pearson(k if area else 0, k, level))
    half = float(ndtri((1 + level) / 2)) * sd
    return Bounded.around(area, half)


def share_below(scores: FloatArray, others: FloatArray) -> FloatArray:
    """Share of the others that each score is above; equal ones count half."""
    order = np.sort(others)
    ends = (np.searchsorted(order, scores, side) for side in ("left", "right"))
    found: FloatArray = (next(ends) + next(ends)) / (2.0 * len(others))
    return found


def advantage(members: FloatArray, others: FloatArray, rng: np.random.Generator) -> Bounded:
    """Share of members less share of other people above a threshold: 0 for who guesses, 1 at most.

    The threshold is the best for half of the people, drawn at random; the shares are those of the
    other half, so that none is large by choice. The interval is Newcombe's.
    """
    m, n = rng.permutation(members), rng.permutation(others)
    tuned, held = (m[::2], n[::2]), (m[1::2], n[1::2])
    marks = np.unique(np.concatenate(tuned))
    above = [
        1.0 - np.searchsorted(np.sort(scores), marks, "left") / len(scores) for scores in tuned
    ]
    mark = marks[(above[0] - above[1]).argmax()]
    a, b = (Rate(int((scores >= mark).sum()), len(scores)) for scores in held)
    low, high = newcombe(a, b)
    bounds = Interval(max(low, 0.0), min(max(high, 0.0), 1.0))
    return Bounded(max(a.share - b.share, 0.0), bounds)


FEW_FALSE_POSITIVES = 0.01
"""Share of the people left out who are taken for members, at which members are counted."""
_CERTAIN = 1e-6
"""Probabilities nearer than this to 0 or 1 are taken for this far away: logits stay finite."""


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
    """Logit of the probability that a model gives to the true class (LiRA, eq. 2)."""
    p = np.clip(probabilities, _CERTAIN, 1 - _CERTAIN)
    return np.asarray(np.log(p / (1 - p)))


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
    enough = n // 2 >= 1 / FEW_FALSE_POSITIVES
    for k, (score, member) in enumerate(zip(calibrated, inside, strict=True)):
        outside, within = score[~member], score[member]
        below = share_below(within, outside)
        above[member] += below
        above[~member] += 1.0 - share_below(outside, within)
        areas[k] = below.mean()
        if enough:
            most = math.floor(FEW_FALSE_POSITIVES * len(outside))
            caught[member] += within > np.sort(outside)[::-1][most]
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
