"""How far rows are from the true ones, with separate figures for categories and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.private import dataclass
from treeleak.metrics.encoding import column_range
from treeleak.metrics.matching import NEAR, right_values
from treeleak.schema import Numeric, Ordinal, Schema


@dataclass(frozen=True)
class Numbers:
    """How near the numbers of a table are to the true ones.

    Columns in which all true values are equal are left out.
    """

    off: float
    """Mean difference, in standard deviations of the true column; a difference counts as the
    column's range at most."""
    exact: float
    """Share without any difference."""
    near: float
    """Share within 1 % of the column's range."""


@dataclass(frozen=True)
class Scores:
    """How far rows are from the true rows that they are matched with, over what was not given."""

    error: float
    """Mean distance of a value, as DRAFT has it: 0 or 1 for a category, the difference over the
    range for a number."""
    right_rows: float
    """Share of the true rows in which every value is right, numbers within 1 % of their range."""
    categories: float | None = None
    """Share of the values of categories that are wrong; None without such columns."""
    numbers: Numbers | None = None
    """None without columns of numbers."""


def scores_of(
    distance: FloatArray,
    open_: BoolArray,
    columns: Sequence[str],
    true: pd.DataFrame,
    schema: Schema,
) -> Scores:
    """Score matched rows.

    ``distance``, shape (n_rows, n_columns): as :class:`~treeleak.metrics.matching.Matching` has it.
    ``open_``, shape (n_rows, n_columns): what counts, because it was not given. ``true``: the true
    rows, in any order. ``schema``: says which columns hold numbers, and their ranges.
    """
    owner = {c: a for a in schema.attributes for c in a.columns}
    counted = np.array([isinstance(owner.get(c), (Numeric, Ordinal)) for c in columns], dtype=bool)
    right = right_values(distance * open_, columns, schema.attributes)
    rows = open_.any(axis=1)
    found = distance[:, ~counted][open_[:, ~counted]]
    return Scores(
        error=float(distance[open_].mean()),
        right_rows=float(right[rows].all(axis=1).mean()),
        categories=float(found.mean()) if found.size else None,
        numbers=_numbers(distance, open_ & counted, _spreads(columns, counted, true, owner)),
    )


def mean_scores(scores: Sequence[Scores]) -> Scores:
    """Mean of scores of the same kinds of columns."""
    wrong = [s.categories for s in scores if s.categories is not None]
    numbers = [s.numbers for s in scores if s.numbers is not None]
    return Scores(
        error=float(np.mean([s.error for s in scores])),
        right_rows=float(np.mean([s.right_rows for s in scores])),
        categories=float(np.mean(wrong)) if wrong else None,
        numbers=Numbers(*np.mean([(n.off, n.exact, n.near) for n in numbers], axis=0).tolist())
        if numbers
        else None,
    )


def _numbers(distance: FloatArray, counts: BoolArray, spreads: FloatArray) -> Numbers | None:
    counts = counts & np.isfinite(spreads)
    if not counts.any():
        return None
    found = distance[counts]
    return Numbers(
        off=float((distance * spreads)[counts].mean()),
        exact=float((found == 0).mean()),
        near=float((found <= NEAR).mean()),
    )


def _spreads(
    columns: Sequence[str], counted: BoolArray, true: pd.DataFrame, owner: dict[str, Any]
) -> FloatArray:
    """Range of each column of numbers in standard deviations; NaN where it does not vary."""
    found = np.full(len(columns), np.nan)
    for k in np.flatnonzero(counted).tolist():
        values = true[columns[k]].to_numpy(dtype=float, na_value=np.nan)
        low, high = column_range(owner[columns[k]], values)
        known = values[np.isfinite(values)]
        if high > low and known.size and known.std() > 0:
            found[k] = (high - low) / known.std()
    return found
