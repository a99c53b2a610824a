"""How far rows and targets are from the true ones, and whether by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.decisions import on_grid
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


SAME_TARGET, NEAR_TARGET = 1e-9, 1e-6
"""Difference, as a part of their size or of their range, up to which two targets are one. Many
libraries keep seven digits of them."""


def right_targets(found: FloatArray, true: NDArray[Any], group: IntArray | None = None) -> int:
    """Count the targets that are right.

    Parameters
    ----------
    found : float array, shape (n_rows,)
        NaN where none is told.
    true : float array, shape (n_rows,)
        Row by row those of the training rows that stand beside them.
    group : int array, shape (n_rows,), optional
        Training rows that nobody tells apart: their targets may change places.
    """
    if group is None:
        group = np.arange(len(true))
    table = pd.DataFrame({"group": group, "found": found, "true": true})
    right, near = 0, NEAR_TARGET * float(np.ptp(true[np.isfinite(true)])) if len(true) else 0.0
    for _, group_rows in table.groupby("group"):
        mine = np.sort(group_rows["found"].dropna().to_numpy())
        theirs = np.sort(group_rows["true"].dropna().to_numpy())
        i = j = 0
        while i < len(mine) and j < len(theirs):
            if abs(mine[i] - theirs[j]) <= max(SAME_TARGET * abs(theirs[j]), near, 1e-300):
                right, i, j = right + 1, i + 1, j + 1
            elif mine[i] < theirs[j]:
                i += 1
            else:
                j += 1
    return right


FEWEST_PEOPLE = 8
"""People without whom no test reaches a level of half a percent: that their signs agree has a
probability of one in 256."""


def paired_t_test(
    errors: FloatArray, other: FloatArray, spread: float = 0.0, n_draws: int = 1
) -> float:
    """Probability of so large a margin over a yardstick, were there none.

    A one-sided paired t-test whose unit is a person: the mean of ``other - own``, against its
    standard error over people, with the spread of the yardstick from draw to draw added (degrees of
    freedom after Welch and Satterthwaite). So a margin counts neither where few people carry it,
    nor where another draw of the yardstick has it.

    ``errors`` and ``other``, shape (n_people,): error of each person's values in the rows that are
    tested, and in the yardstick; people for whom either is NaN are left out. ``spread``: standard
    error of the mean of ``other`` from draw to draw. ``n_draws``: draws from which that is known.
    Returns 1 where there are fewer than :data:`FEWEST_PEOPLE`.
    """
    gain = (other - errors)[~np.isnan(errors) & ~np.isnan(other)]
    if len(gain) < FEWEST_PEOPLE:
        return 1.0
    people, draws = float(gain.var(ddof=1)) / len(gain), spread**2
    mean, total = float(gain.mean()), people + draws
    if on_grid(np.sqrt(total)) == 0:
        return 0.0 if on_grid(mean) > 0 else 1.0
    freedom = total**2 / (people**2 / (len(gain) - 1) + draws**2 / max(n_draws - 1, 1))
    return float(stdtr(freedom, -mean / np.sqrt(total)))


PROBABLE = 0.9
"""Least confidence of a value that counts as rebuilt, though it is not proved."""
