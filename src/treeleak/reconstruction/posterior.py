"""The posterior of the training set: datasets drawn from it, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from treeleak.attacks.samples import Samples
from treeleak.core.arrays import BoolArray, FloatArray, IntArray, numbered
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.partition import Geometry, equal_rows
from treeleak.release.check_schema import read_columns
from treeleak.release.release import Release


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
    given: FloatArray | None = None
    """Shape (n_given, n_features + 1). Rows that were given, and last their class numbers."""

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def n_chains(self) -> int:
        """Independent chains behind the samples."""
        return len(np.unique(self.samples.chain))

    @property
    def disagreement(self) -> float:
        """Gelman and Rubin's R of the log posterior: near 1 where the chains agree."""
        return self.samples.disagreement

    def to_dict(self) -> dict[str, Any]:
        """Describe it without any row (formats/reconstruction.schema.json)."""
        told = np.isfinite(self.disagreement)
        return {
            "samples": len(self),
            "chains": self.n_chains,
            "disagreement": self.disagreement if told else None,
        }

    def datasets(self) -> Iterator[tuple[pd.DataFrame, pd.Series[Any] | None]]:
        """All samples as rows and labels, as :meth:`written` gives them."""
        rng = np.random.default_rng(self.seed)
        for k in range(len(self)):
            yield self.written(self.samples.drawn(k, rng))

    def written(self, chosen: IntArray) -> tuple[pd.DataFrame, pd.Series[Any] | None]:
        """Write a dataset, given as values numbered through, as rows and labels.

        Without labels where the model has no classes.
        """
        values, names = self.samples.values, list(self.release.feature_names)
        width = sum(len(p.columns) for p in values.parts)
        rows, label = values.rows(chosen[:, :-1], width), chosen[:, -1] - values.start[-2]
        table, label = self.write(rows, label)
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
        """Probability that each record is in the training set.

        Values that no tree tells apart count with the probability that a row has them; numbers,
        by the interval between thresholds in which they lie. Rows that were given are members.

        Parameters
        ----------
        records : DataFrame
            The model's columns, and maybe one more, the label.
        share : float, optional
            The share of members among these records, where they were put together on purpose, as
            in a membership game (0.5). Without it, they are taken to be chosen without a look at
            the training set, and P = P(m_r >= 1) is said; with it, what follows from the odds
            share / (1 - share) x P / (1 - P) x (1 - P0) / P0, where P0 is the same before
            anything was counted, by the population as the attack was told or learned it.

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
        atoms, chance = self._placed(table)
        label = self.release.class_numbers(records[beside[0]]) if beside else None
        if label is not None:
            chance[label < 0] = 0.0
        # A column that only a joint release has tells nothing of a record.
        own = np.array([p.columns.max() < table.shape[1] for p in self.geometry.parts])
        times = self._times(atoms, label, own)
        present = (1.0 - (1.0 - chance) ** times).sum(axis=0)
        out = present / len(self)
        if share is not None:
            once = chance * self._probability(atoms, label, own)
            before = np.clip(-np.expm1(self.samples.atoms.shape[1] * np.log1p(-once)), 1e-12, 1.0)
            # One sample's worth of the prior: what no sample holds is not ruled out.
            after = (present + before) / (len(self) + 1)
            odds = after * (1 - before) * share, (1 - after) * before * (1 - share)
            out = np.where(chance > 0, odds[0] / np.maximum(odds[0] + odds[1], 1e-300), 0.0)
        out[self._given(table, label)] = 1.0
        return pd.Series(out, index=records.index, name="membership")

    def _times(self, atoms: IntArray, label: IntArray | None, own: BoolArray) -> IntArray:
        """How often each record stands in each sample, shape (n_samples, n_records)."""
        asked = atoms[:, own]
        if label is not None:
            asked = np.column_stack([asked, label])
        held = self.samples.atoms[:, :, np.append(own, label is not None)]
        n_samples, n_rows, width = held.shape
        n, both = len(asked), np.concatenate([asked, held.reshape(-1, width)])
        group = equal_rows(both)[1]
        # One record stands for all that are equal to it.
        record = np.full(len(both), -1)
        record[group[:n]] = np.arange(n)
        at = record[group[n:]]
        place = (np.repeat(np.arange(n_samples), n_rows) * n + at)[at >= 0]
        times = np.bincount(place, minlength=n_samples * n).reshape(n_samples, n)
        return np.asarray(times[:, record[group[:n]]])

    def _given(self, table: FloatArray, label: IntArray | None) -> BoolArray:
        """Whether each record is a row that was given."""
        given = np.zeros((0, table.shape[1] + 1)) if self.given is None else self.given
        asked = table if label is None else np.column_stack([table, label])
        row = numbered(np.concatenate([given[:, : asked.shape[1]], asked]))
        return np.isin(row[len(given) :], row[: len(given)])

    def _probability(self, atoms: IntArray, label: IntArray | None, own: BoolArray) -> FloatArray:
        """Probability of records a priori, summed over what is not said of them."""
        n_classes = self.release.n_classes
        labels = [np.full(len(atoms), c) for c in range(n_classes)]
        if label is not None:
            labels = [np.maximum(label, 0)]
        parts = zip(self.geometry.parts, own, strict=True)
        total = np.zeros(len(atoms))
        for more in product(*(range(1 if known else len(part)) for part, known in parts)):
            for c in labels:
                rows = np.column_stack([np.where(own, atoms, more), c])
                total += np.exp(self.samples.log_prior(rows))
        return np.minimum(total, 1.0 - 1e-12)

    def _placed(self, table: FloatArray) -> tuple[IntArray, FloatArray]:
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
            if any(atom.interval for atom in part.atoms):
                continue
            listed = np.arange(values.start[a], values.start[a + 1])
            same = np.isclose(block[:, None, :], values.table(a)[None], equal_nan=True).all(axis=2)
            chance *= np.where(same, self.samples.value_prior[listed], 0.0).sum(axis=1)
        return atoms, chance
