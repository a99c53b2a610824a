"""Counts of rows that all trees saw: exact, of every class or without classes, and with noise.

Leaves that name a class, chosen by noise, stand beside those with noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import LinearConstraints, Named, Noisy
from treeleak.evidence.protocol import (
    HOW_ROWS_CAME,
    Contradiction,
    SamplingAssumptions,
    leaf_counts,
    leaf_totals,
    unequal,
)
from treeleak.evidence.systems import CountSystem, system_of_all, system_of_each
from treeleak.partition import Geometry, Partition
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.sampling import AllRows, Bootstrap
from treeleak.release.statistics import DRAWS, LABELS, ROWS


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Counts with noise of a known law: n* = A m + Y if every tree saw every row.

    If trees drew rows, A m is what they drew; if each row went to one tree, every tree has its m.
    """

    geometry: Geometry
    n_rows: int
    """N, or the likeliest number where it is not known."""
    noise: CountNoise
    rows_between: tuple[int, int]
    """Where N lies; both are ``n_rows`` where it is known."""
    sampling: str = AllRows.kind
    """{"all", "bootstrap", "disjoint"}. How rows reached the trees."""
    n_draws: int | None = None
    """Draws of each tree, for a bootstrap."""
    kind: ClassVar[str] = "noisy counts"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], NoisyCounts] | None:
        """Fit counts with noise."""
        release = assumed.release
        if not isinstance(release.noise, CountNoise):
            return None
        n_rows = assumed.noisy_rows()
        n_draws = None
        if isinstance(release.sampling, Bootstrap):
            n_draws = release.sampling.n_draws or n_rows
        return partial(
            cls,
            n_rows=n_rows,
            noise=release.noise,
            rows_between=assumed.rows_between or (n_rows, n_rows),
            sampling=release.sampling.kind,
            n_draws=n_draws,
        )

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        return self.kind + HOW_ROWS_CAME.get(self.sampling, "")

    @cached_property
    def n(self) -> FloatArray:
        """Noisy rows of each class in each leaf, shape (n_leaves, n_classes)."""
        trees = self.geometry.release.trees
        return np.concatenate([t.counts[t.leaves] for t in trees if t.counts is not None])

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give the noisy rows (or draws) of each class in each leaf."""
        law = Noisy(self.noise, known_rows=self.sampling == AllRows.kind)
        return (LinearConstraints(ROWS if self.n_draws is None else DRAWS, self.n, law),)

    def contradiction(self) -> Contradiction | None:
        """Noise may turn any counts into any others."""
        return None


@dataclass(frozen=True, eq=False)
class LeafLabels:
    """Leaves that name one class each, chosen by how many rows they hold of each."""

    geometry: Geometry
    n_rows: int
    """N."""
    noise: LabelNoise
    sampling: str = AllRows.kind
    """{"all", "disjoint"}. How rows reached the trees."""
    kind: ClassVar[str] = "class of each leaf"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], LeafLabels] | None:
        """Fit leaves that name classes."""
        noise, sampling = assumed.release.noise, assumed.release.sampling
        if not isinstance(noise, LabelNoise):
            return None
        n_rows = assumed.noisy_rows()
        if sampling.kind == Bootstrap.kind and noise.rule not in ("majority", "present"):
            raise NotCovered(
                static_message("leaves that name a class only, of trees that drew their rows")
            )
        return partial(cls, n_rows=n_rows, noise=noise, sampling=sampling.kind)

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        return self.kind + HOW_ROWS_CAME.get(self.sampling, "")

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give 1 for each class that a leaf names, and 0 for the others."""
        law = Named(self.noise, known_rows=self.sampling == AllRows.kind)
        named = leaf_counts(self.geometry.release.trees) > 0
        return (LinearConstraints(LABELS, named.astype(np.int64), law),)

    def contradiction(self) -> Contradiction | None:
        """Any leaf may name any class, if the noise is large enough."""
        return None


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
