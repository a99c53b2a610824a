"""What the forests of ranger and randomForest have in common: leaves without numbers of rows.

Leaves hold the class, the share of each class, or the mean target. Beside them stand the draws of
each tree, if they were kept, and what the trees that did not draw a row say of it: in the mean, one
real number for each row. On a grid of few points, hardly ever two of them share it: so it tells the
leaves of the row in all trees, and those together how many draws each leaf holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.message import static_message
from treeleak.release.adapters.r.values import inside, names_along, plain
from treeleak.release.leaf_classes import classes_in_leaves
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.release import Release
from treeleak.release.row_facts import OutOfBag
from treeleak.release.row_facts import out_of_bag as checked_means
from treeleak.release.statistics import DRAWS, LABELS, MEAN, VALUE, NodeStatistic, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

KINDS = CLASSES, SHARES, TARGETS = "Classification", "Probability estimation", "Regression"
_LARGEST = 1e100
FROM_OUT_OF_BAG = static_message(
    "The file holds class shares or mean targets of leaves, without sizes. How many draws each "
    "leaf holds follows from the kept draws and the out-of-bag predictions.",
    "r_sizes_from_out_of_bag",
)
NAMED = static_message(
    "The file does not hold the numbers of rows in leaves: the attack used only the class that "
    "each leaf predicts.",
    "r_leaves_name_classes",
)
NO_SIZES = static_message(
    "the file holds the mean target of each leaf, but not how many rows lie in it, and that does "
    "not follow from the rest",
    "r_leaves_without_sizes",
)


def forest_of(
    trees: Sequence[Tree],
    values: list[FloatArray],
    kind: str,
    predicted: Any,
    draws: IntArray | None,
    **more: Any,
) -> Release:
    """Put a forest together.

    ``trees``: without statistics. ``values``, shape (n_nodes, n_outputs): what each tree predicts,
    by ``kind``: 1 for a class, shares of classes, or a mean. ``predicted``: what the file holds of
    the means of that over the trees that did not draw a row. ``draws``, shape (n_trees, n_rows).
    ``more``: whatever else a release says.
    """
    means = checked_means(predicted, values, more["n_rows"], _LARGEST)
    sizes = None
    if means is not None and draws is not None and kind != CLASSES:
        sizes = leaf_sizes(trees, means, draws, whole_shares=kind == SHARES)
    of_leaf = {CLASSES: LABELS, SHARES: VALUE}.get(kind, MEAN)
    told = [value[:, 0] if of_leaf == MEAN else value for value in values]
    trees = [
        tree.with_statistics(Statistics((NodeStatistic(of_leaf, value, tree.is_leaf),)))
        for tree, value in zip(trees, told, strict=True)
    ]
    if sizes is not None:
        more["notes"] = (FROM_OUT_OF_BAG,)
        counts: list[FloatArray | None] = [None] * len(trees)
        if kind == SHARES:
            held = zip(trees, values, sizes, strict=True)
            counts = [np.round(tree.summed(v * n[:, None])) for tree, v, n in held]
        trees = [
            tree.with_counts(DRAWS, counts=count, totals=tree.summed(n))
            for tree, count, n in zip(trees, counts, sizes, strict=True)
        ]
    elif kind == SHARES:
        trees, more["noise"], note = classes_in_leaves(trees, values, drawn=True)
        more["notes"] = (note,)
    elif kind == CLASSES:
        more["notes"], more["noise"] = (NAMED,), LabelNoise("majority")
    else:
        more["not_covered"] = more.get("not_covered") or NO_SIZES
    usable = means is not None and (sizes is not None or kind == CLASSES)
    out_of_bag = (means,) if means is not None and usable else ()
    return Release(trees=tuple(trees), draws=draws, out_of_bag=out_of_bag, **more)


def labelled(predicted: FloatArray, tree: Tree, numbered: Mapping[float, int]) -> FloatArray:
    """Give 1 for the class of each leaf; ``numbered``: by what the file calls it."""
    out = np.zeros((tree.n_nodes, len(numbered)))
    for v in tree.leaves:
        if float(predicted[v]) not in numbered:
            raise BadModel(f"a leaf predicts the class {predicted[v]:g}")
        out[v, numbered[float(predicted[v])]] = 1.0
    return out


def in_order(matrix: Any, classes: Sequence[Any]) -> Any:
    """Put columns in the order of the classes that they are named for; None if they are not."""
    names, array = names_along(matrix, 1), plain(matrix)
    wanted = [f"{c:g}" if isinstance(c, float) else str(c) for c in classes]
    if names is None or sorted(names) != sorted(wanted) or not isinstance(array, np.ndarray):
        return None
    fits = array.ndim == 2 and array.shape[1] == len(names) and array.dtype.kind in "iuf"
    return array[:, [names.index(c) for c in wanted]].astype(float) if fits else None


def call_names(stored: StoredObject) -> frozenset[str] | None:
    """Name the arguments with which a model was made; None where its call is not there."""
    arguments = inside(stored, "call", "arguments")
    if not isinstance(arguments, (list, tuple)):
        return None
    return frozenset(str(item[0]) for item in arguments if isinstance(item, tuple) and item[0])


MOST_POINTS = 2**18
MOST_LEAVES = 2**26
"""Points of the grid, and points times trees, that are looked at."""
MOST_MATCHES = 16
"""Points for each row, on average, beyond which predictions tell too little."""
_AT_ONCE = 2**22
_WHOLE = 1e-6


def leaf_sizes(
    trees: Sequence[Tree], means: OutOfBag, draws: IntArray, *, whole_shares: bool
) -> list[FloatArray] | None:
    """Work out the draws in each leaf of trees without counts; 0 at other nodes.

    ``means``: what trees, which compare in double precision, predict at their nodes, and the means
    of it for each row. ``draws``, shape (n_trees, n_rows). ``whole_shares``: whether what leaves
    predict are shares, which times the draws are whole numbers. Returns None if the grid is large,
    or rows do not settle.
    """
    if draws.shape != (len(trees), len(means.mean)) or not draws.size:
        return None
    if (draws > 0).all(axis=0).any() or np.isnan(means.mean).any():
        return None
    leaf = _leaves_of_points(trees)
    points = None if leaf is None else _points_of_rows(leaf, means, draws)
    if leaf is None or points is None:
        return None
    sizes = [
        np.bincount(at, b, tree.n_nodes).astype(float)
        for tree, at, b in zip(trees, leaf[points].T, draws, strict=True)
    ]
    empty = any((n[tree.leaves] == 0).any() for tree, n in zip(trees, sizes, strict=True))
    counts = [n[:, None] * v for n, v in zip(sizes, means.values, strict=True)]
    broken = whole_shares and any((np.abs(c - np.round(c)) > _WHOLE).any() for c in counts)
    return None if empty or broken else sizes


def _leaves_of_points(trees: Sequence[Tree]) -> IntArray | None:
    """Find the node where each point of the grid ends in each tree; equal points once."""
    ends: list[set[float]] = [set() for _ in range(1 + max(tree.feature.max() for tree in trees))]
    for tree in trees:
        sets = {} if tree.categories is None else tree.categories.by_node
        for v in np.flatnonzero(~tree.is_leaf).tolist():
            codes = range(min(int(sets[v].max()) + 2, 100)) if v in sets else ()
            ends[tree.feature[v]] |= {*map(float, codes)} if v in sets else {tree.threshold[v]}
    values = [np.array([*sorted(of), max(of, default=0.0) + 1.0]) for of in ends]
    n_points = prod(map(len, values))
    if n_points > MOST_POINTS or n_points * len(trees) > MOST_LEAVES:
        return None
    grid = np.stack([g.ravel() for g in np.meshgrid(*values, indexing="ij")], axis=1)
    leaf = np.stack([tree.apply(grid) for tree in trees], axis=1).astype(np.int32)
    return np.unique(leaf, axis=0)


def _points_of_rows(leaf: IntArray, means: OutOfBag, draws: IntArray) -> IntArray | None:
    """Find for each row the point whose prediction has its mean; None unless one alone does."""
    out = (draws == 0).astype(float)
    n_out, n_rows = out.sum(axis=0), draws.shape[1]
    near, step = means.off(), max(_AT_ONCE // max(draws.shape), 1)
    row, point = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for begin, end in pairwise([*range(0, len(leaf), step), len(leaf)]):
        fits = np.ones((end - begin, n_rows), dtype=bool)
        for c in range(means.mean.shape[1]):
            held = [v[at, c] for v, at in zip(means.values, leaf[begin:end].T, strict=True)]
            mean = np.stack(held, axis=1) @ out / n_out
            fits &= np.abs(mean - means.mean[:, c]) <= near[c]
        points, rows = np.nonzero(fits)
        row.append(rows)
        point.append(points + begin)
        if sum(map(len, row)) > MOST_MATCHES * n_rows:
            return None
    rows, points = np.concatenate(row), np.concatenate(point)
    _, first = np.unique(rows, return_index=True)
    if len(first) < n_rows:
        return None
    chosen = points[first]
    # What differs only where the row was not drawn is the same to all counts.
    differ = (leaf[points] != leaf[chosen[rows]]) & (draws.T[rows] > 0)
    return None if differ.any() else np.asarray(chosen)
