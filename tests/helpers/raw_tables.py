"""Raw tables, and where their rows get to in the trees of a model."""

from __future__ import annotations

import numpy as np
import pandas as pd

from treeleak.attacks.real_valued.layers import Groups
from treeleak.partition import Geometry
from treeleak.schema import Numeric, Schema


def schema_of(X: pd.DataFrame) -> Schema:
    """Numbers between the least and the greatest of each column."""
    return Schema([Numeric(c, float(X[c].min()), float(X[c].max())) for c in X])


def true_leaves(X: pd.DataFrame, geometry: Geometry) -> np.ndarray:
    """Leaf (row of A) of each row in each tree."""
    rows = X.to_numpy(geometry.release.float_type)
    return np.column_stack(
        [start + np.searchsorted(tree.leaves, tree.apply(rows))
         for start, tree in zip(geometry.leaf_start, geometry.release.trees, strict=False)]
    )  # fmt: skip


def at_nodes(leaf: np.ndarray, geometry: Geometry, t: int) -> np.ndarray:
    """Whether each row reaches each node of a tree, as numbers, shape (n_rows, n_nodes)."""
    tree = geometry.release.trees[t]
    at = np.zeros((len(leaf), tree.n_nodes), dtype=np.int64)
    at[np.arange(len(leaf)), tree.leaves[leaf[:, t] - geometry.leaf_start[t]]] = 1
    for v in np.flatnonzero(~tree.is_leaf)[::-1]:
        at[:, v] = at[:, tree.left[v]] + at[:, tree.right[v]]
    return at


def each_for_itself(X: pd.DataFrame, geometry: Geometry, n_trees: int) -> Groups:
    """Groups of one row each, in its true leaves, of which the values are not known."""
    every = np.arange(len(X))
    box = np.ones((len(X), int(geometry.radix.sum())), dtype=bool)
    return Groups(n_trees, np.ones_like(every), true_leaves(X, geometry), box, every)
