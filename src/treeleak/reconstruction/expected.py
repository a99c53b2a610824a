"""How many values an answer expects to be wrong, by its own confidence."""

from __future__ import annotations

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.schema import OneHot, Schema

_DIFFER = 2.0
"""Columns in which two different values of a one-hot group differ, however many columns it has."""


def share_wrong(confidence: pd.DataFrame, schema: Schema, counted: BoolArray) -> float | None:
    """Share of the values counted that are expected to be wrong; None if there are none.

    ``counted``: which values are, of the shape of ``confidence``. Every column of a one-hot group
    has the confidence of the group's value.
    """
    if not counted.any():
        return None
    wrong = (1.0 - confidence.to_numpy()) * _parts(confidence, schema)
    return float(wrong[counted].mean())


def _parts(confidence: pd.DataFrame, schema: Schema) -> FloatArray:
    """Part of each column that is wrong, where the value that it belongs to is."""
    out = pd.Series(1.0, index=confidence.columns)
    for attribute in schema.attributes:
        if isinstance(attribute, OneHot) and set(attribute.columns) <= set(out.index):
            out[list(attribute.columns)] = min(_DIFFER / len(attribute.columns), 1.0)
    return np.asarray(out)
