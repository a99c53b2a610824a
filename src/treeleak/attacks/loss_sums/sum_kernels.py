"""Loops over choices: lists of them, and pairs of choices that meet sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.compiled import njit

Short = NDArray[np.int16]
Places = NDArray[np.int32]
Listed = tuple[Short, FloatArray, FloatArray, Places, Places]
"""Of each choice: rows, both sums, the choice that it goes on from, and by which way."""
_MANY = 2.0**72
"""More choices than can be looked at."""


@njit()
def extend(
    listed: Listed, n: int, ways: tuple[IntArray, FloatArray, FloatArray], first: int, last: int,
    most: int, highest: float,
) -> int:  # fmt: skip
    """Go on from the first ``n`` choices by ways first, ..., last - 1, in place.

    Choices with more rows than ``most``, or a sum above ``highest``, are left out. Returns how many
    choices there are now; -1 if there is no room for them.
    """
    rows, second, one, parent, way = listed
    end = n
    for w in range(first, last):
        for e in range(n):
            if rows[e] + ways[0][w] > most or second[e] + ways[1][w] > highest:
                continue
            if end == len(rows):
                return -1
            rows[end] = rows[e] + ways[0][w]
            second[end] = second[e] + ways[1][w]
            one[end] = one[e] + ways[2][w]
            parent[end] = e
            way[end] = w
            end += 1
    return end


@njit()
def cross(
    listed: Listed, n: int, ways: tuple[IntArray, FloatArray, FloatArray], first: int, last: int,
    least: float, most: float, out: Listed,
) -> int:  # fmt: skip
    """Go on from the first ``n`` choices to those that come to ``least`` to ``most``, in ``out``.

    Returns how many there are; -1 if there is no room for them.
    """
    rows, second, one, _, _ = listed
    end = 0
    for w in range(first, last):
        for e in range(n):
            total = second[e] + ways[1][w]
            if total < least or total > most:
                continue
            if end == len(out[0]):
                return -1
            out[0][end] = rows[e] + ways[0][w]
            out[1][end] = total
            out[2][end] = one[e] + ways[2][w]
            out[3][end] = e
            out[4][end] = w
            end += 1
    return end


@njit()
def _whole(x: float, off: float, off_one: float) -> bool:
    """Whether a number is whole; off by ``off`` at most, and ``off_one`` for each of it."""
    return bool(abs(x - np.rint(x)) <= off + off_one * abs(np.rint(x)))


@njit()
def meet(
    key: FloatArray, first: FloatArray, wanted: FloatArray, wanted_first: FloatArray,
    off: float, off_first: float, off_one: float, out: IntArray,
) -> int:  # fmt: skip
    """Find pairs of which the keys are alike, and the first sums but for whole numbers.

    ``key`` is sorted. Returns how many pairs there are in ``out``, shape (n, 2); -1 if more, or if
    numbers are not finite: no place in an array follows from these.
    """
    # Where the keys of each of many intervals of the same width begin.
    n = len(key)
    if not n:
        return 0
    width = key[-1] - key[0] + off
    if not (np.isfinite(width) and width >= 0 and off >= 0):
        return -1
    scale = n / width if width > 0 else 0.0
    if not np.isfinite(scale):
        scale = 0.0
    start = np.zeros(n + 2, dtype=np.int32)
    for x in key:
        start[int((x - key[0]) * scale) + 1] += 1
    for i in range(n + 1):
        start[i + 1] += start[i]
    end = 0
    for j in range(len(wanted)):
        least = wanted[j] - off
        if not (least <= key[-1] and wanted[j] + off >= key[0]):
            continue
        at = int(max(least - key[0], 0.0) * scale)
        low, high = start[at], start[at + 1]
        while low < high:
            middle = (low + high) // 2
            if key[middle] < least:
                low = middle + 1
            else:
                high = middle
        while low < len(key) and key[low] <= wanted[j] + off:
            if _whole(first[low] - wanted_first[j], off_first, off_one):
                if end == len(out):
                    return -1
                out[end, 0] = low
                out[end, 1] = j
                end += 1
            low += 1
    return end


@njit()
def counted(begin: IntArray, rows: IntArray, items: IntArray, most: int) -> FloatArray:
    """Count the choices of a way for each of some items that have 0, 1, up to ``most`` rows.

    Counts stop where they are many.
    """
    out = np.zeros(most + 1)
    out[0] = 1.0
    for i in items:
        before = out.copy()
        # The first way has no rows.
        for w in range(begin[i] + 1, begin[i + 1]):
            for n in range(rows[w], most + 1):
                out[n] += before[n - rows[w]]
        if out.sum() > _MANY:
            break
    return out


@njit()
def trace(parent: Places, way: Places, item: IntArray, at: int, out: IntArray) -> None:
    """Write the way of each item that a choice takes, in place."""
    while at > 0:
        out[item[way[at]]] = way[at]
        at = parent[at]


def compile_all() -> None:
    """Compile all loops, in the types that they are called with."""
    places = np.zeros(1, np.int32)
    listed: Any = (np.zeros(1, np.int16), np.zeros(1), np.zeros(1), places, places)
    ways = (np.zeros(1, np.int64), np.zeros(1), np.zeros(1))
    extend(listed, 1, ways, 0, 1, 1, 1.0)
    cross(listed, 1, ways, 0, 1, 1.0, 1.0, listed)
    counted(np.zeros(2, np.int64), ways[0], ways[0], 1)
    one, none = np.zeros(1), np.zeros((1, 2), np.int64)
    meet(one, one, one, one, 1.0, 1.0, 1.0, none)
    trace(listed[3], listed[4], ways[0], 0, ways[0])
