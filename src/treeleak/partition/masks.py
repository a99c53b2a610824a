"""Leaves as bits: which leaves of each tree every atom leaves open.

A row's leaf in a tree is the lowest bit that all of its atoms leave open, leaves being numbered
from left to right: each test that a row fails closes the leaves to the left of it (QuickScorer,
Lucchese et al. 2015). With another atom, the new leaf costs one bitwise and.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition.cells import Geometry, GridTooLarge
from treeleak.partition.mask_kernels import around, close_leaves, leaves_of, number_leaves

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
