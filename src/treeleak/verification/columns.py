"""Rows put in the model's columns, and labels in its numbers of classes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import Mismatch
from treeleak.core.message import Message, MessageTemplate
from treeleak.release.check_schema import coded, how_to_code, levels_with
from treeleak.release.pipeline.through import put_through
from treeleak.release.release import Release
from treeleak.schema import Schema

_SIGNS = re.compile(r"[\W_]+")

UNNAMED = MessageTemplate(
    "columns_taken_in_order",
    "The model has no column names: the columns of the {what} were taken in order.",
)
IGNORED = MessageTemplate(
    "columns_ignored",
    "Columns of the {what} that the model lacks were ignored: {columns:quoted}.",
)
RENAMED = MessageTemplate(
    "columns_renamed",
    "Columns of the {what} were matched with the model's, whose names have other signs in place of "
    "blanks and the like: {columns:quoted}.",
)
ALIGNED = MessageTemplate(
    "columns_aligned", "The {what} had their columns in another order: aligned by name."
)


def in_model_columns(
    release: Release,
    X: Any,
    y: Any = None,
    what: str = "training rows",
    unseen: bool = False,
) -> tuple[pd.DataFrame, IntArray, tuple[str, ...]]:
    """Put rows in the model's columns, as numbers, and their labels as numbers of classes.

    Parameters
    ----------
    X : DataFrame or array
        Columns are found by name where they have names; texts may stand for the codes that the
        release has them for (:attr:`Release.levels`). Rows in the columns that enter a pipeline are
        put through its fitted steps.
    y : sequence, optional
        Labels; without them, every row has number 0.
    what : str
        What messages call the rows.
    unseen : bool
        Whether they may have categories that no training row had.

    Returns
    -------
    X : DataFrame
    y : int array, shape (n_rows,)
    notes : tuple of str

    Raises
    ------
    Mismatch
        Naming the column or the label that does not fit.
    """
    X, put = put_through(release, X, what, unseen)
    table, notes = columns_by_name(release.feature_names, X, what)
    n, levels = len(table), levels_with(release, table)
    values = np.empty((n, release.n_features))
    for i, name in enumerate(release.feature_names):
        series = coded(table[name], levels.get(name))
        values[:, i] = _numbers(series, name, what, how_to_code(release, name))
    label = np.zeros(n, dtype=np.int64) if y is None else _labels(release, y, n)
    return pd.DataFrame(values, columns=list(table.columns)), label, (*put, *notes)


def check_gaps(release: Release, table: pd.DataFrame, schema: Schema | None) -> None:
    """Refuse training rows with missing values in a column where neither trees nor schema have any.

    Where all that was missing went the way by default, a tree does not show it; a schema can say
    so. ``table``: in the model's columns. Raises Mismatch, naming the place.
    """
    attributes = () if schema is None else schema.attributes
    declared = {c for a in attributes if getattr(a, "missing", False) for c in a.columns}
    for column in release.tested - release.maybe_missing - declared:
        if (gaps := table[column].isna().to_numpy()).any():
            raise Mismatch(
                f"column {column!r} of the training rows is empty in row {gaps.argmax()}; the "
                "trees show no missing value of it. If some were missing in training, say so in "
                "the schema (missing = true)"
            )


def columns_by_name(
    feature_names: Sequence[str], X: Any, what: str = "rows"
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Put rows in the model's columns as they are, and tell how.

    Raises Mismatch, naming the columns that are missing, or one that appears twice.
    """
    names = list(feature_names)
    if not isinstance(X, pd.DataFrame):
        values = np.asarray(X)
        if values.ndim != 2 or values.shape[1] != len(names):
            raise Mismatch(
                f"the {what} have the shape {values.shape}; the model has {len(names)} columns"
            )
        return pd.DataFrame(values, columns=names), ()
    table = X.set_axis([str(c) for c in X.columns], axis=1)
    if twice := table.columns[table.columns.duplicated()].tolist():
        raise Mismatch(f"column {twice[0]!r} appears twice in the {what}")
    absent, notes = [c for c in names if c not in table], list[Message]()
    numbered = names == [f"x{i}" for i in range(len(names))]
    if len(absent) == len(names) == table.shape[1] and numbered:
        note = UNNAMED(what=what)
        return table.set_axis(names, axis=1), (note,)
    renamed = _same_letters(absent, [str(c) for c in table if c not in set(names)])
    if absent and len(renamed) == len(absent):
        table = table.rename(columns=renamed)
        notes.append(RENAMED(what=what, columns=absent))
        absent = []
    if absent:
        others = [str(c) for c in table if c not in set(names)]
        near = get_close_matches(absent[0], others, 1)
        hint = f" (did you mean {absent[0]!r} by {near[0]!r}?)" if near else ""
        raise Mismatch(
            f"the {what} lack {len(absent)} columns of the model: "
            f"{', '.join(map(repr, absent[:5]))}{hint}. Columns must be those that enter the "
            "trees: after encoding, under the same names"
        )
    if extra := [c for c in table if c not in set(names)]:
        notes.append(IGNORED(what=what, columns=list(map(str, extra))))
    if [c for c in table if c in set(names)] != names:
        notes.append(ALIGNED(what=what))
    return table[names], tuple(notes)


def _same_letters(absent: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Find columns whose names differ from those that are absent in no letter and no digit.

    Libraries put an underscore in place of signs that they do not take. Nothing is matched where
    two columns could be meant.
    """

    def plain(name: str) -> str:
        return _SIGNS.sub("_", name)

    frequency = Counter(map(plain, others))
    wanted = {plain(name): name for name in absent}
    if len(wanted) < len(absent):
        return {}
    return {c: wanted[plain(c)] for c in others if plain(c) in wanted and frequency[plain(c)] == 1}


def _numbers(series: pd.Series[Any], name: str, what: str, how: str) -> FloatArray:
    if not pd.api.types.is_numeric_dtype(series):
        try:
            series = pd.to_numeric(series)
        except OverflowError:
            raise Mismatch(
                f"column {name!r} of the {what} holds a number too large for a float"
            ) from None
        except (TypeError, ValueError):
            wrong = pd.to_numeric(series, errors="coerce").isna() & series.notna()
            raise Mismatch(
                f"column {name!r} of the {what} holds something other than numbers, first in row "
                f"{wrong.to_numpy().argmax()}{how}"
            ) from None
    values: FloatArray = series.to_numpy(dtype=float, na_value=np.nan)
    return values


def _labels(release: Release, y: Any, n_rows: int) -> IntArray:
    values = list(pd.Series(np.ravel(np.asarray(y, dtype=object))))
    if len(values) != n_rows:
        raise Mismatch(f"{len(values)} labels for {n_rows} training rows")
    found = release.class_numbers(values)
    if (found < 0).any():
        texts = all(isinstance(value, str) for value in values)
        numbered = texts and list(release.classes) == list(range(len(release.classes)))
        hint = (
            ". The file numbers its classes from 0: give the labels as these numbers (libraries "
            "number texts in alphabetical order)"
        ) * numbered
        raise Mismatch(
            f"row {found.argmin()} of the training rows has a label that the model does not know; "
            f"its classes are {', '.join(map(repr, release.classes[:10]))}{hint}"
        )
    return found
