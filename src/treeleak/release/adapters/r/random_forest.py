"""The adapter of R's randomForest.

What the objects of randomForest 4.6 and 4.7 hold, from its sources and checked against its answers:
``treemap`` (or ``leftDaughter``, ``rightDaughter``) counts from 1, and is 0 at a leaf. A row goes
left where its value is not above ``xbestsplit``; of a factor that is not ordered, ``xbestsplit`` is
a number whose bits name the categories that go left. Leaves hold the class or the mean target,
never how many rows. ``y`` are the targets of all rows, ``votes`` and ``predicted`` what the trees
say that did not draw a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import static_message
from treeleak.release.adapters.r.leaf_sizes import leaf_sizes
from treeleak.release.adapters.r.ranger import NAMED, NO_SIZES
from treeleak.release.adapters.r.values import (
    LARGEST,
    call_names,
    inside,
    items,
    names_along,
    numbers,
    plain,
    recoded,
    subset,
    summed,
    text,
    texts,
    tree_of,
    whole_numbers,
)
from treeleak.release.bounds import MOST_COLUMNS, MOST_NODES, MOST_ROWS
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.out_of_bag import OutOfBag, out_of_bag
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import Bootstrap, Sampling, Subsample
from treeleak.release.statistics import DRAWS, LABELS, MEAN, NodeStatistic, Statistics
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
    kind = text(stored.get("type"))
    classed = kind != "regression"
    names, levels = _columns(forest)
    sizes = whole_numbers(inside(forest, "ndbigtree"), "ndbigtree", (1, MOST_NODES))
    read = [_tree(forest, t, int(n), len(sizes), names, levels) for t, n in enumerate(sizes)]
    trees, _predicted = (list(part) for part in zip(*read, strict=True))
    labels = _labels(stored)
    n_rows = None if labels is None else len(labels)
    draws = _draws(stored, len(trees), n_rows)
    classes: tuple[Any, ...] = ()
    if classed:
        classes = texts(stored.get("classes"), "classes")
        values = [_classes_of(p, tree, len(classes), t) for t, (tree, p) in enumerate(read)]
    else:
        values = [np.where(t.is_leaf, p, 0.0)[:, None] for t, p in read]
    means = _means(stored, classes, values, n_rows)
    noise, not_covered, notes = None, None, tuple[str, ...]()
    of_leaves = None
    if classed:
        noise, notes = LabelNoise("majority"), (NAMED,)
        not_covered = UNSUPERVISED if kind == "unsupervised" else None
        entries = [
            NodeStatistic(LABELS, v, tree.is_leaf) for tree, v in zip(trees, values, strict=True)
        ]
        trees = [t.with_statistics(Statistics((e,))) for t, e in zip(trees, entries, strict=True)]
    else:
        if means is not None and draws is not None:
            of_leaves = leaf_sizes(trees, means, draws, whole_shares=False)
        entries = [
            NodeStatistic(MEAN, v[:, 0], t.is_leaf) for t, v in zip(trees, values, strict=True)
        ]
        trees = [t.with_statistics(Statistics((e,))) for t, e in zip(trees, entries, strict=True)]
        if of_leaves is None:
            not_covered = NO_SIZES
        else:
            trees = [
                t.with_counts(DRAWS, totals=summed(t, n))
                for t, n in zip(trees, of_leaves, strict=True)
            ]
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=classes,
        sampling=_sampling(stored, draws, n_rows),
        n_rows=n_rows,
        noise=noise,
        not_covered=not_covered,
        levels=levels,
        thresholds_are="midpoints",
        origin="randomForest (R)",
        notes=notes,
        out_of_bag=() if means is None else (means,),
        draws=draws,
    )


def _columns(forest: Any) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Name the columns, and the categories of factors."""
    listed = inside(forest, "xlevels")
    if isinstance(listed, dict):
        names = tuple(map(str, listed))
    else:
        held = inside(forest, "ncat")
        named = held.get("names") if isinstance(held, StoredObject) else None
        n = len(items(listed, "xlevels"))
        names = tuple(f"x{k}" for k in range(n)) if named is None else texts(named, "ncat")
    found = items(listed, "xlevels", len(names))
    factors = zip(names, found, strict=True)
    levels = {c: texts(v, c) for c, v in factors if _are_texts(v)}
    return names, levels


def _are_texts(value: Any) -> bool:
    array = plain(value)
    return isinstance(array, np.ndarray) and array.dtype == object


def _of_tree(forest: Any, name: str, t: int, n: int, n_trees: int) -> FloatArray:
    """Take what a tree has of a matrix with a column for each; of one tree, it may be a vector."""
    array = plain(inside(forest, name))
    if isinstance(array, np.ndarray) and array.ndim == 1 and n_trees == 1:
        array = array[:, None]
    matrix = numbers(array, name, dimensions=2)
    if matrix.shape[1] != n_trees or len(matrix) < n:
        raise BadModel(f"{name}: of the shape {matrix.shape}")
    return matrix[:n, t]


def _children(forest: Any, t: int, n: int, n_trees: int) -> tuple[IntArray, IntArray]:
    where = f"tree {t}: children"
    if inside(forest, "treemap") is None:
        sides = [_of_tree(forest, k, t, n, n_trees) for k in ("leftDaughter", "rightDaughter")]
    else:
        array = plain(inside(forest, "treemap"))
        if isinstance(array, np.ndarray) and array.ndim == 2 and n_trees == 1:
            array = array[:, :, None]
        cube = numbers(array, where, dimensions=3)
        if cube.shape[1:] != (2, n_trees) or len(cube) < n:
            raise BadModel(f"treemap: of the shape {cube.shape}")
        sides = [cube[:n, side, t] for side in (0, 1)]
    left, right = (whole_numbers(side, where, (0, n + 1)) for side in sides)
    return left - 1, right - 1


def _tree(
    forest: Any,
    t: int,
    n: int,
    n_trees: int,
    names: Sequence[str],
    levels: dict[str, tuple[str, ...]],
) -> tuple[Tree, FloatArray]:
    """Read a tree, and what its nodes predict."""
    where = f"tree {t}"
    left, right = _children(forest, t, n, n_trees)
    tested = _of_tree(forest, "bestvar", t, n, n_trees)
    column = whole_numbers(tested, where, (0, MOST_COLUMNS)) - 1
    cut = _of_tree(forest, "xbestsplit", t, n, n_trees)
    inner = left != LEAF
    if (column[inner] < 0).any() or (column >= len(names)).any():
        raise BadModel(f"{where}: tests a column that there is not")
    n_categories = whole_numbers(inside(forest, "ncat"), "ncat", (0, 2**31), len(names))
    sets = inner & (n_categories[np.maximum(column, 0)] > 1)
    members = {int(v): subset(cut[v], where) for v in np.flatnonzero(sets)}
    cuts = recoded(cut, column, names, levels)
    tree, order = tree_of(where, (left, right), column, cuts, members)
    return tree, _of_tree(forest, "nodepred", t, n, n_trees)[order]


def _classes_of(predicted: FloatArray, tree: Tree, n_classes: int, t: int) -> FloatArray:
    """Give 1 for the class of each leaf."""
    named = whole_numbers(predicted[tree.leaves], f"tree {t}: nodepred", (1, n_classes + 1))
    out = np.zeros((tree.n_nodes, n_classes))
    out[tree.leaves, named - 1] = 1.0
    return out


def _labels(stored: StoredObject) -> NDArray[Any] | None:
    """Take the targets of all rows; where they were taken out, anything else of their number."""
    held = stored.get("y")
    if isinstance(held, StoredObject) and held.name == "factor":
        held = held.get("codes")
    for value in (held, stored.get("oob.times")):
        array = plain(value)
        if isinstance(array, np.ndarray) and array.ndim == 1 and len(array) < MOST_ROWS:
            return array
    return None


def _draws(stored: StoredObject, n_trees: int, n_rows: int | None) -> IntArray | None:
    if stored.get("inbag") is None:
        return None
    inbag = whole_numbers(stored.get("inbag"), "inbag", (0, 2**31), n_rows, dimensions=2)
    if inbag.shape[1] != n_trees:
        raise BadModel(f"inbag: of the shape {inbag.shape}")
    return inbag.T.copy()


def _sampling(stored: StoredObject, draws: IntArray | None, n_rows: int | None) -> Sampling:
    told = call_names(stored)
    odd = {"replace", "sampsize", "strata", "weights", "classwt"}
    if draws is not None:
        once = draws.max(initial=0) <= 1
        kind = Subsample if once else Bootstrap
        return kind(n_draws=int(draws[0].sum()), rule="randomForest")
    if told is None or odd & told:
        # Whatever the call says: the numbers of rows that trees drew are not in the object.
        return Bootstrap(n_draws=None, rule="randomForest")
    return Bootstrap(n_draws=n_rows, rule="randomForest")


def _means(
    stored: StoredObject, classes: Sequence[str], values: list[FloatArray], n_rows: int | None
) -> OutOfBag | None:
    """Read the out-of-bag votes or predictions of all rows."""
    if not classes:
        held = None if stored.get("coefs") is not None else plain(stored.get("predicted"))
        return None if held is None else out_of_bag(held, values, n_rows, LARGEST)
    votes = stored.get("votes")
    columns, mean = names_along(votes, 1), plain(votes)
    if columns is None or sorted(columns) != sorted(classes) or not isinstance(mean, np.ndarray):
        return None
    if mean.ndim != 2 or mean.dtype.kind not in "iuf":
        return None
    mean = mean[:, [columns.index(c) for c in classes]].astype(float)
    total = mean.sum(axis=1, keepdims=True)
    # Without norm.votes, these are numbers of trees.
    shares = np.divide(mean, total, out=np.full_like(mean, np.nan), where=total > 0)
    return out_of_bag(shares, values, n_rows, LARGEST)
