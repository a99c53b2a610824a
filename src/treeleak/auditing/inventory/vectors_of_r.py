"""How many lines a value of R has, and which of them are tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory.conditions import fits
from treeleak.core.private import dataclass
from treeleak.release.stored import StoredObject

_FEW = 2
_CURVE = 3
"""Columns of a curve: where, how high, and of which kind."""
_OF_COEFFICIENTS = ("Estimate", "Std. Error")
_LEAST_STEM, _NEARLY_ALL, _INTERCEPT = 3, 0.8, "(Intercept)"
_MOST_COMPARED = 10_000
_BESIDE = ("row.names", "class", "names", "terms", "na.action", "levels", "dimnames")


@dataclass(frozen=True, eq=False)
class Columns:
    """A table: vectors of equal length, or a matrix."""

    kind: str
    """frame, matrix, list or vector."""
    lines: int
    columns: tuple[NDArray[Any], ...]
    names: tuple[str, ...] = ()
    rows: Any = None
    """Names of the lines."""


def vector_of(value: Any) -> Any:
    """The entries of a vector, whatever its class; None of what is no vector."""
    if isinstance(value, StoredObject) and value.type == "R.factor":
        return value.get("codes")
    if isinstance(value, StoredObject):
        # A column of a data frame may have any name.
        held = value.type.startswith("R.") and value.type != "R.data.frame"
        value = value.get("value") if held else None
    return value if isinstance(value, (np.ndarray, bytes)) else None


def lines_of(value: Any) -> int:
    """How many entries a vector has, or how many lines a table; 0 of what is neither."""
    array = vector_of(value)
    if isinstance(array, np.ndarray):
        return int(array.shape[0]) if array.ndim else 1
    if isinstance(value, StoredObject) and value.type == "R.data.frame":
        table = columns_of(value)
        return table.lines if table is not None else 0
    return len(array) if isinstance(array, bytes) else 0


def columns_of(value: Any, others: tuple[str, ...] = ()) -> Columns | None:
    """Find a table in a data frame, a matrix, or a list, an object or an environment of vectors.

    ``others``: patterns of names of what is no column of a list. A vector with names is a table of
    one column.
    """
    array = vector_of(value)
    state = value.state if isinstance(value, StoredObject) else {}
    if isinstance(array, np.ndarray) and array.ndim == 1 and state.get("names") is not None:
        return Columns("vector", len(array), (array,), rows=state["names"])
    if array is not None:
        return _matrix(array, state.get("dimnames"))
    if isinstance(value, Mapping):
        return _of_members(value, "list", others)
    if not isinstance(value, StoredObject) or not value.type.startswith("R."):
        return None
    if value.type == "R.environment":
        return columns_of(value.get("values"), others)
    if value.type == "R.data.frame":
        return _of_members(state, "frame", ())
    return _of_members(state, "list", others)


def _matrix(array: Any, dimnames: Any) -> Columns | None:
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.shape[1] < _FEW:
        return None
    held = list(dimnames.values()) if isinstance(dimnames, Mapping) else dimnames
    rows, columns = held if isinstance(held, list) and len(held) == 2 else (None, None)
    names = tuple(map(str, columns)) if isinstance(columns, np.ndarray) else ()
    return Columns("matrix", len(array), tuple(array.T), names, rows)


def _of_members(members: Mapping[Any, Any], kind: str, others: tuple[str, ...]) -> Columns | None:
    """Take the vectors of the length that most of them have."""

    def has_names(value: Any) -> bool:
        return isinstance(value, StoredObject) and value.get("names") is not None

    vectors = {
        str(k): v for k, inner in members.items()
        if (k not in _BESIDE) and isinstance(v := vector_of(inner), np.ndarray) and v.ndim == 1
        and (kind == "frame" or not (has_names(inner) or fits(" ".join(others), str(k))))
    }  # fmt: skip
    lengths = Counter(len(v) for v in vectors.values())
    lines, times = max(lengths.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
    if times < (_FEW if kind == "list" else 1):
        return None
    chosen = {k: v for k, v in vectors.items() if len(v) == lines}
    rows = members.get("row.names") if kind == "frame" else None
    return Columns(kind, lines, tuple(chosen.values()), tuple(chosen), rows)


def texts_of(value: Any) -> set[str]:
    """Texts in a vector; names of the items of a list."""
    if isinstance(value, Mapping):
        return {str(key) for key in value}
    array = vector_of(value)
    texts = (
        array.ravel().tolist() if isinstance(array, np.ndarray) and array.dtype == object else ()
    )
    return {text for text in texts if isinstance(text, str)}


def is_about(table: Columns, columns: frozenset[str]) -> bool:
    """Say whether the lines of a table go by columns of another, or by levels of these."""
    if _INTERCEPT in texts_of(table.rows) or {*_OF_COEFFICIENTS} <= {*table.names}:
        return True
    starts = tuple(name for name in columns if len(name) >= _LEAST_STEM)
    for names in (table.rows, *table.columns) if columns else ():
        listed = texts_of(names)
        about = sum(t in columns or t == _INTERCEPT or t.startswith(starts) for t in listed)
        if listed and len(listed) == table.lines and about >= _NEARLY_ALL * len(listed):
            return True
    return False


def is_curve(table: Columns) -> bool:
    """Say whether a narrow table ascends or descends in a column, as steps of a curve do."""
    steps = [np.diff(c) for c in table.columns if c.dtype.kind in "if" and len(c) > 1]
    narrow = len(table.columns) <= _CURVE
    return narrow and any(bool((s > 0).all() or (s < 0).all()) for s in steps)


def is_grid(table: Columns) -> bool:
    """Say whether a table lists all combinations of a few values, once each, as settings are."""
    if table.lines > _MOST_COMPARED or len(table.columns) < _FEW:
        return False
    return prod(len({str(v) for v in c.tolist()}) for c in table.columns) == table.lines
