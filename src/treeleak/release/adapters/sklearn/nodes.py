"""One stored tree of scikit-learn: its shape, and the numbers of its nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import MOST_NAMED, Message, MessageTemplate
from treeleak.core.private import dataclass
from treeleak.core.text import listed
from treeleak.release.adapters.shares import cut_below
from treeleak.release.bounds import MOST_REAL
from treeleak.release.checked_json import located
from treeleak.release.statistics import MEAN, VALUE, VARIANCE, NodeStatistic, Quantity, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, Tree

# Sums of a few thousand weights err by about 1e-12 of their size; a count that is no whole number
# misses by far more than this.
TOLERANCE = 1e-4
# Most by which an impurity may be off, and a sum of weights as a share of the whole.
_IMPURE, _ROUNDED = 1e-6, 1e-12
# Stands for infinity: the product of two such numbers is still a float.
LARGEST = 1e150


@dataclass(frozen=True)
class Version:
    """What changed between versions of scikit-learn, as far as a stored model shows it."""

    takes_missing: bool
    fractions: bool
    centred_scores: bool
    random_split_sees_missing: bool
    bagging_draws_by_weight: bool
    forest_draws_by_weight: bool
    counts_missing_right: bool

    @classmethod
    def of(cls, text: str) -> Version:
        """Read a version, of the form "1.4.2"; anything else is a current one."""
        found = re.match(r"(\d+)\.(\d+)", text)
        number = (int(found[1]), int(found[2])) if found else (99, 0)
        since = [number >= (1, minor) for minor in (3, 4, 4, 6, 8, 9, 9)]
        return cls(*since)


@dataclass(frozen=True, eq=False)
class Nodes:
    """One stored tree: its shape, and the numbers of its nodes as they stand in the file."""

    shape: Tree
    value: FloatArray  # (n_nodes, n_outputs, n_classes)
    reached: IntArray
    weight: FloatArray
    impurity: FloatArray | None = None  # None where taken out, not a number, or all are alike
    sends_missing: bool = True  # whether nodes say where missing values go

    def per_class(self, version: Version) -> FloatArray:
        """Sums of weights per class, shape (n_nodes, n_classes)."""
        value = self.value[:, 0, :]
        return value * self.weight[:, None] if version.fractions else value


def read_nodes(t: int, stored: Any, features: Any, n_columns: int, version: Version) -> Nodes:
    """Read tree ``t``; ``features`` are the columns of the model that it was given."""
    inner = stored.get("tree_") if isinstance(stored, StoredObject) else None
    if not isinstance(inner, StoredObject):
        raise BadInput(f"tree {t} is not fitted")
    nodes, value = node_records(t, inner, _KINDS), inner.get("values")
    n = len(nodes)
    values = isinstance(value, np.ndarray) and value.ndim == 3 and value.dtype.kind == "f"
    if not values or len(value) != n or not value.size:
        raise BadModel(f"tree {t}: no values for its {n} nodes")
    weight = nodes["weighted_n_node_samples"].astype(float)
    reached = nodes["n_node_samples"].astype(np.int64)
    value = value.astype(float)
    for name, array in (("weight", weight[:, None]), ("value", value.reshape(n, -1))):
        if (bad := ~(np.abs(array) < LARGEST).all(axis=1)).any():
            raise BadModel(f"tree {t}, node {bad.argmax()}: {name} is not a finite number")
    if (bad := (reached < 0) | (weight < 0)).any():
        raise BadModel(f"tree {t}, node {bad.argmax()}: a negative count")
    left, right = (nodes[side].astype(np.int64) for side in ("left_child", "right_child"))
    leaf = left == LEAF
    feature = np.where(leaf, LEAF, nodes["feature"].astype(np.int64))
    missing = np.zeros(n, dtype=bool)
    sends_missing = "missing_go_to_left" in (nodes.dtype.names or ())
    if sends_missing:
        missing = nodes["missing_go_to_left"].astype(bool) & ~leaf
    threshold = np.where(leaf, np.nan, nodes["threshold"])
    # Only a split of missing values against the rest has an infinite threshold.
    if (bad := np.isinf(threshold) & ((threshold < 0) | missing)).any():
        raise BadModel(f"tree {t}, node {bad.argmax()}: threshold {threshold[bad.argmax()]}")
    if not version.counts_missing_right:
        # No value is below NaN.
        threshold[np.isnan(threshold) & ~leaf] = -np.inf
    with located(f"tree {t}: "):
        shape = Tree(feature, threshold, left, right, missing)
    if features is not None:
        columns = np.asarray(features)
        if columns.ndim != 1 or columns.dtype.kind not in "iu" or feature.max() >= len(columns):
            raise BadModel(f"tree {t}: no columns for its features")
        feature = np.where(leaf, LEAF, columns.astype(np.int64)[feature])
        shape = replace(shape, feature=feature)
    if feature.max() >= n_columns:
        raise BadModel(f"tree {t} tests column {feature.max()} of {n_columns}")
    check_children(shape, reached[:, None].astype(float), f"tree {t}", "number of rows")
    return Nodes(shape, value, reached, weight, _impurity(t, nodes, version), sends_missing)


_KINDS = {
    **dict.fromkeys(("left_child", "right_child", "feature", "n_node_samples"), "iu"),
    **dict.fromkeys(("threshold", "weighted_n_node_samples"), "f"),
}
"""Kinds of numpy types by the fields of a node."""


def node_records(t: int, stored: Any, dtype_codes: Mapping[str, str]) -> NDArray[Any]:
    """Take the nodes of tree ``t``: an array of records with numbers where there must be some."""
    nodes = stored.get("nodes") if isinstance(stored, StoredObject) else None
    if not isinstance(nodes, np.ndarray) or not dtype_codes.keys() <= set(nodes.dtype.names or ()):
        raise BadModel(f"tree {t}: no array of nodes")
    if nodes.ndim != 1 or any(
        nodes.dtype[name].kind not in allowed for name, allowed in dtype_codes.items()
    ):
        raise BadModel(f"tree {t}: an array of nodes of type {nodes.dtype}")
    return nodes


def _impurity(t: int, nodes: NDArray[Any], version: Version) -> FloatArray | None:
    if "impurity" not in (nodes.dtype.names or ()) or nodes.dtype["impurity"].kind != "f":
        return None
    impurity = nodes["impurity"].astype(float)
    if np.isposinf(impurity).all():  # A criterion that knows of none.
        return None
    if np.isnan(impurity).any() or (np.isinf(impurity).any() and not version.counts_missing_right):
        # Older versions write them where rows with missing values went.
        return None
    if (bad := ~(np.abs(impurity) < LARGEST)).any():
        raise BadModel(f"tree {t}, node {bad.argmax()}: impurity is not a finite number")
    return impurity if impurity[0] > 0 else None


def tree_and_values(t: int, stored: Any, n_columns: int) -> tuple[Tree, FloatArray]:
    """Read tree ``t`` of an ensemble of one target, without counts.

    Returns
    -------
    Tree
    float array, shape (n_nodes, n_classes)
        What it stores for each class in each node.
    """
    nodes = read_nodes(t, stored, None, n_columns, Version.of(""))
    if nodes.value.shape[1] != 1:
        raise BadModel(f"tree {t} has {nodes.value.shape[1]} targets")
    return nodes.shape, nodes.value[:, 0, :]


def check_children(
    tree: Tree, counts: FloatArray, where: str, what: str, tolerance: float = 0.0
) -> None:
    """Check that the counts of two children add up to those of their parent."""
    inner = np.flatnonzero(~tree.is_leaf)
    gap = np.abs(counts[tree.left[inner]] + counts[tree.right[inner]] - counts[inner])
    wrong = (gap > tolerance * np.maximum(1.0, counts[inner])).any(axis=1)
    if wrong.any():
        raise BadModel(f"{where}, node {inner[wrong.argmax()]}: its children's {what} differs")


def in_classes_of(
    stored: StoredObject,
    tree: StoredObject,
    t: int,
    nodes: Nodes,
    sums: FloatArray,
    n_classes: int,
) -> FloatArray:
    """Check sums of weights per class, and put them in the columns of the ensemble's classes."""
    if (bad := (sums < -TOLERANCE).any(axis=1)).any():
        raise BadModel(f"tree {t}, node {bad.argmax()}: a negative count")
    total = nodes.weight
    if (bad := np.abs(sums.sum(axis=1) - total) > TOLERANCE * np.maximum(1.0, total)).any():
        raise BadModel(
            f"tree {t}, node {bad.argmax()}: its classes add up to {sums[bad.argmax()].sum():g}, "
            f"not {total[bad.argmax()]:g}"
        )
    check_children(nodes.shape, sums, f"tree {t}", "weight of a class", TOLERANCE)
    return of_ensemble(stored, tree, t, sums, n_classes)


def check_impurity(tree: StoredObject, t: int, nodes: Nodes, sums: FloatArray) -> None:
    """Check that impurities are those of the sums of weights per class, as far as both are told."""
    make = _IMPURITY_OF.get(str(tree.get("criterion")))
    if make is None or nodes.impurity is None:
        return
    total = sums.sum(axis=1)
    share = sums / np.where(total > 0, total, 1.0)[:, None]
    off = np.abs(nodes.impurity - make(share))
    # What rounding leaves of the root's weight may be much of a light node's.
    if (bad := off * total > _IMPURE * total + _ROUNDED * total[0]).any():
        v = int(bad.argmax())
        raise BadModel(
            f"tree {t}, node {v}: its impurity is {nodes.impurity[v]:g}, but its classes make "
            f"{make(share[[v]])[0]:g}"
        )


def _entropy(share: FloatArray) -> FloatArray:
    return np.asarray(-(share * np.log2(np.where(share > 0, share, 1.0))).sum(axis=1))


_IMPURITY_OF: Mapping[str, Callable[[FloatArray], FloatArray]] = MappingProxyType(
    {
        "gini": lambda share: np.asarray(1.0 - (share**2).sum(axis=1)),
        "entropy": _entropy,
        "log_loss": _entropy,
    }
)
"""Impurity of class shares, shape (n_nodes, n_classes), by criterion."""


def of_ensemble(
    stored: StoredObject, tree: StoredObject, t: int, sums: FloatArray, n_classes: int
) -> FloatArray:
    """Put what a tree says of its classes in the columns of the ensemble's classes."""
    if sums.shape[1] == n_classes:
        return sums
    # A tree of a bagging that never saw a class numbers the others as the ensemble does.
    classes = np.asarray(tree.get("classes_"))
    fits = classes.shape == sums.shape[1:] and classes.dtype.kind in "iuf" and stored is not tree
    if not fits or not np.isin(classes, np.arange(n_classes)).all():
        raise BadModel(f"tree {t} counts {sums.shape[1]} classes, the model has {n_classes}")
    out = np.zeros((len(sums), n_classes))
    out[:, classes.astype(np.int64)] = sums
    return out


MISCOUNTED_BELOW = MessageTemplate(
    "ensembles_miscounted_below",
    "Scikit-learn before 1.9 miscounts the rows below a test of a column with missing values: in "
    "{trees:number} of {of:number} trees ({which}) such tests, and all below them, are left out.",
)


def rightly_counted(
    nodes: Sequence[Nodes], columns: Collection[int]
) -> tuple[list[Nodes], Message | None]:
    """End trees where they test some columns, and say which ones; None if no test is left."""
    cut = [_ended(n, np.isin(n.shape.feature, list(columns))) for n in nodes]
    if all(n.shape.n_nodes == 1 for n in cut):
        return list(nodes), None
    which = [
        str(t)
        for t, (n, part) in enumerate(zip(nodes, cut, strict=True))
        if part.shape is not n.shape
    ]
    note = MISCOUNTED_BELOW(trees=len(which), of=len(nodes), which=listed(which, MOST_NAMED))
    return cut, note


def _ended(nodes: Nodes, ends: BoolArray) -> Nodes:
    """End a tree at some of its nodes."""
    shape, below = nodes.shape, np.zeros(nodes.shape.n_nodes, dtype=bool)
    for v in np.flatnonzero(~shape.is_leaf):
        # Parents come before their children.
        if ends[v] or below[v]:
            below[[shape.left[v], shape.right[v]]] = True
    if not below.any():
        return nodes
    remaining = np.flatnonzero(~below)
    impurity = None if nodes.impurity is None else nodes.impurity[remaining]
    shape = cut_below(shape, np.flatnonzero(ends & ~below).tolist(), remaining)
    return replace(
        nodes, shape=shape, value=nodes.value[remaining], reached=nodes.reached[remaining],
        weight=nodes.weight[remaining], impurity=impurity,
    )  # fmt: skip


def maybe_missing(
    trees: Sequence[StoredObject],
    nodes: Sequence[Nodes],
    names: tuple[str, ...],
    version: Version,
) -> frozenset[str]:
    """Find the columns in which some node has seen missing values."""
    columns: set[int] = set()
    for tree, n in zip(trees, nodes, strict=True):
        # Before 1.3 no tree took missing values, and no node says where they go.
        if not (n.sends_missing or version.takes_missing):
            continue
        if tree.get("splitter") == "random" and not version.random_split_sees_missing:
            continue
        columns |= seen_missing(n.shape, n.reached if n.reached.any() else None)
    return frozenset(names[c] for c in columns)


def seen_missing(tree: Tree, rows: NDArray[Any] | None) -> set[int]:
    """Find the columns in which a node has seen missing values; ``rows`` reach each, if told."""
    inner = np.flatnonzero(~tree.is_leaf)
    seen = np.isinf(tree.threshold[inner])
    if rows is not None:
        seen |= (rows[tree.left[inner]] > rows[tree.right[inner]]) != tree.missing_left[inner]
    return set(tree.feature[inner[seen]].tolist())


SQUARED = ("squared_error", "mse", "friedman_mse")
ABSOLUTE = ("absolute_error", "mae")
_ROUNDED_ERROR = 1e-14
"""Mean absolute error, as a part of the target, that rounding leaves of zero."""


def with_targets(
    stored: StoredObject, nodes: Nodes, tree: Tree, shift: float = 0.0, *, clipped: bool = False
) -> Tree:
    """Add the mean and the variance of the targets, as far as the criterion tells them.

    Where leaves hold something else, medians or means that were ``clipped``, that is added as it
    is. ``stored``: the tree, with its criterion. ``tree``: the same with counts. ``shift``: what
    was taken off each target before the tree was fitted.
    """
    mean, criterion = nodes.value[:, 0, 0] + shift, stored.get("criterion")
    impurity = nodes.impurity
    if nodes.value.shape[1:] != (1, 1):
        return tree
    held = (VALUE, np.where(tree.is_leaf, mean, 0.0), tree.is_leaf)
    if clipped:
        return _with(tree, held)
    squared = criterion in SQUARED
    # Means of weighted rows say nothing of sums over rows.
    counted = tree.totals is not None and np.array_equal(tree.totals, nodes.weight)
    weighted = nodes.reached.any() and not counted
    if squared and not weighted:
        return _with(tree, (MEAN, mean, None), (VARIANCE, impurity, None))
    if squared or criterion in ABSOLUTE:
        # Medians: of nodes of one row, and of those whose rows are all alike, means as well.
        constant = nodes.reached == 1
        if impurity is not None:
            constant |= impurity <= _ROUNDED_ERROR * np.abs(mean)
        return _with(tree, (MEAN, mean, constant), (VARIANCE, np.zeros(len(mean)), constant), held)
    if criterion == "poisson" and not weighted:
        return _with(tree, (MEAN, mean, None))
    return _with(tree, held)


def with_statistic(
    tree: Tree, quantity: Quantity, values: FloatArray | None, at: BoolArray | None = None
) -> Tree:
    """Add a statistic, at some nodes only where these are given; nothing where there is none."""
    return _with(tree, (quantity, values, at))


def _with(tree: Tree, *items: tuple[Quantity, FloatArray | None, BoolArray | None]) -> Tree:
    entries = list(tree.statistics)
    for quantity, values, at in items:
        if (
            values is None
            # What boosting adds at its leaves is there already, in its own units.
            or tree.statistics.get(quantity) is not None
            or not (np.abs(values) <= MOST_REAL).all()
            or (at is not None and not at.any())
        ):
            continue
        masked = values if at is None else np.where(at, values, 0.0)
        entries.append(NodeStatistic(quantity, masked, None if at is None or at.all() else at))
    return tree.with_statistics(Statistics(tuple(entries)))
