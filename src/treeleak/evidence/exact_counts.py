"""Exact leaf counts of every class."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

import numpy as np

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence.leaves import leaf_counts, leaf_totals, unequal
from treeleak.evidence.protocol import Contradiction
from treeleak.evidence.systems import CountSystem, Pairs
from treeleak.partition import Geometry, Partition

__all__ = ["ExactCounts"]


@dataclass(frozen=True, eq=False)
class ExactCounts:
    """Exact leaf counts, every row used once per tree: A m_c = n_c for every class c.

    Trees without classes may stand behind the others: those of what is known of the rows.
    """

    geometry: Geometry
    kind: ClassVar[str] = "exact counts"

    @cached_property
    def n(self) -> IntArray:
        """Rows of each class in each leaf, shape (n_leaves, n_classes), where told by class."""
        return leaf_counts(self.geometry.release.trees)

    def open_leaves(self) -> BoolArray:
        """Close a leaf that holds no row of a class: its cells are dead for that class."""
        open_ = np.ones((self.geometry.leaf_start[-1], self.n.shape[1]), dtype=bool)
        open_[: len(self.n)] = self.n > 0
        return open_

    def contradiction(self) -> Contradiction | None:
        """Find a tree that holds another number of rows of a class than the first."""
        start = self.geometry.leaf_start[:-1]
        per_tree = np.add.reduceat(self.n, start[start < len(self.n)], axis=0)
        return unequal(per_tree, [f"class {c!r}" for c in self.geometry.release.classes])

    def systems(self, partition: Partition) -> Iterator[CountSystem]:
        """Give one system per class, if classes do not meet in any equation; else one of all."""
        if len(self.n) < self.geometry.leaf_start[-1]:
            yield self._of_all(partition)
            return
        for c, label in enumerate(self.geometry.release.classes):
            at = np.flatnonzero(partition.alive[:, c])
            cells, cell = np.unique(partition.cell[at], return_inverse=True)
            yield CountSystem(
                name=f"class {label!r}",
                points=partition.points[at],
                label=np.full(len(at), c),
                cell=cell.ravel(),
                signature=partition.signature[cells],
                target=self.n[:, c],
                n_rows=int(self.n[: self.geometry.leaf_start[1], c].sum()),
            )

    def _of_all(self, partition: Partition) -> CountSystem:
        """Give one system over all (cell, class) pairs."""
        pairs = Pairs.of(partition)
        n_leaves, n_classes = self.n.shape
        behind = np.arange(n_leaves, self.geometry.leaf_start[-1])
        totals = leaf_totals([t for t in self.geometry.release.trees if t.counts is None])
        signature = partition.signature[pairs.cell].astype(np.int64)
        by_class = signature < n_leaves
        equation = signature * n_classes + pairs.label_of[:, None]
        signature = np.where(by_class, equation, signature + n_leaves * (n_classes - 1))
        return CountSystem(
            name="all classes",
            points=pairs.points,
            label=pairs.label,
            cell=pairs.pair,
            signature=signature.astype(np.int32),
            target=np.concatenate([self.n.ravel(), totals]),
            n_rows=int(self.n[: self.geometry.leaf_start[1]].sum()),
            leaf=np.concatenate([np.repeat(np.arange(n_leaves), n_classes), behind]),
            only=np.concatenate(
                [np.tile(np.arange(n_classes), n_leaves), np.full(len(behind), -1)]
            ),
        )
