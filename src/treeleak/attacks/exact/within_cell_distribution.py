"""Which points of a cell are likely, learned from the rows of all cells.

Trees do not tell the points of a cell apart. But they do in other cells, and columns depend on each
other: a government job rules out a private one wherever a row says so.
"""

from __future__ import annotations

import numpy as np

from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.decisions import on_grid
from treeleak.partition.value_index import ValueIndex

_ROUNDS = 4
_LARGE = 2**22
"""Atoms of all points together from which nothing is learned: it would take seconds."""

_TAIL = 4.0
"""Standard deviations above the rows due at a point, from which no more are thought of."""


def likely_points(
    atoms: IntArray, cell: IntArray, m: IntArray, values: ValueIndex
) -> FloatArray | None:
    """Log probability of each point, by a tree of Chow and Liu and the rows in each cell.

    Expectation and maximisation take turns: the rows of a cell are shared out to its points, and
    the tree is fitted to these shares. None where there are too many points, or no rows.

    Parameters
    ----------
    atoms : int array, shape (n_points, n_attributes + 1)
        Numbered over all attributes.
    cell : int array, shape (n_points,)
    m : int array, shape (n_cells,)
        Rows in each cell.
    """
    if atoms.size > _LARGE or not m[cell].any():
        return None
    rows, radix = atoms - values.atom_start[:-1], np.diff(values.atom_start)
    log = np.zeros(len(rows))
    for _ in range(_ROUNDS):
        highest = np.full(len(m), -np.inf)
        np.maximum.at(highest, cell, log)
        mass = np.exp(log - highest[cell])
        expected = mass * (m / np.maximum(np.bincount(cell, mass, len(m)), 1.0))[cell]
        tree = TreePrior.fitted(rows, expected, radix, values.atom_weights, values.bins)
        log = tree.log_prior(rows)
    return log


def most_in_common(cell: IntArray, weight: FloatArray, m: IntArray) -> IntArray:
    """Points of the rows of known cells, so that most rows are expected to be right.

    Of the m rows of a cell, each stands at a point with a chance p. Whether one more row there is
    right is whether more rows of the truth stand there than so far: a tail of a binomial law.

    Parameters
    ----------
    cell : int array, shape (n_points,)
    weight : float array, shape (n_points,)
        Chance of each point within its cell, up to a constant.
    m : int array, shape (n_cells,)

    Returns
    -------
    int array, shape (n_rows,)
    """
    from scipy.stats import binom  # Takes long to load.

    mass = np.bincount(cell, weight, len(m))
    p = np.divide(weight, mass[cell], out=np.zeros(len(cell)), where=mass[cell] > 0)
    size = m[cell]
    due = size * p
    times = np.minimum(size, np.ceil(due + _TAIL * np.sqrt(due) + 1).astype(np.int64))
    point = np.repeat(np.arange(len(cell)), times)
    before = np.arange(len(point)) - np.repeat(np.cumsum(times) - times, times)
    gain = np.asarray(binom.sf(before, size[point], p[point]))
    order = np.lexsort((-on_grid(gain), cell[point]))
    sorted_cell = cell[point[order]]
    return point[
        order[
            np.arange(len(sorted_cell)) - np.searchsorted(sorted_cell, sorted_cell) < m[sorted_cell]
        ]
    ]
