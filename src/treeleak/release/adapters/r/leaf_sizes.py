"""Draws in each leaf, worked out from kept draws and out-of-bag predictions.

What the trees that did not draw a row say of it, in the mean, is one real number for each row. On a
grid of few points, hardly ever two of them share it: so it tells the leaves of the row in all
trees, and those together how many draws each leaf holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.release.out_of_bag import OutOfBag
from treeleak.release.tree import Tree

MOST_POINTS = 2**18
MOST_LEAVES = 2**26
"""Points of the grid, and points times trees, that are looked at."""
MOST_MATCHES = 16
"""Points for each row, on average, beyond which predictions tell too little."""
_AT_ONCE = 2**22
_WHOLE = 1e-6


def leaf_sizes(
    trees: Sequence[Tree], means: OutOfBag, draws: IntArray, *, whole_shares: bool
) -> list[FloatArray] | None:
    """Work out the draws in each leaf of trees without counts; 0 at other nodes.

    ``means``: what trees, which compare in double precision, predict at their nodes, and the means
    of it for each row. ``draws``, shape (n_trees, n_rows). ``whole_shares``: whether what leaves
    predict are shares, which times the draws are whole numbers. Returns None if the grid is large,
    or rows do not settle.
    """
    if draws.shape != (len(trees), len(means.mean)) or not draws.size:
        return None
    if (draws > 0).all(axis=0).any() or np.isnan(means.mean).any():
        return None
    leaf = _leaves_of_points(trees)
    points = None if leaf is None else _points_of_rows(leaf, means, draws)
    if leaf is None or points is None:
        return None
    sizes = [
        np.bincount(at, b, tree.n_nodes).astype(float)
        for tree, at, b in zip(trees, leaf[points].T, draws, strict=True)
    ]
    empty = any((n[tree.leaves] == 0).any() for tree, n in zip(trees, sizes, strict=True))
    counts = [n[:, None] * v for n, v in zip(sizes, means.values, strict=True)]
    broken = whole_shares and any((np.abs(c - np.round(c)) > _WHOLE).any() for c in counts)
    return None if empty or broken else sizes


def _leaves_of_points(trees: Sequence[Tree]) -> IntArray | None:
    """Find the node where each point of the grid ends in each tree; equal points once."""
    ends: list[set[float]] = [set() for _ in range(1 + max(tree.feature.max() for tree in trees))]
    for tree in trees:
        sets = {} if tree.categories is None else tree.categories.by_node
        for v in np.flatnonzero(~tree.is_leaf).tolist():
            codes = range(min(int(sets[v].max()) + 2, 100)) if v in sets else ()
            ends[tree.feature[v]] |= {*map(float, codes)} if v in sets else {tree.threshold[v]}
    values = [np.array([*sorted(of), max(of, default=0.0) + 1.0]) for of in ends]
    n_points = prod(map(len, values))
    if n_points > MOST_POINTS or n_points * len(trees) > MOST_LEAVES:
        return None
    grid = np.stack([g.ravel() for g in np.meshgrid(*values, indexing="ij")], axis=1)
    leaf = np.stack([tree.apply(grid) for tree in trees], axis=1).astype(np.int32)
    return np.unique(leaf, axis=0)


def _points_of_rows(leaf: IntArray, means: OutOfBag, draws: IntArray) -> IntArray | None:
    """Find for each row the point whose prediction has its mean; None unless one alone does."""
    out = (draws == 0).astype(float)
    n_out, n_rows = out.sum(axis=0), draws.shape[1]
    near, step = means.off(), max(_AT_ONCE // max(draws.shape), 1)
    row, point = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for begin, end in pairwise([*range(0, len(leaf), step), len(leaf)]):
        fits = np.ones((end - begin, n_rows), dtype=bool)
        for c in range(means.mean.shape[1]):
            held = [v[at, c] for v, at in zip(means.values, leaf[begin:end].T, strict=True)]
            mean = np.stack(held, axis=1) @ out / n_out
            fits &= np.abs(mean - means.mean[:, c]) <= near[c]
        points, rows = np.nonzero(fits)
        row.append(rows)
        point.append(points + begin)
        if sum(map(len, row)) > MOST_MATCHES * n_rows:
            return None
    rows, points = np.concatenate(row), np.concatenate(point)
    _, first = np.unique(rows, return_index=True)
    if len(first) < n_rows:
        return None
    chosen = points[first]
    # What differs only where the row was not drawn is the same to all counts.
    differ = (leaf[points] != leaf[chosen[rows]]) & (draws.T[rows] > 0)
    return None if differ.any() else np.asarray(chosen)
