"""How rows of groups go through the next trees: bounds for each part of a group and each node.

The first layer splits groups by the next tree. Of each group, as many rows reach a leaf as lie
between two bounds; these are parts of the group, and the second layer splits them by the tree
behind, and so on. What a node sums up narrows bounds (:func:`choices`), and bounds narrow those of
the nodes above, below and beside it, and of the layers before and behind (:func:`flown`).
"""

from __future__ import annotations

import numpy as np

from treeleak.attacks.real_valued.node_totals import NodeTotals
from treeleak.attacks.real_valued.whole_sums import Items, Sums, whole_sums, work
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.release.tree import Tree

_MOST = 2**22
"""Choices of half of a node's parts that are looked at, at most."""
_MOST_WAYS = 64
"""Ways in which rows of a group may share out its parts, at most: else each is for itself."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows that the sums of the first trees do not tell apart."""

    n_trees: int
    rows: IntArray
    """Shape (n_groups,)."""
    leaf: IntArray
    """Shape (n_groups, n_trees of the model). Leaves (rows of A) of the first trees, or others that
    add up to the same prediction; any behind."""
    box: BoolArray
    """Shape (n_boxes, n_atoms). Atoms of all attributes that rows in a box may have."""
    group: IntArray
    """Shape (n_boxes,). Group of each box: rows of a group may lie in any of its boxes."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Parts of groups before a tree, and what its nodes sum up."""

    tree: Tree
    totals: NodeTotals
    second: FloatArray
    first: FloatArray
    """Shape (n_parts,). What a row of each counts, less 1 if it is of the second class."""
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
        return Bounds(self.least.copy(), self.most.copy())

    @property
    def open(self) -> BoolArray:
        """Nodes of which not all is known."""
        return np.asarray((self.most > self.least).any(axis=0))


def flown(layers: list[Layer], bounds: list[Bounds]) -> bool:
    """Make all bounds agree, in place; False if they contradict each other."""
    while True:
        for layer, own in zip(layers, bounds, strict=True):
            if not _along(layer.tree, own.least, own.most):
                return False
        changed = False
        for s in range(len(layers) - 1, 0, -1):
            changed |= _between(layers[s], bounds[s - 1], bounds[s])
        if not changed:
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


def _between(layer: Layer, before: Bounds, own: Bounds) -> bool:
    """Make bounds of a layer agree with those of the layer before; whether any changed."""
    at = layer.above, layer.through
    low = np.maximum(before.least[at], own.least[:, 0])
    high = np.minimum(before.most[at], own.most[:, 0])
    changed = bool(
        (low > before.least[at]).any() or (high < before.most[at]).any()
        or (low > own.least[:, 0]).any() or (high < own.most[:, 0]).any()
    )  # fmt: skip
    before.least[at] = own.least[:, 0] = low
    before.most[at] = own.most[:, 0] = high
    return changed


def effort(layer: Layer, bounds: Bounds, groups: Groups, v: int) -> float:
    """Say how many choices a node leaves."""
    return work(_ways(layer, bounds, groups, v).items, left_over(layer, bounds, v)[0])


def choices(layer: Layer, bounds: Bounds, groups: Groups, v: int) -> IntArray | None:
    """Find how many rows of each part may be in a node, shape (n_choices, n_parts).

    None if there are too many.
    """
    ways = _ways(layer, bounds, groups, v)
    found = whole_sums(ways.items, left_over(layer, bounds, v)[0], _MOST)
    if found is None:
        return None
    out = np.repeat(bounds.least[None, :, v], len(found), axis=0)
    for i, begin in enumerate(ways.items.begin[:-1].tolist()):
        for at in np.unique(found[:, i]).tolist():
            own = begin + at
            used = slice(ways.start[own], ways.start[own + 1])
            out[np.ix_(found[:, i] == at, ways.part[used])] += ways.rows[used]
    return np.unique(out, axis=0)


@dataclass(frozen=True, eq=False)
class _Ways:
    """Ways in which rows of groups share out parts that are open at a node."""

    items: Items
    start: IntArray
    """Shape (n_ways + 1,). Entries of way w below are start[w] to start[w + 1] - 1."""
    part: IntArray
    rows: IntArray
    """Shape (n_entries,). Parts that have rows, and how many."""


def _ways(layer: Layer, bounds: Bounds, groups: Groups, v: int) -> _Ways:
    room = bounds.most[:, v] - bounds.least[:, v]
    own = np.flatnonzero(room)
    held = np.bincount(layer.group, bounds.least[:, v], len(groups.rows)).astype(int)
    cap = (groups.rows - held)[layer.group]
    order = own[np.argsort(layer.group[own], kind="stable")]
    n_ways, entries = [], []
    for parts in np.split(order, np.flatnonzero(np.diff(layer.group[order])) + 1):
        if (most := int(cap[parts[0]])) == 1:
            n_ways.append(len(parts) + 1)
            entries.append([[], *([(p, 1)] for p in parts.tolist())])
            continue
        for each in _shared_out(parts.tolist(), room, most):
            n_ways.append(len(each))
            entries.append(each)
    flat = [way for each in entries for way in each]
    start = np.append(0, np.cumsum([len(way) for way in flat]))
    both = np.array([x for way in flat for x in way], dtype=np.int64).reshape(-1, 2)
    part, rows = both[:, 0], both[:, 1]
    at = np.repeat(np.arange(len(flat)), np.diff(start))
    _, second, first = left_over(layer, bounds, v)
    total, one, other = (
        np.bincount(at, x, len(flat)) for x in (rows, rows * second[part], rows * first[part])
    )
    items = Items(np.append(0, np.cumsum(n_ways)), total.astype(np.int64), one, other)
    return _Ways(items, start, part, rows)


def _shared_out(parts: list[int], room: IntArray, cap: int) -> list[list[list[tuple[int, int]]]]:
    """List numbers of rows of parts that come to ``cap`` at most; none of each comes first.

    If these are too many, each part is for itself.
    """
    out: list[list[tuple[int, int]]] = [[]]
    for p in parts:
        each = range(min(int(room[p]), cap) + 1)
        out = [
            [*way, (p, k)] if k else way
            for way in out
            for k in each
            if sum(n for _, n in way) + k <= cap
        ]
        if len(parts) > 1 and len(out) > _MOST_WAYS:
            return [x for q in parts for x in _shared_out([q], room, cap)]
    return [out]


def left_over(layer: Layer, bounds: Bounds, v: int) -> tuple[Sums, FloatArray, FloatArray]:
    """What is left of a node's sums for the rows that may reach it, and need not.

    Returns the weights of the parts in both sums, too: where only the ratio of the derivatives is
    known, one sum tells it, and the other counts.
    """
    totals, own = layer.totals, bounds.least[:, v]
    n, H, G = (float(x[v]) for x in (totals.rows, totals.second, totals.first))
    off = float(totals.off_second[v]), float(totals.off_first[v])
    second, first = layer.second, layer.first
    if np.isnan(H) or np.isnan(G):
        step = totals.step[v]
        second, first = np.ones(len(own)), first + (0.0 if np.isnan(step) else step) * second
        H, G, off = n, 0.0, (0.5, np.inf if np.isnan(step) else float(totals.off_class[v]))
    rows = None if np.isnan(n) else int(n) - int(own.sum())
    return Sums(rows, H - float(own @ second), G - float(own @ first), *off), second, first


def met(layer: Layer, bounds: Bounds, settled: BoolArray) -> bool:
    """Whether settled nodes hold what they sum up."""
    totals, own = layer.totals, bounds.least[:, settled]
    ones = layer.first @ own - totals.first[settled]
    off = (
        (own.sum(axis=0) - totals.rows[settled], 0.5),
        (layer.second @ own - totals.second[settled], totals.off_second[settled]),
        (ones - np.rint(ones), totals.off_first[settled]),
    )
    return not any((np.abs(x) > most).any() for x, most in off)
