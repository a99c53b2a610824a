"""What thresholds say of where rows lie: each is the middle of two values that are neighbours.

A splitter that looks at all values puts a threshold halfway between the greatest value of the rows
that go left and the least of those that go right. So between these two lies no row of the node, and
one lies at each end. Of a row it is asked how much more probable that is with the row at an atom
than with it elsewhere, given what is believed of all other rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.compiled import njit
from treeleak.partition import AttributeAtoms, Geometry

_NEAR, _EMPTY = 1e-2, 1e-3
"""Probability up to which a row is taken not to reach a node, and an interval not to be empty."""
_SURE = 1.0 - 1e-6
"""Probability that a row lies in an interval, at most."""
_BLOCK = 16
"""Atoms after which it is asked whether all between may still be empty."""
_DOUBT, _MOST = 0.05, 1e3
"""Share of doubt in what a test says, and the largest factor."""
_LEAST = 1e-300


class TreeTests(NamedTuple):
    """The nodes of one tree, children behind their parents."""

    left: Any
    right: Any
    """Children; -1 at leaves."""
    leaf: Any
    """Shape (n_leaves,). Node of each leaf."""
    begin: Any
    cut: Any
    end: Any
    """Shape (n_nodes,). Atoms, of all attributes, that rows at a node may have: from ``begin`` up
    to ``cut`` they go left, from there up to ``end`` right. None at leaves, nor where thresholds
    say nothing."""
    gone: Any
    """Shape (n_nodes, 2). Atom of a missing value, if it goes left, and if right; -1 if not."""
    doubled: Any
    """Twice the threshold."""


@njit()
def message_from_tests(
    tests: Any, ends: Any, rows: Any, leaf: Any, with_counts: Any, probable: Any, out: Any
) -> None:
    """Add up, as logs, how much more probable thresholds are with a row at an atom than elsewhere.

    ``ends``, shape (2, n_atoms): lowest and highest value of each; ``leaf``, shape (n_places,);
    ``with_counts``, shape (n_tree_rows, n_places): how probable places are of each row;
    ``probable``, shape (n_rows, n_atoms): how probable atoms are; ``out``: shaped so, too.
    """
    there = np.zeros((len(tests.left), len(rows)))
    for j in range(len(leaf)):
        v = tests.leaf[leaf[j]]
        for i in range(len(rows)):
            there[v, i] += with_counts[i, j]
    for v in range(len(tests.left) - 1, -1, -1):
        if tests.left[v] >= 0:
            for i in range(len(rows)):
                there[v, i] = there[tests.left[v], i] + there[tests.right[v], i]
    for v in range(len(tests.left)):
        if tests.begin[v] < tests.cut[v] < tests.end[v]:
            _message_from_test(tests, v, ends, rows, there, probable, out)


@njit()
def _message_from_test(
    tests: Any, v: Any, ends: Any, rows: Any, there: Any, probable: Any, out: Any
) -> None:
    near_left = np.flatnonzero(there[tests.left[v]] > _NEAR)
    near_right = np.flatnonzero(there[tests.right[v]] > _NEAR)
    cut, n_left = tests.cut[v], tests.cut[v] - tests.begin[v]
    n_right = tests.end[v] - cut
    rows_left, rows_right = rows[near_left], rows[near_right]
    dense_left = _density(
        there[tests.left[v]][near_left], rows_left, probable, tests.begin[v], cut, tests.gone[v, 0]
    )
    dense_right = _density(
        there[tests.right[v]][near_right], rows_right, probable, cut, tests.end[v], tests.gone[v, 1]
    )
    empty_left, empty_right = np.ones(n_left + 1), np.ones(n_right + 1)
    n_left = _emptied(cut - 1, -1, n_left, rows_left, dense_left, probable, empty_left)
    n_right = _emptied(cut, 1, n_right, rows_right, dense_right, probable, empty_right)
    of_left, of_right = np.zeros(n_left), np.zeros(n_right)
    first = 0
    for w in range(n_left):
        z = cut - 1 - w
        low, high = tests.doubled[v] - ends[1, z], tests.doubled[v] - ends[0, z]
        while first < n_right and ends[1, cut + first] <= low:
            first += 1
        for u in range(first, n_right):
            if ends[0, cut + u] >= high:
                break
            both = min(high, ends[1, cut + u]) - max(low, ends[0, cut + u])
            both /= (high - low) * (ends[1, cut + u] - ends[0, cut + u])
            of_left[w] += (empty_right[u] - empty_right[u + 1]) * both
            of_right[u] += (empty_left[w] - empty_left[w + 1]) * both
    _add_messages(cut - 1, -1, rows_left, dense_left, probable, empty_left, of_left, out)
    _add_messages(cut, 1, rows_right, dense_right, probable, empty_right, of_right, out)


@njit()
def _density(p: Any, rows: Any, probable: Any, begin: Any, end: Any, gone: Any) -> Any:
    """How probable it is that rows reach a side of a node, for each probability of atoms there."""
    for x in range(len(rows)):
        mass = probable[rows[x], gone] if gone >= 0 else 0.0
        for z in range(begin, end):
            mass += probable[rows[x], z]
        p[x] /= max(mass, _LEAST)
    return p


@njit()
def _emptied(
    begin: Any, step: Any, size: Any, rows: Any, dense: Any, probable: Any, empty: Any
) -> int:
    """How probable it is that no row lies in the first atoms from a threshold, for each number.

    Returns the number from which on that is as good as impossible.
    """
    upto, w = np.zeros(len(rows)), 0
    while w < size and empty[w] > _EMPTY:
        last = min(w + _BLOCK, size)
        for x in range(len(rows)):
            for u in range(w, last):
                upto[x] = min(upto[x] + dense[x] * probable[rows[x], begin + step * u], _SURE)
                empty[u + 1] *= 1.0 - upto[x]
        w = last
    return w


@njit()
def _add_messages(
    begin: Any, step: Any, rows: Any, dense: Any, probable: Any, empty: Any, other: Any, out: Any
) -> None:
    """Say to the rows on one side how much more probable the threshold is with them at an atom.

    ``other``: density of the nearest row on the other side, where the middle then is. Without the
    row, others are the nearest on its own side.
    """
    with_ = np.zeros(len(other))
    for x in range(len(rows)):
        k, upto, without, most = rows[x], 0.0, 0.0, 0.0
        before = 1.0
        for w in range(len(other)):
            with_[w] = without + before * other[w]
            most = max(most, with_[w])
            upto = min(upto + dense[x] * probable[k, begin + step * w], _SURE)
            after = min(empty[w + 1] / (1.0 - upto), before)
            without += (before - after) * other[w]
            before = after
        if most <= _LEAST:
            continue
        reach = min(dense[x], 1.0)
        # A row that alone can be there hears which atoms are possible, and no more: which of them
        # are probable the rows on the other side know from itself.
        without = max(without, most / _MOST**2)
        for w in range(len(other)):
            ratio = min(max(with_[w] / without, 1.0 / _MOST), _MOST)
            ratio = (1.0 - _DOUBT) * ratio + _DOUBT
            out[k, begin + step * w] += np.log1p(reach * (ratio - 1.0))


def laid_out(geometry: Geometry, boxes: LeafBoxes, n_trees: int) -> list[TreeTests | None]:
    """Lay out the tests of some trees; None where thresholds are no middles."""
    if geometry.release.thresholds_are != "midpoints":
        return [None] * n_trees
    start = np.append(0, np.cumsum(geometry.radix))
    numeric = (boxes.place >= 0) & (geometry.radix - boxes.missing > 2)
    ends = np.append(boxes.forest.root, len(boxes.forest.left))
    return [_tests(geometry, boxes, t, start, numeric, *ends[t : t + 2]) for t in range(n_trees)]


def _tests(
    geometry: Geometry, boxes: LeafBoxes, tree: int, start: IntArray, numeric: BoolArray,
    root: int, end: int,
) -> TreeTests:  # fmt: skip
    """Lay out one tree, whose nodes are numbered from ``root`` up to ``end``."""
    forest, attribute = boxes.forest, geometry.compiled[1][root:end]
    inner = attribute >= 0
    left, right = (
        np.where(inner, child[root:end] - root, -1) for child in (forest.left, forest.right)
    )
    range_ = np.zeros((2, end - root, len(start) - 1), dtype=np.int64)
    range_[1, 0] = np.diff(start) - boxes.missing
    begin, cut, until = (np.zeros(end - root, dtype=np.int64) for _ in range(3))
    gone = np.full((end - root, 2), -1)
    for v in np.flatnonzero(inner).tolist():
        a, low = int(attribute[v]), range_[:, v]
        range_[:, left[v]] = range_[:, right[v]] = low
        if boxes.place[a] < 0:
            continue
        at = min(max(int(forest.cut[root + v]), low[0, a]), low[1, a])
        range_[1, left[v], a] = range_[0, right[v], a] = at
        if numeric[a]:
            begin[v], cut[v], until[v] = start[a] + np.array([low[0, a], at, low[1, a]])
            if boxes.missing[a]:
                gone[v, 0 if forest.gone_left[root + v] else 1] = start[a + 1] - 1
    leaf = np.empty(int((~inner).sum()), dtype=np.int64)
    leaf[forest.leaf[root:end][~inner] - geometry.leaf_start[tree]] = np.flatnonzero(~inner)
    doubled = 2.0 * geometry.release.trees[tree].threshold
    return TreeTests(left, right, leaf, begin, cut, until, gone, doubled)


def ends_of(geometry: Geometry) -> FloatArray:
    """Lowest and highest value of each atom, shape (2, n_atoms).

    Values that are listed reach as far to both sides as the nearest two of the attribute are apart.
    """
    return np.hstack([_ends(part) for part in geometry.parts])


def _ends(part: AttributeAtoms) -> FloatArray:
    if len(part.columns) > 1:
        return np.zeros((2, len(part)))
    listed = np.unique(np.concatenate([atom.values[:, 0] for atom in part.atoms]))
    apart = np.diff(listed[~np.isnan(listed)]).min(initial=np.inf) / 2
    (low, high), point = part.spans.T, part.representatives[:, 0]
    # An interval without an end reaches as far beyond its point as its threshold is before it.
    first = np.where(np.isinf(low), 2 * point - high, low)
    last = np.where(np.isinf(high), 2 * point - low, high)
    wide = (low < high) & [atom.interval is not None for atom in part.atoms]
    more = np.where(wide, 0.0, apart)
    return np.stack([first - more, last + more])
