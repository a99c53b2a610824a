"""How rows of groups go through the next trees: bounds for each part of a group and each node.

The first layer splits groups by the next tree. Of each group, as many rows reach a leaf as lie
between two bounds; these are parts of the group, and the second layer splits them by the tree
behind, and so on. What a node sums up narrows bounds (:func:`choices`), and bounds narrow those of
the nodes above, below and beside it, and of the layers before and behind (:func:`propagate_flows`).

Groups whose predictions hardly differ are one: the derivatives of such predictions are mostly the
same, and which of them is a row's, hardly any sum says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache

import numpy as np

from treeleak.attacks.loss_sums.meet_in_the_middle import (
    Items,
    Sums,
    holds,
    meet_in_the_middle,
    turned_sums,
)
from treeleak.attacks.loss_sums.node_totals import NodeTotals
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.attacks.loss_sums.sum_kernels import counted
from treeleak.attacks.loss_sums.tolerances import TOLERANCES
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.release.tree import Tree


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows that the sums of the first trees do not tell apart."""

    n_trees: int
    rows: IntArray
    """Shape (n_groups,)."""
    leaf: IntArray
    """Shape (2, n_groups, n_trees of the model). Leaves (rows of A) of the first trees whose
    predictions are the lowest and the highest in the group, next to the same; any behind."""
    box: BoolArray
    """Shape (n_boxes, n_atoms). Atoms of all attributes that rows in a box may have."""
    group: IntArray
    """Shape (n_boxes,). Group of each box: rows of a group may lie in any of its boxes."""
    held: FloatArray = field(default_factory=lambda: np.zeros((2, 0)))
    """Shape (2, n_leaves of the first trees). How many rows each leaf (row of A) holds, and how
    many of the second class; NaN where that does not follow."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Parts of groups before a tree, and what its nodes sum up."""

    tree: Tree
    totals: NodeTotals
    second: FloatArray
    first: FloatArray
    """Shape (n_parts,). What a row of each counts if it is of the class that is likely."""
    shift: FloatArray
    """Shape (n_parts,). By how much the first derivative of a row is rounded in another way if it
    is not."""
    blur: FloatArray
    """Shape (2, n_parts). By how much both may be off, as predictions are not quite the same."""
    parts: Groups
    """As many rows as there may be in each at most, were all others empty."""
    group: IntArray
    """Shape (n_parts,). Group of each part."""
    above: IntArray
    through: IntArray
    """Shape (n_parts,). Part of the layer before, and the node by which it left it."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """How many rows of each part must reach, and may reach, each node."""

    least: IntArray
    most: IntArray
    """Shape (n_parts, n_nodes)."""

    def copy(self) -> Bounds:
        """Copy both, to be changed in place."""
        return Bounds(self.least.copy(), self.most.copy())

    @property
    def open(self) -> BoolArray:
        """Nodes of which not all is known."""
        return np.asarray((self.most > self.least).any(axis=0))


def propagate_flows(layers: list[Layer], bounds: list[Bounds], changed: Iterable[int]) -> bool:
    """Make all bounds agree, in place; False if they contradict each other.

    ``changed``: layers whose bounds changed since they last agreed.
    """
    while changed:
        for s in changed:
            if not _along(layers[s].tree, bounds[s].least, bounds[s].most):
                return False
        changed = set()
        for s in range(len(layers) - 1, 0, -1):
            if _between(layers[s], bounds[s - 1], bounds[s]):
                changed |= {s - 1, s}
    return True


def _along(tree: Tree, least: IntArray, most: IntArray) -> bool:
    """Make bounds agree along the tree, in place: a node holds what its children do."""
    inner = np.flatnonzero(~tree.is_leaf).tolist()
    for v in inner[::-1]:
        a, b = tree.left[v], tree.right[v]
        np.minimum(most[:, v], most[:, a] + most[:, b], out=most[:, v])
        np.maximum(least[:, v], least[:, a] + least[:, b], out=least[:, v])
    for v in inner:
        for a, b in ((tree.left[v], tree.right[v]), (tree.right[v], tree.left[v])):
            np.maximum(least[:, a], least[:, v] - most[:, b], out=least[:, a])
            np.minimum(most[:, a], most[:, v] - least[:, b], out=most[:, a])
    return bool((least <= most).all())


def _between(layer: Layer, before: Bounds, bounds: Bounds) -> bool:
    """Make bounds of a layer agree with those of the layer before; whether any changed."""
    at = layer.above, layer.through
    low = np.maximum(before.least[at], bounds.least[:, 0])
    high = np.minimum(before.most[at], bounds.most[:, 0])
    changed = bool(
        (low > before.least[at]).any() or (high < before.most[at]).any()
        or (low > bounds.least[:, 0]).any() or (high < bounds.most[:, 0]).any()
    )  # fmt: skip
    before.least[at] = bounds.least[:, 0] = low
    before.most[at] = bounds.most[:, 0] = high
    return changed


def effort(layer: Layer, bounds: Bounds, groups: Groups, v: int) -> float:
    """Say how many choices a node leaves."""
    ways = _ways(layer, bounds, groups, v)
    return work(ways.items, ways.sums)


def choices(layer: Layer, bounds: Bounds, groups: Groups, v: int) -> IntArray | None:
    """Find how many rows of each part may be in a node, shape (n_choices, n_parts).

    None if there are too many.
    """
    ways = _ways(layer, bounds, groups, v)
    found = meet_in_the_middle(ways.items, ways.sums)
    if found is None:
        return None
    out = np.repeat(bounds.least[None, :, v], len(found), axis=0)
    begin = 0
    for parts, rows in ways.blocks:
        at = found[:, begin : begin + len(parts)]
        out[:, parts] += rows[at]
        begin += len(parts)
    return np.unique(out, axis=0)


@dataclass(frozen=True, eq=False)
class _Ways:
    """Ways in which rows of groups share out parts that are open at a node."""

    items: Items
    sums: Sums
    """What is left for them."""
    blocks: list[tuple[IntArray, IntArray]]
    """Items that are alike, one block behind the other: their parts, shape (n_items, n_parts), and
    the rows of these in each way, shape (n_ways, n_parts)."""


def _ways(layer: Layer, bounds: Bounds, groups: Groups, v: int) -> _Ways:
    room = bounds.most[:, v] - bounds.least[:, v]
    open_items = np.flatnonzero(room)
    held = np.bincount(layer.group, bounds.least[:, v], len(groups.rows)).astype(int)
    of = layer.group[open_items]
    order = open_items[np.argsort(of, kind="stable")]
    of, first = np.unique(layer.group[order], return_index=True)
    rooms = room[order].tolist()
    ends = [*first[1:].tolist(), len(order)]
    begins_of: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for begin, end, cap in zip(
        first.tolist(), ends, (groups.rows - held)[of].tolist(), strict=True
    ):
        room_of = tuple(rooms[begin:end])
        if _shared_out(room_of, cap) is not None:
            begins_of.setdefault((cap, room_of), []).append(begin)
            continue
        # There are too many ways to share them out: each part is for itself.
        for i, most in enumerate(room_of):
            most = min(most, cap)
            begins_of.setdefault((most, (most,)), []).append(begin + i)
    sums, second, one = left_over(layer, bounds, v)
    blocks, n_ways, added = [], [], [np.zeros((3, 0))]
    for (cap, room_of), begins in begins_of.items():
        parts = order[np.array(begins)[:, None] + np.arange(len(room_of))]
        ways = np.array(_shared_out(room_of, cap))
        blocks.append((parts, ways))
        n_ways += [len(ways)] * len(parts)
        each = np.stack([np.ones(parts.shape), second[parts], one[parts]])
        added.append((each @ ways.T).reshape(3, -1))
    rows, second, one = np.concatenate(added, axis=1)
    items = Items(np.append(0, np.cumsum(n_ways)), rows.astype(int), second, one)
    return _Ways(items, sums, blocks)


def _shared_out(room: tuple[int, ...], cap: int) -> IntArray | None:
    """List numbers of rows of parts that come to ``cap`` at most, shape (n_ways, n_parts).

    The first is no row of any part. Returns None if there are too many.
    """
    # Of one part, ways are as many as rows: too much to keep.
    return np.arange(min(*room, cap) + 1)[:, None] if len(room) == 1 else _of_several(room, cap)


@lru_cache(2**14)
def _of_several(room: tuple[int, ...], cap: int) -> IntArray | None:
    if cap == 1:
        return np.concatenate([np.zeros((1, len(room)), int), np.eye(len(room), dtype=int)])
    ways: list[tuple[int, ...]] = [()]
    for most in room:
        ways = [(*way, k) for way in ways for k in range(min(most, cap - sum(way)) + 1)]
        if len(ways) > SCHEDULE.ways_of_group:
            return None
    return np.array(ways, dtype=np.int64)


def left_over(layer: Layer, bounds: Bounds, v: int) -> tuple[Sums, FloatArray, FloatArray]:
    """What is left of a node's sums for the rows that may reach it, and need not.

    Returns the weights of the parts in both sums, too: where only the ratio of the derivatives is
    known, one sum tells it, and the other counts.
    """
    totals, least = layer.totals, bounds.least[:, v]
    n, H, G = (float(x[v]) for x in (totals.rows, totals.second, totals.first))
    off = float(totals.off_second[v]), float(totals.off_first[v])
    second, first, blur = layer.second, layer.first, layer.blur @ bounds.most[:, v]
    if np.isnan(H) or np.isnan(G):
        step, rest, off_rest = (float(x[v]) for x in (totals.step, totals.rest, totals.off_rest))
        if np.isnan(step):
            step, rest, off_rest = 0.0, 0.0, np.inf
        off = 0.5, off_rest * (1.0 + float(bounds.most[:, v] @ second))
        blur = np.array([0.0, blur[1] + abs(step) * blur[0]])
        second, first = np.ones(len(least)), first + step * second
        H, G = n, rest
    rows = None if np.isnan(n) else int(n) - int(least.sum())
    unlikely, each = _of_class(layer, bounds, np.array([v]))
    sums = Sums(
        rows, H - float(least @ second), G - float(least @ first), off[0] + float(blur[0]),
        off[1] + float(blur[1] + unlikely[0] * each[0]), float(each[0]),
    )  # fmt: skip
    return sums, second, first


def met(layer: Layer, bounds: Bounds, nodes: BoolArray) -> bool:
    """Whether settled nodes hold what they sum up."""
    totals, rows = layer.totals, bounds.least[:, nodes]
    ones = layer.first @ rows - totals.first[nodes]
    unlikely, each = _of_class(layer, bounds, np.flatnonzero(nodes))
    of_class = (unlikely + np.abs(np.rint(ones))) * each
    blur = layer.blur @ rows
    off = (
        (rows.sum(axis=0) - totals.rows[nodes], 0.5),
        (layer.second @ rows - totals.second[nodes], totals.off_second[nodes] + blur[0]),
        (ones - np.rint(ones), totals.off_first[nodes] + blur[1] + of_class),
    )
    return not any((np.abs(x) > most).any() for x, most in off)


def held(layer: Layer, bounds: Bounds) -> FloatArray:
    """Say how many rows each leaf holds, and how many of the second class; shape (2, n_leaves).

    ``bounds``: settled ones. NaN where the leaf says nothing of classes.
    """
    totals, leaves = layer.totals, layer.tree.leaves
    rows = bounds.least[:, leaves]
    p = (layer.first + (layer.first < 0)) @ rows
    ones = p - totals.first[leaves]
    by_step = p + totals.step[leaves] * (layer.second @ rows) - totals.rest[leaves]
    return np.array([rows.sum(axis=0), np.rint(np.where(np.isnan(ones), by_step, ones))])


def _of_class(layer: Layer, bounds: Bounds, nodes: IntArray) -> tuple[FloatArray, FloatArray]:
    """Say how far the first sums of nodes may be off for rows that are of the unlikely class.

    The sum says how many more rows are of one class than are likely. Returns twice the number of
    rows of both classes beside those, at most; and how far each is off.
    """
    most = bounds.most[:, nodes]
    both = np.maximum([-layer.first, layer.first], 0.0) @ most
    n, held = layer.totals.rows[nodes], np.maximum(most.sum(axis=0), 1)
    usual = both.min(axis=0) * np.where(np.isnan(n), 1.0, np.minimum(n / held, 1.0))
    several = np.ceil(usual + SCHEDULE.unlikely_sigmas * np.sqrt(usual) + 1.0)
    each = (layer.shift[:, None] * (most > 0)).max(axis=0, initial=0.0)
    return np.where(usual < SCHEDULE.unlikely_rows, 0.0, 2.0 * several), each


def work(items: Items, sums: Sums) -> float:
    """Say how many choices meet the number of rows, or may: the fewer, the sooner one is found."""
    if not holds(items, sums):
        return 0.0
    sums, n, items, _ = turned_sums(items, sums)
    ways = counted(items.begin, items.rows, np.arange(len(items)), n)
    return float(ways[-1] if sums.rows is not None else ways.sum())


def equal_states(low: FloatArray, high: FloatArray) -> tuple[IntArray, IntArray]:
    """Number ranges of predictions that lie together: equal but for rounding, or in one of them.

    Returns places of the lowest and the highest of each number, shape (2, n_numbers), and the
    number of each range.
    """
    order = np.argsort(low, kind="stable")
    number, ends = np.empty(len(order), dtype=np.int64), list[list[int]]()
    for i in order.tolist():
        if ends:
            begin, end = low[ends[-1][0]], high[ends[-1][1]]
            most = max(TOLERANCES.equal_predictions, end - begin, high[i] - low[i])
        if not ends or max(high[i], end) - begin > most:
            ends.append([i, i])
        elif high[i] > end:
            ends[-1][1] = i
        number[i] = len(ends) - 1
    return np.array(ends).T, number
