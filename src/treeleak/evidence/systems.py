"""Systems: independent sets of equations A m = n over the cells that are not dead."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import IntArray
from treeleak.core.private import dataclass
from treeleak.partition import Partition

__all__ = ["CountSystem", "Pairs"]


@dataclass(frozen=True, eq=False)
class CountSystem:
    """Find whole numbers m >= 0 with A m = n: rows of some classes over some points.

    Points are grid points with a class; those with equal signature and the same equations are
    one column of A.

    Attributes
    ----------
    name : str
        For messages, for example ``"class 1"``.
    points : int array, shape (n_points,)
        Grid points.
    label : int array, shape (n_points,)
        Class of each point.
    cell : int array, shape (n_points,)
        Column of A of each point.
    signature : int32 array, shape (n_cells, n_trees)
        Equations in which the cell stands, one per tree.
    target : int array, shape (n_equations,)
        n: rows in each leaf, in the order of the rows of A.
    n_rows : int
    leaf, only : int array, shape (n_equations,), or None
        Row of A and class of each equation, -1 for all of the system's; None where equation i is
        row i of A, for all.
    """

    name: str
    points: IntArray
    label: IntArray
    cell: IntArray
    signature: NDArray[np.int32]
    target: IntArray
    n_rows: int
    leaf: IntArray | None = None
    only: IntArray | None = None

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

    @cached_property
    def cell_size(self) -> IntArray:
        """Points of each cell."""
        return np.bincount(self.cell, minlength=len(self.signature))

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
    """(cell, class) pairs that are not dead, and the points in them.

    Attributes
    ----------
    points, label : int arrays, shape (n_points,)
        Grid points with a class.
    pair : int array, shape (n_points,)
        Pair of each.
    cell, label_of : int arrays, shape (n_pairs,)
        Cell and class of each pair.
    """

    points: IntArray
    label: IntArray
    pair: IntArray
    cell: IntArray
    label_of: IntArray

    @classmethod
    def of(cls, partition: Partition) -> Pairs:
        """Number the live pairs of a partition."""
        at, label = np.nonzero(partition.alive)
        n_classes = partition.alive.shape[1]
        key = partition.cell[at] * n_classes + label
        pairs, pair = np.unique(key, return_inverse=True)
        return cls(partition.points[at], label, pair.ravel(), *np.divmod(pairs, n_classes))
