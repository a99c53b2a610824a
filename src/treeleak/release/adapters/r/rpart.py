"""The adapter of R's rpart.

What the objects of rpart 4.1 hold, from its sources and checked against its answers: ``frame`` has
a line for each node, parents first, and row names that number them as a full binary tree (node k
has the children 2 k and 2 k + 1), with the rows ``n``, their weights ``wt``, the deviance and, of
classes, their counts. ``splits`` has for each node the test that was taken, then others. A row goes
left where its value is below ``index`` if ``ncat`` is -1, and right if it is 1; of a factor,
``csplit`` says for each category where it goes. Rows without a value follow other tests
(surrogates): below such a node, counts belong to no single test.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.adapters.r.values import (
    inside,
    numbers,
    plain,
    text,
    texts,
    tree_of,
    whole_numbers,
)
from treeleak.release.adapters.shares import cut_below
from treeleak.release.bounds import MOST_NODES, MOST_ROWS
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import (
    MEAN,
    ROWS,
    VARIANCE,
    WEIGHTS,
    NodeStatistic,
    Statistics,
)
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, Tree

SURROGATES = MessageTemplate(
    "r_surrogates",
    "{nodes:number} nodes whose rows had missing values are taken as leaves: rpart sent such rows "
    "on by other columns (surrogates), so the counts below belong to no single test",
)
WEIGHTED = static_message(
    "Rows were weighted when the model was trained: its nodes hold sums of weights by class.",
    "r_rpart_weighted",
)
NO_COUNTS_BY_CLASS = static_message(
    "an rpart model of another method than class and anova: treeleak reads the numbers of rows in "
    "its nodes, and no targets",
    "r_rpart_method",
)
_LEAF, _LEFT, _RIGHT = "<leaf>", 1, 3
DEEPEST = 53


@adapter("R", "rpart")
def _rpart(stored: StoredObject) -> Release:
    frame = stored.get("frame")
    if not isinstance(frame, StoredObject):
        raise BadInput("this rpart object holds no tree (frame)")
    variables = _texts_or_factor(frame.get("var"))
    number = _node_numbers(frame, len(variables))
    xlevels = stored.get("xlevels")
    levels = (
        {str(c): texts(v, str(c)) for c, v in xlevels.items()} if isinstance(xlevels, dict) else {}
    )
    names = _columns(stored, variables)
    tree, order, lacking, missing = _tree(stored, frame, variables, number, names, levels)
    n = whole_numbers(frame.get("n"), "frame$n", (0, MOST_ROWS), len(variables))[order]
    weight = numbers(frame.get("wt"), "frame$wt", len(variables))[order]
    method = text(stored.get("method"))
    classes: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    entries: list[NodeStatistic] = [NodeStatistic(ROWS, n.astype(float))]
    if method == "class":
        classes = texts(stored.get("ylevels"), "ylevels")
        counts = _class_counts(frame, len(classes), len(variables))[order]
        weighted = not np.array_equal(weight, n) or (counts != np.round(counts)).any()
        notes = (WEIGHTED,) * bool(weighted)
        entries.insert(0, NodeStatistic(WEIGHTS if weighted else ROWS, counts))
    elif method == "anova" and np.array_equal(weight, n):
        mean = numbers(frame.get("yval"), "frame$yval", len(variables))[order]
        deviance = numbers(frame.get("dev"), "frame$dev", len(variables))[order]
        variance = np.maximum(deviance, 0.0) / np.maximum(n, 1)
        entries += [NodeStatistic(MEAN, mean), NodeStatistic(VARIANCE, variance)]
    else:
        notes = (NO_COUNTS_BY_CLASS,)
    tree, kept = _cut(tree, lacking)
    held = tuple(NodeStatistic(entry.quantity, entry.values[kept]) for entry in entries)
    return Release(
        trees=(tree.with_statistics(Statistics(held)),),
        feature_names=names,
        classes=classes,
        sampling=AllRows(),
        n_rows=int(n[0]) or None,
        left_out=SURROGATES(nodes=len(lacking)) if len(lacking) else None,
        maybe_missing=frozenset(missing),
        levels=levels,
        thresholds_are="midpoints",
        origin="rpart (R)",
        notes=notes,
    )


def _texts_or_factor(value: Any) -> tuple[str, ...]:
    """Take texts that older versions of R keep as a factor."""
    if isinstance(value, StoredObject) and value.name == "factor":
        levels = texts(value.get("levels"), "levels")
        codes = whole_numbers(value.get("codes"), "frame$var", (1, len(levels) + 1))
        return tuple(levels[c - 1] for c in codes)
    return texts(value, "frame$var")


def _node_numbers(frame: StoredObject, n: int) -> list[int]:
    """Number the nodes as a full binary tree does."""
    names = plain(frame.get("row.names"))
    if isinstance(names, (int, np.integer)):
        names = np.arange(1, int(names) + 1) if 0 <= names <= MOST_NODES else None
    if isinstance(names, np.ndarray) and names.dtype == object:
        if not all(isinstance(k, str) and k.isdigit() and len(k) < 20 for k in names.tolist()):
            raise BadModel("row names of the frame are no numbers of nodes")
        names = np.array([int(k) for k in names.tolist()], dtype=np.int64)
    if not isinstance(names, np.ndarray) or names.shape != (n,):
        raise BadModel("row names of the frame are no numbers of nodes")
    return [int(k) for k in whole_numbers(names, "row names of the frame", (1, 2.0**DEEPEST))]


def _columns(stored: StoredObject, variables: tuple[str, ...]) -> tuple[str, ...]:
    """Name the columns: all that the model was given, where it says so, else those it tests."""
    ordered = stored.get("ordered")
    named = ordered.get("names") if isinstance(ordered, StoredObject) else None
    found = () if named is None else texts(named, "ordered")
    tested = tuple(dict.fromkeys(v for v in variables if v != _LEAF))
    return found if set(tested) <= set(found) else tested


def _tree(
    stored: StoredObject,
    frame: StoredObject,
    variables: tuple[str, ...],
    number: list[int],
    names: tuple[str, ...],
    levels: dict[str, tuple[str, ...]],
) -> tuple[Tree, IntArray, IntArray, set[str]]:
    """Read the tree; also the nodes whose rows had missing values, and the columns that had."""
    n_nodes = len(variables)
    place = {k: v for v, k in enumerate(number)}
    n = whole_numbers(frame.get("n"), "frame$n", (0, MOST_ROWS), n_nodes)
    after = [
        whole_numbers(frame.get(key), f"frame${key}", (0, MOST_NODES), n_nodes)
        for key in ("ncompete", "nsurrogate")
    ]
    inner = [v for v in range(n_nodes) if variables[v] != _LEAF]
    splits = _splits(stored, bool(inner))
    left, right = np.full((2, n_nodes), LEAF, dtype=np.int64)
    feature, threshold = np.full(n_nodes, LEAF), np.full(n_nodes, np.nan)
    members: dict[int, IntArray] = {}
    lacking, missing, line = np.zeros(n_nodes, dtype=bool), set[str](), 0
    rows_of_splits = _names_of_splits(stored, len(splits))
    for v in inner:
        n_compete, n_surrogate = int(after[0][v]), int(after[1][v])
        if line + n_compete >= len(splits):
            raise BadModel(f"node {number[v]}: no line of splits")
        for k in range(line, line + 1 + n_compete):
            if splits[k, 0] < n[v]:
                missing.add(rows_of_splits[k])
        count, n_categories, index = splits[line, 0], splits[line, 1], splits[line, 3]
        line += 1 + n_compete + n_surrogate
        lacking[v] = count < n[v]
        children = [place.get(2 * number[v], LEAF), place.get(2 * number[v] + 1, LEAF)]
        if LEAF in children or variables[v] not in names:
            raise BadModel(f"node {number[v]}: without its children, or its column")
        feature[v] = names.index(variables[v])
        if abs(n_categories) == 1:
            threshold[v] = index
            children = children[:: -int(n_categories)]
            if variables[v] in levels:  # An ordered factor: its codes count from 1.
                threshold[v] -= 1
        else:
            members[v] = _categories(stored, index, n_categories, number[v])
        left[v], right[v] = children
    strict = np.ones(n_nodes, dtype=bool)
    tree, order = tree_of("the tree", (left, right), feature, threshold, members, strict)
    if len(order) != n_nodes:
        raise BadModel("the frame holds nodes that the root does not lead to")
    return tree, order, np.flatnonzero(lacking[order]), missing & set(names)


def _splits(stored: StoredObject, wanted: bool) -> FloatArray:
    if not wanted:
        return np.zeros((0, 5))
    splits = numbers(stored.get("splits"), "splits", dimensions=2)
    if splits.shape[1] < 4:
        raise BadModel(f"splits: of the shape {splits.shape}")
    return splits


def _names_of_splits(stored: StoredObject, n: int) -> tuple[str, ...]:
    named = inside(stored, "splits", "dimnames")
    names = named[0] if isinstance(named, (list, tuple)) and named else None
    found = ("",) * n if names is None else texts(names, "splits")
    return found if len(found) == n else ("",) * n


def _categories(stored: StoredObject, index: float, n: float, node: int) -> IntArray:
    """List the categories that go left, from 0."""
    table = whole_numbers(stored.get("csplit"), "csplit", (0, 4), dimensions=2)
    if index != int(index) or not 1 <= index <= len(table) or not 2 <= n <= table.shape[1]:
        raise BadModel(f"node {node}: csplit has no line {index:g} of {n:g} categories")
    return np.flatnonzero(table[int(index) - 1, : int(n)] == _LEFT)


def _class_counts(frame: StoredObject, n_classes: int, n_nodes: int) -> FloatArray:
    """Read the counts of the classes: behind the class that a node predicts."""
    table: NDArray[Any] = numbers(frame.get("yval2"), "frame$yval2", n_nodes, dimensions=2)
    if table.shape[1] < 1 + n_classes:
        raise BadModel(f"frame$yval2: of the shape {table.shape}")
    counts: FloatArray = table[:, 1 : 1 + n_classes]
    if not (counts >= 0).all():
        raise BadModel("frame$yval2: a negative count")
    return counts


def _cut(tree: Tree, ends: IntArray) -> tuple[Tree, IntArray]:
    """End a tree at some nodes; returns what is left, and which nodes those are."""
    if not len(ends):
        return tree, np.arange(tree.n_nodes)
    parent, below = tree.parent, np.zeros(tree.n_nodes, dtype=bool)
    for v in range(1, tree.n_nodes):
        below[v] = below[parent[v]] or parent[v] in set(ends.tolist())
    kept = np.flatnonzero(~below)
    ends = np.array([v for v in ends if not below[v]], dtype=np.int64)
    return cut_below(tree, ends.tolist(), kept), kept
