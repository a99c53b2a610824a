"""What a folder or an archive holds, as plain data: one object, so that all else knows no files.

A layout says who writes such folders: how they are recognised, which files are models, and which
hold rows. What it does not name is read by its kind, and listed by the inventory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.private import dataclass
from treeleak.release.stored import Opaque, StoredObject

Describes = Callable[[str], bool]
"""Says whether a text is, line by line, what a program writes there."""

_MOST_LINES, _MOST_COLUMNS = 120, 100_000
_PACKAGE = re.compile(
    r"name: [\w.\-]{1,40}|\s*(- )?[A-Za-z][\w.\-]{0,39}(\[[\w,]{1,40}\])?\s*:?"
    r"\s*([=<>!~]{1,2}\s?[\w.*+!]{1,16},?\s?){0,2}"
)
_SETTING = re.compile(r"\s*[A-Za-z_]{1,40}:( ['\"]?[\w.\-+/: ]{0,60}['\"]?)?")
_OF_ARROW = {
    "int8": "i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint8": "u1", "uint16": "<u2",
    "uint32": "<u4", "uint64": "<u8", "float": "<f4", "double": "<f8",
}  # fmt: skip
"""Fixed widths of its numbers, by the names of their types."""
_SIGNATURE = re.compile(r"\s*(inputs|outputs|params): ('(?P<q>.*)'|(?P<n>null))")


def packages(text: str) -> bool:
    """Say whether a text lists packages and their versions."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) <= _MOST_LINES and all(_PACKAGE.fullmatch(line) for line in lines)


def mlmodel(text: str) -> bool:
    """Say whether a text is MLflow's description of a model: settings, columns, versions."""
    lines = text.splitlines()
    if len(lines) > _MOST_LINES:
        return False
    for line in lines:
        found = _SIGNATURE.fullmatch(line)
        if found is None and not _SETTING.fullmatch(line):
            return False
        if found is not None and found["q"] and not _is_signature(found["q"]):
            return False
    return True


def _is_signature(text: str) -> bool:
    """Say whether columns are described by their names and types, and nothing else."""
    try:
        columns = json.loads(text.replace("''", "'"))
    except ValueError:
        return False
    keys = {"type", "name", "required", "tensor-spec"}
    return (
        isinstance(columns, list)
        and len(columns) <= _MOST_COLUMNS
        and all(isinstance(c, dict) and c.keys() <= keys for c in columns)
        and all(len(json.dumps(c)) <= 200 for c in columns)
    )


@dataclass(frozen=True, eq=False)
class Layout:
    """A kind of folder. Patterns are of paths in it, with slashes."""

    name: str
    markers: tuple[str, ...]
    """Patterns, each of which some file fits."""
    models: tuple[str, ...]
    """Patterns of models, the one to attack first."""
    rows: tuple[str, ...] = ()
    """Patterns of files that hold rows, or examples of rows."""
    described: Mapping[str, Describes] | None = None
    """Patterns of files that only describe, with what such a file looks like."""

    def fits(self, names: Collection[str]) -> bool:
        """Say whether these are the files of such a folder."""
        return all(any(matches((marker,), name) for name in names) for marker in self.markers)


def matches(patterns: Collection[str], name: str) -> bool:
    """Say whether a path fits one of some patterns, from the root or from a folder in it."""
    return any(fnmatchcase(name, p) or fnmatchcase(name, f"*/{p}") for p in patterns)


MODELS = (
    "*.skops", "*.ubj", "*.cbm", "*.xgb", "*.lgb", "*.cb", "xgboost-model", "model.json",
    "model.txt", "release.json", "model.pkl", "model.joblib", "*.joblib", "*.pkl", "*.pickle",
    "*.json", "*.txt", "*.bin",
)  # fmt: skip
"""Patterns of files that may be models, the surest first."""
_EXAMPLES = ("*input_example*.json", "serving_input_*.json", "*example_input*")
_PACKAGES: Mapping[str, Describes] = {
    "requirements*.txt": packages, "conda.yaml": packages, "python_env.yaml": packages,
}  # fmt: skip

LAYOUTS: tuple[Layout, ...] = (
    Layout("MLflow", ("MLmodel",), MODELS, _EXAMPLES, {**_PACKAGES, "MLmodel": mlmodel}),
    Layout("OHDSI PatientLevelPrediction", ("model.json", "*[aA]ttributes.json"), ("model.json",)),
    Layout("OHDSI PatientLevelPrediction", ("model.json", "modelDesign.json"), ("model.json",)),
    Layout(
        "AutoGluon", ("models/*/model.pkl", "predictor.pkl"), ("models/*/model.pkl",),
        ("utils/data/*", "utils/oof/*", "models/*/utils/oof.pkl"),
    ),
    Layout("SACRO-ML", ("target.yaml",), MODELS, ("X_*", "y_*")),
    Layout("Hugging Face", ("config.json", "README.md"), MODELS, _EXAMPLES, _PACKAGES),
    Layout("SageMaker", ("xgboost-model",), ("xgboost-model",), _EXAMPLES, _PACKAGES),
)  # fmt: skip
UNKNOWN = Layout("", (), MODELS, _EXAMPLES, _PACKAGES)


def layout_of(names: Collection[str]) -> Layout:
    """Find who wrote a folder of these files."""
    return next((layout for layout in LAYOUTS if layout.fits(names)), UNKNOWN)


def least_count(documents: Mapping[str, Any]) -> int | None:
    """Find the smallest number of people that a folder itself lets be shown (minCellCount)."""
    waiting: list[tuple[Any, int]] = [(value, 0) for value in documents.values()]
    found: list[int] = []
    while waiting:
        value, depth = waiting.pop()
        if not isinstance(value, dict) or depth > 5:
            continue
        stated = value.get("minCellCount")
        stated = stated[0] if isinstance(stated, list) and len(stated) == 1 else stated
        if isinstance(stated, int) and not isinstance(stated, bool) and 1 <= stated <= 10_000:
            found.append(stated)
        waiting += ((inner, depth + 1) for inner in value.values())
    return max(found, default=None)


BUNDLE, TABLE, DESCRIPTION = "treeleak.Folder", "treeleak.Table", "treeleak.Description"


@dataclass(frozen=True, eq=False)
class Bundle(StoredObject):
    """A folder or an archive: the content of each file by its name.

    Only files that were read make one, so no file can say that it is one.

    Attributes
    ----------
    layout : str
        Who writes such folders; empty where nobody known does.
    models : tuple of str
        Files that the layout calls models, in the order in which they are tried.
    rows : frozenset of str
        Files in which the layout keeps rows or examples of rows.
    least_count : int or None
        What the folder itself says is the smallest number of people that may be shown.
    """

    layout: str = ""
    models: tuple[str, ...] = ()
    rows: frozenset[str] = frozenset()
    least_count: int | None = None

    @property
    def files(self) -> Mapping[str, Any]:
        """The content of each file by its name."""
        found: Mapping[str, Any] = self.state["value"]
        return found


class StoredTable(StoredObject):
    """A table: named columns, or an array of rows."""

    @classmethod
    def of(cls, columns: tuple[str, ...], cells: Any, n_rows: int | None = None) -> StoredTable:
        """Make one; ``n_rows``: how many there are, where ``cells`` are the first of them."""
        state = {"columns": columns, "cells": cells, "n_rows": n_rows or len(cells)}
        return cls(TABLE, state)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; empty for an array."""
        return tuple(self.state["columns"])

    @property
    def cells(self) -> NDArray[Any]:
        """Shape (n_rows, n_columns)."""
        return np.asarray(self.state["cells"])

    @property
    def n_rows(self) -> int:
        """How many rows the whole table has."""
        return int(self.state["n_rows"])


class Description(StoredObject):
    """A text of which every line is as its program writes it: names, versions, settings."""


def frame_of(stored: Any) -> StoredTable | None:
    """Read a table of pandas as it is pickled; None of anything else."""
    if not isinstance(stored, StoredObject) or not stored.type.startswith("pandas."):
        return None
    manager = stored.get("_mgr", stored.get("_data"))
    if not isinstance(manager, StoredObject):
        return None
    series = stored.name == "Series"
    if series:
        found = _arrays(manager)
        return StoredTable.of((), found[-1].reshape(-1, 1)) if found else None
    if stored.name != "DataFrame" or len(manager.args) < 2:
        return None
    blocks, axes = manager.args[:2]
    names = next(iter(_arrays(axes[0] if isinstance(axes, (list, tuple)) and axes else None)), None)
    if names is None or not isinstance(blocks, (list, tuple)):
        return None
    columns: list[Any] = [None] * len(names)
    for block in blocks:
        args = block.args if isinstance(block, StoredObject) else ()
        arrays = _arrays(args[:1])
        if len(args) < 2 or not arrays:
            continue
        values = arrays[-1].reshape(-1, arrays[-1].shape[-1])
        for row, at in zip(values, _places(args[1]), strict=False):
            if 0 <= at < len(columns):
                columns[at] = row
    known = [k for k, column in enumerate(columns) if column is not None]
    if not known or len({len(columns[k]) for k in known}) != 1:
        return None
    cells = np.column_stack([np.asarray(columns[k], dtype=object) for k in known])
    return StoredTable.of(tuple(str(names[k]) for k in known), cells)


def _arrays(value: Any) -> list[NDArray[Any]]:
    """Arrays in a value, wherever pandas keeps them there."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, StoredObject) and value.type == "pyarrow.lib._restore_array":
        return _arrow(value)
    if isinstance(value, StoredObject):
        return _arrays([*value.args, *value.state.values()])
    if isinstance(value, Opaque):
        return _arrays(value.content)
    inside = value.values() if isinstance(value, Mapping) else value
    if isinstance(inside, (str, bytes)) or not hasattr(inside, "__iter__"):
        return []
    return [array for item in inside for array in _arrays(item)]


def _arrow(stored: StoredObject) -> list[NDArray[Any]]:
    """Read an array of Arrow, in which pandas 3 keeps texts: of texts, or of numbers."""
    try:
        kind, n, _, start, buffers = stored.args[0][:5]
        alias, at = kind.args[0], slice(start, start + n)
        parts: list[Any] = [None if b is None else b.args[0] for b in buffers]
        if alias in ("string", "large_string"):
            width = "<i4" if alias == "string" else "<i8"
            ends = np.frombuffer(parts[1], width)[start : start + n + 1]
            if len(ends) != n + 1 or ends[0] < 0 or (ends[1:] < ends[:-1]).any():
                return []
            cells = [parts[2][a:b].decode() for a, b in pairwise(ends.tolist())]
        else:
            cells = np.frombuffer(parts[1], _OF_ARROW[alias])[at].tolist()
        if parts[0] is not None:
            bits = np.unpackbits(np.frombuffer(parts[0], "u1"), bitorder="little")[at]
            cells = [c if bit else None for c, bit in zip(cells, bits, strict=True)]
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return []
    return [np.array(cells, dtype=object)] if len(cells) == n else []


def _places(value: Any) -> list[int]:
    """Numbers of the columns of a block."""
    if isinstance(value, StoredObject) and value.name == "slice" and len(value.args) == 3:
        start, stop, step = (int(a) if isinstance(a, (int, np.integer)) else 1 for a in value.args)
        return list(range(start, min(stop, start + 10**6), step or 1))
    return [int(k) for array in _arrays(value) if array.dtype.kind in "iu" for k in array.ravel()]


def table_of(value: Any) -> StoredTable | None:
    """Find a table in a plain value: a frame, an array, records, or lists by column or by row."""
    if isinstance(value, StoredTable):
        return value
    if isinstance(value, StoredObject):
        return frame_of(value)
    if isinstance(value, np.ndarray):
        if value.dtype.names:
            columns = [np.asarray(value[n].ravel(), object) for n in value.dtype.names]
            return StoredTable.of(value.dtype.names, np.column_stack(columns))
        return StoredTable.of((), value) if value.ndim == 2 and value.size else None
    if isinstance(value, Mapping):
        return _of_mapping(value)
    if not isinstance(value, (list, tuple)) or not value:
        return None
    if all(isinstance(record, Mapping) and record for record in value):
        names = tuple(dict.fromkeys(str(key) for record in value for key in record))
        texts = [{str(key): item for key, item in record.items()} for record in value]
        cells = [[record.get(name) for name in names] for record in texts]
        return _of_cells(names, cells)
    return _of_cells((), value)


def _of_mapping(value: Mapping[Any, Any]) -> StoredTable | None:
    for names, rows in (("columns", "data"), ("columns", "instances")):
        if isinstance(value.get(names), list) and isinstance(value.get(rows), list):
            return _of_cells(tuple(map(str, value[names])), value[rows])
    lists = [v.tolist() if isinstance(v, np.ndarray) else v for v in value.values()]
    lists = [list(v.values()) if isinstance(v, Mapping) else v for v in lists]
    if not lists or not all(isinstance(v, (list, tuple)) and v for v in lists):
        return None
    if len({len(v) for v in lists}) != 1:
        return None
    return _of_cells(tuple(map(str, value)), list(zip(*lists, strict=True)))


def _of_cells(names: tuple[str, ...], rows: Any) -> StoredTable | None:
    """Make a table of rows of equal length, in which no further lists stand."""
    if not rows or not all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        return None
    widths = {len(row) for row in rows}
    if len(widths) != 1 or not widths.pop() or (names and len(names) != len(rows[0])):
        return None
    plain = (str, int, float, bool, type(None), np.generic)
    if not all(isinstance(cell, plain) for row in rows for cell in row):
        return None
    cells = np.empty((len(rows), len(rows[0])), dtype=object)
    cells[:] = [list(row) for row in rows]
    return StoredTable.of(names, cells)
