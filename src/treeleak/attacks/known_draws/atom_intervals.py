"""Between which atoms a row's leaves let each of its attributes lie, and which trees that settles.

Where one leaf is left of a tree, a row that stays between these atoms stays in that leaf, and a
walk need not look at the tree.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.core.arrays import BoolArray, IntArray

_AT_ONCE = 2**22
"""Pairs of a row and a leaf that are looked at together: tens of megabytes."""


def atom_intervals(domains: Domains, closed: NDArray[np.uint8]) -> tuple[IntArray, BoolArray]:
    """Find the lowest and the highest atom of each attribute that some leaf of every tree admits.

    Parameters
    ----------
    domains : Domains
        Which trees drew each row, and what each leaf admits.
    closed : uint8 array, shape (n_rows, n_leaves)
        In which leaves (rows of A) rows do not lie; of trees that did not draw a row, nothing.

    Returns
    -------
    span : int array, shape (2, n_rows, n_attributes)
        All atoms of attributes of which nothing is left.
    settled : bool array, shape (n_rows, n_trees)
        Trees that drew the row and have one leaf that is not closed, in which all that the span
        leaves open lies.
    """
    n_rows, n_leaves = closed.shape
    span = np.empty((2, n_rows, len(domains.boxes.place)), dtype=np.int64)
    decided = np.empty((n_rows, len(domains.draws)), dtype=bool)
    size = max(_AT_ONCE // n_leaves, 1)
    for begin in range(0, n_rows, size):
        rows = slice(begin, begin + size)
        _fill(domains, rows, closed[rows] == 0, span[:, rows], decided[rows])
    return span, decided


def _fill(
    domains: Domains, rows: slice, open_: BoolArray, span: IntArray, decided: BoolArray
) -> None:
    """Write the spans of some rows, and which trees they settle."""
    boxes, geometry = domains.boxes, domains.boxes.geometry
    start, leaves = geometry.leaf_start[:-1], boxes.forest.leaves
    drawn = domains.draws.T[rows] > 0
    every = np.arange(open_.shape[1], dtype=np.int32)
    decided[:] = drawn & (np.add.reduceat(open_, start, axis=1, dtype=np.int32) == 1)
    only = np.where(decided, np.add.reduceat(open_ * every, start, axis=1), 0)
    for a, (p, radix) in enumerate(zip(boxes.place, geometry.radix, strict=True)):
        if p >= 0:
            low, high, gone = leaves.low[:, p], leaves.high[:, p], leaves.gone[:, p] != 0
            nothing = np.where(gone, radix - 1, radix)
            least = np.where(open_, np.where(low <= high, low, nothing), radix)
            most = np.where(open_, np.where(gone, radix - 1, np.where(low <= high, high, -1)), -1)
            least = np.minimum.reduceat(least, start, axis=1)
            most = np.maximum.reduceat(most, start, axis=1)
            first, last = np.where(drawn, least, 0).max(axis=1), np.where(drawn, most, radix)
            last = np.minimum(last.min(axis=1), radix - 1)
        else:
            admitted = boxes.admitted(every[:, None], a)
            inside = np.ones((len(open_), radix), dtype=bool)
            for t, (i, j) in enumerate(pairwise(geometry.leaf_start)):
                some = open_[:, i:j].astype(np.float32) @ admitted[i:j].astype(np.float32) > 0.0
                inside &= some | ~drawn[:, [t]]
            first, last = inside.argmax(axis=1), radix - 1 - inside[:, ::-1].argmax(axis=1)
            last[~inside.any(axis=1)] = -1
        empty = first > last
        span[0, :, a], span[1, :, a] = np.where(empty, 0, first), np.where(empty, radix - 1, last)
        first, last = span[0, :, a, None], span[1, :, a, None]
        if p >= 0:
            # A missing value stands last.
            last = last - (gone[only] & (last == radix - 1))
            decided &= (first > last) | ((low[only] <= first) & (last <= high[only]))
        else:
            total = np.pad(admitted.cumsum(axis=1), ((0, 0), (1, 0)))
            decided &= total[only, last + 1] - total[only, first] == last - first + 1


def restrict_to_domains(constraints: RowConstraints, domains: Domains) -> RowConstraints:
    """Hold rows to the leaves that are left to them.

    Raises GridTooLarge if that takes too large a table.
    """
    closed = domains.closed(constraints.label, constraints.open_label)
    span, decided = atom_intervals(domains, closed)
    return replace(constraints, closed=closed, span=span, decided=decided)
