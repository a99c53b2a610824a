"""Raw tables, and where their rows get to in the trees of a model."""

from __future__ import annotations

import numpy as np
import pandas as pd

from treeleak.attacks.loss_sums.layers import Groups
from treeleak.partition import Geometry
from treeleak.schema import Numeric, Schema


def leaning(seed: int, n: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of three columns of numbers, and classes that lean on them."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"age": rng.integers(18, 90, n), "size": rng.normal(170, 10, n).round(0),
         "pay": rng.lognormal(3, 0.6, n).round(0)}
    ).astype(float)  # fmt: skip
    leans = 0.06 * (X.age - 50) + 0.05 * (X.pay - 20) + 0.05 * (X["size"] - 170)
    return X, (rng.random(n) < 1 / (1 + np.exp(-leans))).astype(int).to_numpy()


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
    return Groups(
        n_trees, np.ones_like(every), np.tile(true_leaves(X, geometry), (2, 1, 1)), box, every
    )
