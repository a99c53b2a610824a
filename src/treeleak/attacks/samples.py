"""Samples of a posterior over datasets, as an attack hands them over."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.convergence import ess_bulk, rhat
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
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

        See :func:`~treeleak.attacks.convergence.rhat`.
        """
        return rhat(self._heights)

    @property
    def effective(self) -> float:
        """How many independent samples these are worth, by the log posterior; NaN likewise."""
        return ess_bulk(self._heights)

    @property
    def _heights(self) -> list[FloatArray]:
        return [self.log_posterior[self.chain == c] for c in np.unique(self.chain)]
