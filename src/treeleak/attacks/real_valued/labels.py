"""Classes of rows, from how many rows of its class lie in each leaf.

With the rows known, these are whole numbers, and equations between whole numbers: for each leaf,
how many of the rows in its cells are of the class that its tree speaks of.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treeleak.core.arrays import IntArray
from treeleak.core.private import dataclass
from treeleak.evidence import CountSystem
from treeleak.evidence.positives import UNTOLD
from treeleak.partition import Partition

_FULL = 1e-9
"""Least eigenvalue of the products of columns, as a share of the greatest, for a full rank."""


@dataclass(frozen=True, eq=False)
class Told:
    """What is known of the rows."""

    leaf: NDArray[np.int32]
    """Shape (n_cells, n_trees). Leaves (rows of A) of the cells that hold rows."""
    m: IntArray
    """Shape (n_cells,). How many."""
    number: IntArray
    """Shape (n_leaves,). Rows of its tree's class in each leaf, or :data:`UNTOLD`."""
    own: IntArray
    """Shape (n_trees,). The class that each tree speaks of."""
    n_classes: int


def the_only_classes(told: Told) -> IntArray | None:
    """Find how many rows of each cell are of each class, shape (n_cells, n_classes).

    None where real numbers would meet the equations in more than one way, or no whole ones do.
    """
    by_class = np.zeros((len(told.m), told.n_classes), dtype=np.int64)
    spoken = np.unique(told.own)
    for c in spoken.tolist():
        found = _of_class(told.leaf[:, told.own == c], told.m, told.number)
        if found is None:
            return None
        by_class[:, c] = found
    silent = np.setdiff1d(np.arange(told.n_classes), spoken)
    if len(silent) == 1:
        by_class[:, silent[0]] = told.m - by_class.sum(axis=1)
    sound = (by_class >= 0).all() and (by_class.sum(axis=1) == told.m).all()
    return by_class if sound else None


def _of_class(leaf: NDArray[np.int32], m: IntArray, number: IntArray) -> IntArray | None:
    """Solve the equations of one class."""
    used, place = np.unique(leaf, return_inverse=True)
    place = place.reshape(leaf.shape)
    told = number[used] != UNTOLD
    number_of = np.where(told, np.cumsum(told) - 1, -1)
    row, at = np.nonzero(told[place])
    column = number_of[place[row, at]]
    A = csr_array((np.ones(len(row)), (row, column)), shape=(len(m), int(told.sum())))
    right = number[used][told].astype(float)
    values, vectors = np.linalg.eigh((A @ A.T).toarray())
    if not len(values) or values[0] <= _FULL * values[-1]:
        return None
    second = np.rint(vectors @ ((vectors.T @ (A @ right)) / values)).astype(np.int64)
    sound = (second >= 0).all() and (second <= m).all() and (A.T @ second == right).all()
    return second if sound else None


def system_of(partition: Partition, cells: IntArray, told: Told) -> CountSystem:
    """Write the equations of these cells, each class of a cell a column: the first class first.

    For each leaf two equations, or where its class is not counted, one of all rows; and one for
    each cell.
    """
    n, m, number = len(cells), told.m, told.number
    n_leaves, leaf, classes = len(number), told.leaf, range(told.n_classes)
    at = np.full(partition.n_cells, -1)
    at[cells] = np.arange(n)
    point = np.flatnonzero(at[partition.cell] >= 0)
    own = at[partition.cell[point]]
    held = np.bincount(leaf.ravel(), np.repeat(m, leaf.shape[1]), n_leaves).astype(np.int64)
    known = number != UNTOLD
    target = np.column_stack([np.where(known, held - number, held), np.where(known, number, 0)])
    sides = np.vstack([2 * leaf + known[leaf] * (told.own == c) for c in classes])
    cell = np.tile(2 * n_leaves + np.arange(n), told.n_classes)
    return CountSystem(
        name="all classes",
        points=np.tile(partition.points[point], told.n_classes),
        label=np.repeat(classes, len(point)),
        cell=np.concatenate([own + c * n for c in classes]),
        signature=np.column_stack([sides, cell]).astype(np.int32),
        target=np.append(target.ravel(), m),
        n_rows=int(m.sum()),
    )
