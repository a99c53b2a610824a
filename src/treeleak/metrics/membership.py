"""How well scores separate members of the training set from control people."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from treeleak.core.arrays import FloatArray
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
    threshold = to_pass(others, false_positives)
    needed = round(1 / false_positives)
    return Caught(
        false_positives, int((members > threshold).sum()), len(members), needed, len(others)
    )


def to_pass(others: FloatArray, false_positives: float) -> float:
    """Find the score above which all but a share of the other people are not."""
    most = math.floor(false_positives * len(others) + 1e-9)
    # That of the first that must not be told.
    return float(np.sort(others)[::-1][most]) if most < len(others) else -math.inf


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
