"""Classes of rows, from how many rows of the second class lie in each leaf.

With the rows known, these are whole numbers, and equations between whole numbers: for each leaf,
how many of the rows in its cells are of the second class.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treeleak.core.arrays import IntArray
from treeleak.evidence import CountSystem
from treeleak.evidence.positives import UNTOLD
from treeleak.partition import Partition

_FULL = 1e-9
"""Least eigenvalue of the products of columns, as a share of the greatest, for a full rank."""


def the_only_classes(leaf: NDArray[np.int32], m: IntArray, number: IntArray) -> IntArray | None:
    """Find how many rows of each cell are of the second class, where equations leave one answer.

    ``leaf``, shape (n_cells, n_trees); ``m``, shape (n_cells,): rows of each; ``number``, shape
    (n_leaves,): rows of the second class in each leaf, or :data:`UNTOLD`. None where real numbers
    would meet the equations in more than one way, or no whole ones do.
    """
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


def system_of(partition: Partition, cells: IntArray, m: IntArray, number: IntArray) -> CountSystem:
    """Write the equations of these cells, each class of a cell a column: the first class first.

    Parameters as for :func:`the_only_classes`, of ``cells``. For each leaf two equations, or where
    the second class is not counted, one of all rows; and one for each cell.
    """
    n, n_leaves, leaf = len(cells), len(number), partition.signature[cells]
    at = np.full(partition.n_cells, -1)
    at[cells] = np.arange(n)
    point = np.flatnonzero(at[partition.cell] >= 0)
    own = at[partition.cell[point]]
    held = np.bincount(leaf.ravel(), np.repeat(m, leaf.shape[1]), n_leaves).astype(np.int64)
    told = number != UNTOLD
    target = np.column_stack([np.where(told, held - number, held), np.where(told, number, 0)])
    sides = np.vstack([2 * leaf, 2 * leaf + told[leaf]])
    cell = np.tile(2 * n_leaves + np.arange(n), 2)
    return CountSystem(
        name="all classes",
        points=np.tile(partition.points[point], 2),
        label=np.repeat([0, 1], len(point)),
        cell=np.append(own, own + n),
        signature=np.column_stack([sides, cell]).astype(np.int32),
        target=np.append(target.ravel(), m),
        n_rows=int(m.sum()),
    )
