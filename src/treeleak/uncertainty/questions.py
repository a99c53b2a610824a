"""What a probabilistic dataset answers: is this a world, is this person in it, what is the mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput
from treeleak.release.release import class_numbers
from treeleak.uncertainty.alignment import align, check_pairs, fits
from treeleak.uncertainty.groups import Groups
from treeleak.verification.columns import columns_by_name

# Rows and groups that are held against each other, in all and in one go.
MOST_HELD = 2_000_000_000
AT_ONCE = 20_000_000


def contains(data: Groups, X: pd.DataFrame, y: Sequence[Any] | None = None) -> bool:
    """Say whether a table is one of the worlds, in any order of its rows.

    Parameters
    ----------
    X : DataFrame
    y : sequence, optional
        Labels; not looked at, if not given.

    Raises
    ------
    BadInput
        Naming the column that is missing or cannot be read.
    """
    if len(X) != data.n_rows:
        return False
    atoms, label, rows = _points_of(data, X, y)
    groups = data.by_class() if y is not None else data
    check_pairs(len(rows), len(groups.names), MOST_HELD)
    own = groups.counts.argmax(axis=1)
    none = np.zeros(0, dtype=np.int64)
    pairs = [(none, none)]
    step = max(AT_ONCE // max(len(groups.names), 1), 1)
    for start in range(0, len(rows), step):
        possible = _holding(groups, atoms[start : start + step])
        if y is not None:
            some = label[start : start + step, None]
            possible &= (some == own) | (own == len(data.classes))
        i, j = np.nonzero(possible)
        pairs.append((i + start, j))
    i, j = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return fits(i, j, rows, groups.support)


def distance_to_world(data: Groups, X: pd.DataFrame, y: Sequence[Any] | None = None) -> float:
    """Distance of a table to the nearest world.

    The least share of values that must change before the table is a world; with labels, these
    are values as well. A row too many or too few counts as one all of whose values change.
    Behind noise, the training rows need not be a world: this says how far they are from one
    (Ferry 2024, appendix C).

    Raises
    ------
    BadInput
        Naming the column that is missing or cannot be read.
    """
    if not (len(X) or data.n_rows):
        return 0.0
    atoms, label, rows = _points_of(data, X, y)
    # A group without rows may have no room for any.
    groups = data.by_class()
    check_pairs(len(rows) + 1, len(groups.names) + 1)
    d = data.n_attributes + (y is not None)
    changes = np.array(
        [_changes(groups, g, atoms) for g in range(len(groups.names))], dtype=float
    ).reshape(-1, len(atoms)).T  # fmt: skip
    if y is not None:
        own = groups.counts.argmax(axis=1)
        changes += (label[:, None] != own) & (own != len(data.classes))
    short = data.n_rows - len(X)
    cost, theirs = changes, groups.support
    if short > 0:
        cost, rows = np.vstack([cost, np.full((1, len(theirs)), d)]), np.append(rows, short)
    if short < 0:
        cost, theirs = np.hstack([cost, np.full((len(rows), 1), d)]), np.append(theirs, -short)
    i, j, n = align(cost, rows, theirs)
    return float(cost[i, j] @ n) / (d * int(rows.sum()))


def membership(
    data: Groups, records: pd.DataFrame, labels: Sequence[Any] | None = None
) -> pd.DataFrame:
    """Say of each record whether some row can be it, and how probable that is.

    Parameters
    ----------
    records : DataFrame
        Values of all attributes, or of some; with a one-hot group all of its columns or none.
        Other columns are ignored, as by :func:`contains`.
    labels : sequence, optional
        The records' classes.

    Returns
    -------
    DataFrame
        With the index of ``records``; ``possible`` is False where no world has the record,
        which is then certainly not among the rows; ``probability`` is the share of worlds that
        have it, with each unknown class as probable as the others.

    Raises
    ------
    BadInput
        Naming the column.
    """
    if not isinstance(records, pd.DataFrame):
        raise BadInput(f"the records must be a DataFrame, not {type(records).__name__}")
    table = records.set_axis([str(c) for c in records], axis=1)
    if table.shape[1] == len(data.space.columns) and not set(table) & set(data.space.columns):
        table, _ = columns_by_name(data.space.columns, table, "records")
    if table.columns.has_duplicates:
        raise BadInput(f"column {table.columns[table.columns.duplicated()][0]!r} appears twice")
    known = [k for k, a in enumerate(data.space.axes) if all(c in table for c in a.columns)]
    whole = {c for k in known for c in data.space.axes[k].columns}
    if stray := [c for c in data.space.columns if c in table and c not in whole]:
        raise BadInput(
            f"the records have column {stray[0]!r}, which is only a part of an attribute"
        )
    if not known:
        raise BadInput("the records have no columns that the model has")
    at = {k: data.space.axes[k].locate(data.space.axes[k].read(table, "records")) for k in known}
    log_p = _log_chance(data, at, len(records))
    certain = np.repeat(data.support[None], len(records), axis=0)
    guessed = np.zeros_like(certain)
    if labels is not None and data.classes:
        label = class_numbers(data.classes, labels)
        if len(label) != len(records):
            raise BadInput(f"{len(records)} records have {len(label)} labels")
        known_class = (label >= 0)[:, None]
        certain = np.where(known_class, data.counts.T[label], 0)
        guessed = np.where(known_class, data.counts[:, -1], 0)
    possible = (np.isfinite(log_p) & (certain + guessed > 0)).any(axis=1)
    p = np.exp(log_p)
    with np.errstate(divide="ignore", invalid="ignore"):
        none = np.where(certain > 0, certain * np.log1p(-p), 0.0).sum(axis=1)
        # Of an unknown class, a row has that of the record as often as any other.
        part = np.log1p(-p / max(len(data.classes), 1))
        none += np.where(guessed > 0, guessed * part, 0.0).sum(axis=1)
    return pd.DataFrame(
        {"possible": possible, "probability": np.abs(np.expm1(none))}, index=records.index
    )


def _points_of(
    data: Groups, X: pd.DataFrame, y: Sequence[Any] | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Different rows of a table as atoms, their class numbers, and how often each stands."""
    label = np.zeros(len(X), dtype=np.int64) if y is None else class_numbers(data.classes, y)
    if len(label) != len(X):
        raise BadInput(f"{len(X)} rows have {len(label)} labels")
    rows = np.column_stack([data.space.locate(X), label])
    different, n = np.unique(rows, axis=0, return_counts=True)
    return different[:, :-1], different[:, -1], n


def _holding(data: Groups, atoms: IntArray) -> BoolArray:
    """Whether each row (atoms) may be one of each group; shape (n_rows, n_groups)."""
    inside = np.asarray((atoms >= 0).all(axis=1), dtype=bool)
    out = np.repeat(inside[:, None], len(data.names), axis=1)
    for k, table in enumerate(data.sets):
        out &= table[:, atoms[:, k]][data.boxes[:, k]].T
    for g in np.flatnonzero(~data.boxed).tolist():
        out[:, g] &= data.region(g).holds(atoms)
    return out


def _changes(data: Groups, group: int, atoms: IntArray) -> IntArray:
    """How many attributes of each row (atoms) must change to be one of a group."""
    region = data.region(group)
    if not data.boxed[group]:
        return np.array([region.changes_to(row) for row in atoms], dtype=np.int64)
    kept = np.zeros(len(atoms), dtype=np.int64)
    for k, mask in enumerate(region.box):
        kept += mask[atoms[:, k]] & (atoms[:, k] >= 0)
    return len(region.box) - kept


def _log_chance(data: Groups, at: Mapping[int, IntArray], n: int) -> FloatArray:
    """Log probability that a row of each group has the values given; shape (n, n_groups)."""
    out = np.zeros((n, len(data.names)))
    with np.errstate(divide="ignore"):
        for k, atoms in at.items():
            held = data.sets[k][:, atoms] & (atoms >= 0)
            values = np.maximum(data.set_sizes[k] / data.space.axes[k].unit, 1.0)
            chance = np.log(held / values[:, None])
            out += chance[data.boxes[:, k]].T
    for g in np.flatnonzero(~data.boxed).tolist():
        region, whole = data.region(g), data.sizes[g]
        places, where = np.unique(np.column_stack([*at.values()]), axis=0, return_inverse=True)
        found = np.full(len(places), -np.inf)
        for i, place in enumerate(places):
            tests = {k: np.arange(len(data.space.axes[k])) == a
                     for k, a in zip(at, place, strict=True)}  # fmt: skip
            if whole and (size := region.restricted(tests).size):
                each = (
                    max(data.space.sizes[k][a] / data.space.axes[k].unit, 1.0)
                    for k, a in zip(at, place, strict=True)
                )
                found[i] = math.log(size) - math.log(whole) - sum(map(math.log, each))
        out[:, g] = found[where.ravel()]
    return out
