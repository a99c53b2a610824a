"""Datasets that meet exact counts, or almost, and which of their values stand in every one."""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition.value_index import ValueIndex


@dataclass(frozen=True, eq=False)
class Solution:
    """A dataset proposed by a search."""

    points: IntArray
    """Shape (n_open,). Positions of the open rows in the search space."""
    values: IntArray
    """Shape (n_anchored + n_open, n_attributes + 1). Values of the anchored rows, then of the open
    ones."""
    misfit: int


def certain(
    atoms: IntArray,
    cell_of_point: IntArray,
    live: IntArray,
    cell: IntArray,
    proved: BoolArray,
    values: ValueIndex,
) -> BoolArray:
    """Say which values of which rows stand in every solution, shape (n_rows, n_attributes + 1).

    ``atoms``, ``cell_of_point``: atoms, numbered over all attributes, and cell of each point that
    a row may take. ``live``, ``cell``, shape (n_rows,): point and cell of each row. ``proved``,
    shape (n_rows,): rows that every solution holds in their cell.
    """
    if not len(live):
        return np.zeros((0, atoms.shape[1]), dtype=bool)
    everywhere = atoms.min(axis=0) == atoms.max(axis=0)
    order = np.argsort(cell_of_point, kind="stable")
    cells, first = np.unique(cell_of_point[order], return_index=True)
    low = np.minimum.reduceat(atoms[order], first, axis=0)
    high = np.maximum.reduceat(atoms[order], first, axis=0)
    single_valued = (low == high)[np.searchsorted(cells, cell)]
    same = everywhere[None, :] | (single_valued & proved[:, None])
    out: BoolArray = same & values.single_valued[atoms[live]]
    return out
