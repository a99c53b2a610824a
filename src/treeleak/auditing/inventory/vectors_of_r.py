"""How many lines a value of R has, and which of them are tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory.conditions import fits
from treeleak.auditing.inventory.forms import SHORT
from treeleak.core.private import dataclass
from treeleak.release.stored import StoredObject

_FEW = 2
_CURVE = 3
"""Columns of a curve: where, how high, and of which kind."""
_OF_COEFFICIENTS = ("Estimate", "Std. Error")
_OF_SUMMARY = {*_OF_COEFFICIENTS, "z value", "t value", "Pr(>|z|)", "Pr(>|t|)", "df"}
_FEW_LINES = 20
"""Of a summary: more lines must name columns."""
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
    value = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
    return value if isinstance(value, np.ndarray) else None


def lines_of(value: Any) -> int:
    """How many entries a vector has, or how many lines a table; 0 of what is neither."""
    if isinstance(value, StoredObject) and value.type == "R.data.frame":
        table = columns_of(value)
        return table.lines if table is not None else 0
    array = vector_of(value)
    return 0 if array is None else len(array) if np.ndim(array) else 1


def columns_of(value: Any, others: tuple[str, ...] = ()) -> Columns | None:
    """Find a table in a data frame, a matrix, or a list, an object or an environment of vectors.

    ``others``: patterns of names of what is no column of a list. A vector with names is a table of
    one column.
    """
    array = vector_of(value)
    state = value.state if isinstance(value, StoredObject) else {}
    if isinstance(array, np.ndarray) and array.ndim == 1 and _names_of(value) is not None:
        return Columns("vector", len(array), (array,), rows=_names_of(value))
    if array is not None:
        return _matrix(array, state.get("dimnames"))
    of_class = value.type if isinstance(value, StoredObject) else ""
    if of_class == "R.environment":
        return columns_of(state.get("values"), others)
    if of_class == "R.data.frame":
        return _of_members(state, "frame", ())
    members = value if isinstance(value, Mapping) else state
    listed = isinstance(value, Mapping) or of_class.startswith("R.")
    return _of_members(members, "list", others) if listed else None


def _matrix(array: Any, dimnames: Any) -> Columns | None:
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.shape[1] < _FEW:
        return None
    if not array.size:
        # Without lines there can be any number of columns.
        return None
    held = list(dimnames.values()) if isinstance(dimnames, Mapping) else dimnames
    rows, columns = held if isinstance(held, list) and len(held) == 2 else (None, None)
    names = tuple(map(str, columns)) if isinstance(columns, np.ndarray) else ()
    return Columns("matrix", len(array), tuple(array.T), names, rows)


def _of_members(members: Mapping[Any, Any], kind: str, others: tuple[str, ...]) -> Columns | None:
    """Take the vectors of the length that most of them have."""
    beside, vectors = " ".join(others), dict[str, NDArray[Any]]()
    for key, inner in members.items():
        vector = vector_of(inner)
        if key in _BESIDE or not isinstance(vector, np.ndarray) or vector.ndim != 1:
            continue
        if kind == "frame" or (_names_of(inner) is None and not fits(beside, str(key))):
            vectors[str(key)] = vector
    lengths = Counter(len(v) for v in vectors.values())
    lines, times = max(lengths.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
    if times < (_FEW if kind == "list" else 1):
        return None
    chosen = {k: v for k, v in vectors.items() if len(v) == lines}
    rows = members.get("row.names") if kind == "frame" else None
    return Columns(kind, lines, tuple(chosen.values()), tuple(chosen), rows)


def _names_of(value: Any) -> Any:
    return value.get("names") if isinstance(value, StoredObject) else None


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
    """Say whether the lines of a table go by columns of another, or by levels of these.

    They have a few numbers each, or one for each other line: a table on its side has more.
    """
    if len(table.columns) > max(SHORT, table.lines):
        return False
    of_summary = {*_OF_COEFFICIENTS} <= {*table.names} <= _OF_SUMMARY
    if table.lines < _FEW_LINES and (_INTERCEPT in texts_of(table.rows) or of_summary):
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
    counts = [len({str(v) for v in c.tolist()}) for c in table.columns]
    if max(counts) > SHORT:
        return False
    # A column of different values beside a constant is no combination.
    varied = sum(1 < n < table.lines for n in counts)
    return varied >= _FEW and prod(counts) == table.lines
