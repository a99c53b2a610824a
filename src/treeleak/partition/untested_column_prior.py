"""What is likely of a binary column that no tree tests, before any table is looked at.

The prior is neutral: Jeffreys' law, Beta(1/2, 1/2). Two facts of the model change it. Tested
columns show which value is the rarer one, and nodes that passed it over make even shares unlikely.
"""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.release.release import Release

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
