"""What the leaves of trees count, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeleak.core.arrays import IntArray
from treeleak.evidence.protocol import Contradiction
from treeleak.release.release import Release
from treeleak.release.tree import Tree


def leaf_counts(trees: Sequence[Tree]) -> IntArray:
    """Count each class in each leaf of the trees that do, shape (n_leaves, n_classes)."""
    counts = [t.counts[t.leaves] for t in trees if t.counts is not None]
    return np.rint(np.concatenate(counts)).astype(np.int64)


def leaf_draws(release: Release, trees: Sequence[Tree]) -> IntArray:
    """Count draws of each class in each leaf; without classes, all of them as of one class."""
    return leaf_counts(trees) if release.classes else leaf_totals(trees)[:, None]


def leaf_totals(trees: Sequence[Tree]) -> IntArray:
    """Count all classes together, shape (n_leaves,)."""
    totals = [t.totals[t.leaves] for t in trees if t.totals is not None]
    return np.rint(np.concatenate(totals)).astype(np.int64)


def leaf_distinct(trees: Sequence[Tree]) -> IntArray | None:
    """Distinct rows in each leaf, or None if a tree does not say."""
    distinct = [t.distinct[t.leaves] for t in trees if t.distinct is not None]
    return np.concatenate(distinct).astype(np.int64) if len(distinct) == len(trees) else None


def unequal(per_tree: IntArray, names: list[str]) -> Contradiction | None:
    """Find a tree that holds another number of something than the first."""
    differs = per_tree != per_tree[0]
    if not differs.any():
        return None
    t, c = (int(i) for i in np.argwhere(differs)[0])
    held, first = per_tree[t, c], per_tree[0, c]
    why = f"its leaves hold {held} rows of {names[c]}, those of tree 0 hold {first}"
    return Contradiction(t, 0, why)
