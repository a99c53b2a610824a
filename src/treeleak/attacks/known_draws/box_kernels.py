"""Compiled loops over boxes that go down trees.

A box is an interval of atoms of each ordered attribute, maybe with the atom for a missing value,
and a set of atoms of each of the others. It goes down a tree into all leaves that it meets, and is
cut into as many boxes: nothing is held of pairs of leaves, of which large forests have too many.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.core.compiled import count_bits, njit

ONE, NONE = np.uint64(1), np.uint64(0)
ALL = ~np.uint64(0)
_WIDE = 2**30


class Boxes(NamedTuple):
    """Some boxes, or the leaves of all trees."""

    low: Any
    high: Any
    """Shape (n_boxes, n_ordered). Interval of atoms; none where low > high."""
    gone: Any
    """Shape (n_boxes, n_ordered). Whether a missing value is admitted."""
    members: Any
    """Shape (n_boxes, n_set_words). Atoms of the attributes without order, as bits."""


class Forest(NamedTuple):
    """Trees as tests on atoms, and their leaves as boxes."""

    root: Any
    """Shape (n_trees,)."""
    place: Any
    """Shape (n_nodes,). Of the tested attribute its number among the ordered ones; -1 - its number
    among the others."""
    leaf: Any
    """Shape (n_nodes,). Leaf (row of A); -1 for inner nodes."""
    left: Any
    right: Any
    cut: Any
    """Shape (n_nodes,). Lower atoms go left, ..."""
    gone_left: Any
    """... missing values, too, or not; ..."""
    left_set: Any
    """... of an attribute without order, the atoms of these bits. Shape (n_nodes, n_set_words)."""
    set_start: Any
    """Shape (n_sets + 1,). The words of each attribute without order."""
    leaves: Boxes


class Space(NamedTuple):
    """Space for boxes that are refined tree by tree."""

    now: Boxes
    then: Boxes
    parent: Any
    """Shape (n_trees, n_boxes). For each tree by which was refined, the box that each came from."""
    at: Any
    """Shape (n_trees, n_boxes). The leaf of that tree in which it lies."""
    size: Any
    """Shape (n_trees,). Boxes after each tree."""
    stack: Any
    """Shape (depth, 3). Nodes that are still to be entered, and which of ..."""
    listed: Any
    """... these boxes enter them."""
    aside: Any


@njit()
def node_sides(
    compiled: Any, place: Any, radix: Any, missing: Any, set_start: Any, cut: Any, gone_left: Any,
    left_set: Any,
) -> None:  # fmt: skip
    """Write what goes left at each inner node, in place.

    ``place`` is the ordered attribute's number, or -1 - that of the one without order; ``missing``
    says whether the last atom is that of missing values.
    """
    _, attribute, table, _, _, goes_left = compiled
    for v in range(len(attribute)):
        a = attribute[v]
        if a < 0:
            continue
        if place[a] >= 0:
            low, high = 0, radix[a] - missing[a]
            while low < high:
                middle = (low + high) >> 1
                if goes_left[table[v] + middle] != 0:
                    low = middle + 1
                else:
                    high = middle
            cut[v] = low
            gone_left[v] = missing[a] != 0 and goes_left[table[v] + radix[a] - 1] != 0
        else:
            begin = set_start[-1 - place[a]]
            for k in range(radix[a]):
                if goes_left[table[v] + k] != 0:
                    left_set[v, begin + (k >> 6)] |= ONE << np.uint64(k & 63)


@njit()
def leaf_sides(forest: Any, whole: Any, depth: int) -> None:
    """Write what each leaf admits, in place; ``whole`` is the box of all points."""
    stack = np.empty(depth, dtype=np.int64)
    boxes = _some_boxes(depth + 1, forest.leaves)
    low, high, gone, members = boxes
    for t in range(len(forest.root)):
        stack[0], top = forest.root[t], 1
        _copy(whole, 0, boxes, 0)
        while top:
            top -= 1
            v, p = stack[top], forest.place[stack[top]]
            if forest.leaf[v] >= 0:
                _copy(boxes, top, forest.leaves, forest.leaf[v])
                continue
            _copy(boxes, top, boxes, depth)
            for side in range(2):
                _copy(boxes, depth, boxes, top)
                if p >= 0:
                    if side == 0:
                        high[top, p] = min(high[top, p], forest.cut[v] - 1)
                    else:
                        low[top, p] = max(low[top, p], forest.cut[v])
                    if forest.gone_left[v] != (side == 0):
                        gone[top, p] = 0
                    some = low[top, p] <= high[top, p] or gone[top, p] != 0
                else:
                    some = False
                    for w in range(forest.set_start[-1 - p], forest.set_start[-p]):
                        left = forest.left_set[v, w]
                        members[top, w] &= left if side == 0 else ~left
                        some |= members[top, w] != NONE
                if some:
                    stack[top] = forest.left[v] if side == 0 else forest.right[v]
                    top += 1


@njit()
def _some_boxes(n: int, like: Any) -> Any:
    n_ordered, n_words = like.low.shape[1], like.members.shape[1]
    return Boxes(
        np.empty((n, n_ordered), np.int32), np.empty((n, n_ordered), np.int32),
        np.empty((n, n_ordered), np.uint8), np.empty((n, n_words), np.uint64),
    )  # fmt: skip


@njit(inline=True)
def _copy(here: Any, i: int, there: Any, j: int) -> None:
    for a in range(here.low.shape[1]):
        there.low[j, a], there.high[j, a] = here.low[i, a], here.high[i, a]
        there.gone[j, a] = here.gone[i, a]
    for w in range(here.members.shape[1]):
        there.members[j, w] = here.members[i, w]


@njit()
def space_for(forest: Any, most: int, n_trees: int, depth: int) -> Any:
    """Space for ``most`` boxes in trees that are less deep than ``depth``."""
    return Space(
        _some_boxes(most, forest.leaves), _some_boxes(most, forest.leaves),
        np.empty((n_trees, most), np.int32), np.empty((n_trees, most), np.int32),
        np.empty(n_trees, np.int64), np.empty((depth + 1, 3), np.int64),
        np.empty((2 * depth + 1) * most + 1, np.int32),
        np.empty(most + 1, np.int32),
    )  # fmt: skip


@njit()
def _enter(
    t: int, boxes: Any, n: int, d: Any, start: int, word: int, forest: Any, space: Any,
    parent: Any, at: Any, mark: Any,
) -> int:  # fmt: skip
    """Send boxes down a tree, into the leaves of a domain that they meet.

    Writes box and leaf of each pair to ``parent`` and ``at``; how many there are, -1 if there is
    not room enough. If ``mark`` is not empty, only marks the leaves there. ``start`` and ``word``
    say where the tree's leaves begin, and their words.
    """
    # Every look into a tuple of arrays counts a reference: none in the loops.
    low, high, gone, members = boxes
    root, place, leaf, left, right, cuts, gone_left, left_set, set_start, leaves = forest
    lows, highs, goners, sets = leaves
    stack, listed, aside = space.stack, space.listed, space.aside
    for i in range(n):
        listed[i] = i
    stack[0, 0], stack[0, 1], stack[0, 2] = root[t], 0, n
    m, top = 0, 1
    while top:
        top -= 1
        v, begin, end = stack[top, 0], stack[top, 1], stack[top, 2]
        e, p = leaf[v], place[v]
        if e >= 0:
            w, bit = word + ((e - start) >> 6), ONE << np.uint64((e - start) & 63)
            if not d[w] & bit:
                continue
            for x in range(begin, end):
                i = listed[x]
                # One test after the other lets sets pass that meet no leaf, and gaps.
                meets = True
                for a in range(low.shape[1]):
                    if max(low[i, a], lows[e, a]) > min(high[i, a], highs[e, a]):
                        meets &= (gone[i, a] & goners[e, a]) != 0
                for s in range(len(set_start) - 1):
                    some = False
                    for u in range(set_start[s], set_start[s + 1]):
                        some |= (members[i, u] & sets[e, u]) != NONE
                    meets &= some
                if meets and len(mark):
                    mark[w] |= bit
                    break
                if meets:
                    if m == len(at):
                        return -1
                    parent[m], at[m] = i, e
                    m += 1
            continue
        # Boxes that go right are listed behind those that were, those that go left behind these.
        fill, n_left = end, 0
        if p >= 0:
            cut, gap = cuts[v], gone_left[v]
            for x in range(begin, end):
                i = listed[x]
                bottom, up, lost = low[i, p], high[i, p], gone[i, p] != 0
                listed[fill] = aside[n_left] = i
                fill += ((up >= cut) & (bottom <= up)) | (lost & (not gap))
                n_left += ((bottom < cut) & (bottom <= up)) | (lost & gap)
        else:
            for x in range(begin, end):
                i = listed[x]
                go_left = go_right = False
                for u in range(set_start[-1 - p], set_start[-p]):
                    go_left |= (members[i, u] & left_set[v, u]) != NONE
                    go_right |= (members[i, u] & ~left_set[v, u]) != NONE
                listed[fill] = aside[n_left] = i
                fill += go_right
                n_left += go_left
        if fill > end:
            stack[top, 0], stack[top, 1], stack[top, 2] = right[v], end, fill
            top += 1
        if n_left:
            stack[top, 0], stack[top, 1], stack[top, 2] = left[v], fill, fill + n_left
            for x in range(n_left):
                listed[fill + x] = aside[x]
            top += 1
    return m


@njit()
def _cut(box: Any, i: int, leaves: Any, e: int, out: Any, m: int) -> None:
    """Write what a box and a leaf have in common."""
    low, high, gone, members = box
    lows, highs, goners, sets = leaves
    low_out, high_out, gone_out, members_out = out
    for a in range(low.shape[1]):
        low_out[m, a] = max(low[i, a], lows[e, a])
        high_out[m, a] = min(high[i, a], highs[e, a])
        gone_out[m, a] = gone[i, a] & goners[e, a]
    for w in range(members.shape[1]):
        members_out[m, w] = members[i, w] & sets[e, w]


@njit()
def _refined(d: Any, trees: Any, leaf_start: Any, word_start: Any, forest: Any, space: Any) -> Any:
    """Cut the box of all points by the domains of some trees, one after the other.

    Returns the boxes, how many there are, and by how many trees they were cut: not by all, where
    that takes more boxes than there is space for.
    """
    now, then, leaves, nothing = space.now, space.then, forest.leaves, d[:0]
    now.low[0], now.high[0], now.gone[0], now.members[0] = 0, _WIDE, 1, ALL
    n = 1
    for done in range(len(trees)):
        t, parent, at = trees[done], space.parent[done], space.at[done]
        m = _enter(t, now, n, d, leaf_start[t], word_start[t], forest, space, parent, at, nothing)
        if m < 0:
            return now, n, done
        for i in range(m):
            _cut(now, parent[i], leaves, at[i], then, i)
        now, then, n, space.size[done] = then, now, m, m
    return now, n, len(trees)


@njit()
def _by_size(d: Any, trees: Any, word_start: Any) -> Any:
    """Trees, those with few leaves in a domain first; none if one has no leaf at all."""
    size, most = np.zeros(len(trees), dtype=np.int64), 0
    for i in range(len(trees)):
        for w in range(word_start[trees[i]], word_start[trees[i] + 1]):
            size[i] += count_bits(d[w])
        if size[i] == 0:
            return trees[:0]
        most = max(most, int(size[i]))
    # Counted, not compared: numpy's stable sort takes two seconds to compile.
    start = np.zeros(most + 2, dtype=np.int64)
    for s in size:
        start[s + 1] += 1
    for k in range(most):
        start[k + 1] += start[k]
    ordered = np.empty_like(trees)
    for i in range(len(trees)):
        ordered[start[size[i]]] = trees[i]
        start[size[i]] += 1
    return ordered


@njit()
def _most_leaves(leaf_start: Any) -> Any:
    """Leaves of the tree that has most."""
    most = 0
    for t in range(len(leaf_start) - 1):
        most = max(most, leaf_start[t + 1] - leaf_start[t])
    return most


@njit()
def refine(
    rows: Any, domain: Any, drawn_start: Any, drawn: Any, leaf_start: Any, word_start: Any,
    forest: Any, depth: int, most: int, changed: Any,
) -> None:  # fmt: skip
    """Keep the leaves of some rows that meet a box which all trees leave open, in place.

    Where that takes more than ``most`` boxes: which some of the trees leave open. ``changed`` is
    set for rows of which leaves went. A domain that runs empty in one tree is emptied in all.
    """
    space = space_for(forest, most, len(leaf_start) - 1, depth)
    used, alive = np.empty(domain.shape[2], dtype=np.uint64), np.empty((2, most), dtype=np.bool_)
    for k in rows:
        for c in range(domain.shape[1]):
            d = domain[k, c]
            trees = _by_size(d, drawn[drawn_start[k] : drawn_start[k + 1]], word_start)
            used[:] = NONE
            if len(trees):
                now, n, done = _refined(d, trees, leaf_start, word_start, forest, space)
                for t in trees[done:]:
                    _enter(
                        t, now, n, d, leaf_start[t], word_start[t], forest, space,
                        space.parent[done], space.at[done], used,
                    )  # fmt: skip
                alive[done & 1, :n] = True
                # Back through the trees: where boxes that are left came from.
                for level in range(done - 1, -1, -1):
                    t, here, before = trees[level], alive[(level + 1) & 1], alive[level & 1]
                    before[: space.size[level - 1] if level else 1] = False
                    for i in range(space.size[level]):
                        if here[i]:
                            slot = space.at[level, i] - leaf_start[t]
                            used[word_start[t] + (slot >> 6)] |= ONE << np.uint64(slot & 63)
                            before[space.parent[level, i]] = True
            for w in range(len(d)):
                if d[w] & ~used[w]:
                    d[w] &= used[w]
                    changed[k] = True


@njit()
def list_boxes(
    k: int, domain: Any, drawn: Any, leaf_start: Any, word_start: Any, forest: Any, depth: int,
    most: int, out: Any, label: Any,
) -> int:  # fmt: skip
    """List the choices of a leaf for every tree in ``drawn`` that a point has; how many there are.

    Writes the leaves (rows of A) of each to ``out`` and its class to ``label``; -1 if there are
    more than there is room for, or that takes more than ``most`` boxes.
    """
    space = space_for(forest, most, len(leaf_start) - 1, depth)
    found, column = 0, np.zeros(len(leaf_start), dtype=np.int64)
    for i in range(len(drawn)):
        column[drawn[i]] = i
    for c in range(domain.shape[1]):
        trees = _by_size(domain[k, c], drawn, word_start)
        if not len(trees):
            continue
        _, n, done = _refined(domain[k, c], trees, leaf_start, word_start, forest, space)
        if done < len(trees) or found + n > len(out):
            return -1
        for i in range(n):
            label[found], box = c, i
            for level in range(done - 1, -1, -1):
                out[found, column[trees[level]]] = space.at[level, box]
                box = space.parent[level, box]
            found += 1
    return found


@njit()
def _common(boxes: Any, i: int, leaves: Any, e: int, set_start: Any) -> float:
    """How many points a box and a leaf have in common."""
    low, high, gone, members = boxes
    lows, highs, goners, sets = leaves
    total = 1.0
    for a in range(low.shape[1]):
        n = max(min(high[i, a], highs[e, a]) - max(low[i, a], lows[e, a]) + 1, 0)
        n += (gone[i, a] & goners[e, a]) != 0
        if n == 0:
            return 0.0
        total *= n
    for s in range(len(set_start) - 1):
        n = 0
        for w in range(set_start[s], set_start[s + 1]):
            n += count_bits(members[i, w] & sets[e, w])
        if n == 0:
            return 0.0
        total *= n
    return total


@njit()
def choose_leaves(
    rows: Any, label: Any, domain: Any, drawn_start: Any, drawn: Any, leaf_start: Any,
    word_start: Any, forest: Any, depth: int, chosen: Any,
) -> None:  # fmt: skip
    """Choose a leaf of each tree that drew a row, so that all of them have a point in common.

    The one with most points that is open and meets those before it, trees with few open leaves
    first. Written in ``chosen``, shape (n_rows, n_trees); what is there stays where there is none.
    """
    space = space_for(forest, _most_leaves(leaf_start), 1, depth)
    now, then, parent, at = space.now, space.then, space.parent[0], space.at[0]
    for k in rows:
        d = domain[k, label[k]]
        trees = _by_size(d, drawn[drawn_start[k] : drawn_start[k + 1]], word_start)
        now.low[0], now.high[0], now.gone[0], now.members[0] = 0, _WIDE, 1, ALL
        for t in trees:
            start, word = leaf_start[t], word_start[t]
            m = _enter(t, now, 1, d, start, word, forest, space, parent, at, d[:0])
            most = 0.0
            for e in at[:m]:
                common = _common(now, 0, forest.leaves, e, forest.set_start)
                if common > most:
                    most, chosen[k, t] = common, e
            if m > 0:
                _cut(now, 0, forest.leaves, chosen[k, t], then, 0)
                now, then = then, now


@njit()
def within_one(
    lines: Any, drawn: Any, leaf_start: Any, word_start: Any, forest: Any, depth: int, out: Any
) -> None:
    """Say whether all that some leaves admit lies in one leaf of every tree.

    ``lines``, shape (n_lines, n_trees): a leaf (row of A) of every tree. ``drawn``, shape
    (n_lines, n_trees): which of them are meant.
    """
    space = space_for(forest, 2, 1, depth)
    boxes, parent, at = space.now, space.parent[0], space.at[0]
    every = np.full(word_start[-1], ALL)
    for x in range(len(lines)):
        boxes.low[0], boxes.high[0], boxes.gone[0], boxes.members[0] = 0, _WIDE, 1, ALL
        for t in range(lines.shape[1]):
            if drawn[x, t]:
                _cut(boxes, 0, forest.leaves, lines[x, t], boxes, 0)
        out[x] = True
        for t in range(lines.shape[1]):
            start, word = leaf_start[t], word_start[t]
            n = _enter(t, boxes, 1, every, start, word, forest, space, parent, at, every[:0])
            out[x] &= n == 1
