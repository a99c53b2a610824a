"""Types of arrays, tables and models that pass from room to room, and functions of arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def equal_entries(key: NDArray[Any]) -> list[IntArray]:
    """Positions of equal entries, in order, one array for each value from the least on."""
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1) if len(order) else []


def copies_before(x: IntArray) -> IntArray:
    """How many equal entries stand before each entry."""
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    out = np.empty(len(x), dtype=np.int64)
    out[order] = np.arange(len(x)) - np.searchsorted(ordered, ordered)
    return out


def numbered(table: FloatArray) -> IntArray:
    """Number the different rows of a table of finite numbers; missing values are equal."""
    # A first column keeps it a table where there is none.
    whole = np.column_stack([np.zeros(len(table)), np.nan_to_num(table, nan=np.inf)])
    return np.unique(whole, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def packed(flags: BoolArray) -> NDArray[np.uint64]:
    """Pack truth values into words of 64 bits, the first ones lowest, along the last axis."""
    n = flags.shape[-1]
    bits = np.zeros((*flags.shape[:-1], -(-n // 64) * 64), dtype=bool)
    bits[..., :n] = flags
    return np.packbits(bits, axis=-1, bitorder="little").view("<u8").astype(np.uint64)


def bits_set(words: NDArray[np.uint64]) -> IntArray:
    """Count the bits that are set, along the last axis."""
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(words).sum(axis=-1, dtype=np.int64))
    # NumPy counts them itself from 2.0 on.
    in_byte = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)
    return np.asarray(in_byte[words.view(np.uint8)].sum(axis=-1, dtype=np.int64))


def rows_at(X: Any, numbers: NDArray[Any]) -> Any:
    """Take the rows of these numbers, of a table or of anything that is an array."""
    return X.iloc[numbers] if hasattr(X, "iloc") else np.asarray(X)[numbers]


Place = str | os.PathLike[str]
"""Of a file."""
Rows: TypeAlias = "pd.DataFrame | NDArray[Any] | Sequence[Sequence[Any]]"
"""Rows of a table."""
Labels: TypeAlias = "pd.Series[Any] | pd.DataFrame | NDArray[Any] | Sequence[Any]"
"""One of each row."""


class Predicts(Protocol):
    """A fitted estimator."""

    def predict(self, X: Any, /) -> Any:
        """Answer for each row."""


class Transforms(Protocol):
    """A fitted estimator that does not predict, such as trees that encode rows by their leaves."""

    def transform(self, X: Any, /) -> Any:
        """Encode each row."""


Estimator = Predicts | Transforms
