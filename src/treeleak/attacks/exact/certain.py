"""Which values of rows stand in every solution."""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.partition.values import Values


def certain(
    atoms: IntArray,
    own: IntArray,
    live: IntArray,
    cell: IntArray,
    proved: BoolArray,
    values: Values,
) -> BoolArray:
    """Say which values of which rows stand in every solution, shape (n_rows, n_attributes + 1).

    ``atoms``, ``own``: atoms, numbered over all attributes, and cell of each point that a row may
    take. ``live``, ``cell``, shape (n_rows,): point and cell of each row. ``proved``, shape
    (n_rows,): rows that every solution holds in their cell.
    """
    if not len(live):
        return np.zeros((0, atoms.shape[1]), dtype=bool)
    everywhere = atoms.min(axis=0) == atoms.max(axis=0)
    order = np.argsort(own, kind="stable")
    cells, first = np.unique(own[order], return_index=True)
    low = np.minimum.reduceat(atoms[order], first, axis=0)
    high = np.maximum.reduceat(atoms[order], first, axis=0)
    alike = (low == high)[np.searchsorted(cells, cell)]
    same = everywhere[None, :] | (alike & proved[:, None])
    out: BoolArray = same & values.settled[atoms[live]]
    return out
