"""How many points lie in none of several boxes: splitting, components, a cache of parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["count_outside"]

Bits = NDArray[np.uint64]
Ints = NDArray[np.int64]

ONE = np.uint64(1)
ZERO = np.uint64(0)


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def _lowest(x: Any) -> int:
    """Number of the lowest bit that is set."""
    n = 0
    if x & np.uint64(0xFFFFFFFF) == ZERO:
        n += 32
        x >>= np.uint64(32)
    if x & np.uint64(0xFFFF) == ZERO:
        n += 16
        x >>= np.uint64(16)
    if x & np.uint64(0xFF) == ZERO:
        n += 8
        x >>= np.uint64(8)
    if x & np.uint64(0xF) == ZERO:
        n += 4
        x >>= np.uint64(4)
    if x & np.uint64(3) == ZERO:
        n += 2
        x >>= np.uint64(2)
    if x & ONE == ZERO:
        n += 1
    return n


@njit(cache=True)  # type: ignore[untyped-decorator]
def count_outside(
    alive: Bits,
    still: Bits,
    tests: Bits,
    start: Ints,
    allow: Bits,
    weight: Ints,
    total: Ints,
    primes: Ints,
    keys: Bits,
    kept: Ints,
    used: NDArray[np.bool_],
    exists: bool,
    steps: Ints,
    out: Ints,
) -> None:
    """Count the points that lie in none of the boxes that are alive, modulo each prime.

    Parameters
    ----------
    alive : bits over boxes
        Those that the values chosen so far do not exclude.
    still : bits over attributes
        Those of which no value was chosen.
    tests : bits over attributes, shape (n_boxes, words)
        Which attributes a box restricts.
    start, allow, weight
        Branches of attribute a are ``start[a]`` to ``start[a + 1]``: the boxes that allow its
        values (bits), and how many values they are (residues).
    total : int array, shape (n_attributes, n_primes)
        Values of each attribute.
    keys, kept, used
        The cache: parts that were counted already, by boxes and attributes.
    exists : bool
        Only say whether there is any point: 1 or 0.
    steps : int array, shape (2,)
        Calls so far, and the most that are allowed; beyond, the result is worthless.
    out : int array, shape (n_primes,)
        The result.
    """
    n_words, n_parts, n_primes = len(alive), len(still), len(primes)
    n = len(start) - 1
    steps[0] += 1
    out[:] = 0
    if steps[0] > steps[1]:
        return
    # Attributes that share a box belong together: root[a] names the component.
    root = np.full(n, -1, np.int64)
    load = np.zeros(n, np.int64)
    empty = True
    for w in range(n_words):
        x = alive[w]
        while x != ZERO:
            box = w * 64 + _lowest(x)
            x &= x - ONE
            empty = False
            left = 0
            for v in range(n_parts):
                y = tests[box, v] & still[v]
                while y != ZERO:
                    y &= y - ONE
                    left += 1
            if left == 0:
                return  # All that is left lies in this box.
            first = -1
            for v in range(n_parts):
                y = tests[box, v] & still[v]
                while y != ZERO:
                    a = v * 64 + _lowest(y)
                    y &= y - ONE
                    # A box with one test left decides most.
                    load[a] += 64 if left == 1 else (8 if left == 2 else 1)
                    if root[a] < 0:
                        root[a] = a
                    r = a
                    while root[r] != r:
                        r = root[r]
                    if first < 0:
                        first = r
                    else:
                        root[r] = first
    out[:] = 1
    for a in range(n):
        if root[a] < 0 and (still[a // 64] >> np.uint64(a % 64)) & ONE:
            for p in range(n_primes):
                out[p] = out[p] * total[a, p] % primes[p]
    if empty:
        return
    for a in range(n):
        r = a
        while root[r] >= 0 and root[r] != r:
            r = root[r]
        root[a] = root[r]
    part_alive, part_still = np.empty(n_words, np.uint64), np.empty(n_parts, np.uint64)
    deeper, rest = np.empty(n_words, np.uint64), np.empty(n_parts, np.uint64)
    below, found = np.empty(n_primes, np.int64), np.empty(n_primes, np.int64)
    for component in range(n):
        if root[component] != component:
            continue
        part_still[:] = ZERO
        best = component
        for a in range(n):
            if root[a] == component:
                part_still[a // 64] |= ONE << np.uint64(a % 64)
                if load[a] > load[best]:
                    best = a
        for w in range(n_words):
            part_alive[w] = ZERO
            x = alive[w]
            while x != ZERO:
                bit = _lowest(x)
                x &= x - ONE
                for v in range(n_parts):
                    if tests[w * 64 + bit, v] & part_still[v]:
                        part_alive[w] |= ONE << np.uint64(bit)
                        break
        h = np.uint64(1469598103934665603)
        for w in range(n_words):
            h = (h ^ part_alive[w]) * np.uint64(1099511628211)
            h ^= h >> np.uint64(29)
        for v in range(n_parts):
            h = (h ^ part_still[v]) * np.uint64(1099511628211)
            h ^= h >> np.uint64(29)
        slot = np.int64(h & np.uint64(len(used) - 1))
        same = used[slot]
        for w in range(n_words):
            same = same and keys[slot, w] == part_alive[w]
        for v in range(n_parts):
            same = same and keys[slot, n_words + v] == part_still[v]
        if same:
            found[:] = kept[slot]
        else:
            found[:] = 0
            rest[:] = part_still
            rest[best // 64] &= ~(ONE << np.uint64(best % 64))
            for b in range(start[best], start[best + 1]):
                for w in range(n_words):
                    deeper[w] = part_alive[w] & allow[b, w]
                count_outside(
                    deeper, rest, tests, start, allow, weight, total, primes, keys, kept, used,
                    exists, steps, below,
                )  # fmt: skip
                for p in range(n_primes):
                    found[p] = (found[p] + below[p] * weight[b, p]) % primes[p]
                if exists and below[0] > 0:
                    found[:] = 1
                    break
            used[slot] = True
            keys[slot, :n_words] = part_alive
            keys[slot, n_words:] = part_still
            kept[slot] = found
        nothing = True
        for p in range(n_primes):
            out[p] = out[p] * found[p] % primes[p]
            nothing = nothing and out[p] == 0
        if nothing:
            return
