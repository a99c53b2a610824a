"""The posterior of the training set: datasets drawn from it, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from treeleak.attacks.membership_odds import RowOdds
from treeleak.attacks.samples import Samples
from treeleak.core.arrays import BoolArray, FloatArray, IntArray, numbered
from treeleak.core.decisions import TINY
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.partition import AttributeAtoms, Geometry, equal_rows
from treeleak.reconstruction.membership import Held, Smoothing, spread_of
from treeleak.release.check_schema import read_columns
from treeleak.release.release import Release
from treeleak.schema import Ordinal


@dataclass(frozen=True)
class Expectation:
    """What the posterior says of a statistic."""

    mean: float
    low: float
    high: float
    """Ends of the central interval."""
    level: float
    """Probability that the interval holds."""
    n_samples: int

    def __str__(self) -> str:
        return f"{self.mean:g} ({self.level:.0%}: {self.low:g} to {self.high:g})"


@dataclass(frozen=True, eq=False)
class Posterior:
    """Datasets drawn from the posterior, in the model's columns."""

    samples: Samples
    geometry: Geometry
    """In whose atoms they are."""
    release: Release
    write: Callable[[FloatArray, IntArray], tuple[FloatArray, IntArray]]
    """Writes rows and class numbers of a sample in the model's columns, with what was known."""
    seed: int
    """Draws values that no tree tells apart."""
    fixed: IntArray
    """Shape (n_fixed, n_attributes + 1). Atoms, each attribute from 0, of rows that are proved to
    be in every dataset; the class is the last."""
    given: FloatArray | None = None
    """Shape (n_given, n_features + 1). Rows that were given, and last their class numbers."""
    odds: RowOdds | None = None
    """What the evidence itself says of single rows, beside the samples."""

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def n_chains(self) -> int:
        """Independent chains behind the samples."""
        return len(self._chains)

    @property
    def by_chains(self) -> bool:
        """Whether chains drew the samples: else they are worlds of the rows, or of confidences."""
        return self.samples.learned is not None

    @property
    def _chains(self) -> IntArray:
        return np.unique(self.samples.chain)

    @property
    def disagreement(self) -> float:
        """R-hat of the log posterior's ranks: near 1 where the chains agree."""
        return self.samples.disagreement

    def to_dict(self) -> dict[str, Any]:
        """Describe it without any row (formats/reconstruction.schema.json)."""
        finite = np.isfinite(self.disagreement)
        return {
            "samples": len(self),
            "chains": self.n_chains,
            "disagreement": self.disagreement if finite else None,
        }

    def datasets(self) -> Iterator[tuple[pd.DataFrame, pd.Series[Any] | None]]:
        """All samples as rows and labels, as :meth:`written` gives them.

        Numbers are drawn inside their intervals, as far beyond the outermost thresholds as so many
        rows reach: what a dataset says of ages, sums or correlations is not that of middles.
        """
        rng = np.random.default_rng(self.seed)
        for k in range(len(self)):
            yield self.written(self.samples.drawn(k, rng), rng)

    def written(
        self, chosen: IntArray, rng: np.random.Generator | None = None
    ) -> tuple[pd.DataFrame, pd.Series[Any] | None]:
        """Write a dataset, given as values numbered through, as rows and labels.

        Without labels where the model has no classes. ``rng``: draws numbers inside their
        intervals; without it, they are at the points of these.
        """
        values, names = self.samples.values, list(self.release.feature_names)
        rows = values.rows(chosen[:, :-1], values.n_columns)
        if rng is not None:
            atoms = values.atom_of[chosen[:, :-1]] - values.atom_start[:-2]
            rows = self._inside.drawn(rows, atoms, rng)
        table, label = self.write(rows, chosen[:, -1] - values.start[-2])
        X = pd.DataFrame(table[:, : len(names)], columns=names)
        if not self.release.classes:
            return X, None
        labels = [self.release.classes[c] for c in label]
        return X, pd.Series(labels, name="label")

    def expectation(
        self, f: Callable[[pd.DataFrame, Any], float], level: float = 0.9
    ) -> Expectation:
        """Say what a statistic of the training set is, and how sure that is.

        Parameters
        ----------
        f : callable
            Receives the rows and labels (None in a model without classes) of a dataset and returns
            a number.
        level : float
            Probability of the interval, between 0 and 1.

        Returns
        -------
        Expectation
        """
        if not 0 < level < 1:
            raise BadInput(f"level must lie between 0 and 1, not {level}")
        found = np.array([float(f(X, y)) for X, y in self.datasets()])
        low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
        return Expectation(float(found.mean()), float(low), float(high), level, len(found))

    def membership(self, records: pd.DataFrame, share: float | None = None) -> pd.Series[float]:
        """Probability of membership of each record.

        Values that no tree tells apart count with the probability that a row has them; numbers,
        by the interval between thresholds in which they lie. Rows that were given are members.

        Parameters
        ----------
        records : DataFrame
            The model's columns, and maybe one more, the label.
        share : float, optional
            Without it, the probability that *a row with these values* is in the training set.
            With it, that *this person* is in it, where so large a share of the people asked are
            (0.5 in a game with as many others), and the others are people of the same population:
            some have the same values as a member, and the more, the commoner these are.

        Returns
        -------
        Series
            With the index of ``records``.

        Raises
        ------
        BadInput
            Naming the column.
        """
        if share is not None and not 0 < share < 1:
            raise BadInput(f"share must lie between 0 and 1, not {share}")
        columns = read_columns(self.release, records, "the records")
        table = np.column_stack([columns[c] for c in self.release.feature_names])
        beside = [c for c in records.columns if str(c) not in columns]
        if len(beside) > 1:
            raise BadInput(f"the records have columns {beside} that the model lacks; one may be")
        atoms, chance = self._in_atoms(table)
        label = self.release.class_numbers(records[beside[0]]) if beside else None
        if label is not None:
            chance[label < 0] = 0.0
        held = self._held(atoms, label, chance)
        if share is None:
            out = held.row_is_in()
        else:
            out = replace(held, odds=self._odds(atoms, label)).person_is_in(share)
        out[self._is_known(table, label)] = 1.0
        return pd.Series(out, index=records.index, name="membership")

    @cached_property
    def _inside(self) -> Inside:
        return Inside.of(self.samples, self.geometry.release)

    @cached_property
    def _spread(self) -> float:
        return spread_of(self.samples, self.seed)

    @property
    def _tested(self) -> BoolArray:
        """Which attributes are the model's: others, of a joint release, say nothing of a record."""
        width = len(self.release.feature_names)
        return np.array([p.columns.max() < width for p in self.geometry.parts])

    def _held(self, atoms: IntArray, label: IntArray | None, chance: FloatArray) -> Held:
        """Count records in the samples."""
        tested_columns = self._tested
        used = np.append(tested_columns, label is not None)
        queried = (
            atoms[:, tested_columns]
            if label is None
            else np.column_stack([atoms[:, tested_columns], label])
        )
        held, fixed = self.samples.atoms[:, :, used], self.fixed[:, used]
        n_samples, n_rows, width = held.shape
        kind = equal_rows(np.concatenate([queried, fixed, held.reshape(-1, width)]))[1]
        of_queried, of_fixed, of_held = np.split(kind, [len(queried), len(queried) + len(fixed)])
        rows = of_held.reshape(n_samples, n_rows)
        # One record stands for all that are equal to it.
        record = np.full(int(kind.max()) + 1, -1)
        record[of_queried] = np.arange(len(queried))
        place = record[rows] + len(queried) * np.arange(n_samples)[:, None]
        times = np.bincount(place[record[rows] >= 0], minlength=n_samples * len(queried))
        times = times.reshape(n_samples, len(queried))[:, record[of_queried]]
        chains = [(times[self.samples.chain == c] > 0).any(axis=0) for c in self._chains]
        stands = np.bincount(of_fixed, minlength=len(record))[of_queried]
        prior = self._probability(atoms, label, tested_columns)
        met, first = np.unique(of_held, return_index=True)
        seen, all_atoms = np.zeros(len(record)), self.samples.atoms.reshape(n_samples * n_rows, -1)
        of_label = None if label is None else all_atoms[first, -1].astype(np.int64)
        seen[met] = self._probability(
            all_atoms[first, :-1].astype(np.int64), of_label, tested_columns
        )
        smoothing = Smoothing.of(rows, of_fixed, self.samples.chain, seen, self._spread)
        return Held(
            times - stands, stands, np.sum(chains, axis=0), prior, chance, n_rows, smoothing
        )

    def _is_known(self, table: FloatArray, label: IntArray | None) -> BoolArray:
        """Whether each record is a row that was given."""
        provided = np.zeros((0, table.shape[1] + 1)) if self.given is None else self.given
        queried = table if label is None else np.column_stack([table, label])
        row = numbered(np.concatenate([provided[:, : queried.shape[1]], queried]))
        return np.isin(row[len(provided) :], row[: len(provided)])

    def _odds(self, atoms: IntArray, label: IntArray | None) -> FloatArray | None:
        """How many times as frequent records are as a priori, where the evidence itself says so."""
        if self.odds is None or not self._tested.all():
            return None
        labels = [np.maximum(label, 0)] if label is not None else []
        labels = labels or [np.full(len(atoms), c) for c in range(self.release.n_classes)]
        rows = [np.column_stack([atoms, c]) for c in labels]
        prior = [np.exp(self.samples.log_prior(class_rows)) for class_rows in rows]
        there = [p * self.odds.of(class_rows) for p, class_rows in zip(prior, rows, strict=True)]
        return np.asarray(sum(there) / np.maximum(sum(prior), TINY))

    def _probability(
        self, atoms: IntArray, label: IntArray | None, tested_columns: BoolArray
    ) -> FloatArray:
        """Probability of records a priori, summed over what is not said of them."""
        n_classes = self.release.n_classes
        labels = [np.full(len(atoms), c) for c in range(n_classes)]
        if label is not None:
            labels = [np.maximum(label, 0)]
        parts = zip(self.geometry.parts, tested_columns, strict=True)
        total = np.zeros(len(atoms))
        for more in product(*(range(1 if known else len(part)) for part, known in parts)):
            for c in labels:
                rows = np.column_stack([np.where(tested_columns, atoms, more), c])
                total += np.exp(self.samples.log_prior(rows))
        return np.minimum(total, 1.0 - 1e-12)

    def _in_atoms(self, table: FloatArray) -> tuple[IntArray, FloatArray]:
        """Atoms of each record, and the probability of its values in a row that has these.

        Records outside of the schema have probability 0.
        """
        values = self.samples.values
        atoms = np.zeros((len(table), len(self.geometry.parts)), dtype=np.int64)
        chance = np.ones(len(table))
        for a, part in enumerate(self.geometry.parts):
            if part.columns.max() >= table.shape[1]:
                continue
            block = table[:, part.columns]
            chance[~part.attribute.holds(block)] = 0.0
            atoms[:, a] = part.holding(block, self.geometry.release).argmax(axis=1)
            if part.intervals:
                continue
            listed = np.arange(values.start[a], values.start[a + 1])
            same = np.isclose(block[:, None, :], values.table(a)[None], equal_nan=True).all(axis=2)
            chance *= np.where(same, self.samples.value_prior[listed], 0.0).sum(axis=1)
        return atoms, chance


@dataclass(frozen=True, eq=False)
class _Column:
    """A column whose atoms are intervals."""

    a: int
    """Its attribute."""
    part: AttributeAtoms
    low: FloatArray
    high: FloatArray
    """Shape (n_atoms,). Ends between which each value is equally likely; equal where one value is
    known, NaN where it is missing or nothing says how far values go on."""
    beyond: tuple[tuple[int, FloatArray], ...]
    """Atoms beyond the outermost thresholds, with values that are equally likely, a line for each
    density there."""


@dataclass(frozen=True, eq=False)
class Inside:
    """Draws values of rows of samples: all of an interval alike, or as so many rows reach.

    How dense rows are beyond the outermost thresholds is one draw for all rows of a dataset.
    """

    columns: tuple[_Column, ...]
    release: Release

    @classmethod
    def of(cls, samples: Samples, release: Release) -> Inside:
        """Take the intervals of the atoms of samples, and how many rows are in each."""
        columns = []
        for a, part in enumerate(samples.values.parts):
            if not part.intervals:
                continue
            rows = np.bincount(samples.atoms[:, :, a].ravel(), minlength=len(part)) / len(samples)
            ended = np.isfinite(part.spans).all(axis=1, keepdims=True)
            low, high = np.where(ended, part.spans, np.nan).T
            columns.append(_Column(a, part, low, high, part.beyond(release, rows)))
        return cls(tuple(columns), release)

    def drawn(self, table: FloatArray, atoms: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw values for rows, each inside the interval of its atom.

        Parameters
        ----------
        table : float array, shape (n_rows, n_columns)
            Rows at the points of their atoms.
        atoms : int array, shape (n_rows, n_attributes)
            Counted from 0 in each attribute.
        """
        out = table.copy()
        for column in self.columns:
            atom, at = atoms[:, column.a], column.part.columns[0]
            x = column.low[atom] + rng.random(len(atom)) * (column.high - column.low)[atom]
            for k, values in column.beyond:
                here = np.flatnonzero(atom == k)
                x[here] = rng.choice(values[rng.integers(len(values))], len(here))
            if isinstance(column.part.attribute, Ordinal):
                x = np.round(x)
            # An end belongs to one of two intervals, and rounding may reach it.
            same = column.part.side_of(x, self.release) == column.part.side_of(
                out[:, at], self.release
            )
            out[:, at] = np.where(same & ~np.isnan(x), x, out[:, at])
        return out
