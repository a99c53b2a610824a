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

from treeleak.core.arrays import IntArray
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.adapters.r import values as r
from treeleak.release.adapters.shares import cut_below
from treeleak.release.bounds import MOST_NODES, MOST_ROWS
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import MEAN, ROWS, VARIANCE, WEIGHTS, NodeStatistic, Statistics
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
_LEAF, _LEFT = "<leaf>", 1
DEEPEST = 53


@adapter("R", "rpart")
def _rpart(stored: StoredObject) -> Release:
    frame = stored.get("frame")
    if not isinstance(frame, StoredObject):
        raise BadInput("this rpart object holds no tree (frame)")
    variables = r.texts(frame.get("var"), "frame$var")
    n_nodes = len(variables)
    n = r.whole_numbers(frame.get("n"), "frame$n", (0, MOST_ROWS), n_nodes)
    xlevels = stored.get("xlevels")
    levels = r.levels_of(xlevels.items()) if isinstance(xlevels, dict) else {}
    names = tuple(dict.fromkeys(v for v in variables if v != _LEAF))
    if (named := r.inside(stored, "ordered", "names")) is not None:
        # All columns that the model was given.
        given = r.texts(named, "ordered")
        names = given if set(names) <= set(given) else names
    # Those of columns that a formula excludes are listed, too.
    levels = {name: texts for name, texts in levels.items() if name in names}
    tree, order, lacking, missing = _tree(stored, variables, n, (names, levels))
    rows = n[order].astype(float)
    weight = r.numbers(frame.get("wt"), "frame$wt", n_nodes)[order]
    method, weighted = r.text(stored.get("method")), not np.array_equal(weight, rows)
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    entries = [NodeStatistic(ROWS, rows)]
    if method == "class":
        classes = r.texts(stored.get("ylevels"), "ylevels")
        # Behind the class that a node predicts.
        table = r.numbers(frame.get("yval2"), "frame$yval2", n_nodes, 2)
        counts = table[order, 1 : 1 + len(classes)]
        if counts.shape[1] < len(classes) or not (counts >= 0).all():
            raise BadModel("frame$yval2: no counts of all classes")
        weighted = weighted or bool((counts != np.round(counts)).any())
        notes = (WEIGHTED,) if weighted else ()
        entries.insert(0, NodeStatistic(WEIGHTS if weighted else ROWS, counts))
    elif method == "anova" and not weighted:
        mean, deviance = (r.numbers(frame.get(k), k, n_nodes)[order] for k in ("yval", "dev"))
        variance = np.maximum(deviance, 0.0) / np.maximum(rows, 1)
        entries += [NodeStatistic(MEAN, mean), NodeStatistic(VARIANCE, variance)]
    else:
        notes = (NO_COUNTS_BY_CLASS,)
    below, parent = np.zeros(n_nodes, dtype=bool), tree.parent
    for v in range(1, n_nodes):
        below[v] = below[parent[v]] or lacking[parent[v]]
    kept = np.flatnonzero(~below)
    tree = cut_below(tree, np.flatnonzero(lacking & ~below).tolist(), kept)
    held = tuple(NodeStatistic(entry.quantity, entry.values[kept]) for entry in entries)
    return Release(
        trees=(tree.with_statistics(Statistics(held)),),
        feature_names=names,
        classes=classes,
        sampling=AllRows(),
        n_rows=int(n[order[0]]) or None,
        left_out=SURROGATES(nodes=int(lacking.sum())) if lacking.any() else None,
        maybe_missing=frozenset(missing),
        levels=levels,
        thresholds_are="midpoints",
        origin="rpart (R)",
        notes=notes,
    )


def _tree(
    stored: StoredObject,
    variables: tuple[str, ...],
    n: IntArray,
    columns: tuple[tuple[str, ...], r.Levels],
) -> tuple[Tree, IntArray, Any, set[str]]:
    """Read the tree; also the nodes whose rows had missing values, and the columns that had."""
    n_nodes, names = len(variables), r.inside(stored, "frame", "row.names")
    if isinstance(names, (int, np.integer)) and names == n_nodes:  # Of 1 to n, R keeps n alone.
        names = np.arange(1, n_nodes + 1)
    number = r.whole_numbers(names, "row.names", (1, 2.0**DEEPEST), n_nodes).tolist()
    place = {k: v for v, k in enumerate(number)}
    n_compete, n_surrogate = (
        r.whole_numbers(r.inside(stored, "frame", key), key, (0, MOST_NODES), n_nodes)
        for key in ("ncompete", "nsurrogate")
    )
    inner = [v for v in range(n_nodes) if variables[v] != _LEAF]
    held = stored.get("splits")
    splits = r.numbers(held, "splits", dimensions=2) if inner else np.zeros((0, 4))
    of_splits = r.names_along(held, 0) or ()
    left, right, feature = np.full((3, n_nodes), LEAF, dtype=np.int64)
    threshold, members, line = np.full(n_nodes, np.nan), dict[int, IntArray](), 0
    lacking, missing = np.zeros(n_nodes, dtype=bool), set[str]()
    for v in inner:
        taken = splits[line : line + 1 + n_compete[v]]
        children = [place.get(2 * number[v], LEAF), place.get(2 * number[v] + 1, LEAF)]
        if len(taken) != 1 + n_compete[v] or splits.shape[1] < 4 or LEAF in children:
            raise BadModel(f"node {number[v]}: without its children, or its lines of splits")
        few = np.flatnonzero(taken[:, 0] < n[v])
        missing |= {of_splits[line + k] for k in few if line + k < len(of_splits)}
        lacking[v], line = 0 in few, line + 1 + n_compete[v] + n_surrogate[v]
        feature[v] = columns[0].index(variables[v])
        n_categories, threshold[v] = taken[0, 1], taken[0, 3]
        if abs(n_categories) == 1:
            children = children[:: -int(n_categories)]
        else:
            members[v] = _categories(stored, threshold[v], n_categories, number[v])
        left[v], right[v] = children
    strict = np.ones(n_nodes, dtype=bool)
    tree, order = r.tree_of("the tree", (left, right), feature, threshold, columns, members, strict)
    if len(order) != n_nodes:
        raise BadModel("the frame holds nodes that the root does not lead to")
    return tree, order, lacking[order], missing & set(columns[0])


def _categories(stored: StoredObject, index: float, n: float, node: int) -> IntArray:
    """List the categories that go left, from 0."""
    table = r.whole_numbers(stored.get("csplit"), "csplit", (0, 4), dimensions=2)
    if not 1 <= index <= len(table) or index != int(index) or not 2 <= n <= table.shape[1]:
        raise BadModel(f"node {node}: csplit has no line {index:g} of {n:g} categories")
    return np.flatnonzero(table[int(index) - 1, : int(n)] == _LEFT)
