"""Between which atoms a row's leaves let each of its attributes lie, and which trees that settles.

Where one leaf is left of a tree, a row that stays between these atoms stays in that leaf, and a
walk need not look at the tree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.compiled import lowest_bit, njit, put


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
    boxes, forest = domains.boxes, domains.boxes.forest
    radix, leaf_start = boxes.geometry.radix, boxes.geometry.leaf_start
    span = np.empty((2, len(closed), len(radix)), dtype=np.int64)
    decided = np.zeros((len(closed), len(leaf_start) - 1), dtype=bool)
    where = leaf_start, boxes.place, forest.set_start, forest.leaves, radix
    spans_of_rows(closed, domains.drawn, where, span, decided)
    return span, decided


def restrict_to_domains(
    constraints: RowConstraints,
    domains: Domains,
    proved: BoolArray | None = None,
    atoms: NDArray[np.int32] | None = None,
) -> RowConstraints:
    """Hold rows to the leaves that are left to them.

    ``proved``, shape (n_rows,): rows to hold to the leaves in which they are with their ``atoms``,
    shape (n_rows, n_attributes). All rows are held to those over which sums are known. Raises
    GridTooLarge if that takes too large a table.
    """
    closed = domains.closed(constraints.label, constraints.open_label)
    if proved is not None and atoms is not None:
        masks, stays = constraints.masks, (constraints.draws > 0) & proved[:, None]
        if domains.sums is not None:
            stays |= domains.sums.beside.T
        rows = stays.any(axis=1)
        is_leaf = np.repeat(stays[rows], np.diff(domains.boxes.geometry.leaf_start), 1)
        row, tree = np.nonzero(stays[rows])
        is_leaf[row, masks.row[masks.trace(atoms[rows])[row, tree]]] = False
        closed[rows] |= is_leaf.astype(np.uint8)
    span, decided = atom_intervals(domains, closed)
    return replace(constraints, closed=closed, span=span, decided=decided)


@njit()
def spans_of_rows(closed: Any, trees_of: Any, where: Any, out: Any, decided: Any) -> None:
    """Write the spans of all rows, and which trees they settle.

    ``trees_of``: the trees that drew each row, and where each row's begin. ``where``: what each
    leaf admits.
    """
    drawn_start, drawn = trees_of
    leaf_start, place, set_start, leaves, radix = where
    low, high, gone, members = leaves
    n_attributes = len(place)
    lows, highs = np.empty((2, n_attributes), dtype=np.int64)
    sets = np.empty(members.shape[1], dtype=np.uint64)
    either = np.empty(members.shape[1], dtype=np.uint64)
    for k in range(len(closed)):
        lows[:], sets[:] = 0, ~np.uint64(0)
        put(highs, radix - 1)
        trees = drawn[drawn_start[k] : drawn_start[k + 1]]
        only = np.full(len(trees), -1)
        for i in range(len(trees)):
            t, n_left = trees[i], 0
            least, most = radix.copy(), np.full(n_attributes, -1)
            either[:] = np.uint64(0)
            for e in range(leaf_start[t], leaf_start[t + 1]):
                if closed[k, e]:
                    continue
                only[i] = e if n_left == 0 else -1
                n_left += 1
                either |= members[e]
                for a in range(n_attributes):
                    p = place[a]
                    if p >= 0:
                        if low[e, p] <= high[e, p]:
                            least[a] = min(least[a], low[e, p])
                            most[a] = max(most[a], high[e, p])
                        if gone[e, p]:
                            least[a], most[a] = min(least[a], radix[a] - 1), radix[a] - 1
            sets &= either
            for a in range(n_attributes):
                if place[a] >= 0:
                    lows[a], highs[a] = max(lows[a], least[a]), min(highs[a], most[a])
        for a in range(n_attributes):
            if place[a] < 0:
                begin, end = set_start[-1 - place[a]], set_start[-place[a]]
                lows[a], highs[a] = radix[a], -1
                for w in range(begin, end):
                    word = sets[w]
                    while word:
                        v = 64 * (w - begin) + lowest_bit(word)
                        word &= word - np.uint64(1)
                        lows[a], highs[a] = min(lows[a], v), max(highs[a], v)
                highs[a] = min(highs[a], radix[a] - 1)
            if lows[a] > highs[a]:
                lows[a], highs[a] = 0, radix[a] - 1
            out[0, k, a], out[1, k, a] = lows[a], highs[a]
        for i in range(len(trees)):
            if only[i] >= 0:
                decided[k, trees[i]] = _holds(
                    only[i], leaves, place, set_start, radix, out[0, k], out[1, k]
                )


@njit()
def _holds(
    e: int, leaves: Any, place: Any, set_start: Any, radix: Any, lows: Any, highs: Any
) -> bool:
    """Whether a leaf admits all atoms of a span."""
    low, high, gone, members = leaves
    for a in range(len(place)):
        p, first, last = place[a], lows[a], highs[a]
        if p >= 0:
            # A missing value stands last.
            if gone[e, p] and last == radix[a] - 1:
                last -= 1
            if first <= last and not low[e, p] <= first <= last <= high[e, p]:
                return False
        else:
            for v in range(first, last + 1):
                word = members[e, set_start[-1 - p] + (v >> 6)]
                if not (word >> np.uint64(v & 63)) & np.uint64(1):
                    return False
    return True
