"""Tables of 0/1 columns with labels, read for the learners and packed into bits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray, packed
from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass, shows_no_value
from treeleak.learn.checks import in_order, label_list

WORD = 64


@shows_no_value
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
    classes: NDArray[Any]
    """Sorted."""
    values: BoolArray
    """Shape (n_rows, n_columns)."""
    labels: IntArray
    """Shape (n_rows,). Positions in :attr:`classes`."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    def counts(self, among: BoolArray) -> IntArray:
        """Rows of each class among some of the rows."""
        return np.bincount(self.labels[among], minlength=len(self.classes))

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


def read_table(X: Any, y: Any) -> BinaryTable:
    """Read rows and labels to train on.

    Raises BadInput if there are no rows or columns, a value is neither 0 nor 1, or the labels are
    not one of a kind for each row.
    """
    values, names = read_columns(X)
    if not values.size:
        raise BadInput(f"a table of shape {values.shape}: nothing to train on")
    labels = label_list(y, len(values))
    if (missing := np.asarray(pd.isna(labels))).any():
        raise BadInput(f"row {int(missing.argmax())} has no label")
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise BadInput(f"the labels are of several kinds: {error}") from error
    return BinaryTable(names, classes, values, codes.astype(np.int64))


def read_columns(X: Any, names: Sequence[str] | None = None) -> tuple[BoolArray, tuple[str, ...]]:
    """Read a table of 0/1 values; a DataFrame's columns are found by name if there are names."""
    own: tuple[str, ...] = ()
    if isinstance(X, pd.DataFrame):
        X = X if names is None else in_order(X, names, "model")
        own = tuple(str(c) for c in X.columns)
    array = np.asarray(X)
    if array.ndim != 2 or (names is not None and array.shape[1] != len(names)):
        columns = "" if names is None else f" for a model of {len(names)} columns"
        raise BadInput(f"a table of shape {array.shape}{columns}")
    own = own or tuple(names or (f"x{i}" for i in range(array.shape[1])))
    if len(set(own)) != len(own):
        raise BadInput(f"two columns have one name: {max(own, key=own.count)!r}")
    wrong_values = ~((array == 0) | (array == 1))
    if wrong_values.any():
        row, column = np.argwhere(wrong_values)[0]
        value = array[row, column]
        said = "no value" if pd.isna(value) else f"{value}, neither 0 nor 1"
        raise BadInput(f"column {own[column]!r}, row {row}: {said}")
    return (array == 1), own
