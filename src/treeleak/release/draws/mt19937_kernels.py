"""NumPy's legacy generator (``RandomState``, the Mersenne Twister), compiled.

NumPy froze the stream of ``RandomState`` for good, and scikit-learn draws from it; only a search
that sets a new seed a million times needs it compiled. Each function that draws takes the same
description of how a tree draws its rows:

- ``before``: the tree first draws a number from 0 to m for each m listed here (its columns);
- ``apart``: it draws each of those again until all of them differ;
- ``n_rows``, ``n_draws``: then it draws rows, with replacement;
- ``cdf``: with these cumulative probabilities, or evenly if empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit

SIZE = 624
SHIFT = 397
# Seeds of trees lie below this: the largest number of 32 bits with a sign.
SEED_END = 2**31 - 1


@njit()
def _new_state() -> Any:
    """Room for the state, the numbers made of it, and how many of those are used."""
    return np.zeros(2 * SIZE + 1, dtype=np.uint32)


@njit()
def _start(state: Any, seed: Any) -> None:
    last = np.uint32(seed)
    state[0] = last
    for i in range(1, SIZE):
        last = np.uint32(np.uint32(1812433253) * (last ^ (last >> np.uint32(30))) + np.uint32(i))
        state[i] = last
    state[2 * SIZE] = SIZE


@njit()
def _twisted(here: Any, follow: Any, ahead: Any) -> Any:
    mixed = (here & np.uint32(0x80000000)) | (follow & np.uint32(0x7FFFFFFF))
    odd = np.uint32(0) - np.uint32(mixed & np.uint32(1))
    return ahead ^ (mixed >> np.uint32(1)) ^ (np.uint32(odd) & np.uint32(0x9908B0DF))


@njit()
def _refill(state: Any) -> None:
    for i in range(SIZE - SHIFT):
        state[i] = _twisted(state[i], state[i + 1], state[i + SHIFT])
    for i in range(SIZE - SHIFT, SIZE - 1):
        state[i] = _twisted(state[i], state[i + 1], state[i + SHIFT - SIZE])
    state[SIZE - 1] = _twisted(state[SIZE - 1], state[0], state[SHIFT - 1])
    for i in range(SIZE):
        x = state[i]
        x ^= x >> np.uint32(11)
        x ^= np.uint32(x << np.uint32(7)) & np.uint32(0x9D2C5680)
        x ^= np.uint32(x << np.uint32(15)) & np.uint32(0xEFC60000)
        state[SIZE + i] = x ^ (x >> np.uint32(18))
    state[2 * SIZE] = 0


@njit()
def _next(state: Any) -> Any:
    if state[2 * SIZE] == SIZE:
        _refill(state)
    used = state[2 * SIZE]
    state[2 * SIZE] = used + np.uint32(1)
    return state[np.uint64(SIZE) + np.uint64(used)]


@njit()
def _mask(most: int) -> Any:
    mask = np.uint32(most)
    for shift in (1, 2, 4, 8, 16):
        mask |= mask >> np.uint32(shift)
    return np.uint32(mask)


@njit()
def _up_to(state: Any, most: int) -> Any:
    """Draw a number from 0 to ``most``, as ``randint`` and ``shuffle`` do."""
    if most == 0:
        return 0
    mask = _mask(most)
    x = np.int64(_next(state) & mask)
    while x > most:
        x = np.int64(_next(state) & mask)
    return x


@njit()
def _draw(state: Any, n_rows: int, n_draws: int, cdf: Any, rows: Any) -> Any:
    """Draw at most so many rows into ``rows``, and return how many.

    For whoever draws nothing else from this state: what is left of a block is lost.
    """
    n = min(n_draws, SIZE)
    if len(cdf) > 0:
        for i in range(n):
            high = np.float64(_next(state) >> np.uint32(5))
            low = np.float64(_next(state) >> np.uint32(6))
            share = (high * 67108864.0 + low) / 9007199254740992.0
            rows[i] = np.searchsorted(cdf, share, side="right")
        return n
    if n_rows == 1:
        rows[:n] = 0
        return n
    if state[2 * SIZE] == SIZE:
        _refill(state)
    top, mask = np.uint32(n_rows - 1), _mask(n_rows - 1)
    n_accepted = np.int64(0)
    # No branch: a number that is too large is written over by the next one.
    for i in range(SIZE + np.int64(state[2 * SIZE]), 2 * SIZE):
        row = np.uint32(state[i] & mask)
        rows[n_accepted] = row
        n_accepted += np.int64(row <= top)
    state[2 * SIZE] = SIZE
    return min(n_accepted, n)


@njit()
def _start_tree(state: Any, seed: Any, before: Any, apart: bool, marks: Any) -> None:
    """Set a tree's seed and draw its columns, up to where it draws rows."""
    _start(state, seed)
    if apart:
        marks[:] = False
    for most in before:
        x = _up_to(state, most)
        while apart and marks[x]:
            x = _up_to(state, most)
        if apart:
            marks[x] = True


@njit()
def _new_marks(before: Any, apart: bool) -> Any:
    return np.zeros(before[0] + 1 if apart else 0, dtype=np.bool_)


@njit()
def _count_distinct(
    state: Any, n_rows: int, n_draws: int, cdf: Any, rows: Any, seen: Any, stamp: int
) -> int:
    n = 0
    while n_draws > 0:
        drawn = _draw(state, n_rows, n_draws, cdf, rows)
        for i in range(drawn):
            n += seen[rows[i]] != stamp
            seen[rows[i]] = stamp
        n_draws -= drawn
    return n


@njit()
def distinct_rows(seeds: Any, n_rows: int, n_draws: int, before: Any, apart: bool, cdf: Any) -> Any:
    """Count the distinct rows that each tree draws."""
    state, marks, rows = _new_state(), _new_marks(before, apart), np.zeros(SIZE, dtype=np.uint32)
    seen = np.full(n_rows, -1, dtype=np.int64)
    out = np.zeros(len(seeds), dtype=np.int64)
    for t in range(len(seeds)):
        _start_tree(state, seeds[t], before, apart, marks)
        out[t] = _count_distinct(state, n_rows, n_draws, cdf, rows, seen, t)
    return out


@njit()
def tally(
    seeds: Any, n_rows: int, n_draws: int, before: Any, apart: bool, cdf: Any, out: Any
) -> bool:
    """Add up, in ``out``, how often each tree draws each row; False if its type is too small."""
    state, marks, rows = _new_state(), _new_marks(before, apart), np.zeros(SIZE, dtype=np.uint32)
    for t in range(len(seeds)):
        _start_tree(state, seeds[t], before, apart, marks)
        left = n_draws
        while left > 0:
            drawn = _draw(state, n_rows, left, cdf, rows)
            for i in range(drawn):
                out[t, rows[i]] += 1
                if out[t, rows[i]] == 0:
                    return False
            left -= drawn
    return True


@njit()
def matching(
    start: int, stop: int, seeds: Any, distinct: Any, n_rows: int, n_draws: int, before: Any,
    apart: bool, cdf: Any,
) -> Any:  # fmt: skip
    """Find what in a range gives each tree its number of distinct rows, the first two at most.

    Seeds of a forest; or, of trees with known ``seeds``, numbers of rows that are drawn evenly. A
    tree with -1 fits any number.
    """
    known = len(seeds) > 0
    forest, state, marks = _new_state(), _new_state(), _new_marks(before, apart)
    rows = np.zeros(SIZE, dtype=np.uint32)
    seen = np.full(stop if known else n_rows, -1, dtype=np.int64)
    out = np.zeros(2, dtype=np.int64)
    found = stamp = 0
    for candidate in range(start, stop):
        size = candidate if known else n_rows
        if not known:
            _start(forest, candidate)
        fits = True
        for t in range(len(distinct)):
            seed = seeds[t] if known else _up_to(forest, SEED_END - 1)
            if distinct[t] < 0:
                continue
            stamp += 1
            _start_tree(state, seed, before, apart, marks)
            if _count_distinct(state, size, n_draws, cdf, rows, seen, stamp) != distinct[t]:
                fits = False
                break
        if fits:
            out[found] = candidate
            found += 1
            if found == len(out):
                break
    return out[:found]
