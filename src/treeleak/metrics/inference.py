"""How often an attack on single people succeeds, beside a baseline without the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import ndtri

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.95
"""Of all intervals here."""

MOST_VALUES = 60
"""Values of which one is guessed; of more, the mean."""
AT_ONCE = 10_000_000
"""Pairs of people and rows whose distances are held at once."""
ROUNDING = 1e-9


class Interval(NamedTuple):
    """Both ends of an interval."""

    low: float
    high: float


def wilson(hits: int, n: int, level: float = LEVEL) -> Interval:
    """Bound the probability of a success by Wilson's interval.

    Parameters
    ----------
    hits, n : int
        Successes, and tries.
    level : float

    Returns
    -------
    Interval
        From 0 to 1 where nothing was tried.

    Raises
    ------
    BadInput
        If there are more successes than tries, or fewer than none.
    """
    if not 0 <= hits <= n:
        raise BadInput(f"{hits} successes in {n} tries")
    if n == 0:
        return Interval(0.0, 1.0)
    z2 = float(ndtri((1 + level) / 2)) ** 2
    middle = (hits + z2 / 2) / (n + z2)
    half = math.sqrt(z2 * (hits * (n - hits) / n + z2 / 4)) / (n + z2)
    # Rounding would leave the ends just off what they are there.
    low = 0.0 if hits == 0 else max(middle - half, 0.0)
    high = 1.0 if hits == n else min(middle + half, 1.0)
    return Interval(low, high)


@dataclass(frozen=True)
class Rate:
    """Successes among tries.

    Attributes
    ----------
    hits, n : int
    """

    hits: int
    n: int

    @property
    def share(self) -> float:
        """Successes per try; 0 where nothing was tried."""
        return self.hits / self.n if self.n else 0.0

    @property
    def interval(self) -> Interval:
        """Wilson's, at :data:`LEVEL`."""
        return wilson(self.hits, self.n)

    def to_dict(self) -> dict[str, Any]:
        """Describe the rate (formats/audit.schema.json)."""
        return {"share": self.share, "n": self.n, **self.interval._asdict()}


def newcombe(a: Rate, b: Rate) -> Interval:
    """Bound by how much one rate is above another (Newcombe's interval from Wilson's)."""
    gain = a.share - b.share
    below = math.hypot(a.share - a.interval.low, b.interval.high - b.share)
    above = math.hypot(a.interval.high - a.share, b.share - b.interval.low)
    return Interval(gain - below, gain + above)


@dataclass(frozen=True)
class Risk:
    """An attack's success beyond a baseline without the model.

    After Giomi and others (2023): where a guess succeeds anyway, success says nothing of the model.

    Attributes
    ----------
    success : Rate
        On training rows.
    baseline : Rate
        Of a guess that knows less, on the same rows.
    control : Rate or None
        Of the same attack on people whom the model did not see; None where none were given.
    """

    success: Rate
    baseline: Rate
    control: Rate | None = None

    @property
    def beside(self) -> Rate:
        """The higher of baseline and control."""
        if self.control is None or self.control.share <= self.baseline.share:
            return self.baseline
        return self.control

    @property
    def value(self) -> float:
        """``(success - beside) / (1 - beside)``, and 0 where that is negative."""
        if self.beside.share == 1.0:
            return 0.0
        gain = self.success.share - self.beside.share
        return min(max(gain / (1.0 - self.beside.share), 0.0), 1.0)

    @property
    def interval(self) -> Interval:
        """Bounds of :attr:`value`, from the intervals of both rates (Newcombe's difference)."""
        a, b = self.success, self.beside
        if b.share == 1.0:
            return Interval(0.0, 0.0)
        ends = (end / (1.0 - b.share) for end in newcombe(a, b))
        return Interval(*(min(max(end, 0.0), 1.0) for end in ends))

    def to_dict(self) -> dict[str, Any]:
        """Describe the risk (formats/audit.schema.json)."""
        return {
            "success": self.success.to_dict(),
            "baseline": self.baseline.to_dict(),
            "control": None if self.control is None else self.control.to_dict(),
            "risk": {"value": self.value, **self.interval._asdict()},
        }


def single_out(predicates: NDArray[Any], rows: NDArray[Any]) -> Rate:
    """Count the predicates that fit exactly one row.

    ``predicates`` and ``rows``, shape (n, n_columns): a predicate fits the rows that equal it in
    every column.
    """
    both = np.concatenate([predicates, rows])
    group = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    fits = np.bincount(group[len(predicates) :], minlength=group.max(initial=-1) + 1)
    return Rate(int((fits[group[: len(predicates)]] == 1).sum()), len(predicates))


def nearest_values(people: FloatArray, rows: FloatArray, values: FloatArray) -> FloatArray:
    """Guess a value of each person by the rows that are nearest in what is known of them.

    Of several rows at the least distance, the most common value counts (of two, the one that is
    more common in all rows), or, where there are many different values, the mean. The order of the
    rows makes no difference.

    ``people`` and ``rows``, shape (n, n_known): what is known, so that the distance is the sum of
    differences. ``values``, shape (n_rows,): what is to be guessed; NaN where it is missing.
    Returns an array of shape (n_people,).
    """
    points, at = np.unique(rows, axis=0, return_inverse=True)
    known, code = np.unique(values, return_inverse=True)
    counted = len(known) <= MOST_VALUES
    if counted:
        tally = np.zeros((len(points), len(known)))
        np.add.at(tally, (at.ravel(), code.ravel()), 1.0)
        common = tally.sum(axis=0) / (2.0 * len(rows))
    else:
        known_value = ~np.isnan(values)
        tally = np.zeros((len(points), 2))
        np.add.at(
            tally,
            at.ravel()[known_value],
            np.column_stack([values[known_value], np.ones(known_value.sum())]),
        )
    found = np.empty(len(people))
    for part, off in distances(people, points):
        votes = _least(off).astype(float) @ tally
        if counted:
            found[part] = known[(votes + common).argmax(axis=1)]
        else:
            with np.errstate(invalid="ignore"):
                found[part] = votes[:, 0] / votes[:, 1]
    return found


def nearest_rows(people: FloatArray, rows: FloatArray, rng: np.random.Generator) -> IntArray:
    """Find the row that is nearest to each person; of several at the least distance, any.

    ``people`` and ``rows``, shape (n, n_known), as for :func:`nearest_values`. Returns numbers of
    rows, shape (n_people,).
    """
    found = np.empty(len(people), dtype=np.int64)
    for part, off in distances(people, rows):
        found[part] = (_least(off) * (1.0 - rng.random(off.shape))).argmax(axis=1)
    return found


def distances(
    people: NDArray[Any], rows: NDArray[Any], metric: Literal["cityblock", "hamming"] = "cityblock"
) -> Iterator[tuple[slice, FloatArray]]:
    """Measure how far people are from rows, a part of the people at a time.

    ``people`` and ``rows``, shape (n, n_known). Yields parts of the people, and their distances,
    shape (n_people of the part, n_rows).
    """
    step = max(1, AT_ONCE // max(len(rows), 1))
    for start in range(0, len(people), step):
        part = slice(start, start + step)
        yield part, cdist(people[part], rows, metric)


def _least(off: FloatArray) -> BoolArray:
    """Say which rows are nearest; sums of the same terms differ in their last digits."""
    return np.asarray(off <= off.min(axis=1, keepdims=True) + ROUNDING)


def at_most(X: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Take that many rows at random, or all where there are no more."""
    return X if len(X) <= n else X.iloc[rng.permutation(len(X))[:n]]


def commonest(values: FloatArray, near: float) -> float:
    """Find the value that is right for most of them, if it may be off by ``near``."""
    ordered = np.sort(values[~np.isnan(values)])
    if 2 * len(ordered) < len(values):
        return float("nan")
    fits = np.searchsorted(ordered, ordered + near, "right") - np.searchsorted(
        ordered, ordered - near, "left"
    )
    return float(ordered[fits.argmax()])


def is_right(guess: FloatArray | float, true: FloatArray, near: float) -> BoolArray:
    """Say which guesses are off by no more than ``near``; missing is right where it is missing."""
    both = np.isnan(guess) & np.isnan(true)
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(guess - true) <= near) | both)
