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
Quarter = tuple[IntArray, FloatArray, IntArray, IntArray, IntArray]
"""Of each choice, sorted by rest: its key, the first sum, the rest; where rests begin; order."""
_MANY = 2.0**72
"""More choices than can be looked at."""
_SCATTER = np.uint64(0x9E3779B97F4A7C15)
"""Times that, numbers are scattered over all places (Knuth, The Art of Computer Programming 3,
section 6.4)."""


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
def four_way(
    a: Quarter, b: Quarter, c: Quarter, d: Quarter, modulus: int, begin: int, end: int,
    wanted: IntArray, first: float, off_first: float, off_one: float, out: IntArray,
) -> int:  # fmt: skip
    """Find choices of four quarters whose keys come to what is wanted, and the first sums, too.

    Looks at pairs of the first two quarters whose keys leave the rests begin, ..., end - 1.
    ``first``: up to a whole number. Returns how many there are in ``out``, shape (n_most, 4); -1
    if more than it can hold.
    """
    # Pairs of the first two quarters: keys that fall into one place are linked.
    n, size, shift = 0, 0, np.uint64(63)
    head, behind = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
    keys, firsts = np.empty(0, dtype=np.int64), np.empty(0)
    pair = np.empty((0, 2), dtype=np.int32)
    lowest, highest = a[0].min() + b[0].min(), wanted.max() - c[0].min() - d[0].min()
    for rest in range(begin, end):
        used = 0
        for i in range(len(a[0])):
            other = (rest - a[2][i]) % modulus
            used += b[3][other + 1] - b[3][other]
        if used > size:
            size = max(size, 16)
            while used > size:
                size *= 2
            head, behind = np.empty(2 * size, dtype=np.int32), np.empty(size, dtype=np.int32)
            keys, firsts = np.empty(size, dtype=np.int64), np.empty(size)
            pair = np.empty((size, 2), dtype=np.int32)
            shift = np.uint64(63 - int(np.log2(size)))
        head[:] = -1
        used = 0
        for i in range(len(a[0])):
            other = (rest - a[2][i]) % modulus
            for j in range(b[3][other], b[3][other + 1]):
                key = a[0][i] + b[0][j]
                if key > highest:
                    continue
                at = (np.uint64(key) * _SCATTER) >> shift
                keys[used], firsts[used] = key, a[1][i] + b[1][j] - first
                pair[used, 0], pair[used, 1] = i, j
                behind[used] = head[at]
                head[at] = used
                used += 1
        if used == 0:
            continue
        for total in wanted:
            for i in range(len(c[0])):
                other = (total - rest - c[2][i]) % modulus
                for j in range(d[3][other], d[3][other + 1]):
                    key = total - c[0][i] - d[0][j]
                    if key < lowest:
                        continue
                    e = head[(np.uint64(key) * _SCATTER) >> shift]
                    while e >= 0:
                        if keys[e] == key and _whole(
                            firsts[e] + c[1][i] + d[1][j], off_first, off_one
                        ):
                            if n == len(out):
                                return -1
                            out[n, 0], out[n, 1] = a[4][pair[e, 0]], b[4][pair[e, 1]]
                            out[n, 2], out[n, 3] = c[4][i], d[4][j]
                            n += 1
                        e = behind[e]
    return n


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
    each = np.zeros(2, np.int64)
    quarter: Any = each[:1], one, each[:1], each, each[:1]
    out = np.zeros((1, 4), np.int64)
    four_way(quarter, quarter, quarter, quarter, 1, 0, 1, each, 1.0, 1.0, 1.0, out)
    trace(listed[3], listed[4], ways[0], 0, ways[0])
