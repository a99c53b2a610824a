"""The adapter of R's gbm.

What the objects of gbm 2.1 and 2.2 hold, from its sources and checked against its answers: each
tree is a list of eight vectors: the column tested (-1 at a leaf), the threshold or what the leaf
adds (already multiplied by the shrinkage), the nodes on the left, on the right and for missing
values, the gain, the rows (times their weights) and the prediction of every node. A row goes left
where its value is below the threshold. Factors have codes from 0; ``c.splits`` says of each
category where it goes. By default (``keep.data``), the object holds the training table as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadModel
from treeleak.core.message import static_message
from treeleak.release.adapters.r.values import (
    inside,
    items,
    number,
    numbers,
    plain,
    text,
    texts,
    tree_of,
    whole,
    whole_numbers,
)
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_NODES, MOST_ROWS, at_most
from treeleak.release.ensemble import Ensemble, Fitting, Loss
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Sampling, Subsample
from treeleak.release.statistics import DRAWS, ROWS, VALUE, NodeStatistic, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, Tree

_LOSSES: dict[str, Loss] = {"bernoulli": "logistic", "gaussian": "squared"}
_LEFT = -1
THREE_WAYS = static_message(
    "training rows had missing values, which gbm sends to a third child of a node: the attack "
    "knows two",
    "r_gbm_missing",
)
WEIGHTED = static_message(
    "rows were weighted: the nodes hold sums of weights, not numbers of rows", "r_gbm_weighted"
)


@adapter("R", "gbm")
def _gbm(stored: StoredObject) -> Release:
    names = texts(stored.get("var.names"), "var.names")
    kinds = whole_numbers(stored.get("var.type"), "var.type", (0, 2**31), len(names))
    levels = _levels(stored, names)
    outputs = whole(stored.get("num.classes")) or 1
    at_most(MOST_CLASSES, outputs, "classes")
    listed = items(stored.get("trees"), "trees")
    read = [_tree(stored, t, tree, kinds, len(names)) for t, tree in enumerate(listed)]
    trees = [tree for tree, _ in read]
    if outputs > 1:
        trees = [replace(tree, output=t % outputs) for t, tree in enumerate(trees)]
    n_rows = whole(stored.get("nTrain"))
    share, rate = number(stored.get("bag.fraction")), number(stored.get("shrinkage"))
    drawn = share != 1.0
    not_covered = THREE_WAYS if any(three for _, three in read) else None
    roots = {float(tree.totals[0]) for tree in trees if tree.totals is not None}
    n_draws = None if share is None or n_rows is None else int(share * n_rows)
    if roots != {float(n_draws or 0)} and not not_covered:
        not_covered = WEIGHTED
    if any(
        (e.values != np.round(e.values)).any()
        for t in trees
        for e in t.statistics
        if e.quantity == ROWS
    ):
        raise BadModel("nodes hold no whole numbers of rows")
    sampling: Sampling = AllRows()
    if drawn:
        sampling = Subsample(n_draws=n_draws, rule="gbm")
        trees = [tree.with_counts(DRAWS) for tree in trees]
    distribution = text(inside(stored, "distribution", "name"))
    start = number(stored.get("initF")) or 0.0
    loss = _LOSSES.get(distribution)
    fitting = None if loss is None or outputs > 1 or drawn else Fitting(loss)
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=(0, 1) if distribution in ("bernoulli", "adaboost", "huberized") else (),
        sampling=sampling,
        n_rows=n_rows,
        not_covered=not_covered,
        # Rows may lack values of columns that no tree tests, too.
        maybe_missing=frozenset(names) if any(three for _, three in read) else frozenset(),
        levels=levels,
        thresholds_are="midpoints",
        origin="gbm (R)",
        ensemble=Ensemble(distribution[:80], (start,) * outputs, rate, fitting),
    )


def _levels(stored: StoredObject, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Find the texts of factors; of numbers, the list has quantiles."""
    listed = items(stored.get("var.levels"), "var.levels", len(names))
    found = {c: plain(v) for c, v in zip(names, listed, strict=True)}
    return {
        c: texts(v, c) for c, v in found.items() if isinstance(v, np.ndarray) and v.dtype == object
    }


def _tree(stored: StoredObject, t: int, held: Any, kinds: Any, n_columns: int) -> tuple[Tree, bool]:
    """Read a tree; also whether rows of it went to a third child."""
    where = f"tree {t}"
    vectors = items(held, where)
    if len(vectors) != 8:
        raise BadModel(f"{where}: {len(vectors)} vectors, not 8")
    column = whole_numbers(vectors[0], where, (-1, MOST_COLUMNS))
    n = len(column)
    cut = numbers(vectors[1], where, n)
    left, right, third = (
        whole_numbers(vectors[k], where, (-1, min(n, MOST_NODES)), n) for k in (2, 3, 4)
    )
    rows, value = numbers(vectors[6], where, n), numbers(vectors[7], where, n)
    if (rows > MOST_ROWS).any() or (column >= n_columns).any():
        raise BadModel(f"{where}: a column or a number of rows out of range")
    leaf = column == LEAF
    left, right, third = (np.where(leaf, LEAF, side) for side in (left, right, third))
    inner = np.flatnonzero(~leaf)
    if (np.concatenate([left[inner], right[inner], third[inner]]) < 0).any():
        raise BadModel(f"{where}: a node without children")
    sent = rows[left[inner]] + rows[right[inner]] < rows[inner]
    members = {
        int(v): _categories(stored, cut[v], int(kinds[column[v]]), where)
        for v in inner
        if kinds[column[v]] > 0
    }
    # Where nobody's value was missing, the third child says nothing: it is left out. Elsewhere a
    # test for a value comes first, which every value meets.
    more = inner[sent]
    first = np.arange(n, n + len(more))
    new = {int(v): int(k) for v, k in zip(more, first, strict=True)}

    def moved(side: Any) -> Any:
        return np.array([new.get(int(v), int(v)) for v in side], dtype=np.int64)

    left, right, third = moved(left), moved(right), moved(third)
    left, right = np.concatenate([left, more]), np.concatenate([right, third[more]])
    column = np.concatenate([column, column[more]])
    cut = np.concatenate([cut, np.full(len(more), np.inf)])
    rows = np.concatenate([rows, rows[more]])
    value = np.concatenate([value, value[more]])
    rows[more] = rows[left[more]] + rows[right[more]]
    strict = np.arange(n + len(more)) < n
    if 0 in new:
        left, right, column, cut, rows, value, strict, members = _root_first(
            new[0], left, right, column, cut, rows, value, strict, members
        )
    tree, order = tree_of(where, (left, right), column, cut, members, strict)
    entries = (
        NodeStatistic(ROWS, rows[order]),
        NodeStatistic(VALUE, np.where(tree.is_leaf, value[order], 0.0), tree.is_leaf),
    )
    return tree.with_statistics(Statistics(entries)), bool(len(more))


def _root_first(root: int, left: Any, right: Any, *rest: Any) -> tuple[Any, ...]:
    """Let the root and node 0 change places."""
    n = len(left)
    swap = np.arange(n)
    swap[[0, root]] = root, 0
    sides = [np.where(side < 0, LEAF, swap[np.maximum(side, 0)])[swap] for side in (left, right)]
    *arrays, members = rest
    members = {int(swap[v]): m for v, m in members.items()}
    return (*sides, *(array[swap] for array in arrays), members)


def _categories(stored: StoredObject, at: float, n: int, where: str) -> Any:
    """List the categories that go left, from 0."""
    listed = items(stored.get("c.splits"), "c.splits")
    if at != int(at) or not 0 <= at < len(listed):
        raise BadModel(f"{where}: c.splits has no item {at:g}")
    side: FloatArray = numbers(listed[int(at)], "c.splits", n)
    return np.flatnonzero(side == _LEFT)
