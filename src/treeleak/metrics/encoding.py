"""Tables as numbers: between those of one column, the distance is min(|a - b|, 1)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadInput
from treeleak.schema import Attribute, Categorical, Numeric, Schema

Table: TypeAlias = "pd.DataFrame | NDArray[Any]"


def table_columns(X_rec: Table, X_true: Table, schema: Schema | None = None) -> list[str]:
    """Names of the columns that are compared, in order."""
    return list(_aligned(X_rec, X_true, schema)[1].columns)


def column_range(attribute: Attribute | None, values: FloatArray) -> tuple[float, float]:
    """Ends of a column: the schema's where it is bounded, else those of the values.

    NaN where neither says anything.
    """
    known = values[np.isfinite(values)]
    ends = (known.min(), known.max()) if known.size else (math.nan, math.nan)
    bounds = attribute.bounds if attribute is not None else (-math.inf, math.inf)
    low, high = (
        float(b) if math.isfinite(b) else float(e) for b, e in zip(bounds, ends, strict=True)
    )
    return low, high


def encoded(X: Table, schema: Schema) -> FloatArray:
    """Turn a table into numbers between which every column's distance is min(|a - b|, 1)."""
    return in_numbers(X, X, schema)[1]


def encoded_pair(
    X_rec: Table, X_true: Table, schema: Schema | None, exact: bool = False
) -> tuple[FloatArray, FloatArray]:
    """As :func:`in_numbers`, of tables of one size."""
    rec, true = in_numbers(X_rec, X_true, schema, exact)
    if len(rec) != len(true):
        raise BadInput(f"{len(rec)} reconstructed rows against {len(true)} true rows")
    return rec, true


def in_numbers(
    X_rec: Table, X_true: Table, schema: Schema | None, exact: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Turn both tables into numbers between which every column's distance is min(|a - b|, 1)."""
    rec, true = _aligned(X_rec, X_true, schema)
    if true.empty:
        raise BadInput("no rows or no columns to compare")
    owner = {c: a for a in schema.attributes for c in a.columns} if schema else {}
    pairs = []
    for column, (a, b, numeric) in zip(true.columns, _columns(rec, true), strict=True):
        if exact or not numeric or isinstance(owner.get(column), Categorical):
            pairs.append(_codes(a, b))
        elif _without_range(owner.get(column), b):
            pairs.append((np.isnan(a).astype(float), np.isnan(b).astype(float)))
        else:
            pairs.append(_scaled(a, b, *column_range(owner.get(column), b)))
    return np.column_stack([a for a, _ in pairs]), np.column_stack([b for _, b in pairs])


def _without_range(attribute: Attribute | None, values: FloatArray) -> bool:
    """Whether nothing says how large a difference is: numbers without bounds, all of them equal.

    No tree can test such a column, so whoever knows the people always beats an attack there.
    """
    if not isinstance(attribute, Numeric):
        return False
    low, high = column_range(attribute, values)
    return not high > low


def _aligned(
    X_rec: Table, X_true: Table, schema: Schema | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    named = [X for X in (X_true, X_rec) if isinstance(X, pd.DataFrame)]
    wanted = list(schema.columns) if schema else None
    if named:
        present = [str(c) for c in named[0].columns]
        names = present if wanted is None else [c for c in present if c in set(wanted)]
        names += [c for c in wanted or () if c not in set(present)]
    else:
        names = wanted or [str(i) for i in range(np.shape(X_true)[-1])]
    rec, true = (
        _table(X, names, f"the {what} rows", strict=schema is None)
        for X, what in ((X_rec, "reconstructed"), (X_true, "true"))
    )
    return rec, true


def _table(X: Table, names: list[str], what: str, strict: bool) -> pd.DataFrame:
    if not isinstance(X, pd.DataFrame):
        if np.ndim(X) != 2 or np.shape(X)[1] != len(names):
            raise BadInput(f"{what}: shape {np.shape(X)} does not fit {len(names)} columns")
        return pd.DataFrame(np.asarray(X), columns=names).infer_objects()
    if X.columns.is_unique and list(X.columns) == names:
        return X
    table = X.set_axis([str(c) for c in X.columns], axis=1)
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise BadInput(f"{what}: column {twice!r} appears twice")
    for column in names:
        if column not in table.columns:
            raise BadInput(f"{what} lack column {column!r}")
    if strict and len(table.columns) > len(names):
        extra = next(c for c in table.columns if c not in set(names))
        raise BadInput(f"{what} have a column {extra!r} that the other rows lack")
    return table[names]


def _columns(
    rec: pd.DataFrame, true: pd.DataFrame
) -> Iterator[tuple[FloatArray, FloatArray, bool]]:
    """Give the columns of both tables as numbers, and whether they are that and not names."""
    if not all(map(_is_plain, (*rec.dtypes, *true.dtypes))):
        for column in true.columns:
            yield _as_numbers(rec[column], true[column], column)
        return
    # At once: taken one by one from a hundred guesses, columns cost more than all else.
    a, b = (table.to_numpy(dtype=float) for table in (rec, true))
    for k, column in enumerate(true.columns):
        _check_finite(b[:, k], column)
        yield a[:, k], b[:, k], True


def _is_plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "biuf"


def _check_finite(true: FloatArray, column: str) -> None:
    if np.isinf(true).any():
        raise BadInput(f"column {column!r} of the true rows holds an infinite number")


def _as_numbers(
    rec: pd.Series[Any], true: pd.Series[Any], column: str
) -> tuple[FloatArray, FloatArray, bool]:
    rec, true = rec.infer_objects(), true.infer_objects()
    numeric = [pd.api.types.is_numeric_dtype(s) for s in (rec, true)]
    if numeric[0] != numeric[1]:
        raise BadInput(f"column {column!r} holds numbers in one table only")
    if not all(numeric):
        both = pd.concat([rec.astype(object), true.astype(object)], ignore_index=True)
        codes = pd.factorize(both)[0].astype(float)
        codes[codes < 0] = np.nan
        return codes[: len(rec)], codes[len(rec) :], False
    a, b = (s.to_numpy(dtype=float, na_value=np.nan) for s in (rec, true))
    _check_finite(b, column)
    return a, b, True


def _codes(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    codes = pd.factorize(np.concatenate([a, b]))[0].astype(float)
    return codes[: len(a)], codes[len(a) :]


def _scaled(a: FloatArray, b: FloatArray, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    known = ~np.isnan(b)
    if not (high > low and known.any()):
        return _codes(a, b)
    a, b = (a - low) / (high - low), (b - low) / (high - low)
    # What lies further out than 1 differs by 1 from every true value, however far out it lies;
    # that leaves room for a number that stands for "missing".
    floor, ceiling = b[known].min() - 1, b[known].max() + 1
    a = np.clip(a, floor, ceiling)
    return np.where(np.isnan(a), ceiling + 2, a), np.where(known, b, ceiling + 2)
