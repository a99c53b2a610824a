"""What is likely of a binary column that no tree tests.

Trees that looked through many splits and took none on a column show that it is nearly constant:
they may not split off fewer rows than a leaf must hold.
"""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.private import dataclass
from treeleak.release.release import Release
from treeleak.release.statistics import DRAWS, ROWS

_COUNTED = (ROWS.name, DRAWS.name)
FLAGS = 4.0, 2.0
"""Columns' worth of zeros and of ones before any row is counted: flags are more often 0 than 1."""
_PULL = 4.0
"""c: tests that a column draws for each one of a usual column, per share of rows in its rarer value
beyond those of the smallest leaf: a usual column has a quarter of them there."""
_RARER = 1.1, 2.9
"""a, b: fitted to the shares of ones in the columns of the papers' three tables."""
_FIRM = sum(_RARER)
"""f: how near the shares of tested columns are to their mean; as near as those above to theirs."""
_FULL, _COLUMNS = 1 / 28, 8.0
"""Share of the skewed columns of these tables that are mostly ones, and how many columns this is
worth beside those of the table itself."""
_EVEN = 2.0
"""How even the pull of columns with equal shares is: k, the shape of its gamma law."""
_RAREST, _STEPS = 1e-3, 40
"""Least step between shares of the rarer value, and steps to one half, each longer."""


@dataclass(frozen=True)
class Searched:
    """How thoroughly a model looked through splits."""

    tests: float = 0.0
    """Nodes that test, per column; 0 where they say nothing of the rows."""
    least: float = 0.0
    """Share of the rows of a tree in its smallest leaf."""

    @classmethod
    def of(cls, release: Release) -> Searched:
        """Look at all trees; where noise hides their counts, splits need not follow the rows."""
        if release.noise is not None:
            return NOT_SEARCHED
        shares = []
        for tree in release.trees:
            held = tree.totals
            if held is None and release.counts_are in _COUNTED and tree.counts is not None:
                held = tree.counts.sum(axis=1)
            if held is not None and (total := held[tree.leaves].sum()) > 0:
                shares.append(held[tree.leaves].min() / total)
        if not shares:
            return NOT_SEARCHED
        tests = sum(int((tree.feature >= 0).sum()) for tree in release.trees)
        return cls(tests / max(release.n_features, 1), float(min(shares)))


NOT_SEARCHED = Searched()


def mean_skew(heard: FloatArray) -> FloatArray:
    """Share of zeros and of ones over binary columns, with what is thought of flags beside them.

    ``heard``, shape (n_binaries, 2): rows with each value.
    """
    ones = _ones(heard)
    p = (ones.sum() + FLAGS[1]) / (len(ones) + sum(FLAGS))
    return np.array([1.0 - p, p])


def shares_of_ones(heard: FloatArray, searched: Searched) -> tuple[FloatArray, FloatArray]:
    """List shares of ones in an untested column, and the probability of each.

    With t tests per column, a column like the tested ones is untested with the probability
    (1 + t / k)^-k, the zero term of a negative binomial law. Then its share p has the law
    Beta(f q, f - f q), q that of tested columns, with f lower where these are so few that q is in
    doubt, too: p then varies as it does if q is drawn from what they leave possible. Else its rarer
    value has a share m with P(m) ~ Beta(m; a, b) (1 + c t (m - l)+ / k)^-k, l the smallest leaf;
    that value is 0 as often as in tested columns, of which the skewed ones count most.

    ``heard``, shape (n_tested, 2): rows with 0 and with 1 in tested columns.
    """
    n = len(_ones(heard)) + sum(FLAGS)
    firm = (n + 1.0) * (_FIRM + 1.0) / (n + _FIRM) - 1.0
    edges = np.append(0.0, np.geomspace(_RAREST, 0.5, _STEPS))
    rare, width = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    share = np.append(rare, 1.0 - rare)
    mean, lead = mean_skew(heard)[1], 2.0 * _ones(heard) - 1.0
    full = (_FULL * _COLUMNS + lead[lead > 0].sum()) / (_COLUMNS + np.abs(lead).sum())
    drawn = _PULL * searched.tests * np.maximum(rare - searched.least, 0.0)
    unmet = _beta(rare, *_RARER) * (1.0 + drawn / _EVEN) ** -_EVEN
    parts = (
        np.tile(width, 2) * _beta(share, firm * mean, firm - firm * mean),
        np.append((1.0 - full) * width * unmet, full * width * unmet),
    )
    usual, rarely = (part / part.sum() for part in parts)
    missed = (1.0 + searched.tests / _EVEN) ** -_EVEN
    return share, missed * usual + (1.0 - missed) * rarely


def _ones(heard: FloatArray) -> FloatArray:
    """Share of ones in each binary column that has rows."""
    total = heard.sum(axis=1)
    return np.asarray(heard[total > 0, 1] / total[total > 0])


def _beta(p: FloatArray, a: float, b: float) -> FloatArray:
    return np.asarray(p ** (a - 1.0) * (1.0 - p) ** (b - 1.0))
