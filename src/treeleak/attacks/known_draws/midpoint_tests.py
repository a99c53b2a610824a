"""What thresholds say of where rows lie: each is the middle of two values that are neighbours.

A splitter that looks at all values puts a threshold halfway between the greatest value of the rows
that go left and the least of those that go right. So between these two lies no row of the node, and
one lies at each end. Of a row it is asked how much more probable that is with the row at an atom
than with it elsewhere, given what is believed of all other rows.
"""

from __future__ import annotations

import numpy as np

from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.attacks.known_draws.midpoint_kernels import TreeTests
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.partition import AttributeAtoms, Geometry


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
