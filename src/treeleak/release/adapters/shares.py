"""Counts that were taken out of a model, worked out again from the class shares that were left.

Where the shares of a node and of its children differ, the node's share is a mean of theirs, and the
weights of that mean are the sizes of the children: so shares alone give the size of every node as
a part of the root. All counts are whole numbers, and that gives the root's.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.release.tree import LEAF, CategorySets, Tree

MAX_TOLD = 2_000_000
"""Rows up to which two fractions of them never agree in double precision."""
_TOLERANCE = 1e-12
_SHAPE = ("feature", "threshold", "left", "right", "missing_left")

Restored = tuple[Tree, FloatArray]
"""A tree, maybe cut back, and the rows (or draws) of each class in its nodes."""


def counts_from_shares(
    trees: Sequence[Tree], shares: Sequence[FloatArray], total: int | None = None
) -> list[Restored] | None:
    """Work out the counts of all nodes of trees that counted equally many rows.

    ``trees``: without counts. ``shares``, shape (n_nodes, n_classes): share of each class in each
    node. ``total``: rows (or draws) of every root, where that is known; else the least number for
    which all counts are whole. A tree that is returned ends at nodes whose children have equal
    shares: how the rows part there, shares do not tell. Returns None where shares are no fractions
    of whole numbers, or not those of one table.
    """
    parts: list[tuple[list[int], dict[int, list[Fraction]]]] = []
    base = 1
    for tree, share in zip(trees, shares, strict=True):
        found = _parts(tree, share)
        if found is None:
            return None
        parts.append(found)
        for of_node in found[1].values():
            base = lcm(base, *(part.denominator for part in of_node))
            if base > MAX_TOLD:
                return None
    root = base if total is None else total
    if root % base:
        return None
    out = []
    for tree, (ends, of_nodes) in zip(trees, parts, strict=True):
        counts = np.zeros((tree.n_nodes, shares[0].shape[1]))
        for v, of_node in of_nodes.items():
            counts[v] = [int(part * root) for part in of_node]
        remaining = np.array(sorted(of_nodes), dtype=np.int64)
        out.append((cut_below(tree, ends, remaining), counts[remaining]))
    return out


def _parts(tree: Tree, share: FloatArray) -> tuple[list[int], dict[int, list[Fraction]]] | None:
    """Part of the root's rows in each node and class; and the nodes at which they are lost."""
    exact = _fractions(share)
    if exact is None or any(sum(class_shares) != 1 for class_shares in exact):
        return None
    size = {0: Fraction(1)}
    ends = []
    for v in range(tree.n_nodes):
        if v not in size or tree.left[v] == LEAF:
            continue
        left, right = int(tree.left[v]), int(tree.right[v])
        class_shares = zip(exact[v], exact[left], exact[right], strict=True)
        weights = {
            (p - r) / (q - r) if q != r else None for p, q, r in class_shares if q != r or p != r
        }
        if not weights:
            ends.append(v)
            continue
        weight = weights.pop()
        if weights or weight is None or not 0 < weight < 1:
            return None
        size[left], size[right] = weight * size[v], (1 - weight) * size[v]
    return ends, {v: [part * p for p in exact[v]] for v, part in size.items()}


def _fractions(share: FloatArray) -> list[list[Fraction]] | None:
    values, number = np.unique(share, return_inverse=True)
    if values[0] < 0 or values[-1] > 1:
        return None
    exact = [Fraction(float(x)).limit_denominator(MAX_TOLD) for x in values]
    if any(abs(float(f) - x) > _TOLERANCE for f, x in zip(exact, values, strict=True)):
        return None
    return [[exact[i] for i in row] for row in number.reshape(share.shape)]


def cut_below(tree: Tree, ends: Sequence[int], remaining: IntArray) -> Tree:
    """Take away what lies below some nodes; ``remaining``: the others, ascending."""
    if not len(ends):
        return tree
    arrays: dict[str, Any] = {name: getattr(tree, name)[remaining] for name in _SHAPE}
    end = np.isin(remaining, ends)
    number = np.full(tree.n_nodes, LEAF, dtype=np.int64)
    number[remaining] = np.arange(len(remaining))
    for side in ("left", "right"):
        arrays[side] = np.where(end | (arrays[side] == LEAF), LEAF, number[arrays[side]])
    arrays["feature"] = np.where(end, LEAF, arrays["feature"])
    arrays["threshold"] = np.where(end, np.nan, arrays["threshold"])
    arrays["missing_left"] = arrays["missing_left"] & ~end
    strict, sets = tree.strict, tree.categories
    if sets is not None:
        tests = np.isin(sets.node, remaining[~end])
        sets = CategorySets(number[sets.node[tests]], sets.value[tests])
    return Tree(
        **arrays, strict=None if strict is None else strict[remaining] & ~end, categories=sets
    )
