"""What a part of a model discloses about its rows and columns, in numbers: for the owner alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.owners import numbers_in, whole
from treeleak.core.arrays import FloatArray
from treeleak.core.errors import TreeleakError
from treeleak.release.stored import StoredObject
from treeleak.verification.columns import in_model_columns

MOST_BINS = 255
"""Of a column, where the owner does not say how many there may be."""


MOST_ROUNDS = 100_000
"""Scores of one metric: more rounds than anybody trains."""


def of_borders(value: Any, owner: StoredObject) -> str:
    """Count the values of columns whose borders are midpoints of all of them."""
    listed = list(value.values()) if isinstance(value, Mapping) else value
    parts = [numbers_in(part) for part in listed] if isinstance(listed, (list, tuple)) else []
    borders = [part for part in parts if part is not None and part.ndim == 1]
    if not borders:
        return ""
    most = max([MOST_BINS, *(n - 1 for n in whole([owner.get("n_bins")]))])
    full = [len(ends) + 1 for ends in borders if len(ends) + 1 < most]
    summary = f"{sum(map(len, borders)):,} borders of {len(borders):,} columns."
    if not full:
        return summary
    return (
        f"{summary} In {len(full):,} columns they are the middles of all neighbouring values, "
        f"{sum(full):,} different ones in all and up to {max(full):,} in a column. Anyone "
        "who knows one value, or knows that they are whole numbers, has them all."
    )


def of_rounds(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count the rounds that a score is told of."""
    held = numbers_in(value)
    return (
        ""
        if held is None or held.size < 2
        else (f"There is one after each of {held.size:,} rounds.")
    )


def of_ranges(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count the columns of which LightGBM keeps the smallest and largest value, or all."""
    words = value.split() if isinstance(value, str) else []
    ranges = sum(word.startswith("[") for word in words)
    lists = [word for word in words if word[0] != "[" and word != "none"]
    summary = (
        f"Smallest and largest value of {ranges:,} of {len(words):,} columns." if ranges else ""
    )
    listed = sum(len(word.split(":")) for word in lists)
    return summary + f" All {listed:,} categories of {len(lists):,} columns." * bool(lists)


def of_history(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count the scores that CatBoost tells of."""
    rounds = value.count('{"') if isinstance(value, str) else 0
    return f"Some {rounds:,} scores." if rounds else ""


_COUNTING = '"Borders"', '"Buckets"', '"Counter"', '"FeatureFreq"'
"""Kinds of CatBoost's statistics that are numbers of rows."""


def of_statistics(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count what CatBoost counts of categories, and what only one row has."""
    tables = value.items() if isinstance(value, Mapping) else ()
    counts: list[float] = []
    for name, table in tables:
        cells, width = (table.get(k) for k in ("hash_map", "hash_stride"))
        if not any(kind in name for kind in _COUNTING) or not cells or not width:
            continue
        # This stands where a table has no value.
        begins = (k for k in range(0, len(cells), width) if cells[k] != str(2**64 - 1))
        counts += [sum(map(float, cells[k + 1 : k + width])) for k in begins]
    single = sum(count == 1 for count in counts)
    return (
        f"They count {len(counts):,} categories and combinations. One row alone has {single:,} of "
        "these: its class stands beside them."
        if counts
        else ""
    )


def all_thresholds(context: Context) -> str:
    """Say how many values of the rows thresholds are, or keep apart from all others."""
    release = context.release
    if release is None:
        return ""
    # Where a test is "less than", cuts lie just below what the file holds.
    stored = {
        name: np.concatenate([t.threshold[t.feature == c] for t in release.trees] or [np.zeros(0)])
        for c, name in enumerate(release.feature_names)
    }
    cuts = dict(zip(release.feature_names, release.thresholds, strict=True))
    return _summary(cuts, stored, context, "thresholds")


def all_borders(context: Context) -> str:
    """Say the same of borders that are listed beside the trees."""
    if context.release is None:
        return ""
    cuts = {name: np.array(points) for name, points in context.release.borders.items()}
    return _summary(cuts, cuts, context, "borders")


def all_ranges(context: Context) -> str:
    """Say that extremes are values of rows; their number says the part itself."""
    return "" if context.rows is None else "Each of them is a value of a training row."


def _summary(
    cuts: Mapping[str, FloatArray], stored: Mapping[str, FloatArray], context: Context, what: str
) -> str:
    cuts = {name: points[np.isfinite(points)] for name, points in cuts.items()}
    total, used = sum(map(len, cuts.values())), [name for name in cuts if len(cuts[name])]
    if not total:
        return ""
    summary = f"{total:,} different {what} of {len(used):,} column{'s' * (len(used) > 1)}."
    most = max(used, key=lambda name: len(cuts[name]))
    found = {
        name: _found(values, cuts[name], stored[name])
        for name, values in _known_columns(context, used)
    }
    if not found:
        return f"{summary} Most of {most}: {len(cuts[most]):,}."
    most = max(found, key=lambda name: found[name][1])
    n, stand, alone = found[most]
    sums = [sum(counts[k] for counts in found.values()) for k in range(3)]
    return (
        f"{summary} Of {n:,} distinct values of {most}, the file holds {stand:,} as they are, "
        f"and {alone:,} lie alone between two of these numbers. For all {sums[0]:,} values "
        f"of these columns, these numbers are {sums[1]:,} and {sums[2]:,}."
    )


def _known_columns(context: Context, names: list[str]) -> Iterator[tuple[str, FloatArray]]:
    """Columns of the training rows, as the model sees them."""
    if context.release is None or context.rows is None:
        return
    try:
        frame = in_model_columns(context.release, context.rows, what="training rows")[0]
    except TreeleakError:
        # That these are other columns, the audit says elsewhere.
        return
    for name in names:
        values = frame[name].to_numpy(dtype=float).astype(context.release.float_type)
        yield name, np.unique(values[np.isfinite(values)]).astype(float)


def _found(values: FloatArray, cuts: FloatArray, stored: FloatArray) -> tuple[int, int, int]:
    """Count distinct values, those that are stored, and those with no other between two cuts."""
    stand = int(np.isin(values, stored).sum())
    _, sizes = np.unique(np.searchsorted(cuts, values), return_counts=True)
    return len(values), stand, int((sizes == 1).sum())
