"""What a probabilistic dataset answers: is this a world, is this person in it, what is the mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.errors import BadInput, NotCovered
from treeleak.probabilistic.alignment import align, fits
from treeleak.release.tree import class_numbers

if TYPE_CHECKING:
    from treeleak.probabilistic.dataset import ProbabilisticDataset

__all__ = ["contains", "distance_to_world", "mean_over_rows", "membership"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_VALUES = 1 << 16


def contains(data: ProbabilisticDataset, X: pd.DataFrame, y: Sequence[Any] | None) -> bool:
    """See :meth:`ProbabilisticDataset.contains`."""
    if len(X) != data.n_rows:
        return False
    atoms, label, rows = _points_of(data, X, y)
    groups = data.by_class() if y is not None else data
    possible = _holding(groups, atoms)
    if y is not None:
        own = groups.counts.argmax(axis=1)
        possible &= (label[:, None] == own) | (own == len(data.classes))
    return fits(possible, rows, groups.support)


def distance_to_world(
    data: ProbabilisticDataset, X: pd.DataFrame, y: Sequence[Any] | None
) -> float:
    """See :meth:`ProbabilisticDataset.distance`."""
    atoms, label, rows = _points_of(data, X, y)
    groups = data.by_class() if y is not None else data
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
    if not rows.sum():
        return 0.0
    i, j, n = align(cost, rows, theirs)
    return float(cost[i, j] @ n) / (d * int(rows.sum()))


def membership(
    data: ProbabilisticDataset, records: pd.DataFrame, labels: Sequence[Any] | None
) -> pd.DataFrame:
    """See :meth:`ProbabilisticDataset.membership`."""
    known = [k for k, a in enumerate(data.space.axes) if all(c in records for c in a.columns)]
    stray = set(map(str, records)) - {c for k in known for c in data.space.axes[k].columns}
    if stray:
        raise BadInput(f"the records have column {min(stray)!r}, which is no whole attribute")
    at = {k: data.space.axes[k].locate(data.space.axes[k].read(records)) for k in known}
    rows = np.repeat(data.support[None].astype(float), len(records), axis=0)
    if labels is not None:
        label = class_numbers(data.classes, labels)
        rows = data.counts.T.astype(float)[label]
        rows += data.counts[:, -1] / max(len(data.classes), 1)
        rows[label < 0] = 0.0
    log_p = _log_chance(data, at, len(records))
    possible = (np.isfinite(log_p) & (rows > 0)).any(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        none = np.where(rows > 0, rows * np.log1p(-np.exp(log_p)), 0.0).sum(axis=1)
    return pd.DataFrame(
        {"possible": possible, "probability": np.abs(np.expm1(none))}, index=records.index
    )


def mean_over_rows(
    data: ProbabilisticDataset, f: Callable[[pd.DataFrame], Any], columns: Sequence[str]
) -> tuple[float, float]:
    """Mean and deviation over all worlds of the average of ``f`` over rows; both exact."""
    if unknown := [c for c in columns if c not in data.space.owner]:
        raise BadInput(f"there is no column {unknown[0]!r}")
    own = sorted({data.space.owner[c] for c in columns})
    for k in own:
        if data.space.axes[k].values is None:
            raise BadInput(f"the values of column {data.space.axes[k].columns[0]!r} are "
                           "intervals: draw worlds instead, without columns")  # fmt: skip
    n = math.prod(len(data.space.axes[k]) for k in own)
    if n > MOST_VALUES:
        raise NotCovered(f"{n:,} combinations of values ({MOST_VALUES:,} are covered)")
    grid = np.indices([len(data.space.axes[k]) for k in own]).reshape(len(own), -1)
    table: dict[str, NDArray[Any]] = {}
    for k, atoms in zip(own, grid, strict=True):
        axis = data.space.axes[k]
        table |= axis.write(axis.draw(atoms, np.random.default_rng(0)))
    value = np.asarray(f(pd.DataFrame(table)[list(columns)]), dtype=float)
    log_p = _log_chance(data, dict(zip(own, grid, strict=True)), n)
    chance = np.exp(log_p).T  # (n_groups, n_combinations)
    mean = chance @ value
    spread = np.maximum(chance @ value**2 - mean**2, 0.0)
    some = data.support
    return (
        float(mean @ some) / max(data.n_rows, 1),
        math.sqrt(float(spread @ some)) / max(data.n_rows, 1),
    )


def _points_of(
    data: ProbabilisticDataset, X: pd.DataFrame, y: Sequence[Any] | None
) -> tuple[Ints, Ints, Ints]:
    """Different rows of a table as atoms, their class numbers, and how often each stands."""
    label = np.zeros(len(X), dtype=np.int64) if y is None else class_numbers(data.classes, y)
    if len(label) != len(X):
        raise BadInput(f"{len(X)} rows have {len(label)} labels")
    rows = np.column_stack([data.space.locate(X), label])
    different, n = np.unique(rows, axis=0, return_counts=True)
    return different[:, :-1], different[:, -1], n


def _holding(data: ProbabilisticDataset, atoms: Ints) -> Mask:
    """Whether each row (atoms) may be one of each group; shape (n_rows, n_groups)."""
    inside = np.asarray((atoms >= 0).all(axis=1), dtype=bool)
    out = np.repeat(inside[:, None], len(data.names), axis=1)
    for k, table in enumerate(data.sets):
        out &= table[:, atoms[:, k]][data.boxes[:, k]].T
    for g in np.flatnonzero(~data.boxed).tolist():
        out[:, g] &= data.region(g).holds(atoms)
    return out


def _changes(data: ProbabilisticDataset, group: int, atoms: Ints) -> Ints:
    """How many attributes of each row (atoms) must change to be one of a group."""
    region = data.region(group)
    if not data.boxed[group]:
        return np.array([region.changes_to(row) for row in atoms], dtype=np.int64)
    kept = np.zeros(len(atoms), dtype=np.int64)
    for k, mask in enumerate(region.box):
        kept += mask[atoms[:, k]] & (atoms[:, k] >= 0)
    return len(region.box) - kept


def _log_chance(data: ProbabilisticDataset, at: Mapping[int, Ints], n: int) -> Floats:
    """Log probability that a row of each group has the values given; shape (n, n_groups)."""
    out = np.zeros((n, len(data.names)))
    with np.errstate(divide="ignore"):
        for k, atoms in at.items():
            held = data.sets[k][:, atoms] & (atoms >= 0)
            chance = np.log(held / data.set_sizes[k][:, None])
            out += chance[data.boxes[:, k]].T
    for g in np.flatnonzero(~data.boxed).tolist():
        region, whole = data.region(g), data.points[g]
        places, where = np.unique(np.column_stack([*at.values()]), axis=0, return_inverse=True)
        found = np.full(len(places), -np.inf)
        for i, place in enumerate(places):
            tests = {k: np.arange(len(data.space.axes[k])) == a
                     for k, a in zip(at, place, strict=True)}  # fmt: skip
            if whole and (size := region.restricted(tests).size):
                each = math.prod(int(data.space.sizes[k][a])
                                 for k, a in zip(at, place, strict=True))  # fmt: skip
                found[i] = math.log(size) - math.log(whole) - math.log(each)
        out[:, g] = found[where.ravel()]
    return out
