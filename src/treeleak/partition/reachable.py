"""Which leaves a row can reach: a path that tests one attribute twice may shut itself."""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import BoolArray
from treeleak.partition.cells import Geometry

__all__ = ["reachable_leaves"]


def reachable_leaves(geometry: Geometry) -> tuple[BoolArray, ...]:
    """Find the leaves that some row of the schema reaches.

    Exact where the schema has no rules. Rules between columns are not heeded: a leaf that only a
    rule shuts counts as reachable.

    Parameters
    ----------
    geometry : Geometry

    Returns
    -------
    tuple of bool array
        One per tree, over its leaves in the order of :attr:`Tree.leaves`.
    """
    roots, attribute, table, left, right, goes_left = geometry.compiled
    reached = np.zeros(int(geometry.leaf_start[-1]), dtype=bool)
    # What each attribute that was tested on the way can still be.
    todo: list[tuple[int, dict[int, BoolArray]]] = [(int(root), {}) for root in roots]
    while todo:
        node, still = todo.pop()
        tested = int(attribute[node])
        if tested < 0:
            reached[left[node]] = True
            continue
        first, size = int(table[node]), int(geometry.radix[tested])
        goes = goes_left[first : first + size].astype(bool)
        atoms = still.get(tested, np.ones(size, dtype=bool))
        for child, kept in ((left[node], atoms & goes), (right[node], atoms & ~goes)):
            if kept.any():
                todo.append((int(child), {**still, tested: kept}))
    return tuple(np.split(reached, geometry.leaf_start[1:-1]))
