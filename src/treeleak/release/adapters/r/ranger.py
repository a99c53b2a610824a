"""The adapter of ranger's forests.

What the objects of ranger 0.10 to 0.17 hold, from its sources and checked against its answers:
``child.nodeIDs`` count from 0, and name 0 twice at a leaf. A row goes left where its value is not
above ``split.values``. Of a factor that is not ordered, ``split.values`` is a number whose bits
name the categories that go right. Leaves hold the class (``split.values``), the mean target, or
the share of each class (``terminal.class.counts``), never how many rows; ``predictions`` are those
of the trees that did not draw a row, one line for each row, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import static_message
from treeleak.release.adapters.r.leaf_sizes import leaf_sizes
from treeleak.release.adapters.r.values import (
    LARGEST,
    call_names,
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
    whole,
    whole_numbers,
)
from treeleak.release.bounds import MOST_COLUMNS, MOST_NODES
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.out_of_bag import OutOfBag, out_of_bag
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import Bootstrap, Sampling, Subsample
from treeleak.release.statistics import (
    DRAWS,
    LABELS,
    MEAN,
    VALUE,
    NodeStatistic,
    Statistics,
)
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, Tree

CLASSES, SHARES, TARGETS = "Classification", "Probability estimation", "Regression"
FROM_OUT_OF_BAG = static_message(
    "The file holds class shares or mean targets of leaves, without sizes. How many draws each "
    "leaf holds follows from the kept draws and the out-of-bag predictions.",
    "r_sizes_from_out_of_bag",
)
NAMED = static_message(
    "The file does not hold the numbers of rows in leaves: the attack used only the classes that "
    "each leaf holds, or the one that it predicts.",
    "r_leaves_name_classes",
)
NO_SIZES = static_message(
    "the file holds the mean target of each leaf, but not how many rows lie in it, and that does "
    "not follow from the rest",
    "r_leaves_without_sizes",
)
NO_FOREST = (
    "this ranger object holds no trees (write.forest = FALSE): nothing to audit but the rest"
)
OTHER_KIND = static_message(
    "a survival forest of ranger: its leaves hold hazards, which treeleak does not read",
    "r_ranger_survival",
)


@adapter("R", "ranger", "ranger.forest")
def _ranger(stored: StoredObject) -> Release:
    forest = stored.get("forest") if stored.name == "ranger" else stored
    if not isinstance(forest, StoredObject):
        raise BadInput(NO_FOREST)
    names = texts(forest.get("independent.variable.names"), "independent.variable.names")
    kind = text(forest.get("treetype")) or text(stored.get("treetype"))
    levels = _levels(forest, names)
    read = [_tree(forest, t, names, levels) for t in range(_n_trees(forest))]
    trees, orders, predicted = (list(part) for part in zip(*read, strict=True))
    n_rows = whole(stored.get("num.samples"))
    draws = _draws(stored, len(trees), n_rows)
    classes, numbered = _classes(forest) if kind in (CLASSES, SHARES) else ((), {})
    values: list[FloatArray] = []
    for t, (tree, order) in enumerate(zip(trees, orders, strict=True)):
        if kind == SHARES:
            values.append(_shares(forest, t, tree, order, numbered))
        elif kind == CLASSES:
            values.append(_labels(predicted[t], tree, numbered, t))
        else:
            values.append(np.where(tree.is_leaf, predicted[t], 0.0)[:, None])
    means = _means(stored, kind, classes, values, n_rows)
    noise, not_covered, notes = None, None, tuple[str, ...]()
    sizes = None
    if means is not None and draws is not None and kind in (SHARES, TARGETS):
        sizes = leaf_sizes(trees, means, draws, whole_shares=kind == SHARES)
    if sizes is not None:
        notes = (FROM_OUT_OF_BAG,)
        trees = [_sized(*one, kind) for one in zip(trees, values, sizes, strict=True)]
    elif kind in (SHARES, CLASSES):
        noise = LabelNoise("present", 1.0) if kind == SHARES else LabelNoise("majority")
        notes = (NAMED,)
        trees = [_naming(tree, value, kind) for tree, value in zip(trees, values, strict=True)]
    else:
        not_covered = NO_SIZES if kind == TARGETS else OTHER_KIND
        trees = [_valued(tree, value, kind) for tree, value in zip(trees, values, strict=True)]
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=classes,
        sampling=_sampling(stored, draws, n_rows),
        n_rows=n_rows,
        noise=noise,
        not_covered=not_covered,
        levels=levels,
        thresholds_are="unknown" if text(stored.get("splitrule")) == "extratrees" else "midpoints",
        origin="ranger (R)",
        notes=notes,
        out_of_bag=() if means is None or sizes is None else (means,),
        draws=draws,
        sources=(stored, forest),
    )


def _n_trees(forest: StoredObject) -> int:
    return len(items(forest.get("child.nodeIDs"), "child.nodeIDs"))


def _levels(forest: StoredObject, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Find the texts of factors, which ranger keeps where it sorted them."""
    listed = forest.get("covariate.levels")
    if listed is None:
        return {}
    found = items(listed, "covariate.levels", len(names))
    return {c: texts(v, c) for c, v in zip(names, found, strict=True) if v is not None}


def _tree(
    forest: StoredObject, t: int, names: Sequence[str], levels: dict[str, tuple[str, ...]]
) -> tuple[Tree, IntArray, FloatArray]:
    """Read a tree: its shape, which node of the file each node is, and what leaves predict."""
    where = f"tree {t}"
    both = items(items(forest.get("child.nodeIDs"), "child.nodeIDs")[t], where, 2)
    left = whole_numbers(both[0], where, (0, MOST_NODES))
    n = len(left)
    right = whole_numbers(both[1], where, (0, MOST_NODES), n)
    leaf = (left == 0) & (right == 0)
    left, right = (np.where(leaf, LEAF, side) for side in (left, right))
    column = whole_numbers(
        items(forest.get("split.varIDs"), "split.varIDs")[t], where, (0, MOST_COLUMNS), n
    )
    value = numbers(items(forest.get("split.values"), "split.values")[t], where, n)
    ordered = plain(forest.get("is.ordered"))
    if not isinstance(ordered, np.ndarray) or ordered.shape != (len(names),):
        raise BadModel("is.ordered does not speak of each column")
    if (column[~leaf] >= len(names)).any():
        raise BadModel(f"{where}: tests a column that there is not")
    sets = ~leaf & ~ordered.astype(bool)[column % max(len(names), 1)]
    first = np.array([0 if c in levels else 1 for c in names])
    members = {int(v): subset(value[v], where) + first[column[v]] for v in np.flatnonzero(sets)}
    # Bits name what goes right: the same test with its children the other way round.
    children = np.where(sets, right, left), np.where(sets, left, right)
    cuts = recoded(value, column, names, levels)
    tree, order = tree_of(where, children, column, cuts, members)
    return tree, order, value[order]


def _classes(forest: StoredObject) -> tuple[tuple[Any, ...], dict[float, int]]:
    """Give the labels, and which of them each class value of the file is."""
    values = numbers(forest.get("class.values"), "class.values")
    if forest.get("levels") is None:
        labels = sorted(float(v) for v in values)
        return tuple(labels), {v: labels.index(v) for v in labels}
    levels = texts(forest.get("levels"), "levels")
    codes = whole_numbers(forest.get("class.values"), "class.values", (1, len(levels) + 1))
    used = sorted(set(codes.tolist()))
    return tuple(levels[c - 1] for c in used), {float(c): used.index(c) for c in codes}


def _shares(
    forest: StoredObject, t: int, tree: Tree, order: IntArray, numbered: dict[float, int]
) -> FloatArray:
    """Read the shares of the classes in each leaf, in the order of the labels."""
    where = f"tree {t}: terminal.class.counts"
    listed = items(forest.get("terminal.class.counts"), "terminal.class.counts")[t]
    held = items(listed, where)
    places = list(numbered.values())
    out = np.zeros((tree.n_nodes, len(places)))
    for v in tree.leaves:
        if order[v] >= len(held):
            raise BadModel(f"{where}: nothing of node {order[v]}")
        shares = numbers(held[order[v]], where, len(places))
        if not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-9:
            raise BadModel(f"{where}: of node {order[v]}, no shares of classes")
        out[v, places] = shares
    return out


def _labels(predicted: FloatArray, tree: Tree, numbered: dict[float, int], t: int) -> FloatArray:
    """Give 1 for the class of each leaf."""
    out = np.zeros((tree.n_nodes, len(numbered)))
    for v in tree.leaves:
        if float(predicted[v]) not in numbered:
            raise BadModel(f"tree {t}: a leaf predicts the class {predicted[v]:g}")
        out[v, numbered[float(predicted[v])]] = 1.0
    return out


def _draws(stored: StoredObject, n_trees: int, n_rows: int | None) -> IntArray | None:
    """Read how often each tree drew each row."""
    kept = stored.get("inbag.counts")
    if kept is None:
        return None
    lists = items(kept, "inbag.counts", n_trees)
    return np.array([whole_numbers(b, "inbag.counts", (0, 2**31), n_rows) for b in lists])


def _sampling(stored: StoredObject, draws: IntArray | None, n_rows: int | None) -> Sampling:
    told = call_names(stored)
    share = told is None or "sample.fraction" in told
    weighted = draws is None and bool({"case.weights", "inbag"} & (told or set()))
    hidden = "rows may have been drawn with weights, which the file does not hold" * weighted
    replaced = plain(stored.get("replace"))
    with_replacement = not isinstance(replaced, np.ndarray) or bool(replaced.all())
    n_draws = None if draws is None else int(draws[0].sum())
    if n_draws is None and n_rows is not None and not share:
        n_draws = n_rows if with_replacement else round(0.632 * n_rows)
    kind = Bootstrap if with_replacement else Subsample
    return kind(n_draws=n_draws, rule="ranger", hidden=hidden)


def _means(
    stored: StoredObject,
    kind: str,
    classes: Sequence[Any],
    values: list[FloatArray],
    n_rows: int | None,
) -> OutOfBag | None:
    """Read the out-of-bag predictions of all rows."""
    held = stored.get("predictions")
    mean = plain(held)
    if kind == SHARES and isinstance(mean, np.ndarray) and mean.ndim == 2:
        columns = names_along(held, 1)
        if columns is None or sorted(columns) != sorted(map(_label, classes)):
            return None
        mean = mean[:, [columns.index(_label(c)) for c in classes]]
    return out_of_bag(mean, values, n_rows, LARGEST) if kind in (SHARES, TARGETS) else None


def _label(label: Any) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)


def _sized(tree: Tree, values: FloatArray, n: FloatArray, kind: str) -> Tree:
    """Count draws in all nodes of a tree, given those of its leaves."""
    valued = _valued(tree, values, kind)
    totals = summed(tree, n)
    counts = np.round(summed(tree, values * n[:, None])) if kind == SHARES else None
    return valued.with_counts(DRAWS, counts=counts, totals=totals)


def _valued(tree: Tree, values: FloatArray, kind: str) -> Tree:
    leaf: BoolArray = tree.is_leaf
    statistic = NodeStatistic(MEAN, values[:, 0], leaf)
    if kind == SHARES:
        statistic = NodeStatistic(VALUE, values, leaf)
    return tree.with_statistics(Statistics((statistic,)))


def _naming(tree: Tree, values: FloatArray, kind: str) -> Tree:
    """Let leaves name the classes that they hold, or predict."""
    named = NodeStatistic(LABELS, (values > 0).astype(float), tree.is_leaf)
    shares = (NodeStatistic(VALUE, values, tree.is_leaf),) if kind == SHARES else ()
    return tree.with_statistics(Statistics((named, *shares)))
