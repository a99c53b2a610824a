"""Compiled loops over grid points and trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit


@njit()
def _first(point: int, radix: Any) -> Any:
    """Atom of each attribute at a grid point."""
    atom = np.zeros(len(radix), dtype=np.int32)
    for a in range(len(radix) - 1, -1, -1):
        atom[a] = point % radix[a]
        point //= radix[a]
    return atom


@njit()
def _next(atom: Any, radix: Any) -> None:
    """Go on to the next grid point."""
    a = len(radix) - 1
    while a >= 0:
        atom[a] += 1
        if atom[a] < radix[a]:
            break
        atom[a] = 0
        a -= 1


@njit()
def mark_open(start: int, stop: int, radix: Any, mask: Any, everyone: Any, trees: Any) -> Any:
    """Classes still possible at each grid point from ``start`` to ``stop``, as bits."""
    root, attribute, table, left, right, goes_left = trees
    atom = _first(start, radix)
    out = np.zeros(stop - start, dtype=np.uint64)
    for p in range(stop - start):
        possible = everyone
        for t in range(len(root)):
            v = root[t]
            while attribute[v] >= 0:
                v = left[v] if goes_left[table[v] + atom[attribute[v]]] else right[v]
            possible &= mask[left[v]]
            if possible == 0:
                break
        out[p] = possible
        _next(atom, radix)
    return out


@njit()
def signatures(atoms: Any, trees: Any) -> Any:
    """Leaf of each point in every tree, as rows of A."""
    root, attribute, table, left, right, goes_left = trees
    out = np.empty((len(atoms), len(root)), dtype=np.int32)
    for t in range(len(root)):
        for p in range(len(atoms)):
            v = root[t]
            while attribute[v] >= 0:
                v = left[v] if goes_left[table[v] + atoms[p, attribute[v]]] else right[v]
            out[p, t] = left[v]
    return out


@njit()
def mark_drawable(start: int, stop: int, radix: Any, set_of: Any, sets: Any, trees: Any) -> Any:
    """Classes as which some row may lie at each grid point, as bits.

    ``sets[set_of[v, c]]`` are the rows that leaf v leaves open for class c, as bits.
    """
    root, attribute, table, left, right, goes_left = trees
    n_classes, width = set_of.shape[1], sets.shape[1]
    atom = _first(start, radix)
    out = np.zeros(stop - start, dtype=np.uint64)
    leaf = np.empty(len(root), dtype=np.int32)
    rows = np.empty(width, dtype=np.uint64)
    for p in range(stop - start):
        walked = 0
        for c in range(n_classes):
            rows[:] = ~np.uint64(0)
            some = True
            for t in range(len(root)):
                if t == walked:
                    v = root[t]
                    while attribute[v] >= 0:
                        v = left[v] if goes_left[table[v] + atom[attribute[v]]] else right[v]
                    leaf[t] = left[v]
                    walked += 1
                set_number = set_of[leaf[t], c]
                left_over = np.uint64(0)
                for w in range(width):
                    rows[w] &= sets[set_number, w]
                    left_over |= rows[w]
                if left_over == 0:
                    some = False
                    break
            if some:
                out[p] |= np.uint64(1) << np.uint64(c)
        _next(atom, radix)
    return out
