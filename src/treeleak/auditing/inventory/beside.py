"""What lies beside a model in its folder, or in the dictionary around it: tables, above all.

A table is taken for training rows if it holds rows of those that were given. Where none were given,
it is if its columns are the model's and it has about as many rows as the model counts, or where its
folder keeps rows in such a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.auditing.inventory.conditions import Context, Rule
from treeleak.auditing.inventory.known_classes import known_class
from treeleak.auditing.inventory.rules import (
    COLUMN_TABLE,
    DESCRIPTION,
    MODEL_TABLE,
    PER_ROW,
    SETTING,
    SMALL_CELLS,
    TABLE,
    UNKNOWN,
)
from treeleak.auditing.inventory.stored_rows import Table
from treeleak.release.containers.bundle import Bundle, Description, StoredTable, table_of
from treeleak.release.stored import Opaque, StoredObject

_AROUND = ("builtins.dict", "builtins.list", "builtins.tuple")
_FEWEST, _LEAST, _MOST = 5, 0.8, 1.25
"""Rows of a table that is compared by number, and the shares of the model's that are as many."""
_BESIDE = 3
"""Columns beside the model's: a number, a label, a weight."""
_NAMED = 0.8
"""Share of the model's columns that a table of the same columns has at least."""
_WORD, _MOST_PARTS, _MOST_SETTINGS = 40, 1000, 32
_PARTS = (np.ndarray, Mapping, list, tuple, bytes, Opaque)
_KEY, _FILE = re.compile(r"[A-Za-z_][\w \-]{0,39}"), re.compile(r"[\w .\-+()=@,/]{1,200}")
_COVARIATES = frozenset((
    "columnId", "covariateId", "covariateName", "covariateValue", "analysisId", "conceptId",
    "included", "covariateCount", "covariateMean", "covariateStDev",
))  # fmt: skip
"""Columns of the list of covariates of an OHDSI bundle, without those of parts of the data."""
EXAMPLES = frozenset(
    ("example_input", "dataframe_split", "dataframe_records", "inputs", "instances")
)
"""Keys under which documents keep examples of rows."""
_COUNTS = ("count", "persons", "people", "subjects", "patients", "n", "size")


def is_around(owner: StoredObject) -> bool:
    """Say whether an object only holds a model and what lies beside it."""
    return isinstance(owner, Bundle) or owner.type in _AROUND


def holds_parts(value: Any) -> bool:
    """Say whether a list has parts that are to be judged one by one."""
    few = isinstance(value, (list, tuple)) and len(value) <= _MOST_PARTS
    return few and any(isinstance(item, (StoredObject, *_PARTS)) for item in value)


def holds_more(value: Any, name: str) -> bool:
    """Say whether keys are no plain names, or single values are too many for settings."""
    if not isinstance(value, Mapping):
        return False
    plain = _FILE if name == "value" else _KEY
    scalars = sum(not isinstance(v, (StoredObject, *_PARTS)) for v in value.values())
    return scalars > _MOST_SETTINGS or any(not plain.fullmatch(str(key)) for key in value)


def rule_beside(owner: StoredObject, name: str, value: Any, context: Context) -> Rule | None:
    """Find the rule of what lies beside a model; None where it is for the rules of models."""
    if isinstance(value, Description):
        return DESCRIPTION
    if not is_around(owner) and known_class(owner.type) is not None:
        return None
    if not is_around(owner) and not isinstance(value, StoredObject):
        return None
    if (table := table_of(value)) is not None:
        expected = isinstance(owner, Bundle) and (name in owner.rows or name in EXAMPLES)
        n, d = table.cells.shape if table.cells.ndim == 2 else (len(table.cells), 1)
        names = _columns_of(context)
        of_model = _has_columns(table, names)
        known = context.table
        if known is not None and (aligned := _aligned(table, context.rows)) is not None:
            return TABLE if _holds_rows(aligned, known, expected) else (
                MODEL_TABLE if of_model else _by_number(table, context))  # fmt: skip
        about = context.n_rows is not None and n >= _FEWEST and (
            _LEAST <= table.n_rows / max(context.n_rows, 1) <= _MOST)  # fmt: skip
        if of_model and (expected or about):
            return TABLE
        if expected and d > 1 and names and d >= len(names):
            return TABLE
        if of_model:
            return MODEL_TABLE
        return _by_number(table, context)
    if not is_around(owner):
        return None
    if value is None or isinstance(value, (bool, int, float, np.generic)):
        return SETTING
    whole = isinstance(owner, Bundle) and owner.files.get(name) is value
    if isinstance(value, str) and len(value) <= _WORD and value.isprintable() and not whole:
        return SETTING
    if isinstance(value, (list, tuple, np.ndarray)) and _are_columns(value, context):
        return COLUMN_TABLE
    return None


def is_rows_beside(owner: StoredObject, name: str, value: Any, context: Context) -> bool:
    """Say whether a part beside a model holds rows, or a line for each row, as far as is known."""
    rule = rule_beside(owner, name, value, context)
    return rule in (TABLE, MODEL_TABLE, PER_ROW, SMALL_CELLS)


def _by_number(table: StoredTable, context: Context) -> Rule:
    """Judge a table of other columns than the model's."""
    if context.n_rows is not None and table.n_rows == context.n_rows >= _FEWEST:
        return PER_ROW
    if _small_cells(table, context.least_count):
        return SMALL_CELLS
    names = {str(name) for of in _columns_of(context) for name in of}
    lines = table.cells
    if "covariateId" in table.columns and set(table.columns) <= _COVARIATES:
        return COLUMN_TABLE if len(lines) <= len(names) else UNKNOWN
    if lines.ndim == 2 and lines.shape[1] <= _BESIDE and 0 < len(lines) <= len(names):
        # One line for each column, as lists of importances have.
        first = {str(cell) for cell in lines[:, 0]}
        if first <= names and len(first) == len(lines) and _says_little(lines[:, 1:]):
            return MODEL_TABLE if _holds_people(lines, context) else COLUMN_TABLE
    return UNKNOWN


def _says_little(cells: NDArray[Any]) -> bool:
    """Say whether each cell is a number or a word: a text could list all values of a column."""
    return all(
        cell is None or isinstance(cell, (int, float, np.generic)) or len(str(cell)) <= _WORD
        for cell in cells.ravel()
    )


def _holds_people(lines: NDArray[Any], context: Context) -> bool:
    """Say whether a list of columns has, beside their names, the values of a training row."""
    rows, known = context.rows, context.table
    if known is None:
        return False
    came_in = [str(name) for name in rows.columns] if isinstance(rows, pd.DataFrame) else []
    for names in (came_in, *_columns_of(context)):
        at = {str(cell): k for k, cell in enumerate(lines[:, 0])}
        places = [names.index(cell) for cell in at if cell in names]
        if len(names) != known.rows.shape[1] or len(places) != len(at) or not places:
            continue
        for column in lines[:, 1:].T:
            values = known.numbers(list(column))
            if len(set(values)) > 1 and (known.rows[:, places] == values).all(axis=1).any():
                return True
    return False


def _small_cells(table: StoredTable, least: int | None) -> bool:
    """Say whether a report counts fewer people somewhere than may be shown."""
    if least is None or table.cells.ndim != 2:
        return False
    for name, column in zip(table.columns, table.cells.T, strict=False):
        words = str(name).lower().replace("_", " ")
        if not any(words == w or words.endswith(w) for w in _COUNTS):
            continue
        numbers = pd.to_numeric(pd.Series(column), errors="coerce").to_numpy(dtype=float)
        if ((numbers > 0) & (numbers < least) & (numbers == np.floor(numbers))).any():
            return True
    return False


def _columns_of(context: Context) -> list[tuple[str, ...]]:
    """The model's columns, and those that go into its pipeline."""
    release = context.release
    if release is None:
        return []
    came_in = () if release.inputs is None else release.inputs.names
    return [tuple(map(str, names)) for names in (release.feature_names, came_in) if names]


def _are_columns(value: Any, context: Context) -> bool:
    items = value.ravel().tolist() if isinstance(value, np.ndarray) else list(value)
    release = context.release
    known = [set(names) for names in _columns_of(context)]
    known += [] if release is None else [{str(c) for c in release.classes}]
    texts = {str(item) for item in items}
    return bool(texts) and len(texts) == len(items) and any(texts <= names for names in known)


def _has_columns(table: StoredTable, known: list[tuple[str, ...]]) -> bool:
    if table.columns:
        columns = {name.strip() for name in table.columns}
        return any(len(columns & {*names}) >= max(1, _NAMED * len(names)) for names in known)
    width = table.cells.shape[1] if table.cells.ndim == 2 else 1
    return any(len(names) <= width <= len(names) + _BESIDE for names in known if len(names) > 1)


def _aligned(table: StoredTable, rows: Any) -> NDArray[Any] | None:
    """Cells of a table in the columns of the training rows; None where it has others."""
    cells = table.cells
    width = np.shape(rows)[1] if np.ndim(rows) == 2 else 0
    if cells.ndim != 2 or not width:
        return None
    if table.columns and isinstance(rows, pd.DataFrame):
        names = [name.strip() for name in table.columns]
        wanted = [str(name) for name in rows.columns]
        if set(wanted) <= set(names):
            return np.asarray(cells[:, [names.index(name) for name in wanted]])
    if table.columns and isinstance(rows, pd.DataFrame) and cells.shape[1] < width:
        return None
    return cells if width <= cells.shape[1] <= width + _BESIDE else None


def _holds_rows(cells: NDArray[Any], table: Table, expected: bool) -> bool:
    """Say whether rows of a table are training rows: more than chance explains, or any at all.

    ``expected``: whether such rows stand in such a file, so that one is enough.
    """
    numbers = [table.numbers(list(column)) for column in cells.T]
    width = table.rows.shape[1]
    starts = range(len(numbers) - width + 1) if expected else ()
    known = {row.tobytes() for row in table.rows} if expected else set()
    for start in starts:
        lines = np.column_stack(numbers[start : start + width])
        if any(line.tobytes() in known for line in lines):
            return True
    return table.stands_in(np.column_stack(numbers))
