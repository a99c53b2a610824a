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
_PULL = 4.0
"""Tests that a column draws for each one of a usual column, per share of rows in its rarer value
beyond those of the smallest leaf: a usual column has a quarter of them there."""
_RARER = 1.1, 2.9
"""Parameters of Beta, fitted to the shares of ones in the columns of the papers' three tables."""
_FULL, _COLUMNS = 1 / 28, 8.0
"""Share of the skewed columns of these tables that are mostly ones, and how many columns this is
worth beside those of the table itself."""
_EVEN = 2.0
"""How even the pull of columns with equal shares is: k, the shape of its gamma law."""
_RAREST, _STEPS = 1e-3, 40
"""Least share of the rarer value that is thought of, and steps from there to one half."""


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
        shares = []
        for tree in release.trees:
            held = tree.totals
            if held is None and release.counts_are in _COUNTED and tree.counts is not None:
                held = tree.counts.sum(axis=1)
            if held is not None and (total := held[tree.leaves].sum()) > 0:
                shares.append(held[tree.leaves].min() / total)
        if release.noise is not None or not shares:
            return NOT_SEARCHED
        tests = sum(int((tree.feature >= 0).sum()) for tree in release.trees)
        return cls(tests / max(release.n_features, 1), float(min(shares)))


NOT_SEARCHED = Searched()


def shares_of_ones(heard: FloatArray, searched: Searched) -> tuple[FloatArray, FloatArray]:
    """List shares of ones in an untested column, and the probability of each.

    The rarer value has a share m of the rows, P(m) ~ Beta(m; a, b) (1 + c t (m - l)+ / k)^-k with t
    tests per column and l the smallest leaf. What follows Beta is the chance that no tree tests
    the column: the zero term of a negative binomial law. The rarer value is 0 as often as in tested
    columns, of which the skewed ones count most.

    ``heard``, shape (n_tested, 2): rows with 0 and with 1 in tested columns.
    """
    rare = np.geomspace(_RAREST, 0.5, _STEPS)
    drawn = _PULL * searched.tests * np.maximum(rare - searched.least, 0.0)
    # Steps grow with the share, and so must the weight of each.
    a, b = _RARER
    weight = rare**a * (1.0 - rare) ** (b - 1.0) * (1.0 + drawn / _EVEN) ** -_EVEN
    own = heard[heard.sum(axis=1) > 0]
    lead = (own[:, 1] - own[:, 0]) / own.sum(axis=1)
    full = (_FULL * _COLUMNS + lead[lead > 0].sum()) / (_COLUMNS + np.abs(lead).sum())
    share = np.append(rare, 1.0 - rare)
    weight = np.append((1.0 - full) * weight, full * weight)
    return share, weight / weight.sum()
