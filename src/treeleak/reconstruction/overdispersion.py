"""How far the population's frequencies of kinds of rows are from what a prior says.

A prior that knows attributes in pairs spreads rows too evenly: in a dataset, more rows are equal
than it says. Each row is held against a prior that was fitted to others of its dataset: one that
was fitted to the row itself expects too many like it.
"""

from __future__ import annotations

import numpy as np

from treeleak.attacks.samples import Samples
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.partition import equal_rows

GROWTH = 1.5
"""Power of the number expected of a kind with which its variance in the population grows. With 1,
the population would be a Dirichlet process around the prior; with 2, all kinds would be off by the
same factor. Rare ones are off by more, but not as much more."""
_PAIRS = 5.0
"""Pairs of equal rows' worth of trust that the prior says how many there are."""
_DATASETS, _PARTS, _IMAGINED = 6, 5, 3000
"""Datasets that are looked at, parts of each that others are held against, and rows of the prior
over which a mean is taken."""


def spread_of(samples: Samples, seed: int) -> float:
    """Find s, where N p has the variance s e^:data:`GROWTH` over kinds of which e are expected."""
    rng, n_rows = np.random.default_rng(seed), samples.atoms.shape[1]
    if n_rows < _PARTS:
        return 0.0
    few = np.unique(np.linspace(0, len(samples) - 1, _DATASETS).astype(np.int64))
    pairs, expected = np.mean([_pairs(samples, int(k), rng) for k in few], axis=0)
    more = expected * ((pairs + _PAIRS) / (expected + _PAIRS) - 1.0)
    times = n_rows * np.exp(samples.log_prior(samples.imagined(_IMAGINED, rng)))
    return float(max(more, 0.0) / (n_rows * (times ** (GROWTH - 1.0)).mean()))


def in_population(expected: FloatArray, there: FloatArray, spread: float) -> FloatArray:
    """Of as many of the population as there are training rows, how many are of each kind.

    ``expected`` are so by the prior, ``there`` in the training set. Frequencies around the prior
    are gamma, of which rows in the training set are drawn.
    """
    # Variance over expected number, times that number: e itself may be nothing.
    moved = spread * expected ** (GROWTH - 1.0)
    return np.asarray((expected + moved * there) / (1.0 + moved))


def _pairs(samples: Samples, k: int, rng: np.random.Generator) -> tuple[float, float]:
    """Count ordered pairs of equal rows in a sample, and those that are expected."""
    rows = samples.atoms[k].astype(np.int64)
    times = np.bincount(equal_rows(rows)[1])
    return float((times * (times - 1.0)).sum()), _held_out(samples, rows, rng) * (len(rows) - 1)


def _held_out(samples: Samples, rows: IntArray, rng: np.random.Generator) -> float:
    """Sum of the probabilities of rows, each by a prior that has not seen it."""
    if not isinstance(samples.prior, TreePrior):
        return float(np.exp(samples.log_prior(rows)).sum())
    values, part = samples.values, rng.permutation(len(rows)) % _PARTS
    radix, total = np.diff(values.atom_start), 0.0
    for fold in range(_PARTS):
        seen = rows[part != fold]
        prior = TreePrior.fitted(seen, len(seen), radix, values.atom_weights, values.bins)
        total += float(np.exp(prior.log_prior(rows[part == fold])).sum())
    return total
