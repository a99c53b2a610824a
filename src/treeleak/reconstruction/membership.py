"""From counts of a record in samples of the training set to the probability of membership.

Two questions. *Is a row with these values in the training set?* That is the share of datasets that
hold one. *Is this person in it?* Others may have the same values: of the people asked, a share are
members, each row as likely, and the others come from the population. Where m of N rows have certain
values, a member has them with probability m / N, and another person as often as the population.

How far the population's frequencies of kinds of rows are from what a prior says: a prior that knows
attributes in pairs spreads rows too evenly, and in a dataset more rows are equal than it says. Each
row is held against a prior that was fitted to others of its dataset: one that was fitted to the row
itself expects too many like it.
"""

from __future__ import annotations

import numpy as np

from treeleak.attacks.samples import Samples
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition import equal_rows
from treeleak.reconstruction.schedule import SCHEDULE

_NONE = 1e-9
"""Rows up to which there are none."""


@dataclass(frozen=True, eq=False)
class Smoothing:
    """How far samples are trusted that a kind of row is as frequent as they say.

    The training set is, if the samples are right, one dataset more like them. So a part of it is of
    kinds that no chain has met, as a part of each chain's is of kinds that no other has met. These
    rows are taken off kinds that few have met: the absolute discount of Ney, Essen and Kneser.
    """

    n_chains: int
    discount: float
    """Chains' worth that is taken off a kind that few have met."""
    unseen: float
    """How many times as frequent rows of kinds that no chain has met are as a priori."""
    spread: float = 0.0
    """How far the population is from the prior: see :mod:`.spread`."""

    @classmethod
    def of(
        cls,
        row_types: IntArray,
        fixed: IntArray,
        chain: IntArray,
        prior: FloatArray,
        spread: float = 0.0,
    ) -> Smoothing:
        """Count kinds of rows by chains.

        ``row_types``, shape (n_samples, n_rows), and ``fixed``, shape (n_fixed,): kind of each row,
        and of those that every dataset has. ``chain``, shape (n_samples,). ``prior``, shape
        (n_kinds,): probability of each kind before anything is counted; 0 for others.
        """
        n_samples, n_rows = row_types.shape
        n_types, n_chains = len(prior), len(np.unique(chain))
        met = np.unique(row_types + n_types * chain[:, None]) % n_types
        chains = np.bincount(met, minlength=n_types)
        rows = np.bincount(row_types.ravel(), minlength=n_types) / n_samples
        rows -= np.bincount(fixed, minlength=n_types)
        free = rows > _NONE
        rows, alone = rows[free], float(rows[free & (chains == 1)].sum())
        few = float((rows * _few(chains[free], n_chains)).sum())
        discount = (alone + SCHEDULE.chain_doubt) / (few + 2 * SCHEDULE.chain_doubt)
        taken = discount * few / n_rows
        left = 1.0 - float(prior[chains > 0].sum())
        # A row that no chain has met is not likelier there than in a dataset of the population.
        unseen = taken / max(left, taken) if taken > 0 else 0.0
        return cls(n_chains, discount, unseen, spread)

    def kept(self, chains: IntArray) -> FloatArray:
        """Share that is left of the rows of kinds that so many chains have met."""
        left = 1.0 - self.discount * _few(chains, self.n_chains)
        return np.where(chains > 0, left, 0.0)


def _few(chains: IntArray, n_chains: int) -> FloatArray:
    """1 for one of several chains, and less for more: 0 for all."""
    lacking = (n_chains - chains) / max(n_chains - 1, 1)
    return np.asarray(lacking / np.maximum(chains, 1))


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
    odds: FloatArray | None = None
    """Shape (n_records,). How many times as frequent each record is as a priori, where the evidence
    itself says so of single rows; else samples are counted."""

    @property
    def _retained(self) -> FloatArray:
        return self.smoothing.kept(self.chains)

    @property
    def _beside(self) -> FloatArray:
        """Rows that are expected of records that no chain has met."""
        expected = self.n_rows * self.smoothing.unseen * self.prior
        return np.where(self.chains > 0, 0.0, expected)

    @property
    def _counted(self) -> FloatArray:
        """How many times as frequent records are as a priori, by samples."""
        expected, n_chains = self.n_rows * self.prior, self.smoothing.n_chains
        met = n_chains * self._retained * self.times.mean(axis=0)
        ratio = (met + SCHEDULE.ratio_doubt) / (n_chains * expected + SCHEDULE.ratio_doubt)
        return np.where(self.chains > 0, ratio, self.smoothing.unseen)

    def row_is_in(self) -> FloatArray:
        """Probability that a row with these values is in the training set."""
        no = 1.0 - self.chance
        present = self._retained * (1.0 - (no**self.times).mean(axis=0))
        absent = (1.0 - present) * no**self.fixed * np.exp(-self._beside * self.chance)
        return np.asarray(1.0 - absent)

    def person_is_in(self, share: float) -> FloatArray:
        """Probability that a person is a member, of people of whom this share are.

        How many times as frequent a record is in the training set as in the population, few chains
        tell badly: some doubt stands on either side. Records that are there are commoner in the
        population, too, than a prior says that spreads rows too evenly.
        """
        expected = self.n_rows * self.prior
        ratio = self._counted if self.odds is None else self.odds
        # What every dataset has leaves no doubt.
        sure = (self.fixed > 0) & (self.times == 0).all(axis=0)
        there = np.asarray(self.fixed + np.where(sure, 0.0, ratio * expected), dtype=float)
        beside = in_population(expected, there, self.smoothing.spread)
        inside, outside = share * there, (1.0 - share) * beside
        found = inside / np.maximum(inside + outside, 1e-300)
        return np.where(self.chance > 0, found, 0.0)


GROWTH = 1.5
"""Power of the number expected of a kind with which its variance in the population grows. With 1,
the population would be a Dirichlet process around the prior; with 2, all kinds would be off by the
same factor. Rare ones are off by more, but not as much more."""


def spread_of(samples: Samples, seed: int) -> float:
    """Find s, where N p has the variance s e^:data:`GROWTH` over kinds of which e are expected."""
    rng, n_rows = np.random.default_rng(seed), samples.atoms.shape[1]
    if n_rows < SCHEDULE.judged_parts:
        return 0.0
    few = np.unique(np.linspace(0, len(samples) - 1, SCHEDULE.judged_datasets).astype(np.int64))
    pairs, expected = np.mean([_pairs(samples, int(k), rng) for k in few], axis=0)
    more = expected * ((pairs + SCHEDULE.pair_trust) / (expected + SCHEDULE.pair_trust) - 1.0)
    times = n_rows * np.exp(samples.log_prior(samples.imagined(SCHEDULE.imagined_rows, rng)))
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
    values, part = samples.values, rng.permutation(len(rows)) % SCHEDULE.judged_parts
    radix, total = np.diff(values.atom_start), 0.0
    for fold in range(SCHEDULE.judged_parts):
        seen = rows[part != fold]
        prior = TreePrior.fitted(seen, len(seen), radix, values.atom_weights, values.bins)
        total += float(np.exp(prior.log_prior(rows[part == fold])).sum())
    return total
