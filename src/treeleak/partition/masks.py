"""Leaves as bits: which leaves of each tree every atom leaves open.

A row's leaf in a tree is the lowest bit that all of its atoms leave open, leaves being numbered
from left to right: each test that a row fails closes the leaves to the left of it (QuickScorer,
Lucchese et al. 2015). With another atom, the new leaf costs one bitwise and.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.compiled import lowest_bit, njit
from treeleak.core.memory import require
from treeleak.core.private import dataclass
from treeleak.partition.cells import Geometry, GridTooLarge

MAX_MASKS = 2**28
"""Most words of leaves as bits, over all atoms and trees: 2 GiB."""


@dataclass(frozen=True, eq=False)
class Masks:
    """The trees of a geometry as bits."""

    start: IntArray
    """Shape (n_attributes + 1,). Atoms of attribute a are ``start[a]`` to ``start[a + 1] - 1``."""
    open: NDArray[np.uint64]
    """Shape (n_atoms, n_trees, n_words). Leaves of each tree that an atom leaves open; bit i is the
    tree's i-th leaf from the left."""
    first: IntArray
    """Shape (n_trees,). Number of each tree's first leaf, leaves of all trees numbered through from
    the left."""
    row: IntArray
    """Shape (n_leaves,). Row of A of each leaf so numbered."""
    change_start: IntArray
    """Shape (n_atoms + 1,)."""
    change_tree: NDArray[np.int32]
    """The trees in which an atom leaves other leaves open than the atom before it (none for the
    first of an attribute)."""
    root: IntArray
    """Shape (n_trees + 1,). First node of each tree, nodes of all trees numbered through, children
    behind their parents."""
    parent: NDArray[np.int32]
    """Shape (n_nodes,). -1 for a root."""
    leaf: NDArray[np.int32]
    """Shape (n_nodes,). Number of each leaf, as above; -1 for inner nodes."""

    @classmethod
    def of(cls, geometry: Geometry) -> Masks:
        """Lay out the trees of a geometry.

        Raises GridTooLarge if that takes more than 2 GiB.
        """
        start = np.append(0, np.cumsum(geometry.radix)).astype(np.int64)
        n_leaves = np.diff(geometry.leaf_start)
        words = max(int(-(-n_leaves.max(initial=1) // 64)), 1)
        if int(start[-1]) * len(n_leaves) * words > MAX_MASKS:
            raise GridTooLarge(
                f"{start[-1]:,} intervals and values times {geometry.leaf_start[-1]:,} leaves take "
                f"more than {8 * MAX_MASKS / 2**30:.0f} GiB"
            )
        root, attribute, _, left, right, _ = geometry.compiled
        begin, end = number_leaves(attribute, left, right)
        open_ = np.zeros((start[-1], len(n_leaves), words), dtype=np.uint64)
        bit = np.arange(64 * words).reshape(words, 64)
        for t, n in enumerate(n_leaves.tolist()):
            bits = (np.uint64(1) << np.arange(64, dtype=np.uint64))[None, :] * (bit < n)
            open_[:, t] = bits.sum(axis=1, dtype=np.uint64)
        close_leaves(geometry.compiled, begin, end, start, geometry.radix, open_)
        changed = np.zeros((start[-1], len(n_leaves)), dtype=bool)
        changed[1:] = (open_[1:] != open_[:-1]).any(axis=2)
        changed[start[:-1][start[:-1] < start[-1]]] = False
        first = geometry.leaf_start[:-1].astype(np.int64)
        row = np.empty(geometry.leaf_start[-1], dtype=np.int64)
        inner, at_leaf = np.flatnonzero(attribute >= 0), np.flatnonzero(attribute < 0)
        tree = np.searchsorted(root, at_leaf, side="right") - 1
        leaf, parent = np.full((2, len(attribute)), -1, dtype=np.int32)
        leaf[at_leaf] = first[tree] + begin[at_leaf]
        row[leaf[at_leaf]] = left[at_leaf]
        parent[left[inner]] = parent[right[inner]] = inner
        return cls(
            start=start,
            open=open_,
            first=first,
            row=row,
            change_start=np.append(0, np.cumsum(changed.sum(axis=1))).astype(np.int64),
            change_tree=np.nonzero(changed)[1].astype(np.int32),
            root=np.append(root, len(attribute)).astype(np.int64),
            parent=parent,
            leaf=leaf,
        )

    @cached_property
    def ways(self) -> sparse.csr_array:
        """Which nodes are on the way to each leaf, from the root down; (n_leaves, n_nodes)."""
        at = np.flatnonzero(self.leaf >= 0)
        levels = [at[np.argsort(self.leaf[at], kind="stable")]]
        while (levels[-1] >= 0).any():
            # The parent of nothing is nothing.
            levels.append(np.append(self.parent, -1)[levels[-1]])
        nodes = np.stack(levels[::-1], axis=1)
        start = np.append(0, np.cumsum((nodes >= 0).sum(axis=1)))
        node = nodes[nodes >= 0]
        shape = (len(self.row), len(self.leaf))
        return sparse.csr_array((np.ones(len(node), dtype=np.int64), node, start), shape=shape)

    def trace(self, atoms: NDArray[np.int32]) -> NDArray[np.int32]:
        """Leaves of rows, numbered from the left, shape (n_rows, n_trees).

        ``atoms``: shape (n_rows, n_attributes).
        """
        return leaves_of(atoms, self.start, self.open, self.first)  # type: ignore[no-any-return]

    def around(self, atoms: NDArray[np.int32], drawn: BoolArray) -> IntArray:
        """Lowest and highest atom that keep a row in its leaves, shape (2, n_rows, n_attributes).

        ``atoms``, shape (n_rows, n_attributes): all others of a row stay. ``drawn``, shape (n_rows,
        n_trees): the trees that are meant.
        """
        return around(atoms, self.start, self.open, drawn)  # type: ignore[no-any-return]


@njit()
def number_leaves(attribute: Any, left: Any, right: Any) -> Any:
    """Leaves under each node, numbered from the left in each tree: the first, and the one behind.

    Children stand behind their parents.
    """
    n = len(attribute)
    size = np.ones(n, dtype=np.int32)
    for v in range(n - 1, -1, -1):
        if attribute[v] >= 0:
            size[v] = size[left[v]] + size[right[v]]
    begin = np.zeros(n, dtype=np.int32)
    for v in range(n):
        if attribute[v] >= 0:
            begin[left[v]] = begin[v]
            begin[right[v]] = begin[v] + size[left[v]]
    return begin, begin + size


@njit()
def close_leaves(trees: Any, begin: Any, end: Any, start: Any, radix: Any, open_: Any) -> None:
    """Close, for every atom that goes right at a node, the leaves on the left; in place."""
    root, attribute, table, left, _, goes_left = trees
    t = -1
    for v in range(len(attribute)):
        if t + 1 < len(root) and root[t + 1] == v:
            t += 1
        a = attribute[v]
        if a < 0:
            continue
        low, high = begin[left[v]], end[left[v]]
        for k in range(radix[a]):
            if not goes_left[table[v] + k]:
                for leaf in range(low, high):
                    open_[start[a] + k, t, leaf >> 6] &= ~(np.uint64(1) << np.uint64(leaf & 63))


@njit()
def leaves_of(atoms: Any, start: Any, open_: Any, first: Any) -> Any:
    """Leaf of each row in every tree."""
    n_trees, n_words = open_.shape[1], open_.shape[2]
    out = np.empty((len(atoms), n_trees), dtype=np.int32)
    for i in range(len(atoms)):
        for t in range(n_trees):
            for w in range(n_words):
                word = ~np.uint64(0)
                for a in range(atoms.shape[1]):
                    word &= open_[start[a] + atoms[i, a], t, w]
                if word != 0:
                    out[i, t] = first[t] + 64 * w + lowest_bit(word)
                    break
    return out


@njit()
def around(atoms: Any, start: Any, open_: Any, drawn: Any) -> Any:
    """Lowest and highest atom of each row and attribute that keep it in the leaves of its trees."""
    n_rows, n_attributes = atoms.shape
    n_trees, n_words = open_.shape[1], open_.shape[2]
    out = np.empty((2, n_rows, n_attributes), dtype=np.int64)
    # Leaves that the attributes before one leave open, and those from each on.
    before, others, leaf = np.empty((3, n_trees, n_words), dtype=np.uint64)
    behind = np.full((n_attributes + 1, n_trees, n_words), ~np.uint64(0))
    for i in range(n_rows):
        before[:] = ~np.uint64(0)
        for a in range(n_attributes - 1, 0, -1):
            behind[a] = behind[a + 1] & open_[start[a] + atoms[i, a]]
        for a in range(n_attributes):
            position = start[a] + atoms[i, a]
            others[:] = before & behind[a + 1]
            leaf[:] = others & open_[position]
            for side in range(2):
                k, last = position, start[a + side] - side
                step = 2 * side - 1
                while k != last and _same_leaves(leaf, others & open_[k + step], drawn[i]):
                    k += step
                out[side, i, a] = k - start[a]
            before &= open_[position]
    return out


@njit()
def _same_leaves(one: Any, two: Any, drawn: Any) -> Any:
    """Whether the lowest leaf that is open is the same in every tree that drew the row."""
    for t in range(len(one)):
        if drawn[t]:
            for w in range(one.shape[1]):
                x, y = one[t, w], two[t, w]
                if x & (~x + np.uint64(1)) != y & (~y + np.uint64(1)):
                    return False
                if x != 0:
                    break
    return True


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
