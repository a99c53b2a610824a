"""What all kinds of evidence have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, Self

import numpy as np

from treeleak.core.arrays import IntArray
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import LinearConstraints
from treeleak.evidence.sampling_assumptions import SamplingAssumptions
from treeleak.partition import Geometry
from treeleak.release.release import Release
from treeleak.release.tree import Tree


@dataclass(frozen=True)
class Contradiction:
    """Counts that no dataset meets: where, and what is wrong there."""

    tree: int
    node: int
    why: str

    def __str__(self) -> str:
        return f"tree {self.tree}, node {self.node}: {self.why}"


class Evidence(Protocol):
    """What the leaves say of the rows, given how that came about."""

    kind: ClassVar[str]
    """By which attacks are found."""

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], Self] | None:
        """Make it of the geometry of a release, or None if the release gives no such evidence.

        Raises NotCovered if it would be of this kind, and cannot be used: with the reason.
        """

    @property
    def geometry(self) -> Geometry:
        """The trees, seen from the atoms of a schema."""

    @property
    def n_rows(self) -> int:
        """N: rows of the training set, or their likeliest number."""

    @property
    def described(self) -> str:
        """What an answer says it was made from."""

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give what the leaves say, as statements about the rows in them."""

    def contradiction(self) -> Contradiction | None:
        """Find a contradiction that shows before any cell is looked at."""


MakeEvidence = Callable[[Geometry], Evidence]
"""Makes the evidence from the geometry."""


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
