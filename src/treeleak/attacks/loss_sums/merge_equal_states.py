"""Groups, and states, whose predictions hardly differ: they are one.

In single precision, the derivatives of such predictions are mostly the same. Which of them is a
row's, hardly any sum says; and of states that differ in that alone, all would be followed in turn.
"""

from __future__ import annotations

import numpy as np

from treeleak.attacks.loss_sums.layers import Groups
from treeleak.core.arrays import FloatArray, IntArray

_ALIKE, _NEARLY = 1e-9, 3e-8
"""How far apart predictions in a group lie, at most: before two states that differ there are
joined, and then."""


def equal_states(low: FloatArray, high: FloatArray) -> tuple[IntArray, IntArray]:
    """Number ranges of predictions that lie together: within :data:`_ALIKE`, or in one of them.

    Returns places of the lowest and the highest of each number, shape (2, n_numbers), and the
    number of each range.
    """
    order = np.argsort(low, kind="stable")
    number, ends = np.empty(len(order), dtype=np.int64), list[list[int]]()
    for i in order.tolist():
        if ends:
            begin, end = low[ends[-1][0]], high[ends[-1][1]]
            most = max(_ALIKE, end - begin, high[i] - low[i])
        if not ends or max(high[i], end) - begin > most:
            ends.append([i, i])
        elif high[i] > end:
            ends[-1][1] = i
        number[i] = len(ends) - 1
    return np.array(ends).T, number


def joined(one: Groups, other: Groups, ends: FloatArray, other_ends: FloatArray) -> Groups | None:
    """Join the groups of two states, in the order of what is predicted for their rows.

    Groups become one where the states have other rows in them. Rows of a group may lie in the
    boxes of both. ``ends``, ``other_ends``, shape (2, n_groups): lowest and highest predictions.
    Returns None if predictions would lie too far apart in a group.
    """
    both = one, other
    upto = [np.cumsum(part.rows) for part in both]
    cuts = np.intersect1d(upto[0], upto[1])
    to = [np.searchsorted(cuts, part) for part in upto]
    number, (low, high) = np.concatenate(to), np.hstack([ends, other_ends])
    lowest, highest = np.lexsort((low, number)), np.lexsort((-high, number))
    first = np.searchsorted(number[lowest], np.arange(len(cuts)))
    lowest, highest = lowest[first], highest[first]
    if (high[highest] - low[lowest] > _NEARLY).any():
        return None
    leaf = np.hstack([part.leaf for part in both])
    group = np.concatenate([t[part.group] for t, part in zip(to, both, strict=True)])
    boxes = np.column_stack([group, np.vstack([part.box for part in both])])
    every = np.unique(boxes, axis=0)
    return Groups(
        one.n_trees, np.diff(cuts, prepend=0), np.stack([leaf[0, lowest], leaf[1, highest]]),
        every[:, 1:].astype(bool), every[:, 0],
        np.where(one.held == other.held, one.held, np.nan),
    )  # fmt: skip
