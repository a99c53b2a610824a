"""Whether chains agree, and how many independent samples theirs are worth (Vehtari et al. 2021).

Each chain counts as two halves, so that one that still drifts shows. Ranks are compared, as normal
scores: that is as good where heights have long tails.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from treeleak.core.arrays import FloatArray
from treeleak.core.decisions import on_grid

_LEAST = 4
"""Samples of a chain, with fewer of which nothing is said."""


def rhat(chains: Sequence[FloatArray]) -> float:
    """Rank-normalised split R-hat: 1 where the chains agree, in where they are and how widely.

    NaN if a chain has fewer than four samples; infinite if chains rest in different places.
    """
    if (halves := _halves(chains)) is None:
        return float("nan")
    if np.ptp(halves) == 0:
        return 1.0
    far = np.abs(halves - np.median(halves))
    return max(_split_r(_scores(halves)), _split_r(_scores(far)))


def ess_bulk(chains: Sequence[FloatArray]) -> float:
    """Bulk effective sample size. NaN as in :func:`rhat`, or where no chain moves."""
    if (halves := _halves(chains)) is None or np.ptp(halves) == 0:
        return float("nan")
    scores = _scores(halves)
    n = scores.shape[1]
    within = scores.var(axis=1, ddof=1).mean()
    total = (n - 1) / n * within + scores.mean(axis=1).var(ddof=1)
    off = scores - scores.mean(axis=1, keepdims=True)
    lagged = np.array([(off[:, : n - t] * off[:, t:]).sum(axis=1).mean() / n for t in range(n)])
    rho = 1.0 - (within - lagged) / total
    rho[0] = 1.0
    # Geyer's initial monotone sequence: sums of pairs, while they are positive, and never rising.
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs < 0)
    monotone = np.minimum.accumulate(pairs[: ends[0] if len(ends) else None])
    # As that paper's authors do, no more is claimed than S log10 S.
    size = scores.size
    return float(size / max(2.0 * monotone.sum() - 1.0, 1.0 / np.log10(size)))


def _halves(chains: Sequence[FloatArray]) -> FloatArray | None:
    """First and last half of each chain, all of the same length."""
    if min(map(len, chains), default=0) < _LEAST:
        return None
    n = min(map(len, chains)) // 2
    cut = [(chain[: len(chain) // 2], chain[-(len(chain) // 2) :]) for chain in chains]
    # Equal heights are one rank on every processor.
    return on_grid([half[:n] for both in cut for half in both])


def _scores(halves: FloatArray) -> FloatArray:
    """Normal scores of the ranks, over all chains; equal numbers share their mean rank."""
    _, place, times = np.unique(halves, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2)[place].reshape(halves.shape)
    return np.asarray(ndtri((ranks - 0.375) / (halves.size + 0.25)))


def _split_r(halves: FloatArray) -> float:
    """Gelman and Rubin's R of chains of the same length."""
    n = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    if within == 0:
        return float("inf") if between > 0 else 1.0
    return float(np.sqrt((n - 1) / n + between / within))
