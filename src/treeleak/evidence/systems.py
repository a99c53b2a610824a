"""Systems: independent sets of equations A m = n over the cells that are not dead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import IntArray
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import LinearConstraints
from treeleak.partition import Partition

NO_PLACE = "holds {held}, but the other trees and the schema leave no place for them there"
"""Why a leaf that :func:`unplaced` finds is a contradiction."""


def unplaced(n: NDArray[Any], signature: NDArray[np.int32]) -> int | None:
    """Find an equation that counts rows, but in which no cell stands.

    ``n``, shape (n_equations,); ``signature``, shape (n_cells, n_trees): as in
    :class:`CountSystem`.
    """
    reached = np.zeros(len(n), dtype=bool)
    reached[signature.ravel()] = True
    short = np.flatnonzero((n > 0) & ~reached)
    return int(short[0]) if len(short) else None


@dataclass(frozen=True, eq=False)
class CountSystem:
    """Find whole numbers m >= 0 with A m = n: rows of some classes over some points.

    Points are grid points with a class; those with equal signature and the same equations are
    one column of A.
    """

    name: str
    """For messages, for example ``"class 1"``."""
    points: IntArray
    """Shape (n_points,). Grid points."""
    label: IntArray
    """Shape (n_points,). Class of each point."""
    cell: IntArray
    """Shape (n_points,). Column of A of each point."""
    signature: NDArray[np.int32]
    """Shape (n_cells, n_trees). Equations in which the cell stands, one per tree."""
    target: IntArray
    """Shape (n_equations,). n: rows in each leaf, in the order of the rows of A."""
    n_rows: int
    leaf: IntArray | None = None
    only: IntArray | None = None
    """Shape (n_equations,). Row of A and class of each equation, -1 for all of the system's; None
    where equation i is row i of A, for all."""

    def row_of(self, equation: int) -> int:
        """Row of A that an equation speaks of."""
        return equation if self.leaf is None else int(self.leaf[equation])

    def first_of(self, row: int) -> int:
        """First equation that speaks of this row of A or of a later one."""
        return row if self.leaf is None else int(np.searchsorted(self.leaf, row))

    def held(self, equation: int, classes: tuple[Any, ...]) -> str:
        """What an equation counts, in words."""
        c = -1 if self.only is None else int(self.only[equation])
        what = self.name if c < 0 else f"class {classes[c]!r}"
        return f"{self.target[equation]} rows of {what}"

    def misfit(self, m: IntArray) -> int:
        """Sum over all equations of |A m - n|."""
        return int(np.abs(self.residual(m)).sum())

    def residual(self, m: IntArray) -> IntArray:
        """A m - n."""
        used = np.flatnonzero(m)
        weights = np.repeat(m[used], self.signature.shape[1]).astype(float)
        drawn = np.bincount(self.signature[used].ravel(), weights, minlength=len(self.target))
        return np.rint(drawn).astype(np.int64) - self.target


@dataclass(frozen=True, eq=False)
class Pairs:
    """(cell, class) pairs that are not dead, and the points in them."""

    points: IntArray
    label: IntArray
    """Shape (n_points,). Grid points with a class."""
    pair: IntArray
    """Shape (n_points,). Pair of each."""
    cell: IntArray
    label_of: IntArray
    """Shape (n_pairs,). Cell and class of each pair."""

    @classmethod
    def of(cls, partition: Partition) -> Pairs:
        """Number the live pairs of a partition."""
        at, label = np.nonzero(partition.alive)
        n_classes = partition.alive.shape[1]
        key = partition.cell[at] * n_classes + label
        pairs, pair = np.unique(key, return_inverse=True)
        return cls(partition.points[at], label, pair.ravel(), *np.divmod(pairs, n_classes))


def system_of_each(
    statements: LinearConstraints, partition: Partition, n_first: int, classes: tuple[Any, ...]
) -> Iterator[CountSystem]:
    """Make a system of each class, of statements of which each is about one class.

    ``statements``: exact ones, about every leaf. ``n_first``: leaves of the first tree, which hold
    all rows together. ``classes``: their labels.
    """
    for c, label in enumerate(classes):
        at = np.flatnonzero(partition.alive[:, c])
        cells, cell = np.unique(partition.cell[at], return_inverse=True)
        yield CountSystem(
            name=f"class {label!r}",
            points=partition.points[at],
            label=np.full(len(at), c),
            cell=cell.ravel(),
            signature=partition.signature[cells],
            target=statements.right[:, c],
            n_rows=int(statements.right[:n_first, c].sum()),
        )


def system_of_all(
    statements: Sequence[LinearConstraints], partition: Partition, n_first: int
) -> CountSystem:
    """Make one system over all (cell, class) pairs: parameters as for :func:`system_of_each`."""
    pairs = Pairs.of(partition)
    leaf, only, begin, n_equations = [], [], [], 0
    for constraints in statements:
        n_leaves, n_classes = (
            len(constraints.right),
            constraints.right.shape[1] if constraints.by_class else 1,
        )
        classes = np.arange(n_classes) if constraints.by_class else np.array([-1])
        leaf.append(
            np.repeat(np.arange(constraints.first, constraints.first + n_leaves), n_classes)
        )
        only.append(np.tile(classes, n_leaves))
        begin.append(n_equations + n_classes * np.arange(n_leaves))
        n_equations += constraints.right.size
    by_class = np.concatenate(
        [np.full(len(constraints.right), constraints.by_class) for constraints in statements]
    )
    signature = partition.signature[pairs.cell]
    if by_class.any():
        shift = by_class[signature] * pairs.label_of.astype(np.int32)[:, None]
        signature = np.concatenate(begin).astype(np.int32)[signature] + shift
    return CountSystem(
        name="all classes",
        points=pairs.points,
        label=pairs.label,
        cell=pairs.pair,
        signature=signature,
        target=np.concatenate([constraints.right.ravel() for constraints in statements]),
        n_rows=int(statements[0].right[:n_first].sum()),
        leaf=np.concatenate(leaf),
        only=np.concatenate(only),
    )
