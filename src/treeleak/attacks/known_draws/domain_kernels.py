"""Compiled loops over domains: which leaves of every tree a row may lie in, as bits.

Leaf v of tree t (a row of A) is bit ``v - leaf_start[t]`` of the words ``word_start[t]`` to
``word_start[t + 1] - 1``. The domain of a row and a class is one such line of words; it speaks of
the trees that drew the row alone.

What a leaf admits of an attribute is an interval of its atoms, ``low`` to ``high``, and maybe the
atom for a missing value; of an attribute without order, it is a set of atoms, as bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import count_bits, lowest_bit, njit

ONE, NONE = np.uint64(1), np.uint64(0)
ALL = ~np.uint64(0)


@njit()
def overlaps(
    leaf_start: Any, word_start: Any, low: Any, high: Any, gone: Any, members: Any, set_start: Any,
    radix: Any, meets: Any,
) -> None:  # fmt: skip
    """Mark which leaves of other trees have a point in common with each leaf, in place.

    ``radix`` has the atoms of each ordered attribute, without that for missing values. An interval
    meets those that begin no later than it ends, and end no sooner than it begins: of each
    attribute, the leaves are listed once by where they begin, and once by where they end. ``meets``
    begins with all bits set.
    """
    n_leaves, n_words = meets.shape
    place = np.empty((n_leaves, 2), dtype=np.int64)
    for t in range(len(leaf_start) - 1):
        for e in range(leaf_start[t], leaf_start[t + 1]):
            place[e, 0] = word_start[t] + ((e - leaf_start[t]) >> 6)
            place[e, 1] = (e - leaf_start[t]) & 63
    for a in range(low.shape[1]):
        started = np.zeros((radix[a] + 1, n_words), dtype=np.uint64)
        ended = np.zeros((radix[a] + 1, n_words), dtype=np.uint64)
        lost = np.zeros(n_words, dtype=np.uint64)
        for e in range(n_leaves):
            bit = ONE << np.uint64(place[e, 1])
            if low[e, a] <= high[e, a]:
                started[low[e, a], place[e, 0]] |= bit
                ended[high[e, a], place[e, 0]] |= bit
            if gone[e, a]:
                lost[place[e, 0]] |= bit
        for k in range(radix[a]):
            for w in range(n_words):
                started[k + 1, w] |= started[k, w]
                ended[radix[a] - 1 - k, w] |= ended[radix[a] - k, w]
        for e in range(n_leaves):
            some = low[e, a] <= high[e, a]
            if some and low[e, a] == 0 and high[e, a] == radix[a] - 1 and gone[e, a]:
                continue
            first, last = max(low[e, a], 0), min(max(high[e, a], 0), radix[a])
            for w in range(n_words):
                word = started[last, w] & ended[first, w] if some else NONE
                meets[e, w] &= word | lost[w] if gone[e, a] else word
    for s in range(len(set_start) - 1):
        begin, end = set_start[s], set_start[s + 1]
        holds = np.zeros((64 * (end - begin), n_words), dtype=np.uint64)
        for e in range(n_leaves):
            for w in range(begin, end):
                word = members[e, w]
                while word:
                    k = lowest_bit(word)
                    word &= word - ONE
                    holds[64 * (w - begin) + k, place[e, 0]] |= ONE << np.uint64(place[e, 1])
        either = np.empty(n_words, dtype=np.uint64)
        for e in range(n_leaves):
            either[:] = NONE
            for w in range(begin, end):
                word = members[e, w]
                while word:
                    k = lowest_bit(word)
                    word &= word - ONE
                    for x in range(n_words):
                        either[x] |= holds[64 * (w - begin) + k, x]
            for x in range(n_words):
                meets[e, x] &= either[x]
    for t in range(len(leaf_start) - 1):
        for e in range(leaf_start[t], leaf_start[t + 1]):
            meets[e, word_start[t] : word_start[t + 1]] = NONE
            meets[e, place[e, 0]] = ONE << np.uint64(place[e, 1])


@njit()
def join(
    rows: Any, domain: Any, drawn_start: Any, drawn: Any, leaf_start: Any, word_start: Any,
    meets: Any, changed: Any,
) -> None:  # fmt: skip
    """Make the domains of some rows consistent between trees, in place.

    A leaf stays only if every other tree that drew the row has a leaf left that meets it.

    ``drawn[drawn_start[k]:drawn_start[k + 1]]`` are the trees that drew row k; ``changed`` is set
    for rows of which leaves went. A domain that runs empty in one tree is emptied in all.
    """
    n_trees, n_words = len(leaf_start) - 1, domain.shape[2]
    size, seen = np.empty(n_trees, dtype=np.int64), np.empty(n_trees, dtype=np.int64)
    reach = np.empty(n_words, dtype=np.uint64)
    for k in rows:
        trees = drawn[drawn_start[k] : drawn_start[k + 1]]
        for c in range(domain.shape[1]):
            d = domain[k, c]
            before = 0
            for t in trees:
                seen[t] = -1
                size[t] = _size(d, word_start[t], word_start[t + 1])
                before += size[t]
            if before == 0:
                continue
            if not _joined(d, trees, leaf_start, word_start, meets, size, seen, reach):
                d[:] = NONE
                changed[k] = True
                continue
            after = 0
            for t in trees:
                after += size[t]
            if after < before:
                changed[k] = True


@njit()
def probe(
    rows: Any, domain: Any, drawn_start: Any, drawn: Any, leaf_start: Any, word_start: Any,
    meets: Any, most: int, changed: Any,
) -> None:  # fmt: skip
    """Assume each leaf of a row in turn: one that leaves some tree nothing goes, in place.

    Of trees that have no more than ``most`` leaves left.
    """
    n_trees, n_words = len(leaf_start) - 1, domain.shape[2]
    size, seen = np.empty(n_trees, dtype=np.int64), np.empty(n_trees, dtype=np.int64)
    sizes = np.empty(n_trees, dtype=np.int64)
    reach, d = np.empty(n_words, dtype=np.uint64), np.empty(n_words, dtype=np.uint64)
    for k in rows:
        trees = drawn[drawn_start[k] : drawn_start[k + 1]]
        for c in range(domain.shape[1]):
            for t in trees:
                sizes[t] = _size(domain[k, c], word_start[t], word_start[t + 1])
            for t in trees:
                if not 1 < sizes[t] <= most:
                    continue
                for w in range(word_start[t], word_start[t + 1]):
                    word = domain[k, c, w]
                    while word:
                        bit = word & (~word + ONE)
                        word &= word - ONE
                        for u in range(n_words):
                            d[u] = domain[k, c, u]
                        d[word_start[t] : word_start[t + 1]] = NONE
                        d[w] = bit
                        for s in trees:
                            # All but one tree are as consistent as they were.
                            size[s] = seen[s] = sizes[s]
                        size[t] = 1
                        if not _joined(d, trees, leaf_start, word_start, meets, size, seen, reach):
                            domain[k, c, w] &= ~bit
                            sizes[t] -= 1
                            changed[k] = True


@njit(inline=True)
def _size(d: Any, start: int, end: int) -> int:
    n = 0
    for w in range(start, end):
        n += count_bits(d[w])
    return n


@njit()
def _joined(
    d: Any,
    trees: Any,
    leaf_start: Any,
    word_start: Any,
    meets: Any,
    size: Any,
    seen: Any,
    reach: Any,
) -> bool:
    """Make one domain consistent, in place; False if a tree has no leaf left.

    Trees with few leaves come first; each pass looks from both sides: a leaf goes that some tree
    has nothing left for, and what meets none of the leaves that stay goes from all other trees.
    """
    while True:
        # The smallest domain that shrank since it was looked at, or was not looked at yet.
        t = -1
        for s in trees:
            if size[s] == 0:
                return False
            if seen[s] != size[s] and (t < 0 or size[s] < size[t]):
                t = s
        if t < 0:
            return True
        reach[:] = NONE
        for w in range(word_start[t], word_start[t + 1]):
            word = d[w]
            while word:
                i = lowest_bit(word)
                word &= word - ONE
                e = leaf_start[t] + 64 * (w - word_start[t]) + i
                stable = True
                for s in trees:
                    some = False
                    for u in range(word_start[s], word_start[s + 1]):
                        if meets[e, u] & d[u]:
                            some = True
                            break
                    if not some:
                        stable = False
                        break
                if stable:
                    for u in range(len(d)):
                        reach[u] |= meets[e, u]
                else:
                    d[w] &= ~(ONE << np.uint64(i))
                    size[t] -= 1
        seen[t] = size[t]
        for s in trees:
            if s != t:
                left = 0
                for u in range(word_start[s], word_start[s + 1]):
                    d[u] &= reach[u]
                    left += count_bits(d[u])
                size[s] = left


@njit()
def count_trees(
    trees: Any, domain: Any, draws: Any, n: Any, d: Any, leaf_start: Any, word_start: Any,
    changed: Any,
) -> int:  # fmt: skip
    """Hold the domains of all rows against the counts of some trees, in place.

    In a leaf and of a class lie rows of n draws together, and d rows: what rows must bring, and
    can bring at most, removes leaves from domains, or decides for one.

    Returns the leaf (row of A) whose counts no rows can meet, or -1.
    """
    n_rows, n_classes = domain.shape[0], domain.shape[1]
    options, first = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    single = np.empty(n_rows, dtype=np.bool_)
    for t in trees:
        begin, size = leaf_start[t], leaf_start[t + 1] - leaf_start[t]
        start, end = word_start[t], word_start[t + 1]
        must, can = np.empty((2, size, n_classes), dtype=np.int64)
        must_d, can_d = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        must_all = np.empty(size, dtype=np.int64)
        # Draws of the rows that may lie in a leaf and need not: how many have 1, 2, ... of them.
        most = 0
        for k in range(n_rows):
            most = max(most, draws[t, k])
        loose = np.empty((size, most + 1), dtype=np.int64)
        moved = True
        while moved:
            moved = False
            must[:], can[:], must_d[:], can_d[:], must_all[:], loose[:] = 0, 0, 0, 0, 0, 0
            for k in range(n_rows):
                b = draws[t, k]
                if b == 0:
                    continue
                options[k], first[k], single[k] = 0, -1, True
                for w in range(start, end):
                    for c in range(n_classes):
                        word = domain[k, c, w]
                        while word:
                            v = 64 * (w - start) + lowest_bit(word)
                            word &= word - ONE
                            options[k] += 1
                            single[k] &= first[k] < 0 or first[k] == v
                            first[k] = v
                            can[v, c] += b
                for w in range(start, end):
                    either = NONE
                    for c in range(n_classes):
                        word = domain[k, c, w]
                        either |= word
                        while word and options[k] == 1:
                            must[64 * (w - start) + lowest_bit(word), c] += b
                            word &= word - ONE
                    while either:
                        v = 64 * (w - start) + lowest_bit(either)
                        either &= either - ONE
                        can_d[v] += 1
                        if single[k]:
                            must_d[v] += 1
                            must_all[v] += b
                        else:
                            loose[v, b] += 1
            for v in range(size):
                for c in range(n_classes):
                    if must[v, c] > n[begin + v, c] or can[v, c] < n[begin + v, c]:
                        return int(begin + v)
                if len(d) and (must_d[v] > d[begin + v] or can_d[v] < d[begin + v]):
                    return int(begin + v)
            for k in range(n_rows):
                b = draws[t, k]
                if b == 0 or options[k] == 1:
                    continue
                forced_leaf, forced_class = -1, -1
                for w in range(start, end):
                    for c in range(n_classes):
                        word = domain[k, c, w]
                        while word:
                            bit = word & (~word + ONE)
                            v = 64 * (w - start) + lowest_bit(word)
                            word &= word - ONE
                            e = begin + v
                            out = must[v, c] + b > n[e, c]
                            if can[v, c] - b < n[e, c]:
                                forced_leaf, forced_class = v, c
                            if len(d) and not single[k]:
                                out |= must_d[v] >= d[e]
                                if can_d[v] <= d[e]:
                                    forced_leaf = v
                                if not out and not _fits(
                                    n[e].sum() - must_all[v], b, d[e] - must_d[v], loose[v]
                                ):
                                    out = True
                            if out:
                                domain[k, c, w] &= ~bit
                                moved = changed[k] = True
                if forced_leaf >= 0:
                    at, bit = start + (forced_leaf >> 6), ONE << np.uint64(forced_leaf & 63)
                    for c in range(n_classes):
                        for w in range(start, end):
                            keep = (
                                bit if w == at and (forced_class < 0 or forced_class == c) else NONE
                            )
                            if domain[k, c, w] & ~keep:
                                domain[k, c, w] &= keep
                                moved = changed[k] = True
    return -1


@njit(inline=True)
def _fits(left: int, b: int, open_: int, loose: Any) -> bool:
    """Whether a row of b draws may be one of those that are still to come to a leaf.

    ``open_`` rows with ``left`` draws together are; ``loose`` counts how many of those that may
    come have how many draws.
    """
    left -= b
    others = open_ - 1
    if others == 0:
        return bool(left == 0)
    least, most, few, many = 0, 0, others, others
    for x in range(1, len(loose)):
        take = min(few, loose[x] - (x == b))
        least, few = least + take * x, few - take
        y = len(loose) - x
        take = min(many, loose[y] - (y == b))
        most, many = most + take * y, many - take
    return bool(few == 0 and least <= left <= most)
