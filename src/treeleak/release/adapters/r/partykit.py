"""The adapter of conditional inference trees (ctree) of R's partykit.

A tree is nested nodes, whose tests name a column of ``data`` and say into which kid each interval
of values, or each category, goes; ``fitted`` holds the leaf, the weight and the response of every
training row, and ``data`` the rows themselves. So counts are added up from ``fitted``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.arrays import IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.release.adapters.r import values as r
from treeleak.release.bounds import MOST_NODES, at_most
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
    # The response stands on the left of the formula, or is the first column.
    sides = r.inside(stored.get("terms"), "arguments")
    first = sides[0][1] if isinstance(sides, list) and len(sides) == 2 else None
    response = r.inside(first, "name")
    used = [c for c in columns if c != (response if response in columns else columns[0])]
    factors = ((c, data.get(c)) for c in used)
    levels = {c: r.texts(v.get("levels"), c) for c, v in factors if r.is_factor(v)}
    nodes, children = _walked(stored.get("node"))
    feature, threshold = np.full(len(nodes), LEAF), np.full(len(nodes), np.nan)
    strict, members = np.zeros(len(nodes), dtype=bool), dict[int, IntArray]()
    for v in np.flatnonzero(children[:, 0] != LEAF).tolist():
        split = r.inside(nodes[v], "split")
        k = r.whole_numbers(r.inside(split, "varid"), "varid", (1, len(columns) + 1), 1)[0]
        if columns[k - 1] not in used:
            raise BadModel("a test of the response")
        feature[v] = used.index(columns[k - 1])
        breaks, index = r.inside(split, "breaks"), r.inside(split, "index")
        kid = np.array([1.0, 2.0]) if index is None else r.numbers(index, "index")
        if breaks is None:
            members[v] = np.flatnonzero(kid == 1)
            if not set(kid[~np.isnan(kid)].tolist()) <= {1.0, 2.0}:
                raise NotCovered(MULTIWAY)
            continue
        cut = r.numbers(breaks, "breaks")
        if len(cut) != 1 or sorted(kid.tolist()) != [1.0, 2.0]:
            raise NotCovered(MULTIWAY)
        closed = r.plain(r.inside(split, "right"))
        threshold[v], strict[v] = cut[0], isinstance(closed, np.ndarray) and not closed.all()
        if kid[0] == 2.0:
            children[v] = children[v, ::-1].copy()
    tree, order = r.tree_of(
        "the tree", (*children.T,), feature, threshold, (used, levels), members, strict
    )
    weights = fitted.get("(weights)")
    if weights is not None and not (r.numbers(weights, "(weights)") == 1).all():
        raise NotCovered(WEIGHTED)
    ids = [r.whole_numbers(r.inside(nodes[v], "id"), "id", (0, MOST_NODES), 1)[0] for v in order]
    place = {int(ids[v]): int(v) for v in tree.leaves}
    leaf = r.whole_numbers(fitted.get("(fitted)"), "(fitted)", (0, MOST_NODES)).tolist()
    if not set(leaf) <= set(place):
        raise BadModel("(fitted) names a leaf that there is not")
    at = np.array([place[k] for k in leaf], dtype=np.int64)
    classes, entries = _statistics(tree, at, fitted.get(_RESPONSE))
    return Release(
        trees=(tree.with_statistics(Statistics(tuple(entries))),),
        feature_names=tuple(used),
        classes=classes,
        sampling=AllRows(),
        n_rows=len(at),
        levels=levels,
        origin="partykit (R)",
    )


def _walked(root: Any) -> tuple[list[Any], IntArray]:
    """List nested nodes, parents first, each before what lies on its right; with children."""
    nodes: list[Any] = []
    children: list[list[int]] = []
    waiting = [(root, LEAF, 0)]
    while waiting:
        node, parent, side = waiting.pop()
        at_most(MOST_NODES, len(nodes), "nodes")
        if not isinstance(state := node.state if isinstance(node, StoredObject) else node, dict):
            raise BadModel("a node that is none")
        if parent != LEAF:
            children[parent][side] = len(nodes)
        kids = [] if state.get("kids") is None else r.items(state["kids"], "kids")
        if len(kids) not in (0, 2):
            raise NotCovered(MULTIWAY)
        waiting += [(kid, len(nodes), k) for k, kid in reversed([*enumerate(kids)])]
        nodes.append(state)
        children.append([LEAF, LEAF])
    return nodes, np.array(children, dtype=np.int64)


def _statistics(tree: Tree, at: Any, response: Any) -> tuple[tuple[str, ...], list[NodeStatistic]]:
    """Count the rows of each class in each node, or take the mean of their targets."""
    totals = np.bincount(at, minlength=tree.n_nodes).astype(float)
    entries = [NodeStatistic(ROWS, tree.summed(totals))]
    if r.is_factor(response):
        classes = r.texts(response.get("levels"), "levels")
        codes = r.whole_numbers(response.get("codes"), _RESPONSE, (1, len(classes) + 1), len(at))
        counts = np.zeros((tree.n_nodes, len(classes)))
        np.add.at(counts, (at, codes - 1), 1.0)
        return classes, [NodeStatistic(ROWS, tree.summed(counts)), *entries]
    if isinstance(array := r.plain(response), np.ndarray) and array.dtype.kind in "biuf":
        sums = np.bincount(at, r.numbers(response, _RESPONSE, len(at)), tree.n_nodes).astype(float)
        mean = np.divide(sums, totals, out=np.zeros_like(sums), where=totals > 0)
        entries.append(NodeStatistic(MEAN, mean, tree.is_leaf))
    return (), entries
