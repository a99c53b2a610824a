"""Exact leaf totals, without classes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

import numpy as np

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence.leaves import leaf_totals, unequal
from treeleak.evidence.protocol import Contradiction
from treeleak.evidence.systems import CountSystem, Pairs
from treeleak.partition import Geometry, Partition

__all__ = ["ExactTotals"]


@dataclass(frozen=True, eq=False)
class ExactTotals:
    """Exact leaf totals without classes: sum over c of A m_c = n.

    Where a tree says that a leaf holds no (weight of a) class, the class is dead there.
    """

    geometry: Geometry
    kind: ClassVar[str] = "exact totals"

    @cached_property
    def n(self) -> IntArray:
        """Rows in each leaf."""
        return leaf_totals(self.geometry.release.trees)

    def open_leaves(self) -> BoolArray:
        """Close empty leaves, and leaves without any weight of a class for that class."""
        release, start = self.geometry.release, self.geometry.leaf_start
        present = np.ones((len(self.n), release.n_classes), dtype=bool)
        for t, tree in enumerate(release.trees):
            if release.counts_are == "weights" and tree.counts is not None and release.classes:
                present[start[t] : start[t + 1]] = tree.counts[tree.leaves] > 0
        return present & (self.n > 0)[:, None]

    def contradiction(self) -> Contradiction | None:
        """Find a tree that holds another number of rows than the first."""
        per_tree = np.add.reduceat(self.n, self.geometry.leaf_start[:-1])
        return unequal(per_tree[:, None], ["all classes"])

    def systems(self, partition: Partition) -> Iterator[CountSystem]:
        """Give one system over all (cell, class) pairs."""
        pairs = Pairs.of(partition)
        yield CountSystem(
            name="all classes",
            points=pairs.points,
            label=pairs.label,
            cell=pairs.pair,
            signature=partition.signature[pairs.cell],
            target=self.n,
            n_rows=int(self.n[: self.geometry.leaf_start[1]].sum()),
        )
