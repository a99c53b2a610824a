"""From counts of a record in samples of the training set to the probability of membership.

Two questions. *Is a row with these values in the training set?* That is the share of datasets that
hold one. *Is this person in it?* Others may have the same values: of the people asked, a share are
members, each row as likely, and the others come from the population. Where m of N rows have certain
values, a member has them with probability m / N, and another person as often as the population.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass

_DOUBT = 0.5
"""Kinds of rows' worth of doubt in how many of them one chain has met, and how many two have."""
_EVEN = 0.5
"""Rows' worth of doubt in a ratio of frequencies."""
_NONE = 1e-9
"""Rows up to which there are none."""


@dataclass(frozen=True, eq=False)
class Smoothing:
    """How far samples are trusted that a kind of row is as frequent as they say.

    The training set is, if the samples are right, one dataset more like them. So a part of it is of
    kinds that no chain has met, as a part of each chain's is of kinds that no other has met: Good
    and Turing's estimate, here by the absolute discount n1 / (n1 + 2 n2) of Ney, Essen and Kneser,
    over kinds that one and two chains have met. It wanes for kinds that nearly all have met.
    """

    n_chains: int
    discount: float
    """Chains' worth that is taken off a kind that few have met."""
    unseen: float
    """How many times as frequent rows of kinds that no chain has met are as a priori."""

    @classmethod
    def of(cls, kinds: IntArray, fixed: IntArray, chain: IntArray, prior: FloatArray) -> Smoothing:
        """Count kinds of rows by chains.

        ``kinds``, shape (n_samples, n_rows), and ``fixed``, shape (n_fixed,): kind of each row,
        and of those that every dataset has. ``chain``, shape (n_samples,). ``prior``, shape
        (n_kinds,): probability of each kind before anything is counted; 0 for others.
        """
        n_samples, n_rows = kinds.shape
        n_kinds, n_chains = len(prior), len(np.unique(chain))
        met = np.unique(kinds + n_kinds * chain[:, None]) % n_kinds
        chains = np.bincount(met, minlength=n_kinds)
        rows = np.bincount(kinds.ravel(), minlength=n_kinds) / n_samples
        rows -= np.bincount(fixed, minlength=n_kinds)
        free = rows > _NONE
        one, two = (int((chains[free] == k).sum()) for k in (1, 2))
        own = cls(n_chains, (one + _DOUBT) / (one + 2 * two + 2 * _DOUBT), 0.0)
        taken = float((rows * (1.0 - own.kept(chains)))[free].sum()) / n_rows
        left = 1.0 - float(prior[chains > 0].sum())
        # A row that no chain has met is not likelier there than in a dataset of the population.
        return replace(own, unseen=taken / max(left, taken) if taken > 0 else 0.0)

    def kept(self, chains: IntArray) -> FloatArray:
        """Share that is left of the rows of kinds that so many chains have met."""
        few = (self.n_chains - chains) / max(self.n_chains - 1, 1)
        return np.asarray(1.0 - self.discount * few / np.maximum(chains, 1))


@dataclass(frozen=True, eq=False)
class Held:
    """What samples say of some records."""

    times: IntArray
    """Shape (n_samples, n_records). Rows of a sample that equal each record in what trees tell,
    without those that every dataset has ..."""
    fixed: IntArray
    """Shape (n_records,). ... and these."""
    chains: IntArray
    """Shape (n_records,). Chains that have met the record."""
    prior: FloatArray
    """Shape (n_records,). Probability that a row equals the record before anything is counted."""
    chance: FloatArray
    """Shape (n_records,). Probability that such a row has the record's values, too."""
    n_rows: int
    smoothing: Smoothing

    @property
    def _kept(self) -> FloatArray:
        return np.where(self.chains > 0, self.smoothing.kept(self.chains), 0.0)

    @property
    def _beside(self) -> FloatArray:
        """Rows that are expected of records that no chain has met."""
        expected = self.n_rows * self.smoothing.unseen * self.prior
        return np.where(self.chains > 0, 0.0, expected)

    def row_is_in(self) -> FloatArray:
        """Probability that a row with these values is in the training set."""
        no = 1.0 - self.chance
        present = self._kept * (1.0 - (no**self.times).mean(axis=0))
        absent = (1.0 - present) * no**self.fixed * np.exp(-self._beside * self.chance)
        return np.asarray(1.0 - absent)

    def person_is_in(self, share: float) -> FloatArray:
        """Probability that a person is a member, of people of whom this share are.

        How many times as frequent a record is in the training set as in the population, few chains
        tell badly: half a row of doubt, in all chains together, stands on either side.
        """
        expected, n_chains = self.n_rows * self.prior, self.smoothing.n_chains
        met = n_chains * self._kept * self.times.mean(axis=0)
        ratio = np.where(
            self.chains > 0, (met + _EVEN) / (n_chains * expected + _EVEN), self.smoothing.unseen
        )
        # What every dataset has leaves no doubt.
        inside, outside = share * (self.fixed + ratio * expected), (1.0 - share) * expected
        sure = (self.fixed > 0) & (self.times == 0).all(axis=0)
        inside = np.where(sure, share * self.fixed, inside)
        found = inside / np.maximum(inside + outside, 1e-300)
        return np.where(self.chance > 0, found, 0.0)
