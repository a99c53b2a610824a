"""Exact leaf counts, of every class or without classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import ClassVar

import numpy as np

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import LinearConstraints
from treeleak.evidence.protocol import (
    Contradiction,
    SamplingAssumptions,
    leaf_counts,
    leaf_totals,
    unequal,
)
from treeleak.evidence.systems import CountSystem, system_of_all, system_of_each
from treeleak.partition import Geometry, Partition
from treeleak.release.statistics import ROWS


@dataclass(frozen=True, eq=False)
class ExactCounts:
    """Exact leaf counts, every row used once per tree: A m_c = n_c for every class c.

    Trees without classes may stand behind the others, such as those of what is known of the rows.
    """

    geometry: Geometry
    kind: ClassVar[str] = "exact counts"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], ExactCounts] | None:
        """Fit rows of each class, counted without noise in trees that saw each of them once."""
        if not assumed.exact or (assumed.sampling, assumed.counts_are) != ("all", "rows"):
            return None
        assumed.check_counts("counts", behind="totals")
        return cls

    @cached_property
    def n(self) -> IntArray:
        """Rows of each class in each leaf, shape (n_leaves, n_classes), where told by class."""
        return leaf_counts(self.geometry.release.trees)

    @property
    def n_rows(self) -> int:
        """N, as the first tree counts it."""
        return int(self.n[: self.geometry.leaf_start[1]].sum())

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        return self.kind

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give the rows of each class in each leaf; of trees behind, the rows in each leaf."""
        behind = [t for t in self.geometry.release.trees if t.counts is None]
        by_class = LinearConstraints(ROWS, self.n)
        if not behind:
            return (by_class,)
        return by_class, LinearConstraints(ROWS, leaf_totals(behind), first=len(self.n))

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
        statements, n_first = self.statements(), int(self.geometry.leaf_start[1])
        if len(statements) == 1:
            yield from system_of_each(
                statements[0], partition, n_first, self.geometry.release.classes
            )
        else:
            yield system_of_all(statements, partition, n_first)


@dataclass(frozen=True, eq=False)
class ExactTotals:
    """Exact leaf totals without classes: sum over c of A m_c = n.

    Where a tree says that a leaf holds no (weight of a) class, the class is dead there.
    """

    geometry: Geometry
    kind: ClassVar[str] = "exact totals"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], ExactTotals] | None:
        """Fit rows that are counted without classes, in trees that saw each of them once."""
        by_class = assumed.counts_are not in ("weights", "none")
        if not assumed.exact or assumed.sampling != "all" or by_class:
            return None
        assumed.check_counts("totals")
        return cls

    @cached_property
    def n(self) -> IntArray:
        """Rows in each leaf."""
        return leaf_totals(self.geometry.release.trees)

    @property
    def n_rows(self) -> int:
        """N, as the first tree counts it."""
        return int(self.n[: self.geometry.leaf_start[1]].sum())

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        return self.kind

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give the rows in each leaf."""
        return (LinearConstraints(ROWS, self.n),)

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
        yield system_of_all(self.statements(), partition, int(self.geometry.leaf_start[1]))
