"""Compiled walk of rows between whose values the thresholds of a forest lie halfway.

A threshold is the middle of two values: of the rows that go left at its node the greatest, and of
those that go right the least. A test is broken where no values of the intervals that hold these two
have it in their middle. A move gives one row another interval of one column; it costs what leaves
then miss, and the tests that it breaks. Half of the moves mend a test or a count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.attacks.kernels import uniform
from treeleak.core.compiled import lowest_bit, njit

NOBODY = 2**30
"""Rank of the least row on the right where there is none; -1 stands for the greatest on the left.
"""
_MENDING, _MEETING, _NEAR, _ALIKE, _SWAPS = 0.35, 0.5, 0.7, 0.88, 0.999
"""Up to which of all draws from [0, 1) a move mends a test, brings a count nearer to what it is to
be, goes to an interval near by, goes to that of another row, and exchanges two rows' intervals. The
others move all rows of an interval."""
_TRIED = 30
"""Nodes looked at for one with a broken test."""
_HOPED = 12
"""Tests that a move may mend at most: if that were not enough, it is refused unseen."""
_NEVER = 2**20
"""Counts that a row is taken to miss where it is known not to lie."""


class Splits(NamedTuple):
    """Trees for the walk: nodes of all are numbered through; ranks are places of intervals."""

    root: Any
    left: Any
    right: Any
    """Children; -1 at leaves."""
    parent: Any
    attribute: Any
    test: Any
    """Shape (n_nodes,). Where the test of a node begins in the three tables that follow."""
    leaf: Any
    """Number of each leaf, from the left; -1 elsewhere."""
    goes: Any
    """Bool array. Whether a rank goes left."""
    low: Any
    high: Any
    """Int arrays. For each rank of the greatest row on the left, which ranks of the least one on
    the right fit the threshold."""
    radix: Any
    start: Any
    """Shape (n_attributes,). Number of ranks, and where those of an attribute begin among all."""
    barrier_start: Any
    """Shape (n_attributes, most ranks + 1)."""
    barrier_tree: Any
    """Trees that tell rank r of attribute a from the next one: those from ``barrier_start[a, r]``
    to ``barrier_start[a, r + 1] - 1``."""


class Standing(NamedTuple):
    """Rows on their walk, and what is counted of them."""

    rank: Any
    """Shape (n_rows, n_attributes)."""
    label: Any
    draws: Any
    """Shape (n_rows, n_trees). How often trees count rows."""
    span: Any
    """Shape (2, n_rows, n_attributes). Lowest and highest rank that rows may have."""
    open: Any
    """Rows that may have several ranks."""
    walls: Any
    """Shape (n_rows, n_leaves), or (0, 0). In which leaves rows are known not to lie."""
    members: Any
    """Shape (n_nodes, n_words). Rows that count at each node, as bits."""
    greatest: Any
    least: Any
    """Shape (n_nodes,). Rank of the greatest row on the left, and of the least on the right."""
    broken: Any
    """Shape (n_nodes,)."""
    residual: Any
    """Shape (n_nodes, n_classes). A m - n at leaves; with one column more of distinct rows, if they
    are counted."""
    distinct: Any
    """Whether they are."""
    total: Any
    """Shape (2,). Misfit of the leaves, and broken tests."""
    rng: Any


@njit()
def _extreme(s: Any, v: int, a: int, without: int, greatest: bool) -> Any:
    """Rank of the greatest or the least row of a node but one."""
    best = -1 if greatest else NOBODY
    for w in range(s.members.shape[1]):
        word = s.members[v, w]
        while word != np.uint64(0):
            k = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if k != without:
                r = s.rank[k, a]
                if (r > best) == greatest:
                    best = r
    return best


@njit(inline=True)
def is_broken(splits: Any, v: int, greatest: int, least: int) -> Any:
    """Say whether a test is broken (1, else 0) with these neighbours."""
    if greatest < 0 or least >= NOBODY:
        return 1
    at = splits.test[v] + greatest
    return 0 if splits.low[at] <= least <= splits.high[at] else 1


@njit()
def stand(splits: Any, s: Any) -> None:
    """Work out members, neighbours of thresholds and broken tests from the ranks."""
    s.members[:] = np.uint64(0)
    for k in range(len(s.rank)):
        for t in range(len(splits.root)):
            v = splits.root[t] if s.draws[k, t] else -1
            while v >= 0:
                s.members[v, k >> 6] |= np.uint64(1) << np.uint64(k & 63)
                if splits.left[v] < 0:
                    break
                goes = splits.goes[splits.test[v] + s.rank[k, splits.attribute[v]]]
                v = splits.left[v] if goes else splits.right[v]
    s.total[1] = 0
    for v in range(len(splits.left)):
        if splits.left[v] >= 0:
            s.greatest[v] = _extreme(s, splits.left[v], splits.attribute[v], -1, True)
            s.least[v] = _extreme(s, splits.right[v], splits.attribute[v], -1, False)
            s.broken[v] = is_broken(splits, v, s.greatest[v], s.least[v])
            s.total[1] += s.broken[v]


@njit(inline=True)
def _noted(splits: Any, s: Any, v: int, greatest: int, least: int, move: bool) -> Any:
    """Say whether a test breaks (1) or mends (-1) with other neighbours; note them if asked."""
    if greatest == s.greatest[v] and least == s.least[v]:
        return 0
    broken = is_broken(splits, v, greatest, least)
    change = broken - s.broken[v]
    if move:
        s.greatest[v], s.least[v], s.broken[v] = greatest, least, broken
    return change


@njit(inline=True)
def _grown(s: Any, gone: int, come: int, label: int, draws: int) -> Any:
    """Say by how much the misfit grows if a row leaves one leaf for another."""
    before = abs(s.residual[gone, label]) + abs(s.residual[come, label])
    after = abs(s.residual[gone, label] - draws) + abs(s.residual[come, label] + draws)
    if s.distinct:
        before += abs(s.residual[gone, -1]) + abs(s.residual[come, -1])
        after += abs(s.residual[gone, -1] - 1) + abs(s.residual[come, -1] + 1)
    return after - before


@njit()
def _shifted(splits: Any, s: Any, k: int, a: int, new: int, move: bool) -> tuple[int, int]:
    """Say how misfit and broken tests grow if a row takes another rank; move it there if asked."""
    old, label, missed, broken = s.rank[k, a], s.label[k], 0, 0
    word, bit = k >> 6, np.uint64(1) << np.uint64(k & 63)
    left, right, attribute, test = splits.left, splits.right, splits.attribute, splits.test
    goes, greatest, least = splits.goes, s.greatest, s.least
    for t in range(len(splits.root)):
        draws = s.draws[k, t]
        if draws == 0:
            continue
        v = splits.root[t]
        while left[v] >= 0:
            if attribute[v] != a:
                v = left[v] if goes[test[v] + s.rank[k, attribute[v]]] else right[v]
                continue
            side = goes[test[v] + old]
            if side != goes[test[v] + new]:
                break
            most, fewest = greatest[v], least[v]
            if side:
                if new >= most:
                    most = new
                elif old == most:
                    most = max(_extreme(s, left[v], a, k, True), new)
                broken += _noted(splits, s, v, most, fewest, move)
                v = left[v]
            else:
                if new <= fewest:
                    fewest = new
                elif old == fewest:
                    fewest = min(_extreme(s, right[v], a, k, False), new)
                broken += _noted(splits, s, v, most, fewest, move)
                v = right[v]
        if left[v] < 0:
            continue
        most, fewest = greatest[v], least[v]
        if goes[test[v] + old]:
            if old == most:
                most = _extreme(s, left[v], a, k, True)
            fewest, gone, come = min(fewest, new), left[v], right[v]
        else:
            if old == fewest:
                fewest = _extreme(s, right[v], a, k, False)
            most, gone, come = max(most, new), right[v], left[v]
        broken += _noted(splits, s, v, most, fewest, move)
        while True:
            if move:
                s.members[gone, word] &= ~bit
            if left[gone] < 0:
                break
            b = attribute[gone]
            r, most, fewest = s.rank[k, b], greatest[gone], least[gone]
            if goes[test[gone] + r]:
                if r == most:
                    most = _extreme(s, left[gone], b, k, True)
                    broken += _noted(splits, s, gone, most, fewest, move)
                gone = left[gone]
            else:
                if r == fewest:
                    fewest = _extreme(s, right[gone], b, k, False)
                    broken += _noted(splits, s, gone, most, fewest, move)
                gone = right[gone]
        while True:
            if move:
                s.members[come, word] |= bit
            if left[come] < 0:
                break
            b = attribute[come]
            r = new if b == a else s.rank[k, b]
            if goes[test[come] + r]:
                broken += _noted(splits, s, come, max(greatest[come], r), least[come], move)
                come = left[come]
            else:
                broken += _noted(splits, s, come, greatest[come], min(least[come], r), move)
                come = right[come]
        missed += _grown(s, gone, come, label, draws)
        if move:
            s.residual[gone, label] -= draws
            s.residual[come, label] += draws
            if s.distinct:
                s.residual[gone, -1] -= 1
                s.residual[come, -1] += 1
    if move:
        s.rank[k, a] = new
        s.total[0] += missed
        s.total[1] += broken
    return missed, broken


@njit()
def _missed(splits: Any, s: Any, k: int, a: int, new: int, stamp: Any, now: int) -> int:
    """Say by how much the misfit grows: looks at trees with a threshold in between only."""
    old, label, missed = s.rank[k, a], s.label[k], 0
    left, right, attribute, test = splits.left, splits.right, splits.attribute, splits.test
    goes, begin = splits.goes, splits.barrier_start[a]
    for i in range(begin[min(old, new)], begin[max(old, new)]):
        t = splits.barrier_tree[i]
        if stamp[t] == now or s.draws[k, t] == 0:
            continue
        stamp[t] = now
        gone = come = splits.root[t]
        while left[gone] >= 0:
            gone = left[gone] if goes[test[gone] + s.rank[k, attribute[gone]]] else right[gone]
        while left[come] >= 0:
            r = new if attribute[come] == a else s.rank[k, attribute[come]]
            come = left[come] if goes[test[come] + r] else right[come]
        if gone != come:
            if len(s.walls) and s.walls[k, splits.leaf[come]]:
                return _NEVER
            missed += _grown(s, gone, come, label, s.draws[k, t])
    return missed


@njit()
def _someone(s: Any, v: int, a: int, r: int) -> int:
    """Draw a row of a node, with a rank or (-1) any; -1 if there is none."""
    n, found = 0, -1
    for w in range(s.members.shape[1]):
        word = s.members[v, w]
        while word != np.uint64(0):
            k = 64 * w + lowest_bit(word)
            word &= word - np.uint64(1)
            if r < 0 or s.rank[k, a] == r:
                n += 1
                if uniform(s.rng) * n < 1.0:
                    found = k
    return found


@njit()
def _mending(splits: Any, s: Any) -> tuple[int, int, int]:
    """Draw a move that mends a broken test: a row (-1: none), an attribute and a rank."""
    v = -1
    for _ in range(_TRIED):
        at = int(uniform(s.rng) * len(s.broken))
        if s.broken[at]:
            v = at
            break
    if v < 0 or s.greatest[v] < 0 or s.least[v] >= NOBODY:
        return -1, 0, 0
    a, test, new, n = splits.attribute[v], splits.test[v], -1, 0
    if uniform(s.rng) < 0.5:
        low, high = splits.low[test + s.greatest[v]], splits.high[test + s.greatest[v]]
        if high < low:
            return -1, 0, 0
        new = low + int(uniform(s.rng) * (high - low + 1))
        # The least row must go if it lies too low; else any may come.
        bound = s.least[v] if new > s.least[v] or uniform(s.rng) < 0.5 else -1
        return _someone(s, splits.right[v], a, bound), a, new
    for r in range(splits.radix[a]):
        at = test + r
        if splits.goes[at] and splits.low[at] <= s.least[v] <= splits.high[at]:
            n += 1
            if uniform(s.rng) * n < 1.0:
                new = r
    if new < 0:
        return -1, 0, 0
    bound = s.greatest[v] if new < s.greatest[v] or uniform(s.rng) < 0.5 else -1
    return _someone(s, splits.left[v], a, bound), a, new


@njit()
def _meeting(splits: Any, s: Any) -> tuple[int, int, int]:
    """Draw a move that changes a count that is missed: a row (-1: none), an attribute and a rank.

    A row goes over the threshold of a node above the leaf: out of the leaf, or into its half.
    """
    n_nodes, n_classes = s.residual.shape
    n_classes -= 1 if s.distinct else 0
    v, at, c = -1, int(uniform(s.rng) * n_nodes), 0
    for i in range(n_nodes):
        u = (at + i) % n_nodes
        if splits.left[u] < 0:
            for b in range(n_classes):
                if s.residual[u, b] != 0:
                    v, c = u, b
            if v >= 0:
                break
    if v < 0 or splits.parent[v] < 0:
        return -1, 0, 0
    come, up = s.residual[v, c] < 0, splits.parent[v]
    is_left = splits.left[up] == v
    while splits.parent[up] >= 0 and uniform(s.rng) < 0.5:
        is_left = splits.left[splits.parent[up]] == up
        up = splits.parent[up]
    other = splits.right[up] if is_left else splits.left[up]
    k = _someone(s, other if come else v, 0, -1)
    if k < 0 or s.label[k] != c:
        return -1, 0, 0
    a, side = splits.attribute[up], is_left == come
    new, nearest, n = -1, NOBODY, 0
    far = uniform(s.rng) < 0.5
    for r in range(splits.radix[a]):
        if splits.goes[splits.test[up] + r] == side:
            if far:
                n += 1
                if uniform(s.rng) * n < 1.0:
                    new = r
            elif abs(r - s.rank[k, a]) < nearest:
                new, nearest = r, abs(r - s.rank[k, a])
    return (k if new >= 0 else -1), a, new


@njit()
def all_tried(
    splits: Any, s: Any, a: int, ranks: Any, price: float, breach: float, budget: float
) -> None:
    """Give all rows other ranks of a column; the old ones again where that costs too much."""
    was, before = s.rank[:, a].copy(), price * s.total[0] + breach * s.total[1]
    _all_ranked(splits, s, a, ranks)
    if price * s.total[0] + breach * s.total[1] - before > budget:
        _all_ranked(splits, s, a, was)


@njit()
def _all_ranked(splits: Any, s: Any, a: int, ranks: Any) -> None:
    for k in range(len(ranks)):
        if s.rank[k, a] != ranks[k]:
            _shifted(splits, s, k, a, ranks[k], True)


@njit()
def _all_moved(splits: Any, s: Any, price: float, breach: float) -> None:
    """Try to move all rows of an interval to one near by.

    Rows there stay, change places with them, or all other rows of the column move as far the other
    way: a threshold between the interval and another one keeps its middle so.
    """
    n_rows = len(s.rank)
    a = int(uniform(s.rng) * s.rank.shape[1])
    old = s.rank[int(uniform(s.rng) * n_rows), a]
    by = (1 + int(uniform(s.rng) * 3)) * (1 if uniform(s.rng) < 0.5 else -1)
    way, budget, new = int(uniform(s.rng) * 3), -np.log(1.0 - uniform(s.rng)), old + by
    if new < 0 or new >= splits.radix[a]:
        return
    ranks = s.rank[:, a].copy()
    for k in range(n_rows):
        r = ranks[k]
        if r == old:
            ranks[k] = new
        elif way == 2:
            ranks[k] = min(max(r - by, 0), splits.radix[a] - 1)
        elif way == 1 and r == new:
            ranks[k] = old
    all_tried(splits, s, a, ranks, price, breach, budget)


@njit()
def walk_between(
    splits: Any, s: Any, likes: Any, line: Any, n_moves: int, price: float, breach: float
) -> None:
    """Let rows walk.

    Datasets are as likely as exp(-price x misfit - breach x broken tests), times what rows are
    like: ``likes``, shape (n_lines, n_ranks), with the ``line`` of each row. But moves are drawn by
    what they mend, so that the walk searches, and samples no law.
    """
    n_rows, n_attributes = s.rank.shape
    stamp = np.zeros(len(splits.root), dtype=np.int64)
    hope = breach * _HOPED
    for now in range(1, 2 * n_moves, 2):
        way, budget, other = uniform(s.rng), -np.log(1.0 - uniform(s.rng)), -1
        if way < _MENDING:
            k, a, new = _mending(splits, s)
        elif way < _MEETING:
            k, a, new = _meeting(splits, s)
        elif way < _SWAPS or len(s.walls):
            k, a = s.open[int(uniform(s.rng) * len(s.open))], int(uniform(s.rng) * n_attributes)
            if way < _NEAR:
                step = 1 << int(uniform(s.rng) * 5)
                new = s.rank[k, a] + int(uniform(s.rng) * (2 * step + 1)) - step
            else:
                j = int(uniform(s.rng) * n_rows)
                new = s.rank[j, a]
                if way >= _ALIKE:
                    other = j
                    if s.label[j] != s.label[k]:
                        continue
        else:
            _all_moved(splits, s, price, breach)
            continue
        if k < 0:
            continue
        old = s.rank[k, a]
        if new == old or new < s.span[0, k, a] or new > s.span[1, k, a]:
            continue
        if other >= 0 and not s.span[0, other, a] <= old <= s.span[1, other, a]:
            continue
        cost = price * _missed(splits, s, k, a, new, stamp, now)
        begin = splits.start[a]
        if other < 0:
            # Two rows that exchange intervals change nothing of what rows of their class are like.
            cost += likes[line[k], begin + old] - likes[line[k], begin + new]
            if cost - budget <= hope:
                broken = _shifted(splits, s, k, a, new, False)[1]
                if cost + breach * broken <= budget:
                    _shifted(splits, s, k, a, new, True)
            continue
        if cost > hope + 20.0:
            continue
        missed, broken = _shifted(splits, s, k, a, new, True)
        cost = price * (missed + _missed(splits, s, other, a, old, stamp, now + 1))
        if cost + breach * broken - budget <= hope:
            broken += _shifted(splits, s, other, a, old, False)[1]
            if cost + breach * broken <= budget:
                _shifted(splits, s, other, a, old, True)
                continue
        _shifted(splits, s, k, a, old, True)
