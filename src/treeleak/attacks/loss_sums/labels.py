"""Classes of rows, from how many rows of its class lie in each leaf.

With the rows known, these are whole numbers, and equations between whole numbers: for each leaf,
how many of the rows in its cells are of the class that its tree speaks of. Where these leave the
classes open, the last digits of sums are equations, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.sparse import csr_array, hstack

from treeleak.attacks.loss_sums.columns import Columns
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.decisions import RANK
from treeleak.core.private import dataclass
from treeleak.evidence import CountSystem
from treeleak.evidence.class_counts_from_gradients import UNTOLD, Digits
from treeleak.partition import Partition


@dataclass(frozen=True, eq=False)
class ClassConstraints:
    """What is known of the rows."""

    leaf: NDArray[np.int32]
    """Shape (n_cells, n_trees). Leaves (rows of A) of the cells that hold rows."""
    m: IntArray
    """Shape (n_cells,). How many."""
    number: IntArray
    """Shape (n_leaves,). Rows of its tree's class in each leaf, or :data:`UNTOLD`."""
    class_of_tree: IntArray
    """Shape (n_trees,). The class that each tree speaks of."""
    n_classes: int


def the_only_classes(
    constraints: ClassConstraints, digits: Digits | None = None
) -> IntArray | None:
    """Find how many rows of each cell are of each class, shape (n_cells, n_classes).

    None where real numbers would meet the equations in more than one way, or no whole ones do.
    """
    by_class = np.zeros((len(constraints.m), constraints.n_classes), dtype=np.int64)
    classes = np.unique(constraints.class_of_tree)
    for c in classes.tolist():
        found = _of_class(constraints, constraints.class_of_tree == c, digits)
        if found is None:
            return None
        by_class[:, c] = found
    silent = np.setdiff1d(np.arange(constraints.n_classes), classes)
    if len(silent) == 1:
        by_class[:, silent[0]] = constraints.m - by_class.sum(axis=1)
    sound = (by_class >= 0).all() and (by_class.sum(axis=1) == constraints.m).all()
    return by_class if sound else None


def _of_class(
    constraints: ClassConstraints, of_trees: BoolArray, digits: Digits | None
) -> IntArray | None:
    """Solve the equations of one class: ``of_trees`` trees speak of it."""
    leaf, n_leaves = constraints.leaf[:, of_trees], len(constraints.number)
    row, at = np.repeat(np.arange(len(leaf)), leaf.shape[1]), leaf.ravel()

    def equations(values: FloatArray, right: FloatArray) -> tuple[csr_array, FloatArray]:
        A = csr_array((values, (row, at)), shape=(len(leaf), n_leaves))
        usable = np.flatnonzero(~np.isnan(right) & (np.bincount(at, minlength=n_leaves) > 0))
        return A[:, usable], right[usable]

    number = np.where(constraints.number != UNTOLD, constraints.number, np.nan).astype(float)
    A, right = equations(np.ones(len(at)), number)
    if digits is None:
        second = _solved(A, right, 0.0)
    else:
        fine, left = equations(digits.each[:, of_trees].ravel(), digits.sums)
        off = equations(np.ones(len(at)), np.where(np.isnan(digits.sums), np.nan, digits.off))[1]
        second = _solved(
            csr_array(hstack([A, fine])), np.concatenate([right, left]), float(off @ off)
        )
        if second is not None and (np.abs(fine.T @ second - left) > off).any():
            return None
    if second is None:
        return None
    sound = (
        (second >= 0).all() and (second <= constraints.m).all() and (A.T @ second == right).all()
    )
    return second if sound else None


def _solved(A: csr_array, right: FloatArray, off: float) -> IntArray | None:
    """The whole numbers x with A' x = right, where no others come within ``off``, squared."""
    values, vectors = np.linalg.eigh((A @ A.T).toarray())
    if not len(values) or values[0] <= max(RANK * values[-1], 4 * off):
        return None
    x = vectors @ ((vectors.T @ (A @ right)) / values)
    return np.asarray(np.rint(x), dtype=np.int64)


def nearest_classes(columns: Columns, m: IntArray) -> IntArray:
    """Share out rows of cells among the classes so that sums are missed by little.

    ``columns`` are those of all classes of the cells, as they follow from ``m``, shape (n_cells,):
    those of the first class first. Shape of the result: (n_cells, n_classes).
    """
    n, k = len(m), len(columns) // len(m)
    A = csr_array(columns.take(np.arange(len(columns))).T)
    first = A[:, :n]
    other = csr_array(hstack([A[:, c * n : (c + 1) * n] - first for c in range(1, k)]))
    rest = columns.right - first @ m.astype(float)
    z = (
        lsq_linear(other, rest, (0.0, np.tile(m, k - 1)), max_iter=SCHEDULE.label_rounds)
        .x.reshape(k - 1, n)
        .T
    )
    real = np.column_stack([np.maximum(m - z.sum(axis=1), 0.0), z])
    real *= (m / real.sum(axis=1))[:, None]
    whole = np.floor(real).astype(np.int64)
    # Rows that are left go where most was cut off.
    place = np.argsort(np.argsort(whole - real, axis=1, kind="stable"), axis=1, kind="stable")
    return np.asarray(whole + (place < (m - whole.sum(axis=1))[:, None]))


def system_of(
    partition: Partition,
    cells: IntArray,
    constraints: ClassConstraints,
    by_class: IntArray | None = None,
) -> CountSystem:
    """Write the equations of these cells, each class of a cell a column: the first class first.

    Where classes are known, ``by_class``, shape (n_cells, n_classes), one for each column: other
    rows may meet all numbers of leaves, and not the sums that told the classes. Else for each leaf
    two equations, or where its class is not counted, one of all rows; and one for each cell.
    """
    n, m, number = len(cells), constraints.m, constraints.number
    n_leaves, leaf, classes = len(number), constraints.leaf, range(constraints.n_classes)
    at = np.full(partition.n_cells, -1)
    at[cells] = np.arange(n)
    point = np.flatnonzero(at[partition.cell] >= 0)
    leaf_of_point = at[partition.cell[point]]
    held = np.bincount(leaf.ravel(), np.repeat(m, leaf.shape[1]), n_leaves).astype(np.int64)
    known = number != UNTOLD
    target = np.column_stack([np.where(known, held - number, held), np.where(known, number, 0)])
    sides = np.vstack([2 * leaf + known[leaf] * (constraints.class_of_tree == c) for c in classes])
    cell = np.tile(2 * n_leaves + np.arange(n), constraints.n_classes)
    signature, targets = np.column_stack([sides, cell]), np.append(target.ravel(), m)
    if by_class is not None:
        signature, targets = np.arange(by_class.size)[:, None], by_class.T.ravel()
    return CountSystem(
        name="all classes",
        points=np.tile(partition.points[point], constraints.n_classes),
        label=np.repeat(classes, len(point)),
        cell=np.concatenate([leaf_of_point + c * n for c in classes]),
        signature=signature.astype(np.int32),
        target=targets,
        n_rows=int(m.sum()),
    )
