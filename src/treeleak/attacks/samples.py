"""Samples of a posterior over datasets, as an attack hands them over.

Whether chains agree, and how many independent samples theirs are worth (Vehtari et al. 2021).

Each chain counts as two halves, so that one that still drifts shows. Ranks are compared, as normal
scores: that is as good where heights have long tails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.decisions import on_grid
from treeleak.core.private import dataclass
from treeleak.partition.value_index import ValueIndex

JUDGES = 4
"""One of so many chains judges how far an answer errs that others made."""


class Info(NamedTuple):
    """What a sampler did on its way from one state to the next."""

    steps: int
    taken: int
    """Steps that changed something."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Datasets drawn from a posterior."""

    values: ValueIndex
    atoms: NDArray[np.int16] | NDArray[np.int32]
    """Shape (n_samples, n_rows, n_attributes + 1). Atom of each attribute, counted from 0 in each;
    the class is the last."""
    chain: IntArray
    """Shape (n_samples,). The chain that drew each."""
    log_posterior: FloatArray
    """Shape (n_samples,). Up to a constant."""
    value_prior: FloatArray
    """Shape (n_values,). Probability of each value given its atom."""
    learned: TreePrior | FloatArray | None
    """See :attr:`prior`; None where the attack has none."""

    @classmethod
    def of_worlds(cls, values: ValueIndex, numbered: IntArray) -> Samples:
        """Take datasets that may be for samples, each of a chain of its own.

        ``numbered``, shape (n_worlds, n_rows, n_attributes + 1): atoms, numbered over all
        attributes.
        """
        n_worlds = len(numbered)
        atoms = numbered - values.atom_start[:-1]
        wide = np.diff(values.atom_start).max(initial=0) > np.iinfo(np.int16).max + 1
        atoms = atoms.astype(np.int32) if wide else atoms.astype(np.int16)
        marginal = np.bincount(numbered.ravel(), minlength=values.n_atoms) / n_worlds
        none = np.zeros(n_worlds)
        return cls(values, atoms, np.arange(n_worlds), none, values.prior(marginal), None)

    @cached_property
    def prior(self) -> TreePrior | FloatArray:
        """Log probability of a row before anything was counted, shape (n_points, n_classes)."""
        if self.learned is not None:
            return self.learned
        values, (_, n_rows, width) = self.values, self.atoms.shape
        rows = self.atoms.reshape(-1, width).astype(np.int64)
        radix = np.diff(values.atom_start)
        return TreePrior.fitted(rows, n_rows, radix, values.atom_weights, values.bins)

    def __len__(self) -> int:
        return len(self.atoms)

    def thinned(self, most: int) -> Samples:
        """At most so many of the samples, evenly chosen."""
        n = len(self)
        return self._taken(np.linspace(0, n - 1, min(n, most)).astype(np.int64))

    def of_chains(self, which: slice) -> Samples:
        """Those of some chains; all of them, if that leaves none."""
        return self.only(np.isin(self.chain, np.unique(self.chain)[which]))

    @property
    def judges(self) -> Samples:
        """Those by which an answer is judged: what the others learned may be wrong."""
        return self.of_chains(slice(self._n_judges))

    @property
    def makers(self) -> Samples:
        """Those of which an answer is made."""
        return self.of_chains(slice(self._n_judges, None))

    @property
    def _n_judges(self) -> int:
        return max(int(self.chain.max() + 1) // JUDGES, 1)

    def only(self, which: BoolArray) -> Samples:
        """Some samples; all of them, if that leaves none. ``which``, shape (n_samples,)."""
        return self._taken(np.flatnonzero(which)) if which.any() else self

    def weighed(self) -> Samples:
        """Add to the height of each sample how likely its rows are, where that holds none of it."""
        n_samples, n_rows, width = self.atoms.shape
        rows = self.atoms.reshape(-1, width).astype(np.int64)
        height = self.log_prior(rows).reshape(n_samples, n_rows).sum(axis=1)
        return replace(self, log_posterior=self.log_posterior + height)

    @property
    def in_turn(self) -> IntArray:
        """Their places, one of each chain after the other."""
        order = np.argsort(self.chain, kind="stable")
        _, begin, count = np.unique(self.chain[order], return_index=True, return_counts=True)
        rank = np.empty(len(self), dtype=np.int64)
        rank[order] = np.arange(len(self)) - np.repeat(begin, count)
        return np.lexsort((self.chain, rank))

    def _taken(self, at: IntArray) -> Samples:
        height = self.log_posterior[at]
        return replace(self, atoms=self.atoms[at], chain=self.chain[at], log_posterior=height)

    def log_prior(self, atoms: IntArray) -> FloatArray:
        """Log probability of rows of atoms, the class last, before anything was counted."""
        prior = self.prior
        if isinstance(prior, TreePrior):
            return prior.log_prior(atoms)
        radix = np.diff(self.values.atom_start)
        return np.asarray(prior.ravel()[np.ravel_multi_index(tuple(atoms.T), tuple(radix))])

    def imagined(self, n: int, rng: np.random.Generator) -> IntArray:
        """Draw rows of atoms from the prior, the class last."""
        prior = self.prior
        if isinstance(prior, TreePrior):
            return prior.drawn(n, rng)
        share = np.exp(prior.ravel() - prior.max())
        at = rng.choice(len(share), n, p=share / share.sum())
        return np.column_stack(np.unravel_index(at, tuple(np.diff(self.values.atom_start))))

    def numbered(self, k: int) -> IntArray:
        """Atoms of sample k, numbered over all attributes."""
        return np.asarray(self.atoms[k] + self.values.atom_start[:-1])

    def drawn(self, k: int, rng: np.random.Generator) -> IntArray:
        """Sample k with a value for each atom, numbered through."""
        return self.values.draw(self.numbered(k), self.value_prior[None, :], rng)

    def draw_values(self, atoms: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw a value for each atom of a dataset; both numbered through.

        A binary column that no tree tests has one share of ones, however likely each is: their
        average, which is right for one row, would be right for no whole column.
        """
        values, prior = self.values, self.value_prior
        if isinstance(self.prior, TreePrior):
            share, weight = self._shares
            prior = values.with_ones(
                prior, rng.choice(share, len(values.unsplit_binaries), p=weight)
            )
        return values.draw(atoms, prior[None, :], rng)

    @cached_property
    def _shares(self) -> tuple[FloatArray, FloatArray]:
        """Shares of ones in columns that no tree tests, and the probability of each."""
        numbered = (self.atoms + self.values.atom_start[:-1]).ravel()
        marginal = np.bincount(numbered, minlength=self.values.n_atoms).astype(float)
        return self.values.shares_of_ones(marginal)

    def most_probable(self, atoms: IntArray) -> IntArray:
        """Most probable value of each atom; both numbered through."""
        values, order = self.values, np.lexsort((-self.value_prior, self.values.atom_of))
        first = np.searchsorted(values.atom_of[order], np.arange(values.n_atoms))
        return np.asarray(order[first][atoms])

    @property
    def disagreement(self) -> float:
        """Rank-normalised split R-hat of the log posterior: 1 where the chains agree.

        See :func:`~treeleak.attacks.samples.rhat`.
        """
        return rhat(self._heights)

    @property
    def effective(self) -> float:
        """How many independent samples these are worth, by the log posterior; NaN likewise."""
        return ess_bulk(self._heights)

    @property
    def _heights(self) -> list[FloatArray]:
        return [self.log_posterior[self.chain == c] for c in np.unique(self.chain)]


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
