"""Priors of what no tree tests: values beyond the outermost thresholds, and binary columns.

Rows beyond the outermost threshold of a column lie as far away as so many rows reach. It is known
how many rows lie there, and how many right beside them, between thresholds. So many leave one
exponential density, falling or growing, up to the end of the domain. By chance, of a + b rows, b of
them beside, the share of those beyond has Jeffreys' law: Beta(a + 1/2, b + 1/2).

The prior of a binary column that no tree tests is neutral: Jeffreys' law, Beta(1/2, 1/2). Two facts
of the model change it. Tested columns show which value is the rarer one, and nodes that passed it
over make even shares unlikely.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaincinv

from treeleak.core.arrays import FloatArray
from treeleak.core.private import dataclass
from treeleak.release.release import Release

_POINTS = (np.arange(21) + 0.5) / 21
"""Shares of rows at which their places are looked up."""
_CHANCES = (np.arange(5) + 0.5) / 5
"""Quantiles of the law of the number of rows beyond."""
_HALVINGS, _FLAT = 60, 1e-9
"""How often the range of a rate is halved to find it, and what counts as no change of density."""


@dataclass(frozen=True)
class Outer:
    """What lies beyond an outermost threshold of a column, and beside it."""

    sign: float
    """1 above the last threshold, -1 below the first."""
    edge: float
    """The threshold."""
    n_beside: int
    width: float
    """Intervals on its other side that are compared with what lies beyond it, and their width."""
    rows: tuple[float, float]
    """Beyond the threshold, and in these intervals."""
    room: float
    """From the threshold to the end of the domain."""

    @property
    def odds(self) -> float:
        """Rows beyond the threshold for each one beside it."""
        return self.rows[0] / self.rows[1]

    def places(self, odds: FloatArray) -> FloatArray:
        """Values of rows of which so many are beyond the threshold for one beside it.

        Returns, with two axes more than ``odds``, values that are equally likely, a line for each
        factor by which the odds may be off by chance.
        """
        share = betaincinv(self.rows[0] + 0.5, self.rows[1] + 0.5, _CHANCES)
        rate = _rates(odds[..., None] / self.odds * share / (1.0 - share), self.width, self.room)
        far = -np.log1p(_POINTS * np.expm1(-rate * self.room)[..., None]) / rate[..., None]
        return np.asarray(self.edge + self.sign * np.minimum(far, self.room))


def outer_sides(cuts: FloatArray, rows: FloatArray, ends: tuple[float, float]) -> list[Outer]:
    """Look at both ends of a column; leaves out those of which nothing is said.

    So are ends of a domain without end: on tables that come with scikit-learn, points half a gap
    beyond the threshold were off by half as much there.

    Of n rows beyond a threshold, the square root of n beside it says how dense they are: the usual
    number of neighbours of an estimate of density (Loftsgaarden and Quesenberry 1965).

    ``cuts``: thresholds, rising. ``rows``, shape (n_cuts + 1,): below the first, between them, and
    above the last. ``ends``: lowest and highest value that a row may have.
    """
    out = []
    for sign, end in zip((-1.0, 1.0), ends, strict=True):
        steps, held = (sign * cuts, rows) if sign > 0 else (sign * cuts[::-1], rows[::-1])
        if len(steps) < 2 or not held[-1] > 0 or not steps[-1] < sign * end < math.inf:
            continue
        beside = held[-2:0:-1].cumsum()
        k = min(int(np.searchsorted(beside, math.sqrt(held[-1]))), len(beside) - 1)
        width, both = (
            float(steps[-1] - steps[-2 - k]),
            (float(held[-1]), max(float(beside[k]), 1.0)),
        )
        if math.isfinite(width * both[0]):
            room = float(sign * end - steps[-1])
            out.append(Outer(sign, float(sign * steps[-1]), k + 1, width, both, room))
    return out


def _rates(odds: FloatArray, width: float, room: float) -> FloatArray:
    """Find the rate s of a density e^(-s x) with so many rows in ``room`` for one in ``width``.

    odds = e^(-s width) (1 - e^(-s room)) / (1 - e^(-s width)), which falls in s. A domain without
    end would give the highest rate; growth so steep that none would be beside, the lowest. Never 0.
    """
    high = np.log1p(1.0 / odds) / width
    low = -np.log1p(odds) / room
    for _ in range(_HALVINGS):
        s = (low + high) / 2
        s = np.where(np.abs(s * room) < _FLAT, _FLAT / room, s)
        with np.errstate(over="ignore"):
            more = np.expm1(-s * room) / np.expm1(s * width) < -odds
        low, high = np.where(more, s, low), np.where(more, high, s)
    return s


JEFFREYS = 0.5
"""Observations' worth of each of two values before any is counted."""
_MEAN_VARIANCE = 1 / 8
"""Mean of p (1 - p) over Beta(1/2, 1/2)."""
_RARER = np.sin(np.pi / 4 * (np.arange(100) + 0.5) / 100) ** 2
"""Shares up to 1/2 that are equally likely by Jeffreys' law."""


def nodes_per_column(release: Release) -> float:
    """Count the nodes that test; none where noise hides counts: splits need not follow rows."""
    tests = sum(int((tree.feature >= 0).sum()) for tree in release.trees)
    return 0.0 if release.noise is not None else tests / max(release.n_features, 1)


def mean_skew(tested: FloatArray) -> FloatArray:
    """Mean share of zeros and of ones in binary columns, with one of Jeffreys' law beside them.

    ``tested``, shape (n_binaries, 2): rows with each value.
    """
    ones = _ones(tested)
    p = (ones.sum() + JEFFREYS) / (len(ones) + 2 * JEFFREYS)
    return np.array([1.0 - p, p])


def shares_of_ones(tested: FloatArray, tests: float) -> tuple[FloatArray, FloatArray]:
    """List shares of ones in an untested column, and the probability of each.

    At equal effect, what a split gains is proportional to the variance p (1 - p) of its column. So
    the number of tests that a column draws has the mean ``tests`` p (1 - p) over that of a usual
    column, and the law of greatest entropy: a geometric one, whose zero term is 1 / (1 + mean).

    ``tested``, shape (n_tested, 2): rows with 0 and with 1 in tested columns.
    """
    missed = 1.0 / (1.0 + tests * _RARER * (1.0 - _RARER) / _MEAN_VARIANCE)
    missed /= missed.sum()
    # A column with as many ones as zeros does not say which is the rarer one, a constant one does.
    lead = 2.0 * _ones(tested) - 1.0
    full = (lead[lead > 0].sum() + JEFFREYS) / (np.abs(lead).sum() + 2 * JEFFREYS)
    return np.append(_RARER, 1.0 - _RARER), np.append((1.0 - full) * missed, full * missed)


def _ones(tested: FloatArray) -> FloatArray:
    """Share of ones in each binary column that has rows."""
    total = tested.sum(axis=1)
    return np.asarray(tested[total > 0, 1] / total[total > 0])
