"""What thresholds and borders disclose about the values of columns, in numbers, given the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from treeleak.auditing.inventory.conditions import Context
from treeleak.core.arrays import FloatArray
from treeleak.core.errors import TreeleakError
from treeleak.verification.columns import in_model_columns


def of_thresholds(context: Context) -> str:
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


def of_borders(context: Context) -> str:
    """Say the same of borders that are listed beside the trees."""
    if context.release is None:
        return ""
    cuts = {name: np.array(points) for name, points in context.release.borders.items()}
    return _summary(cuts, cuts, context, "borders")


def of_ranges(context: Context) -> str:
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
        name: _found(values, cuts[name], stored[name]) for name, values in _columns(context, used)
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


def _columns(context: Context, names: list[str]) -> Iterator[tuple[str, FloatArray]]:
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
