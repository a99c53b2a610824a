"""Whole numbers of items whose sums are known to many digits, by meeting in the middle.

Of some kinds of rows, some of each kind may lie in a node. What the node sums up is known: how many
rows there are (or not), and two real numbers, the second of them up to a whole number. All choices
for one half of the kinds are held against all choices for the other half: that takes the root of
the work, and nothing is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.attacks.loss_sums.sum_kernels import Listed, counted, cross, extend, meet, trace
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass

MOST_LISTED = 2**22
"""Choices of a half that are listed, at most: each takes 26 bytes."""


@dataclass(frozen=True, eq=False)
class Items:
    """Things to choose, one way of several for each; the first way of each adds nothing."""

    begin: IntArray
    """Shape (n_items + 1,). Ways of item i are begin[i] to begin[i + 1] - 1."""
    rows: IntArray
    second: FloatArray
    first: FloatArray
    """Shape (n_ways,) each. What a way adds."""

    def __len__(self) -> int:
        return len(self.begin) - 1

    @property
    def ways(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """What ways add: rows, and both sums."""
        return self.rows, self.second, self.first

    @cached_property
    def item(self) -> IntArray:
        """The item of each way."""
        return np.repeat(np.arange(len(self)), self.n_ways)

    @cached_property
    def n_ways(self) -> IntArray:
        """How many ways each item has."""
        return np.diff(self.begin)

    @cached_property
    def falling(self) -> IntArray:
        """The ways of each item, those that add most first."""
        return np.lexsort((-self.rows, -self.second, self.item))

    @cached_property
    def highest(self) -> IntArray:
        """The way of each item that adds most; it has the most rows, too."""
        return np.asarray(self.falling[self.begin[:-1]])

    @cached_property
    def most(self) -> IntArray:
        """Most rows of each item."""
        return self.rows[self.highest]

    def turned(self) -> tuple[Items, IntArray]:
        """What ways leave out; and their order: the one that leaves out nothing comes first."""
        # Of several that add most, the one they are held against leaves out nothing.
        order = self.falling
        top = np.repeat(self.highest, self.n_ways)
        rows, second, first = self.ways
        return Items(
            self.begin, rows[top] - rows[order], second[top] - second[order],
            first[top] - first[order],
        ), order  # fmt: skip


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
    off_one: float = 0.0
    """By how much the first one may be off for each of the whole number."""


class _List:
    """Choices of ways for some items, each made by going on from another one."""

    def __init__(self, items: Items, room: int):
        self.items = items
        self.all: Listed = (
            np.empty(room, np.int16), np.empty(room), np.empty(room),
            np.empty(room, np.int32), np.empty(room, np.int32),
        )  # fmt: skip
        for x in self.all:
            x[0] = 0
        self.n = 1

    def extend(self, item: int, most: int, highest: float) -> bool:
        """Add the choices that take one of an item's ways; False if there is no room."""
        n = extend(self.all, self.n, *self._ways(item), most, highest)
        self.n = max(n, self.n)
        return n >= 0

    def cross(self, item: int, n: int, least: float, most: float) -> _List | None:
        """List the choices that the first ``n`` lead to, and that come to so much."""
        out = _List(self.items, 4 * len(self.all[0]))
        out.n = cross(self.all, n, *self._ways(item), least, most, out.all)
        return None if out.n < 0 else out

    def _ways(self, item: int) -> tuple[tuple[IntArray, FloatArray, FloatArray], int, int]:
        items = self.items
        begin, end = int(items.begin[item]), int(items.begin[item + 1])
        # The way that adds nothing makes no other choice.
        return items.ways, begin + 1, end

    def keys(self, n: int, each: float) -> tuple[FloatArray, FloatArray]:
        """Sums of the first ``n``: of the second and so much for each row, and the first."""
        rows, second, first = self.all[0][:n], self.all[1][:n], self.all[2][:n]
        return second + each * rows if each else second, first


def meet_in_the_middle(items: Items, sums: Sums, n_most: int = MOST_LISTED) -> IntArray | None:
    """Find choices of one way for each item that meet the sums.

    Parameters
    ----------
    items : Items
    sums : Sums
    n_most : int
        Choices of a half that are listed, at most.

    Returns
    -------
    int array, shape (n_solutions, n_items), or None if there are more choices.
        The way of each item. All solutions; or where there are too many choices, and by chance
        hardly one would meet the sums, the one that was found. None, too, where a sum is not known.
    """
    if not holds(items, sums):
        return np.zeros((0, len(items)), dtype=np.int64)
    known = sums.second, sums.first, sums.off_second, sums.off_first, sums.off_one
    if not all(np.isfinite(x).all() for x in (*known, items.second, items.first)):
        return None
    turned, n, integral, way = turned_sums(items, sums)
    by_chance = _by_chance(integral, n, turned)
    if by_chance > SCHEDULE.subset_chance:
        return None
    order = np.argsort(-integral.n_ways, kind="stable")
    halves = _halves(integral, order)
    size = max(counted(integral.begin, integral.rows, half, n).sum() for half in halves)
    found: IntArray | None
    if size <= n_most:
        found = _in_halves(integral, turned, n, halves)
    else:
        found = _in_tries(integral, turned, n, n_most, by_chance <= SCHEDULE.subset_chance_in_part)
    return None if found is None else way[found + items.begin[:-1]] - items.begin[:-1]


def holds(items: Items, sums: Sums) -> bool:
    """Whether items can have so many rows at all."""
    return sums.rows is None or bool(0 <= sums.rows <= items.most.sum())


def _in_halves(
    items: Items, sums: Sums, n: int, halves: tuple[IntArray, IntArray]
) -> IntArray | None:
    """Hold all choices for one half of the items against all for the other."""
    left, right = both = [_listed(items, sums, n, half) for half in halves]
    pairs = _pairs(left, left.n, right, right.n, sums)
    return None if pairs is None else _traced(items, both, pairs)


def _listed(items: Items, sums: Sums, n: int, part: IntArray) -> _List:
    """List all choices for some of the items, of ``n`` rows at most."""
    out = _List(items, int(counted(items.begin, items.rows, part, n).sum()) + 1)
    for item in part.tolist():
        out.extend(item, n, sums.second + sums.off_second)
    return out


def _in_tries(items: Items, sums: Sums, n: int, n_most: int, one: bool) -> IntArray | None:
    """Try some orders of the items, until all choices or the ``one`` there may be is found."""
    rng = np.random.default_rng(len(items))
    for _ in range(SCHEDULE.subset_orders):
        found, every = _from_both_ends(items, sums, n, rng.permutation(len(items)), n_most, one)
        if found is None or every or len(found):
            return found
    return None  # It lies where no try looked.


def _from_both_ends(
    items: Items, sums: Sums, n: int, order: IntArray, n_most: int, one: bool
) -> tuple[IntArray | None, bool]:
    """Hold choices for the first items against choices for the last ones.

    One item's way is where the sum comes to half: items before it add less, and those behind no
    more. So there are far fewer choices than for halves where few items are in the node. Returns
    also whether all choices were looked at.
    """
    half = sums.second / 2

    def ends(run: IntArray, highest: float) -> tuple[_List, list[int]]:
        list_ = _List(items, n_most)
        upto = [1]
        for item in run[:-1].tolist():
            if not list_.extend(item, n, highest):
                break
            upto.append(list_.n)
        return list_, upto

    (left, upto), (right, behind) = run_all([
        partial(ends, order, float(np.nextafter(half, 0.0))),
        partial(ends, order[::-1], half + sums.off_second),
    ])  # fmt: skip
    found = [np.zeros((0, len(items)), dtype=np.int64)]
    first, last = len(items) - len(behind), len(upto)
    every = first == 0 and last == len(items)
    if not (every or one):
        return None, False
    for i in range(first, last):
        middle = left.cross(int(order[i]), upto[i], half, sums.second + sums.off_second)
        if middle is None:
            return None, False
        pairs = _pairs(middle, middle.n, right, behind[len(items) - 1 - i], sums)
        if pairs is None:
            return None, False
        at, behind_at = pairs.T
        choices = _traced(items, (left, right), np.column_stack([middle.all[3][at], behind_at]))
        choices[:, order[i]] = middle.all[4][at] - items.begin[order[i]]
        found.append(choices)
    return np.concatenate(found), every


def _pairs(left: _List, n_left: int, right: _List, n_right: int, sums: Sums) -> IntArray | None:
    """Find pairs of choices that meet the sums, shape (n_pairs, 2); None if too many do."""
    # A row more weighs more than all that the second sums of a pair may be off.
    each = 0.0 if sums.rows is None else 2 * abs(sums.second) + 2 * sums.off_second + 1
    total = sums.second + each * (sums.rows or 0)
    one, other = left.keys(n_left, each), right.keys(n_right, each)
    turned = n_left > n_right
    if turned:
        one, other = other, one
    order = np.argsort(one[0], kind="stable")
    out = np.empty((SCHEDULE.subset_choices, 2), dtype=np.int64)
    k = meet(
        one[0][order], one[1][order], total - other[0], sums.first - other[1],
        sums.off_second, sums.off_first, sums.off_one, out,
    )  # fmt: skip
    if k < 0:
        return None
    pairs = np.column_stack([order[out[:k, 0]], out[:k, 1]])
    return pairs[:, ::-1] if turned else pairs


def _traced(items: Items, lists: Sequence[_List], found: IntArray) -> IntArray:
    """Say which way of each item it is, where ``found`` has one choice of each list."""
    way = np.repeat(items.begin[None, :-1], len(found), axis=0)
    for out, places in zip(way, found.tolist(), strict=True):
        for listed, at in zip(lists, places, strict=True):
            trace(listed.all[3], listed.all[4], items.item, at, out)
    return way - items.begin[:-1]


def _by_chance(items: Items, n: int, sums: Sums) -> float:
    """How many choices would meet the sums by chance."""
    ways = counted(items.begin, items.rows, np.arange(len(items)), n)
    most = items.most
    second, of_row = (x[items.highest] / np.maximum(most, 1) for x in items.ways[1:])
    number = np.arange(len(ways)) if sums.rows is None else np.array([sums.rows])
    share = number / max(most.sum(), 1)
    mean = float(most @ second) * share
    # So far apart lie sums of numbers in single precision.
    grain, grain_first = (float(np.spacing(np.float32(x.max()))) for x in (second, abs(of_row)))
    off = max(sums.off_second, grain / 2)
    second, first = (x - np.average(x, weights=np.maximum(most, 1)) for x in (second, of_row))
    spread = float(most @ second**2)
    variance = share * (1 - share) * spread + off**2
    near = np.exp(-((sums.second - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    # The second sum says much of the first one.
    slope = float(most * first @ second) / max(spread, 1e-300)
    rest = np.sqrt(2 * np.pi * share * (1 - share) * float(most @ (first - slope * second) ** 2))
    usual = share * float(most @ of_row) + slope * (sums.second - mean) - sums.first
    off_first = np.maximum(sums.off_first + sums.off_one * np.abs(np.rint(usual)), grain_first / 2)
    ones = 2 * off_first * np.maximum(1.0, 1 / np.maximum(rest, 1e-300))
    chance = np.minimum(2 * off * near, 1.0) * np.minimum(ones, 1.0)
    return float(ways[np.minimum(number, len(ways) - 1)] @ chance)


def turned_sums(items: Items, sums: Sums) -> tuple[Sums, int, Items, IntArray]:
    """Look for what is not in the node where that is less.

    Returns how many rows it has at most, and the order of the ways, too.
    """
    top = items.highest
    total = float(items.second[top].sum()), float(items.first[top].sum())
    every = int(items.most.sum())
    way = np.arange(len(items.rows))
    if 2 * sums.second > total[0] if sums.rows is None else 2 * sums.rows > every:
        items, way = items.turned()
        rows = None if sums.rows is None else every - sums.rows
        sums = replace(sums, rows=rows, second=total[0] - sums.second, first=total[1] - sums.first)
    if sums.rows is not None:
        return sums, sums.rows, items, way
    added = items.rows > 0
    each = np.where(added, items.second, np.inf) / np.maximum(items.rows, 1)
    least = np.minimum.reduceat(each, items.begin[:-1])
    order = np.argsort(least, kind="stable")
    most = np.maximum.reduceat(items.rows, items.begin[:-1])
    upto = np.cumsum(np.repeat(least[order], most[order]))
    return sums, int(np.searchsorted(upto, sums.second + sums.off_second, "right")), items, way


def _halves(items: Items, order: IntArray) -> tuple[IntArray, IntArray]:
    """Share out the items, so that there are about as many choices for both halves."""
    size, sides = [0.0, 0.0], ([], [])  # type: tuple[list[float], tuple[list[int], list[int]]]
    for k in order.tolist():
        less = int(size[1] < size[0])
        sides[less].append(k)
        size[less] += np.log2(items.n_ways[k])
    return np.array(sides[0], dtype=np.int64), np.array(sides[1], dtype=np.int64)
