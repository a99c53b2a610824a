"""Whole numbers of items whose sums are known to many digits, by meeting in the middle.

Of some kinds of rows, some of each kind may lie in a node. What the node sums up is known: how many
rows there are (or not), and two real numbers, the second of them up to a whole number. All choices
for one half of the kinds are held against all choices for the other half: that takes the root of
the work, and nothing is missed.
"""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass

_BLOCK = 2**18
"""Choices of one half that are held against the other at once."""
_MOST_NEAR, _MOST_AT_ONCE = 2**26, 2**24
"""Pairs of choices that meet one sum, at most: in all, and at once."""
_TRIES = 6
"""Ways to share out the kinds that are tried where not all choices can be looked at."""
_LEAST_HIT = 0.3
"""Least part of all choices that each try looks at."""
_LEAST_CHANCE = 1.0
"""Choices that meet the sums by chance, at most, where not all can be looked at."""
_GRAIN = 4e-9
"""How far apart sums of numbers in single precision lie, at least."""
_MOST_CODE = 2**62
_COUNTED = 2.0**12
"""More than any sum: a key holds a count and a sum."""


@dataclass(frozen=True, eq=False)
class Sums:
    """What a node sums up over its rows."""

    rows: int | None
    """How many there are; None where that is not said."""
    second: float
    first: float
    off_second: float
    off_first: float
    """By how much each of the two may be off."""


@dataclass(frozen=True, eq=False)
class _Half:
    """All choices for some kinds."""

    rows: IntArray
    second: FloatArray
    first: FloatArray
    code: IntArray


def whole_sums(
    most: IntArray, second: FloatArray, first: FloatArray, sums: Sums, n_most: int
) -> IntArray | None:
    """Find numbers from 0 to ``most`` of each kind that meet the sums.

    Parameters
    ----------
    most : int array, shape (n_kinds,)
    second, first : float arrays, shape (n_kinds,)
        What each item of a kind adds to the two sums; ``second`` is above 0.
    sums : Sums
    n_most : int
        Choices of a half that are looked at, at most.

    Returns
    -------
    int array, shape (n_solutions, n_kinds), or None if there are more choices.
        All of them; or where there are too many choices, and by chance hardly one would meet the
        sums, the one that was found where about as many rows lie in each half as should.
    """
    turned_sums, n, turned = _turned(most, second, first, sums)
    rng = np.random.default_rng(len(most))
    order = np.argsort(-most, kind="stable")
    windows = [(0, n)]
    if max(_ways(most[half], n).sum() for half in _halves(most, order)) > n_most:
        if sums.rows is None or _by_chance(most, second, n, sums) > _LEAST_CHANCE:
            return None
        windows = []
    out = np.zeros((0, len(most)), dtype=np.int64)
    for tries in range(1 if windows else _TRIES):
        if not windows or tries:
            order = rng.permutation(len(most))
            order = order[np.argsort(-most[order], kind="stable")]
        halves = _halves(most, order)
        window = (0, n) if windows else _window([_ways(most[h], n) for h in halves], n, n_most)
        if window is None:
            return None
        parts = []
        for half, (low, high) in zip(halves, (window, (n - window[1], n - window[0])), strict=True):
            ends = (low, high) if sums.rows is not None else (0, n)
            own = _listed(most[half], second[half], first[half], ends, turned_sums, n_most)
            if own is None:
                return None
            parts.append(own)
        pairs = _pairs(parts[0], parts[1], turned_sums)
        if pairs is None:
            return None
        out = np.zeros((len(pairs), len(most)), dtype=np.int64)
        for side, half, own in zip(range(2), halves, parts, strict=True):
            code = own.code[pairs[:, side]]
            for k in half:
                code, out[:, k] = np.divmod(code, most[k] + 1)
        if len(out):
            break
    if not len(out) and not windows:
        return None  # It lies in no window that was tried.
    return most - out if turned else out


def _window(ways: list[FloatArray], n: int, n_most: int) -> tuple[int, int] | None:
    """Choose how many items the first half has, at least and at most: what is likeliest."""
    left, right = (np.append(w, np.zeros(n + 1 - len(w))) for w in ways)
    both = left * right[::-1]
    low = high = int(both.argmax())
    if max(left[low], right[n - low]) > n_most:
        return None
    while True:
        tried = [
            (both[k], k) for k in (low - 1, high + 1)
            if 0 <= k <= n and both[k] > 0
            and left[min(low, k) : max(high, k) + 1].sum() <= n_most
            and right[n - max(high, k) : n - min(low, k) + 1].sum() <= n_most
        ]  # fmt: skip
        if not tried:
            break
        _, k = max(tried)
        low, high = min(low, k), max(high, k)
    if both[low : high + 1].sum() < _LEAST_HIT * both.sum():
        return None
    return low, high


def _by_chance(most: IntArray, second: FloatArray, n: int, sums: Sums) -> float:
    """How many choices would meet the sums by chance."""
    ways = _ways(most, n)
    share = n / most.sum()
    spread = np.sqrt(2 * np.pi * share * (1 - share) * float(most @ (second - second.mean()) ** 2))
    near = min(2 * max(sums.off_second, _GRAIN) / max(spread, 1e-12), 1.0)
    return float(ways[n] * near * min(2 * max(sums.off_first, _GRAIN), 1.0))


def _turned(
    most: IntArray, second: FloatArray, first: FloatArray, sums: Sums
) -> tuple[Sums, int, bool]:
    """Look for what is not in the node where that is less: whether so, and how many at most."""
    total = float(most @ second), float(most @ first)
    every = int(most.sum())
    turned = 2 * sums.second > total[0] if sums.rows is None else 2 * sums.rows > every
    if turned:
        sums = Sums(
            None if sums.rows is None else every - sums.rows,
            total[0] - sums.second, total[1] - sums.first, sums.off_second, sums.off_first,
        )  # fmt: skip
    if sums.rows is not None:
        return sums, sums.rows, turned
    order = np.argsort(second, kind="stable")
    upto = np.cumsum(np.repeat(second[order], most[order]))
    return sums, int(np.searchsorted(upto, sums.second + sums.off_second, "right")), turned


def _halves(most: IntArray, order: IntArray) -> tuple[IntArray, IntArray]:
    """Share out the kinds, so that there are about as many choices for both halves."""
    size, sides = [0.0, 0.0], ([], [])  # type: tuple[list[float], tuple[list[int], list[int]]]
    for k in order.tolist():
        less = int(size[1] < size[0])
        sides[less].append(k)
        size[less] += np.log2(most[k] + 1.0)
    return np.array(sides[0], dtype=np.int64), np.array(sides[1], dtype=np.int64)


def _ways(most: IntArray, n: int) -> FloatArray:
    """How many choices of 0, 1, up to n items there are."""
    ways = np.ones(1)
    for r in most.tolist():
        upto = np.cumsum(np.append(ways, np.zeros(r)))
        upto[r + 1 :] -= upto[: len(upto) - r - 1].copy()
        ways = upto[: n + 1]
    return ways


def work(most: IntArray, second: FloatArray, first: FloatArray, sums: Sums) -> float:
    """Say how many choices meet the number of rows, or may: the fewer, the sooner one is found."""
    _, n, _ = _turned(most, second, first, sums)
    ways = _ways(most, n)
    return float(ways[-1] if sums.rows is not None else ways.sum())


def _listed(
    most: IntArray,
    second: FloatArray,
    first: FloatArray,
    ends: tuple[int, int],
    sums: Sums,
    n_most: int,
) -> _Half | None:
    rows, code = np.zeros(1, dtype=np.int16), np.zeros(1, dtype=np.int64)
    h, g, radix = np.zeros(1), np.zeros(1), 1
    highest = sums.second + sums.off_second
    behind = int(most.sum())
    for k, r in enumerate(most.tolist()):
        behind -= r
        if len(rows) * (r + 1) > 4 * n_most or radix > _MOST_CODE // (r + 1):
            return None
        own = []
        for c in range(r + 1):
            kept = np.flatnonzero(
                (rows + c <= ends[1]) & (rows + (c + behind) >= ends[0])
                & (h + c * second[k] <= highest)
            )  # fmt: skip
            own.append((rows[kept] + np.int16(c), h[kept] + c * second[k], g[kept] + c * first[k],
                        code[kept] + c * radix))  # fmt: skip
        rows, h, g, code = (np.concatenate(parts) for parts in zip(*own, strict=True))
        radix *= r + 1
        if len(rows) > n_most:
            return None
    # The last item runs slowest.
    return _Half(rows.astype(np.int64), h, g, code)


def _pairs(left: _Half, right: _Half, sums: Sums) -> IntArray | None:
    """Find pairs of choices that meet the sums; None if too many come near."""
    key, wanted = left.second, sums.second - right.second
    if sums.rows is not None:
        key = key + _COUNTED * left.rows
        wanted = wanted + _COUNTED * (sums.rows - right.rows)
    order = np.argsort(key, kind="stable")
    key, found, n_near = key[order], [np.zeros((0, 2), dtype=np.int64)], 0
    near = np.argsort(wanted, kind="stable")
    for begin in range(0, len(near), _BLOCK):
        own = near[begin : begin + _BLOCK]
        low = np.searchsorted(key, wanted[own] - sums.off_second, "left")
        high = np.searchsorted(key, wanted[own] + sums.off_second, "right")
        many = high - low
        n_near += int(many.sum())
        if n_near > _MOST_NEAR or many.sum() > _MOST_AT_ONCE:
            return None
        j = np.repeat(own, many)
        i = order[np.arange(len(j)) + np.repeat(low - np.cumsum(many) + many, many)]
        ones = left.first[i] + right.first[j] - sums.first
        met = np.abs(ones - np.rint(ones)) <= sums.off_first
        found.append(np.column_stack([i[met], j[met]]))
    return np.concatenate(found)
