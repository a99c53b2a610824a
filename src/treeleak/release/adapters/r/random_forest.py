"""The adapter of R's randomForest.

What the objects of randomForest 4.6 and 4.7 hold, from its sources and checked against its answers:
``treemap`` (or ``leftDaughter``, ``rightDaughter``) counts from 1, and is 0 at a leaf. A row goes
left where its value is not above ``xbestsplit``; of a factor that is not ordered, ``xbestsplit`` is
a number whose bits name the categories that go left. Leaves hold the class or the mean target,
never how many rows. ``y`` are the targets of all rows, ``votes`` and ``predicted`` what the trees
say that did not draw a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import static_message
from treeleak.release.adapters.r import forests
from treeleak.release.adapters.r import values as r
from treeleak.release.bounds import MOST_NODES, MOST_ROWS
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import Bootstrap, Sampling, Subsample
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, Tree

NO_FOREST = "this randomForest object holds no trees (keep.forest = FALSE)"
UNSUPERVISED = static_message(
    "an unsupervised random forest: its classes tell rows from made-up ones",
    "r_unsupervised",
)


@adapter("R", "randomForest", "randomForest.formula")
def _random_forest(stored: StoredObject) -> Release:
    forest = stored.get("forest")
    if forest is None:
        raise BadInput(NO_FOREST)
    type_ = r.text(stored.get("type"))
    names, levels = columns = _columns(forest)
    sizes = r.whole_numbers(r.inside(forest, "ndbigtree"), "ndbigtree", (1, MOST_NODES))
    read = [_tree(forest, t, int(n), len(sizes), columns) for t, n in enumerate(sizes)]
    n_rows, draws = _n_rows(stored), None
    if stored.get("inbag") is not None:
        draws = r.whole_numbers(stored.get("inbag"), "inbag", (0, 2**31), n_rows, 2).T.copy()
        if len(draws) != len(read):
            raise BadModel(f"inbag: draws of {len(draws)} trees")
    classes: tuple[str, ...] = ()
    if type_ == "regression":
        values = [np.where(tree.is_leaf, held, 0.0)[:, None] for tree, held in read]
        predicted = None if stored.get("coefs") is not None else r.plain(stored.get("predicted"))
    else:
        classes = r.texts(stored.get("classes"), "classes")
        numbered = {k + 1.0: k for k in range(len(classes))}
        values = [forests.labelled(held, tree, numbered) for tree, held in read]
        predicted = forests.in_order(stored.get("votes"), classes)
        if predicted is not None:  # Without norm.votes, these are numbers of trees.
            total = predicted.sum(axis=1, keepdims=True)
            predicted /= np.where(total > 0, total, np.nan)
    return forests.forest_of(
        [tree for tree, _ in read],
        values,
        forests.CLASSES if classes else forests.TARGETS,
        predicted,
        draws,
        feature_names=names,
        classes=classes,
        sampling=_sampling(stored, draws, n_rows),
        n_rows=n_rows,
        not_covered=UNSUPERVISED if type_ == "unsupervised" else None,
        levels=levels,
        thresholds_are="midpoints",
        origin="randomForest (R)",
    )


def _columns(forest: Any) -> tuple[tuple[str, ...], r.Levels]:
    """Name the columns, and the categories of factors."""
    listed = r.inside(forest, "xlevels")
    held = r.items(listed, "xlevels")
    names = tuple(f"x{k}" for k in range(len(held)))
    if isinstance(listed, dict):
        names = tuple(map(str, listed))
    elif (named := r.inside(forest, "ncat", "names")) is not None:
        names = r.texts(named, "ncat")
    if len(names) != len(held):
        raise BadModel("xlevels and ncat speak of different columns")
    return names, r.levels_of(zip(names, held, strict=True))


def _of_tree(forest: Any, name: str, t: int, n: int, n_trees: int) -> FloatArray:
    """Take what a tree has of an array whose last axis goes by trees, or lacks where one is."""
    array, dimensions = r.plain(r.inside(forest, name)), 2 + (name == "treemap")
    if isinstance(array, np.ndarray) and array.ndim == dimensions - 1 and n_trees == 1:
        array = array[..., None]
    array = r.numbers(array, name, dimensions=dimensions)
    if array.shape[1:] not in ((n_trees,), (2, n_trees)) or len(array) < n:
        raise BadModel(f"{name}: of the shape {array.shape}")
    return np.asarray(array[:n, ..., t])


def _tree(
    forest: Any, t: int, n: int, n_trees: int, columns: tuple[tuple[str, ...], r.Levels]
) -> tuple[Tree, FloatArray]:
    """Read a tree, and what its nodes predict."""
    where, at = f"tree {t}", (t, n, n_trees)
    if r.inside(forest, "treemap") is not None:
        both = _of_tree(forest, "treemap", *at).T
    else:
        both = np.array([_of_tree(forest, k, *at) for k in ("leftDaughter", "rightDaughter")])
    left, right = r.whole_numbers(both, f"{where}: children", (0, n + 1), dimensions=2) - 1
    column = r.whole_numbers(_of_tree(forest, "bestvar", *at), where, (0, len(columns[0]) + 1)) - 1
    cut = _of_tree(forest, "xbestsplit", *at)
    kinds = r.whole_numbers(r.inside(forest, "ncat"), "ncat", (0, 2**31), len(columns[0]))
    sets = (left != LEAF) & (np.append(kinds, 0)[column] > 1)
    members = {int(v): r.subset(cut[v], where) for v in np.flatnonzero(sets)}
    tree, order = r.tree_of(where, (left, right), column, cut, columns, members)
    return tree, _of_tree(forest, "nodepred", *at)[order]


def _n_rows(stored: StoredObject) -> int | None:
    """Count the targets of all rows, or what else has one entry for each."""
    y = stored.get("y")
    for value in (y.get("codes") if r.is_factor(y) else y, stored.get("oob.times")):
        array = r.plain(value)
        if isinstance(array, np.ndarray) and array.ndim == 1 and len(array) < MOST_ROWS:
            return len(array)
    return None


def _sampling(stored: StoredObject, draws: IntArray | None, n_rows: int | None) -> Sampling:
    if draws is not None:
        kind = Subsample if draws.max(initial=0) <= 1 else Bootstrap
        return kind(n_draws=int(draws[:1].sum()), rule="randomForest")
    told = forests.call_names(stored)
    if told is None or {"replace", "sampsize", "strata", "weights", "classwt"} & told:
        # Whatever the call says: the numbers of rows that trees drew are not in the object.
        n_rows = None
    return Bootstrap(n_draws=n_rows, rule="randomForest")
