"""What a column can be, by its thresholds, its ends, its categories and values of rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.schema import Attribute, Binary, Categorical, Numeric, Ordinal

MOST_LEVELS = 100
"""A column of whole numbers with more different values than this is taken for numeric."""
COUNTABLE = 2.0**53
"""From here on floats skip whole numbers."""
EXACT_SINGLE = 2.0**20
"""Up to here single precision tells a whole number from the numbers next to it."""
NEXT_TO_ZERO = float(np.float32(1e-35))
"""What LightGBM writes between zero and the next value, whatever that is."""
MOST_CODES = 10_000
"""Categories of a column, each of which is a value of its own."""


def at_midpoints(cuts: FloatArray) -> FloatArray:
    """Put thresholds halfway where a library writes them beside that, or at the number above."""
    with np.errstate(over="ignore", invalid="ignore"):
        # LightGBM: the next number after the middle, and 1e-35 on either side of zero.
        near = (np.abs(cuts) < EXACT_SINGLE) & (cuts != np.floor(cuts))
        below = np.nextafter(cuts, -np.inf)
        middle = np.where(near & (below - np.floor(below) == 0.5), below, cuts)
        # XGBoost, and explainable boosting in double precision, ask for less than a threshold: the
        # middle, or the least value on its right.
        for kind in (np.float32, np.float64):
            above = np.nextafter(cuts.astype(kind), kind(np.inf)).astype(float)
            middle = np.where(near & (above - np.floor(above) == 0.5), above, middle)
            middle = np.where(near & (above == np.ceil(cuts)), above - 0.5, middle)
    return np.where(np.abs(cuts) == NEXT_TO_ZERO, np.copysign(0.5, cuts), middle)


def hold(ends: tuple[float, float], cuts: FloatArray) -> bool:
    """Whether values between these ends lie on both sides of every threshold."""
    return ends[0] < ends[1] and bool(((cuts >= ends[0]) & (cuts < ends[1])).all())


def from_thresholds(column: str, cuts: FloatArray, missing: bool) -> Attribute:
    """Judge a column of which nothing is known but its thresholds."""
    if cuts.size and (cuts == 0.5).all():
        return Binary(column, missing=missing)
    if len(cuts) > 1 and (cuts - np.floor(cuts) == 0.5).all():
        return Ordinal(column, int(cuts[0] - 0.5), int(cuts[-1] + 0.5), missing=missing)
    return Numeric(column, missing=missing)


def from_ends(
    column: str, ends: tuple[float, float], cuts: FloatArray, missing: bool, unused_binary: bool
) -> Attribute:
    """Judge a column whose least and greatest value are known."""
    low, high = ends
    whole = bool((np.floor(ends) == ends).all() and (cuts - np.floor(cuts) == 0.5).all())
    if ends == (0, 1) and whole and (cuts.size or unused_binary):
        return Binary(column, missing=missing)
    enough = 1 if high - low == 1 else 2
    if whole and len(cuts) >= enough and max(-low, high) < COUNTABLE:
        return Ordinal(column, int(low), int(high), missing=missing)
    return Numeric(column, low, high, missing=missing)


def from_values(column: str, known: FloatArray, cuts: FloatArray, missing: bool) -> Attribute:
    """Judge a column of which some values are known."""
    if np.isin(known, (0.0, 1.0)).all() and ((cuts >= 0) & (cuts < 1)).all():
        return Binary(column, missing=missing)
    ends = np.concatenate([known, np.floor(cuts), np.floor(cuts) + 1])
    whole = (known == np.floor(known)).all() and np.abs(ends).max() < COUNTABLE
    if whole and len(known) <= MOST_LEVELS:
        return Ordinal(column, int(ends.min()), int(ends.max()), missing=missing)
    ends = np.concatenate([known, cuts, np.nextafter(cuts, np.inf)])
    return Numeric(column, ends.min(), ends.max(), missing=missing)


def from_categories(
    column: str, sets: Sequence[IntArray], known: FloatArray, missing: bool
) -> Attribute:
    """Judge a column of which trees ask whether it is one of several categories."""
    codes = np.union1d(np.concatenate(sets).astype(float), known)
    others = () if known.size else (codes[-1] + 1,)
    if len(codes) > MOST_CODES:
        raise NotCovered(
            f"trees name {len(codes):,} categories of column {column!r}; at most {MOST_CODES:,} "
            "are covered"
        )
    return Categorical(column, values=(*codes.tolist(), *others), missing=missing)
