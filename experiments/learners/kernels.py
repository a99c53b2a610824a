"""Compiled loops over rows in bits: counting, subcubes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.core.compiled import count_bits, njit, put

ONE, TWO = np.uint64(1), np.uint64(2)
LITERALS_PER_WORD = 32


class Search(NamedTuple):
    """What is searched."""

    lists: bool
    """Rule lists, in which the rows that a literal captures are not split again; else trees."""
    least: int
    """Rows, one at least, that a rule captures, or each side of a split keeps."""


class Points(NamedTuple):
    """The different rows of which not all have one class."""

    keys: Any
    """Shape (n_points, n_key_words)."""
    minority: Any
    """Shape (n_points,). Rows outside the point's most frequent class."""


class States(NamedTuple):
    """Subcubes and the ways to split them, in arrays with room to spare."""

    keys: Any
    """Shape (room, n_key_words). Two bits for each column: whether it is 0, or 1, in all rows of
    the subcube."""
    table: Any
    """Int array. Hash table of the keys; its length is a power of two."""
    leaf: Any
    best: Any
    """Int array. Errors of a subcube that is not split, and with the best single split."""
    more: Any
    """Bool array. Whether several splits might do better."""
    start: Any
    """Int array. The splits of state ``s`` are those from ``start[s]`` to ``start[s + 1]``."""
    literal: Any
    """Int array. Of each split: twice the column, plus one if a rule captures where it is 0."""
    one: Any
    other: Any
    """Int array. The two parts: a state, or minus the error of a part that is not split, less
    one."""
    used: Any
    """Shape (2,). States, splits."""


@njit()
def _count(rows: Any, bits: Any, word: Any, n_words: int, out: Any) -> None:
    """Count in each class where each column is 1; only the words that hold any rows are given."""
    out[:] = 0
    for q in range(len(rows.columns)):
        for i in range(n_words):
            w = word[i]
            out[q, rows.word_class[w]] += count_bits(bits[i] & rows.columns[q, w])


@njit()
def _slot(keys: Any, table: Any, key: Any) -> Any:
    """Where the hash table holds this key, or would."""
    h = np.uint64(0x9E3779B97F4A7C15)
    for w in range(len(key)):
        h = (h ^ key[w]) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    mask = np.uint64(len(table) - 1)
    at = h & mask
    while table[at] >= 0:
        known = keys[table[at]]
        same = True
        for w in range(len(key)):
            if known[w] != key[w]:
                same = False
                break
        if same:
            break
        at = (at + ONE) & mask
    return at


@njit()
def insert_all(keys: Any, n: int, table: Any) -> None:
    """Fill an empty hash table with the first ``n`` keys."""
    for s in range(n):
        table[_slot(keys, table, keys[s])] = s


@njit()
def _lower_bound(points: Any, key: Any) -> Any:
    """Errors that no classifier avoids in a subcube: equal rows of different classes."""
    total = 0
    for p in range(len(points.keys)):
        inside = True
        for w in range(len(key)):
            if points.keys[p, w] & key[w] != key[w]:
                inside = False
                break
        if inside:
            total += points.minority[p]
    return total


@njit()
def add_state(count: Any, size: Any, search: Any, points: Any, states: Any) -> Any:
    """Find the state of a subcube, or make it.

    A subcube that nothing can improve is no state: its error comes back, negative and less one.

    ``count``: its rows in which each column is 1, (n_columns, n_classes). ``size``: its rows,
    (n_classes,).
    """
    n_columns, n_classes = count.shape
    n = size.sum()
    error = n - size.max()
    if error == 0 or n < (search.least if search.lists else 2 * search.least):
        return -error - 1
    key = np.zeros(states.keys.shape[1], dtype=np.uint64)
    best = error
    splits = False
    for q in range(n_columns):
        ones = count[q].sum()
        if ones == 0 or ones == n:
            side = ONE if ones == 0 else TWO
            key[q // LITERALS_PER_WORD] |= side << np.uint64(2 * (q % LITERALS_PER_WORD))
            continue
        fewer, greater = min(ones, n - ones), max(ones, n - ones)
        if (greater if search.lists else fewer) < search.least:
            continue
        splits = True
        greatest = 0
        for c in range(n_classes):
            greatest = max(greatest, size[c] - count[q, c])
        best = min(best, n - greatest - count[q].max())
    slot = _slot(states.keys, states.table, key)
    if states.table[slot] >= 0:
        return states.table[slot]
    new = states.used[0]
    states.used[0] += 1
    states.table[slot] = new
    put(states.keys[new], key)
    states.leaf[new] = error
    states.best[new] = best
    states.more[new] = splits and _lower_bound(points, key) < (best if search.lists else error)
    return new


@njit()
def expand(first: int, last: int, search: Any, rows: Any, points: Any, states: Any) -> Any:
    """Split states by every column, until ``last`` or until the arrays are full; say how far."""
    n_columns, n_all = rows.columns.shape
    n_classes = rows.word_class[-1] + 1
    bits = np.empty(n_all, dtype=np.uint64)
    part = np.empty(n_all, dtype=np.uint64)
    word = np.empty(n_all, dtype=np.int64)
    part_word = np.empty(n_all, dtype=np.int64)
    count = np.empty((n_columns, n_classes), dtype=np.int64)
    inner = np.empty((n_columns, n_classes), dtype=np.int64)
    total = np.empty(n_classes, dtype=np.int64)
    for state in range(first, last):
        room = 2 * n_columns
        if states.used[0] + room > len(states.keys) or states.used[1] + room > len(states.literal):
            return state
        states.start[state + 1] = states.used[1]
        if not states.more[state]:
            continue
        n_words = 0
        total[:] = 0
        for w in range(n_all):
            x = rows.everyone[w]
            for q in range(n_columns):
                said = states.keys[state, q // LITERALS_PER_WORD]
                said >>= np.uint64(2 * (q % LITERALS_PER_WORD))
                if said & ONE:
                    x &= ~rows.columns[q, w]
                elif said & TWO:
                    x &= rows.columns[q, w]
            if x:
                bits[n_words] = x
                word[n_words] = w
                total[rows.word_class[w]] += count_bits(x)
                n_words += 1
        _count(rows, bits, word, n_words, count)
        n = total.sum()
        for j in range(n_columns):
            ones = count[j].sum()
            fewer, greater = min(ones, n - ones), max(ones, n - ones)
            if fewer == 0 or (greater if search.lists else fewer) < search.least:
                continue
            n_part = 0
            for i in range(n_words):
                x = bits[i] & rows.columns[j, word[i]]
                if x:
                    part[n_part] = x
                    part_word[n_part] = word[i]
                    n_part += 1
            _count(rows, part, part_word, n_part, inner)
            if not search.lists:
                right = add_state(inner, count[j], search, points, states)
                left = add_state(count - inner, total - count[j], search, points, states)
                _add_edge(states, 2 * j, left, right)
                continue
            errors = ones - count[j].max(), n - ones - (total - count[j]).max()
            if ones >= search.least:
                rest = add_state(count - inner, total - count[j], search, points, states)
                _add_edge(states, 2 * j, -errors[0] - 1, rest)
            if n - ones >= search.least:
                rest = add_state(inner, count[j], search, points, states)
                _add_edge(states, 2 * j + 1, -errors[1] - 1, rest)
        states.start[state + 1] = states.used[1]
    return last


@njit()
def _add_edge(states: Any, literal: int, one: int, other: int) -> None:
    edge = states.used[1]
    states.literal[edge] = literal
    states.one[edge] = one
    states.other[edge] = other
    states.used[1] += 1


@njit()
def least_errors(states: Any, expanded: int, errors: Any) -> None:
    """Fill in the least error of each state with each number of steps.

    ``expanded``: the states before this one were split. ``errors``, shape (n_states, n_steps + 1):
    filled in for 0 and 1 steps, and for states that were not split.
    """
    for k in range(2, errors.shape[1]):
        for s in range(expanded):
            least = errors[s, 1]
            for e in range(states.start[s], states.start[s + 1]):
                a, b = states.one[e], states.other[e]
                sum_ = -a - 1 if a < 0 else errors[a, k - 1]
                sum_ += -b - 1 if b < 0 else errors[b, k - 1]
                least = min(least, sum_)
            errors[s, k] = least
