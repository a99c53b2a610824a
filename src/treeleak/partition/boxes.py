"""Leaves as boxes: of each attribute, the atoms that a leaf admits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treeleak.core.arrays import BoolArray
from treeleak.core.memory import require
from treeleak.partition.cells import Geometry

Sides = dict[int, BoolArray]
"""The atoms that a leaf admits, of the attributes of which it does not admit all."""


def reachable_leaves(geometry: Geometry) -> tuple[BoolArray, ...]:
    """Find the leaves that some row of the schema reaches: a path may shut itself.

    Exact where the schema has no rules. Rules between columns are not heeded: a leaf that only a
    rule shuts counts as reachable.

    Returns one array per tree, over its leaves in the order of :attr:`Tree.leaves`.
    """
    reached = np.zeros(int(geometry.leaf_start[-1]), dtype=bool)
    for root in geometry.compiled[0]:
        for row, _ in _leaves(geometry, int(root)):
            reached[row] = True
    return tuple(np.split(reached, geometry.leaf_start[1:-1]))


def leaf_boxes(geometry: Geometry) -> BoolArray:
    """Say which atoms each leaf (row of A) admits, shape (n_leaves, n_atoms).

    Leaves that no point reaches admit none.
    """
    start = np.append(0, np.cumsum(geometry.radix))
    shape = int(geometry.leaf_start[-1]), int(start[-1])
    require("a table of all leaves and values", shape, bool)
    out = np.zeros(shape, dtype=bool)
    for root in geometry.compiled[0]:
        for row, sides in _leaves(geometry, int(root)):
            out[row] = True
            for a, side in sides.items():
                out[row, start[a] : start[a + 1]] = side
    return out


def _leaves(geometry: Geometry, root: int) -> Iterator[tuple[int, Sides]]:
    _, attribute, table, left, right, goes_left = geometry.compiled
    todo: list[tuple[int, Sides]] = [(root, {})]
    while todo:
        node, sides = todo.pop()
        tested = int(attribute[node])
        if tested < 0:
            yield int(left[node]), {a: s for a, s in sides.items() if not s.all()}
            continue
        first, size = int(table[node]), int(geometry.radix[tested])
        goes = goes_left[first : first + size].astype(bool)
        side = sides.get(tested)
        for child, child_side in ((right[node], ~goes), (left[node], goes)):
            remaining = child_side if side is None else side & child_side
            if remaining.any():
                todo.append((int(child), {**sides, tested: remaining}))
