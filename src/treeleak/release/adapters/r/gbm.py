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

from treeleak.core.arrays import IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.release.adapters.r import values as r
from treeleak.release.bounds import MOST_CLASSES, MOST_ROWS, at_most
from treeleak.release.ensemble import Ensemble, Fitting, Loss
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Subsample
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
    names = r.texts(stored.get("var.names"), "var.names")
    kinds = r.whole_numbers(stored.get("var.type"), "var.type", (0, 2**31), len(names))
    # Of columns of numbers, the list has quantiles.
    held = r.items(stored.get("var.levels"), "var.levels", len(names))
    outputs = r.whole(stored.get("num.classes")) or 1
    at_most(MOST_CLASSES, outputs, "classes")
    listed = r.items(stored.get("trees"), "trees")
    trees = [_tree(stored, f"tree {t}", tree, names, kinds) for t, tree in enumerate(listed)]
    if outputs > 1:
        trees = [replace(tree, output=t % outputs) for t, tree in enumerate(trees)]
    n_rows = r.whole(stored.get("nTrain"))
    share, rate = r.number(stored.get("bag.fraction")), r.number(stored.get("shrinkage"))
    n_draws = None if share is None or n_rows is None else int(share * n_rows)
    roots = {float(tree.totals[0]) for tree in trees if tree.totals is not None}
    drawn = share != 1.0
    if drawn:
        trees = [tree.with_counts(DRAWS) for tree in trees]
    distribution = r.text(r.inside(stored, "distribution", "name"))
    start, loss = r.number(stored.get("initF")) or 0.0, _LOSSES.get(distribution)
    fitting = None if loss is None or outputs > 1 or drawn else Fitting(loss)
    weighted = WEIGHTED if roots != {float(n_draws or 0)} else None
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=(0, 1) if distribution in ("bernoulli", "adaboost", "huberized") else (),
        sampling=Subsample(n_draws=n_draws, rule="gbm") if drawn else AllRows(),
        n_rows=n_rows,
        not_covered=weighted,
        levels=r.levels_of(zip(names, held, strict=True)),
        thresholds_are="midpoints",
        origin="gbm (R)",
        ensemble=Ensemble(distribution[:80], (start,) * outputs, rate, fitting),
    )


def _tree(
    stored: StoredObject, where: str, held: Any, names: tuple[str, ...], kinds: IntArray
) -> Tree:
    vectors = r.items(held, where, 8)
    column = r.whole_numbers(vectors[0], where, (-1, len(names)))
    n = len(column)
    cut, rows, value = (r.numbers(vectors[k], where, n) for k in (1, 6, 7))
    if ((rows < 0) | (rows > MOST_ROWS) | (rows != np.round(rows))).any():
        raise BadModel(f"{where}: no whole numbers of rows")
    left, right = (
        np.where(column == LEAF, LEAF, r.whole_numbers(v, where, (-1, n), n)) for v in vectors[2:4]
    )
    inner = np.flatnonzero(column != LEAF)
    members = {
        int(v): _categories(stored, cut[v], int(kinds[column[v]]), where)
        for v in inner
        if kinds[column[v]] > 0
    }
    # Where nobody's value was missing, the third child says nothing.
    if (rows[left[inner]] + rows[right[inner]] < rows[inner]).any():
        raise NotCovered(THREE_WAYS)
    strict = np.ones(n, dtype=bool)
    tree, order = r.tree_of(where, (left, right), column, cut, (names, {}), members, strict)
    entries = (
        NodeStatistic(ROWS, rows[order]),
        NodeStatistic(VALUE, np.where(tree.is_leaf, value[order], 0.0), tree.is_leaf),
    )
    return tree.with_statistics(Statistics(entries))


def _categories(stored: StoredObject, at: float, n: int, where: str) -> IntArray:
    """List the categories that go left, from 0."""
    listed = r.items(stored.get("c.splits"), "c.splits")
    if not 0 <= at < len(listed) or at != int(at):
        raise BadModel(f"{where}: c.splits has no item {at:g}")
    return np.flatnonzero(r.numbers(listed[int(at)], "c.splits", n) == _LEFT)
