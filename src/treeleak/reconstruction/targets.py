"""Targets of regression that leaves say outright, put beside the rows that lie there.

A leaf that holds one row stores this row's target as its mean, and so does a leaf whose variance is
zero for each of its rows. Nothing is solved for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.private import dataclass
from treeleak.release.release import Release
from treeleak.release.statistics import DISTINCT, DRAWS, MEAN, ROWS, VARIANCE, NodeStatistic
from treeleak.release.tree import Tree

_SAME = 1e-9
"""Difference, as a part of their size, up to which two targets are one."""
_ROUNDED = 1e-14
"""What rounding leaves of a variance of zero, as a part of the mean square of all targets."""
_FINE = 1e-11
"""The same as a part of their variance, from which on it hides how targets differ."""
_AT_ONCE = 4_000_000
_MOST_SURE = 0.9999


@dataclass(frozen=True, eq=False)
class Targets:
    """What leaves say of the targets of rows."""

    values: FloatArray
    """Shape (n_rows,). NaN where no leaf says it."""
    sure: FloatArray
    """Shape (n_rows,). Share of the leaves that say this value, of those that say any; 1 only where
    the row is proved and all agree; 0 where none says it."""


def told_targets(
    release: Release,
    table: FloatArray,
    proved: BoolArray,
    draws: NDArray[np.unsignedinteger[Any]] | None = None,
) -> Targets | None:
    """Read the targets of rows off the leaves in which they lie.

    ``table``: shape (n_rows, n_features). ``proved``, shape (n_rows,): rows whose place in every
    tree is proved. ``draws``, shape (n_trees, n_rows): how often each tree drew each row; without
    it, every tree saw every row. Returns None where no leaf says the target of a row.
    """
    pure = [_pure(tree) for tree in release.trees]
    if release.classes or not any(own is not None for own in pure):
        return None
    rows = np.ascontiguousarray(table, dtype=release.float_type)
    values, share = np.full(len(rows), np.nan), np.zeros(len(rows))
    step = max(1, _AT_ONCE // len(release.trees))
    for begin in range(0, len(rows), step):
        own = slice(begin, begin + step)
        said = np.full((len(rows[own]), len(release.trees)), np.nan)
        for t, (tree, targets) in enumerate(zip(release.trees, pure, strict=True)):
            if targets is not None:
                said[:, t] = targets[tree.apply(rows[own])]
                if draws is not None:
                    said[draws[t, own] == 0, t] = np.nan
        values[own], share[own] = _most_said(said)
    if np.isnan(values).all():
        return None
    return Targets(values, np.where(proved & (share == 1.0), 1.0, np.minimum(share, _MOST_SURE)))


def _pure(tree: Tree) -> FloatArray | None:
    """Target of all rows of each leaf, NaN where they differ or are not told; None: of none."""
    mean, variance = tree.statistics.get(MEAN), tree.statistics.get(VARIANCE)
    if mean is None:
        return None
    number = tree.statistics.get(DISTINCT) or tree.statistics.get(ROWS, DRAWS)
    alone = np.zeros(tree.n_nodes, dtype=bool) if number is None else number.values == 1
    if variance is not None:
        alone |= _flat(mean, variance)
    told = alone & tree.is_leaf & (True if mean.present is None else mean.present)
    return np.where(told, mean.values, np.nan) if told.any() else None


def _flat(mean: NodeStatistic, variance: NodeStatistic) -> BoolArray:
    """Say of which nodes all rows have one target."""
    if variance.present is not None:
        return np.asarray(variance.present & (variance.values == 0))
    # Variances are differences of sums over all rows, and as exact as these are.
    spread = float(variance.values[0])
    noise = _ROUNDED * (float(mean.values[0]) ** 2 + spread)
    if noise > _FINE * spread:
        return np.zeros(len(variance.values), dtype=bool)
    return np.asarray(np.abs(variance.values) <= noise)


def _most_said(said: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of each row, the value that most trees say, and their share of those that say any."""
    n_rows, n_trees = said.shape
    ordered = np.sort(said, axis=1)  # NaN last
    gap = np.abs(np.diff(ordered, axis=1)) > _SAME * np.maximum(1e-300, np.abs(ordered[:, 1:]))
    new = np.column_stack([np.ones(n_rows, dtype=bool), gap | np.isnan(ordered[:, 1:])])
    group = np.cumsum(new, axis=1) - 1 + np.arange(n_rows)[:, None] * n_trees
    told = ~np.isnan(ordered)
    votes = np.bincount(group[told], minlength=n_rows * n_trees).reshape(n_rows, n_trees)
    best, number = votes.argmax(axis=1), told.sum(axis=1)
    start = np.argmax(group == (np.arange(n_rows) * n_trees + best)[:, None], axis=1)
    values = ordered[np.arange(n_rows), start]
    share = votes.max(axis=1) / np.maximum(number, 1)
    return np.where(number > 0, values, np.nan), np.where(number > 0, share, 0.0)
