"""Compiled loops over trees as bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.bits import lowest_bit
from treeleak.core.compiled import njit


@njit()
def number_leaves(attribute: Any, left: Any, right: Any) -> Any:
    """Leaves under each node, numbered from the left in each tree: the first, and the one behind.

    Children stand behind their parents.
    """
    n = len(attribute)
    size = np.ones(n, dtype=np.int32)
    for v in range(n - 1, -1, -1):
        if attribute[v] >= 0:
            size[v] = size[left[v]] + size[right[v]]
    begin = np.zeros(n, dtype=np.int32)
    for v in range(n):
        if attribute[v] >= 0:
            begin[left[v]] = begin[v]
            begin[right[v]] = begin[v] + size[left[v]]
    return begin, begin + size


@njit()
def close_leaves(trees: Any, begin: Any, end: Any, start: Any, radix: Any, open_: Any) -> None:
    """Close, for every atom that goes right at a node, the leaves on the left; in place."""
    root, attribute, table, left, _, goes_left = trees
    t = -1
    for v in range(len(attribute)):
        if t + 1 < len(root) and root[t + 1] == v:
            t += 1
        a = attribute[v]
        if a < 0:
            continue
        low, high = begin[left[v]], end[left[v]]
        for k in range(radix[a]):
            if not goes_left[table[v] + k]:
                for leaf in range(low, high):
                    open_[start[a] + k, t, leaf >> 6] &= ~(np.uint64(1) << np.uint64(leaf & 63))


@njit()
def leaves_of(atoms: Any, start: Any, open_: Any, first: Any) -> Any:
    """Leaf of each row in every tree."""
    n_trees, n_words = open_.shape[1], open_.shape[2]
    out = np.empty((len(atoms), n_trees), dtype=np.int32)
    for i in range(len(atoms)):
        for t in range(n_trees):
            for w in range(n_words):
                word = ~np.uint64(0)
                for a in range(atoms.shape[1]):
                    word &= open_[start[a] + atoms[i, a], t, w]
                if word != 0:
                    out[i, t] = first[t] + 64 * w + lowest_bit(word)
                    break
    return out


@njit()
def around(atoms: Any, start: Any, open_: Any, drawn: Any) -> Any:
    """Lowest and highest atom of each row and attribute that keep it in the leaves of its trees."""
    n_rows, n_attributes = atoms.shape
    n_trees, n_words = open_.shape[1], open_.shape[2]
    out = np.empty((2, n_rows, n_attributes), dtype=np.int64)
    # Leaves that the attributes before one leave open, and those from each on.
    before, others, leaf = np.empty((3, n_trees, n_words), dtype=np.uint64)
    behind = np.full((n_attributes + 1, n_trees, n_words), ~np.uint64(0))
    for i in range(n_rows):
        before[:] = ~np.uint64(0)
        for a in range(n_attributes - 1, 0, -1):
            behind[a] = behind[a + 1] & open_[start[a] + atoms[i, a]]
        for a in range(n_attributes):
            position = start[a] + atoms[i, a]
            others[:] = before & behind[a + 1]
            leaf[:] = others & open_[position]
            for side in range(2):
                k, last = position, start[a + side] - side
                step = 2 * side - 1
                while k != last and _same_leaves(leaf, others & open_[k + step], drawn[i]):
                    k += step
                out[side, i, a] = k - start[a]
            before &= open_[position]
    return out


@njit()
def _same_leaves(one: Any, two: Any, drawn: Any) -> Any:
    """Whether the lowest leaf that is open is the same in every tree that drew the row."""
    for t in range(len(one)):
        if drawn[t]:
            for w in range(one.shape[1]):
                x, y = one[t, w], two[t, w]
                if x & (~x + np.uint64(1)) != y & (~y + np.uint64(1)):
                    return False
                if x != 0:
                    break
    return True
