"""The adapter of conditional inference trees (ctree) of R's partykit and party.

A tree of partykit is nested nodes, whose tests name a column of ``data`` and say into which kid
each interval of values, or each category, goes; ``fitted`` holds the leaf, the weight and the
response of every training row, and ``data`` the rows themselves. So counts are added up from
``fitted``. A tree of party keeps in each node the weight of every row, and the class shares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.release.adapters.r.values import (
    inside,
    items,
    number,
    numbers,
    plain,
    summed,
    text,
    texts,
    tree_of,
    whole_numbers,
)
from treeleak.release.bounds import MOST_NODES, MOST_ROWS, at_most
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import MEAN, ROWS, NodeStatistic, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, Tree

MULTIWAY = static_message(
    "a tree of partykit with more than two ways from a node, which treeleak does not read",
    "r_party_multiway",
)
WEIGHTED = static_message(
    "a conditional inference tree whose rows were weighted: its nodes do not count rows",
    "r_party_weighted",
)
_RESPONSE = "(response)"


@adapter("R", "constparty")
def _constparty(stored: StoredObject) -> Release:
    data, fitted = stored.get("data"), stored.get("fitted")
    if not isinstance(data, StoredObject) or not isinstance(fitted, StoredObject):
        raise BadModel("neither data nor fitted rows")
    columns = [c for c in data.state if c not in ("row.names", "class", "terms")]
    levels = {
        c: texts(v.get("levels"), c)
        for c, v in ((c, data.get(c)) for c in columns)
        if isinstance(v, StoredObject) and v.name in ("factor", "ordered")
    }
    nodes, left, right = _walked(stored.get("node"), lambda node: items(node["kids"], "kids"))
    used = [c for c in columns if c not in _responses(stored, columns)]
    shape = _Shape(len(nodes))
    for v in np.flatnonzero(left != LEAF).tolist():
        split = inside(nodes[v], "split")
        k = whole_numbers(inside(split, "varid"), "varid", (1, len(columns) + 1), 1)[0]
        if columns[k - 1] not in used:
            raise BadModel("a test of the response")
        _test(shape, v, used.index(columns[k - 1]), split, columns[k - 1] in levels)
    left, right = shape.swapped(left, right)
    tree, order = tree_of(
        "the tree", (left, right), shape.feature, shape.threshold, shape.members, shape.strict
    )
    weights = fitted.get("(weights)")
    if weights is not None and not (numbers(weights, "(weights)") == 1).all():
        raise NotCovered(WEIGHTED)
    ids = [whole_numbers(inside(nodes[v], "id"), "id", (0, MOST_NODES), 1)[0] for v in order]
    place = {int(k): at for at, k in enumerate(ids)}
    leaf = whole_numbers(fitted.get("(fitted)"), "(fitted)", (0, MOST_NODES))
    if not set(leaf.tolist()) <= {int(ids[v]) for v in tree.leaves}:
        raise BadModel("(fitted) names a leaf that there is not")
    at = np.array([place[int(k)] for k in leaf], dtype=np.int64)
    classes, entries = _statistics(tree, at, fitted.get(_RESPONSE))
    return _release(tree, entries, tuple(used), classes, levels, "partykit (R)")


def _responses(stored: StoredObject, columns: list[str]) -> set[str]:
    """Name the responses: what stands on the left of the formula, or the first column."""
    arguments = inside(stored.get("terms"), "arguments")
    first = arguments[0][1] if isinstance(arguments, list) and len(arguments) == 2 else None
    name = first.get("name") if isinstance(first, StoredObject) else None
    return {str(name)} if name in columns else set(columns[:1])


class _Shape:
    """Tests of the nodes, as they are read."""

    def __init__(self, n: int) -> None:
        self.feature = np.full(n, LEAF, dtype=np.int64)
        self.threshold = np.full(n, np.nan)
        self.strict = np.zeros(n, dtype=bool)
        self.swap = np.zeros(n, dtype=bool)
        self.members: dict[int, Any] = {}

    def swapped(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Let children change places where the test is the other way round."""
        return np.where(self.swap, right, left), np.where(self.swap, left, right)


def _test(shape: _Shape, v: int, feature: int, split: Any, factor: bool) -> None:
    """Read a test of partykit; kids are numbered from 1."""
    shape.feature[v] = feature
    breaks, index = inside(split, "breaks"), inside(split, "index")
    if breaks is None:
        kid = numbers(index, "index")
        shape.members[v] = np.flatnonzero(kid == 1)
        if not set(kid[~np.isnan(kid)].tolist()) <= {1.0, 2.0}:
            raise NotCovered(MULTIWAY)
        return
    cut, kid = numbers(breaks, "breaks"), np.array([1.0, 2.0])
    kid = kid if index is None else numbers(index, "index")
    if len(cut) != 1 or sorted(kid.tolist()) != [1.0, 2.0]:
        raise NotCovered(MULTIWAY)
    closed = plain(inside(split, "right"))
    shape.threshold[v] = cut[0] - factor  # An ordered factor: its codes count from 1.
    shape.strict[v] = isinstance(closed, np.ndarray) and not closed.all()
    shape.swap[v] = kid[0] == 2.0


def _walked(root: Any, kids_of: Callable[[Any], list[Any]]) -> tuple[list[Any], Any, Any]:
    """List nested nodes, parents first, each before what lies on its right; with children."""
    nodes: list[Any] = []
    children: list[list[int]] = []
    waiting = [(root, LEAF, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        at_most(MOST_NODES, len(nodes), "nodes")
        state = node.state if isinstance(node, StoredObject) else node
        if not isinstance(state, dict):
            raise BadModel("a node that is none")
        if parent != LEAF:
            children[parent][side] = len(nodes)
        kids = kids_of(state) if state.get("kids") is not None or "terminal" in state else []
        if len(kids) not in (0, 2):
            raise NotCovered(MULTIWAY)
        waiting += [(kid, len(nodes), k) for k, kid in reversed(list(enumerate(kids)))]
        nodes.append(state)
        children.append([LEAF, LEAF])
    left, right = np.array(children, dtype=np.int64).reshape(-1, 2).T
    return nodes, left.copy(), right.copy()


def _statistics(tree: Tree, at: Any, response: Any) -> tuple[tuple[str, ...], list[NodeStatistic]]:
    """Count the rows of each class in each node, or take the mean of their targets."""
    totals = np.bincount(at, minlength=tree.n_nodes).astype(float)
    entries = [NodeStatistic(ROWS, summed(tree, totals))]
    if isinstance(response, StoredObject) and response.name in ("factor", "ordered"):
        classes = texts(response.get("levels"), "levels")
        codes = whole_numbers(response.get("codes"), _RESPONSE, (1, len(classes) + 1), len(at))
        counts = np.zeros((tree.n_nodes, len(classes)))
        np.add.at(counts, (at, codes - 1), 1.0)
        return classes, [NodeStatistic(ROWS, summed(tree, counts)), *entries]
    if isinstance(array := plain(response), np.ndarray) and array.dtype.kind in "biuf":
        sums = np.bincount(at, numbers(response, _RESPONSE, len(at)), tree.n_nodes).astype(float)
        mean = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
        entries.append(NodeStatistic(MEAN, mean, tree.is_leaf))
    return (), entries


def _release(
    tree: Tree,
    entries: list[NodeStatistic],
    names: tuple[str, ...],
    classes: tuple[str, ...],
    levels: dict[str, tuple[str, ...]],
    origin: str,
) -> Release:
    return Release(
        trees=(tree.with_statistics(Statistics(tuple(entries))),),
        feature_names=names,
        classes=classes,
        sampling=AllRows(),
        n_rows=int(next(e.values[0] for e in entries if not e.per_class)),
        levels={c: t for c, t in levels.items() if c in names},
        origin=origin,
    )


@adapter("R", "BinaryTree")
def _binary_tree(stored: StoredObject) -> Release:
    def kids(node: Any) -> list[Any]:
        ends = plain(node.get("terminal"))
        last = not isinstance(ends, np.ndarray) or bool(ends.all())
        return [] if last else [node.get("left"), node.get("right")]

    nodes, left, right = _walked(stored.get("tree"), kids)
    named = inside(nodes[0], "criterion", "statistic")
    names = () if not isinstance(named, StoredObject) else texts(named.get("names"), "names")
    shape = _Shape(len(nodes))
    for v in np.flatnonzero(left != LEAF).tolist():
        split = inside(nodes[v], "psplit")
        column = text(inside(split, "variableName"))
        if column not in names:
            raise BadModel("a test of a column that there is not")
        shape.feature[v] = names.index(column)
        point = numbers(inside(split, "splitpoint"), "splitpoint")
        if len(point) == 1 and inside(split, "toleft") is not None:
            shape.threshold[v] = point[0]
            shape.swap[v] = number(inside(split, "toleft")) == 0
        else:
            shape.members[v] = 1 + np.flatnonzero(point == 1)
    left, right = shape.swapped(left, right)
    tree, order = tree_of("the tree", (left, right), shape.feature, shape.threshold, shape.members)
    weights = [numbers(inside(nodes[v], "weights"), "weights") for v in order]
    if any((w != np.round(w)).any() or w.max(initial=0) > 1 for w in weights):
        raise NotCovered(WEIGHTED)
    totals = np.array([w.sum() for w in weights])
    at_most(MOST_ROWS, int(totals.max()), "rows")
    predicted = [numbers(inside(nodes[v], "prediction"), "prediction") for v in order]
    if len({len(p) for p in predicted}) != 1:
        raise BadModel("nodes predict different numbers of classes")
    held = np.array(predicted)
    classes = _classes(stored, held.shape[1])
    entries = [NodeStatistic(ROWS, totals)]
    if classes:
        counts = held * totals[:, None]
        if (np.abs(counts - np.round(counts)) > 1e-6).any():
            raise BadModel("class shares that give no numbers of rows")
        entries.insert(0, NodeStatistic(ROWS, np.round(counts)))
    elif held.shape[1] == 1:
        entries.append(NodeStatistic(MEAN, held[:, 0]))
    return _release(tree, entries, names, classes, {}, "party (R)")


def _classes(stored: StoredObject, n: int) -> tuple[str, ...]:
    """Find the labels of the classes; none of a regression."""
    held = inside(stored.get("responses"), "levels")
    listed = items(held, "levels") if held is not None else []
    if len(listed) != 1 or listed[0] is None:
        return ()
    found = texts(listed[0], "levels")
    return found if len(found) == n else ()
