"""Optimal trees of pystreed (STreeD) and pydl8.5 (DL8.5), from stored data to a release.

Neither package is imported. What they do, found out from pystreed 1.4.0 and pydl8.5 0.1.8 and
checked by training (a test):

- Both test 0/1 columns only. STreeD goes right, DL8.5 left where a test is met. STreeD makes such
  columns itself: ``value <= threshold`` of numbers, one for each value (or several) of texts.
- STreeD's live tree counts the rows of each class in every node, and the estimator keeps the
  training rows. It cannot be pickled, as its tree lives in C++.
- A leaf of DL8.5 names a class and how many rows are of another one, not of which, nor how many
  rows there are. The tree keeps no names of columns, nor their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.message import Kind, own_words
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_COLUMNS, at_most
from treeleak.release.growing import GrowingTree
from treeleak.release.live import describes
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, Tree

__all__: list[str] = []

# More than a search for an optimal tree ends with; a file may lead to one node along many ways.
MAX_NODES = 2**17

UNCOUNTED = own_words(
    "The model does not count the rows in its leaves; treeleak.verification.counted fills the "
    "counts in from rows.",
    "optimal_uncounted",
)
UNNAMED = own_words(
    "The model knows neither the names nor the number of its columns: they are numbered up to the "
    "last one that it tests.",
    "optimal_unnamed",
)
LEFT_OUT = Kind(
    "columns_of_texts_left_out",
    "The model drops columns of texts that it does not test: {columns:all_quoted}.",
)


@dataclass(frozen=True)
class _Node:
    """A node of either package; ``below`` and ``above``: the children on the sides of the cut."""

    column: int = LEAF
    cut: float = np.nan
    below: Any = None
    above: Any = None
    counts: Sequence[float] | None = None


@describes(
    "pystreed",
    "AccuracyTree",
    "AccuracyFlexTree",
    "BalancedAccuracyTree",
    "CostComplexAccuracyTree",
    "F1ScoreTree",
)
def _streed_node(node: Any) -> Mapping[str, Any]:
    """What a live node holds that the object in C++ would not hand over by itself."""
    state = {"num_instances_per_class": list(node.num_instances_per_class)}
    if node.is_leaf_node():
        return state | {"label": node.label}
    left, right = node.left_child, node.right_child
    return state | {"feature": node.feature, "left_child": left, "right_child": right}


@adapter("pystreed", "STreeDClassifier")
def _streed(stored: StoredObject) -> Release:
    root = stored.get("tree_")
    if not isinstance(root, StoredObject):
        raise BadInput(f"this {stored.name} is not fitted, or the file lacks its tree")
    names, tests, left_out = _binarised(stored.get("binarizer_"))
    classes = _classes(stored)

    def read(node: StoredObject) -> _Node:
        # Counts go by the label itself, as it is a whole number.
        counts = [float(node.get("num_instances_per_class")[c]) for c in classes]
        if "feature" not in node.state:
            return _Node(counts=counts)
        column, cut, met_below = tests[node.get("feature")]
        if column not in names:
            raise NotCovered(
                f"a test of texts in column {column!r}: encode it as 0/1 columns first"
            )
        left, right = node.get("left_child"), node.get("right_child")
        below, above = (right, left) if met_below else (left, right)
        return _Node(names.index(column), cut, below, above, counts)

    tree = _tree(root, read)
    return Release(
        trees=(tree,),
        feature_names=names,
        classes=classes,
        sampling=AllRows(),
        n_rows=int(tree.counts[0].sum()) if tree.counts is not None else None,
        origin="pystreed, STreeDClassifier",
        notes=(LEFT_OUT(columns=left_out),) if left_out else (),
    )


@adapter("pydl85", "DL85Classifier")
def _dl85(stored: StoredObject) -> Release:
    root = stored.get("tree_")
    if not isinstance(root, Mapping):
        raise BadInput(f"this {stored.name} is not fitted, or found no tree")

    def read(node: Mapping[str, Any]) -> _Node:
        if "feat" not in node:
            return _Node()
        return _Node(int(node["feat"]), 0.5, node["right"], node["left"])

    tree = _tree(root, read)
    last = int(tree.feature.max())
    at_most(MOST_COLUMNS, last + 1, "columns")
    return Release(
        trees=(tree,),
        feature_names=tuple(f"x{i}" for i in range(last + 1)),
        classes=_classes(stored),
        sampling=AllRows(),
        n_rows=None,
        origin="pydl8.5, DL85Classifier",
        notes=(UNCOUNTED, UNNAMED),
    )


def _classes(stored: StoredObject) -> tuple[int, ...]:
    """Both packages know whole numbers as labels only."""
    return tuple(int(label) for label in stored.get("classes_"))


def _binarised(
    binarizer: StoredObject,
) -> tuple[tuple[str, ...], list[tuple[str, float, bool]], list[str]]:
    """Name the columns, and say what STreeD tests: column, cut, and whether it is met below.

    Columns of texts are named last, for they are none of the release's.
    """
    if binarizer.get("binary_feature_limiter") is not None:
        raise NotCovered(own_words("a choice among the tests (max_num_binary_features)"))
    kinds = [binarizer.get(f"{kind}_columns") for kind in ("binary", "categorical", "continuous")]
    every = [column for columns in kinds for column in columns]
    numbered = sorted(map(str, every)) == sorted(map(str, range(len(every))))
    binary, texts, numeric = (
        [f"x{c}" if numbered else str(c) for c in columns] for columns in kinds
    )
    tests = [(column, 0.5, False) for column in binary]
    if texts:
        many = binarizer.get("categorical_binarizer").get("n_categories_")
        tests += [(c, np.nan, False) for c, n in zip(texts, many, strict=True) for _ in range(n)]
    if numeric:
        cuts = binarizer.get("continuous_binarizer").get("thresholds_")
        tests += [(c, float(t), True) for c, own in zip(numeric, cuts, strict=True) for t in own]
    names = [*binary, *numeric]
    return tuple(sorted(names, key=_number) if numbered else names), tests, texts


def _number(name: str) -> int:
    return int(name.removeprefix("x"))


def _tree(root: Any, read: Callable[[Any], _Node]) -> Tree:
    tree, counts = GrowingTree(), list[Sequence[float]]()
    todo = [(root, LEAF, 0)]
    while todo:
        stored, parent, side = todo.pop()
        node = read(stored)
        number = tree.add(node.column, node.cut, parent, side)
        if node.column != LEAF:
            todo += [(node.above, number, 1), (node.below, number, 0)]
        if node.counts is not None:
            counts.append(node.counts)
        if len(tree) > MAX_NODES:
            raise BadModel(f"a tree of more than {MAX_NODES} nodes")
    table = np.array(counts) if counts else None
    distinct = None if table is None else table.sum(axis=1).astype(np.int64)
    return tree.tree(Statistics.counting(ROWS, table, distinct=distinct))
