"""How far an answer expects to be from the training set."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.partition import AttributeAtoms
from treeleak.schema import Numeric, OneHot, Ordinal, Schema

_DIFFER = 2.0
"""Columns in which two different values of a one-hot group differ, however many columns it has."""
_MIDDLE = 1e-3
"""How far a point may be off the middle of an interval, as a share of it, and count as such."""


def share_wrong(confidence: pd.DataFrame, schema: Schema, counted: BoolArray) -> float | None:
    """Share of the values counted that are expected to be wrong; None if there are none.

    ``counted``: which values are, of the shape of ``confidence``. Every column of a one-hot group
    has the confidence of the group's value.
    """
    if not counted.any():
        return None
    return float(_wrong(confidence, schema)[counted].mean())


def far_by_confidence(
    confidence: pd.DataFrame, schema: Schema, table: FloatArray, inside: FloatArray,
    ranges: FloatArray,
) -> float:  # fmt: skip
    """Say how far values are from the true ones, per row and column, as they are sure.

    Parameters
    ----------
    confidence : DataFrame, shape (n_rows, n_columns)
        Of numbers, that of an interval.
    schema : Schema
    table : float array, shape (n_rows, n_columns)
        The rows.
    inside : float array, shape (n_rows, n_columns)
        How far numbers are from the true ones, if these are in the same interval.
    ranges : float array, shape (n_columns,)
        Widths of the domains of numbers; NaN for other columns.
    """
    off, sure = _wrong(confidence, schema), confidence.to_numpy()
    for j in np.flatnonzero(~np.isnan(ranges)):
        apart = _two_apart(table[:, j], ranges[j])
        off[:, j] = sure[:, j] * inside[:, j] + (1.0 - sure[:, j]) * apart
    return float(off.mean())


def ranges_of(
    parts: Iterable[AttributeAtoms], table: FloatArray, interval: BoolArray
) -> FloatArray:
    """Widths of the domains of columns of numbers, by which distances are divided; else NaN.

    ``interval``, shape (n_columns,): columns some of whose values are known to an interval.
    """
    out = np.full(table.shape[1], np.nan)
    for part in parts:
        if isinstance(part.attribute, (Numeric, Ordinal)) and interval[part.columns[0]]:
            low, high = part.attribute.bounds
            x = table[:, part.columns[0]]
            if not math.isfinite(high - low) and np.isfinite(x).any():
                low, high = np.nanmin(x), np.nanmax(x)
            out[part.columns[0]] = (high - low) or 1.0
    return out


def inside_intervals(point: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Say how far points of intervals are from the values in these, typically.

    A point lies g from the nearer end, for values are expected to go on for 2 g from there. In the
    middle of an interval, that is all of it. Beyond the outermost threshold, where the domain goes
    on for w, they may go on for any L from 2 g to w, of which each order of magnitude is as likely:
    over values between 0 and L, the mean of |x - g| is g^2 / L - g + L / 2. A domain without
    end is taken to go on for as long as the points of its column lie apart.
    """
    g = np.minimum(point - low, high - point)
    there = np.isfinite(point)
    reach = np.max(point, axis=0, where=there, initial=-np.inf)
    reach = reach - np.min(point, axis=0, where=there, initial=np.inf)
    w = np.where(np.isinf(high - low), np.maximum(2 * g, reach), high - low)
    w = np.nan_to_num(w, nan=0.0, posinf=0.0)
    beside = (g > 0) & (2 * g < (1 - _MIDDLE) * w)
    g, wide = np.where(beside, g, 1.0), np.where(beside, w, 4.0)
    orders = np.log(wide / (2 * g))
    law = (g**2 * (1 / (2 * g) - 1 / wide) + (wide - 2 * g) / 2) / orders - g
    return np.asarray(np.where(beside, law, w / 4))


def _two_apart(x: FloatArray, width: float) -> float:
    """Say how far two values of a column are apart, on average; one that is missing, all of it."""
    there = np.sort(x[~np.isnan(x)])
    n, share = len(there), len(there) / len(x)
    far = 2.0 * float((2.0 * np.arange(n) - n + 1.0) @ there) / max(n, 1) ** 2 / width
    return share**2 * far + 2.0 * share * (1.0 - share)


def _wrong(confidence: pd.DataFrame, schema: Schema) -> FloatArray:
    """How probable it is that each value is wrong; of one-hot groups, the part that is."""
    part = pd.Series(1.0, index=confidence.columns)
    for attribute in schema.attributes:
        if isinstance(attribute, OneHot) and set(attribute.columns) <= set(part.index):
            part[list(attribute.columns)] = min(_DIFFER / len(attribute.columns), 1.0)
    return np.asarray((1.0 - confidence.to_numpy()) * part.to_numpy())
