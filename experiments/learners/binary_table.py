"""Tables of 0/1 columns with labels, packed into bits."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray, packed
from treeleak.core.private import dataclass

WORD = 64


class PackedTable(NamedTuple):
    """A table as bits, its rows sorted by class: each word holds rows of one class only."""

    columns: NDArray[np.uint64]
    """Shape (n_columns, n_words)."""
    everyone: NDArray[np.uint64]
    """Shape (n_words,). The bits that stand for a row."""
    word_class: IntArray
    """Shape (n_words,)."""


@dataclass(frozen=True, eq=False)
class BinaryTable:
    """Rows of 0/1 columns, and the class of each."""

    names: tuple[str, ...]
    classes: tuple[Any, ...]
    """Sorted."""
    values: BoolArray
    """Shape (n_rows, n_columns)."""
    labels: IntArray
    """Shape (n_rows,). Positions in :attr:`classes`."""

    @classmethod
    def of(cls, X: pd.DataFrame, y: Any) -> BinaryTable:
        """Read rows of 0 and 1, and their labels."""
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        names = tuple(str(c) for c in X.columns)
        return cls(names, tuple(classes.tolist()), X.to_numpy() == 1, codes.astype(np.int64))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    def counts(self, among: BoolArray) -> IntArray:
        """Rows of each class among some of the rows."""
        return np.bincount(self.labels[among], minlength=len(self.classes))

    def counts_by_literal(self, among: BoolArray) -> IntArray:
        """Rows of each class that meet each literal: of each column, 1 and then 0.

        Shape (2 * n_columns, n_classes).
        """
        values, labels = self.values[among], self.labels[among]
        ones = np.array([values[labels == c].sum(axis=0) for c in range(len(self.classes))]).T
        return np.stack([ones, self.counts(among) - ones], axis=1).reshape(-1, len(self.classes))

    def meets(self, literal: int) -> BoolArray:
        """Which rows meet a literal: twice its column, plus one where it asks for 0."""
        met: BoolArray = self.values[:, literal // 2] == (literal % 2 == 0)
        return met

    @cached_property
    def points(self) -> tuple[BoolArray, IntArray]:
        """The different rows, and how often each occurs in each class."""
        found, at = np.unique(self.values, axis=0, return_inverse=True)
        counts = np.zeros((len(found), len(self.classes)), dtype=np.int64)
        np.add.at(counts, (at.ravel(), self.labels), 1)
        return found, counts

    @cached_property
    def packed(self) -> PackedTable:
        """The table as bits."""
        # Rows that resemble each other share words, so that small parts of the table touch few.
        order = np.lexsort((*self.values.T, self.labels))
        size = np.bincount(self.labels, minlength=len(self.classes))
        words = -(-size // WORD)
        first = np.concatenate([[0], np.cumsum(words)[:-1]]) * WORD
        place = np.concatenate([f + np.arange(n) for f, n in zip(first, size, strict=True)])
        bits = np.zeros((self.values.shape[1] + 1, int(words.sum()) * WORD), dtype=bool)
        bits[:-1, place] = self.values[order].T
        bits[-1, place] = True
        held = packed(bits)
        return PackedTable(held[:-1], held[-1], np.repeat(np.arange(len(words)), words))
