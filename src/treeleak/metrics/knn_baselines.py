"""Tables in which nobody is left alone: every value comes from the people most like the person.

They are the best baselines of an adversary who knows the population as well as the training
rows show it, and no single person: yardsticks for what a model tells of people beyond that.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from treeleak.core.arrays import IntArray
from treeleak.metrics.encoding import encoded
from treeleak.metrics.matching import pair_costs
from treeleak.schema import Numeric, Ordinal, Schema

LIKE = 10
"""People from whom the values of one row are taken: as many as a leaf needs not to be small."""

_BLOCK = 1_000
"""Rows whose distances to all others are held at once."""

_MISSING = -1.5e300


def nearest_others(X: pd.DataFrame, schema: Schema, n_nearest: int = LIKE) -> IntArray:
    """Find the rows most like each row, itself left out.

    ``X``, shape (n_rows, n_columns): at least two rows. Returns the nearest first, by the distance
    that rows are matched by, shape (n_rows, min(n_nearest, n_rows - 1)).
    """
    numbers = encoded(X, schema)
    most = min(n_nearest, len(X) - 1)
    found = np.empty((len(X), most), dtype=np.int64)
    for begin in range(0, len(X), _BLOCK):
        away = pair_costs(numbers[begin : begin + _BLOCK], numbers)
        index = np.arange(len(away))
        away[index, begin + index] = np.inf
        found[begin : begin + _BLOCK] = np.argsort(away, axis=1, kind="stable")[:, :most]
    return found


def mixed_from(
    X: pd.DataFrame, schema: Schema, members: IntArray, rng: np.random.Generator
) -> pd.DataFrame:
    """Make rows whose every value is that of one of several people, chosen at random.

    ``schema``: the columns of a one-hot group are taken together. ``members``, shape (n_made,
    n_members): numbers of the rows that each row is made from.
    """
    made = X.iloc[members[:, 0]].reset_index(drop=True)
    row = np.arange(len(members))
    for attribute in schema.attributes:
        columns = list(attribute.columns)
        source = members[row, rng.integers(members.shape[1], size=len(members))]
        made[columns] = X[columns].to_numpy()[source]
    return made


def middle_of(X: pd.DataFrame, schema: Schema, members: IntArray) -> pd.DataFrame:
    """Make rows whose every value is the usual one of several people.

    That is the (lower) median of numbers, and the most common value otherwise. Parameters are those
    of :func:`mixed_from`.
    """
    made = X.iloc[members[:, 0]].reset_index(drop=True)
    for attribute in schema.attributes:
        columns = list(attribute.columns)
        values = X[columns].to_numpy(dtype=float, na_value=np.nan)
        if isinstance(attribute, (Numeric, Ordinal)):
            # Missing values sort last: they are the middle where most values are missing.
            ranked = np.sort(values[:, 0][members], axis=1)
            made[columns[0]] = ranked[:, (members.shape[1] - 1) // 2]
            continue
        # Missing values are alike, but NaN equals nothing.
        known = np.nan_to_num(values, nan=_MISSING)
        patterns, code = np.unique(known, axis=0, return_inverse=True)
        patterns[patterns == _MISSING] = np.nan
        votes = np.zeros((len(members), len(patterns)))
        np.add.at(votes, (np.arange(len(members))[:, None], code.ravel()[members]), 1)
        made[columns] = patterns[votes.argmax(axis=1)]
    return made


def usual_of_group(X: pd.DataFrame, schema: Schema, group: IntArray) -> pd.DataFrame:
    """Replace each value by the usual one of the row's group."""
    made = X.reset_index(drop=True)
    for number in np.unique(group):
        rows = np.flatnonzero(group == number)
        usual = middle_of(X, schema, rows[None, :])
        made.iloc[rows] = usual.iloc[np.zeros(len(rows), dtype=np.int64)].to_numpy()
    return made
