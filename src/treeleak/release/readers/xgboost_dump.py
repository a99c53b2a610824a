"""Trees that XGBoost printed as JSON (``dump_model``), as its JSON files hold them.

Numbers have all digits of single precision (from 0.82 on). With statistics, nodes have their sums
of hessians (cover) and gains. What no dump holds is missing here as well: the objective, where
predictions begin, and which output a tree adds to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.output import read_text
from treeleak.release.bounds import (
    MOST_CATEGORY,
    MOST_COLUMNS,
    MOST_JSON_BYTES,
    MOST_LEVELS,
    MOST_NODES,
    MOST_TREES,
    at_most,
)
from treeleak.release.checked_json import is_finite, is_whole, read_json
from treeleak.release.readers.json_layout import odd_layout
from treeleak.release.readers.xgboost_json import booster_from_dict
from treeleak.release.registry import describe_format, reader
from treeleak.release.stored import Leftover, StoredObject
from treeleak.release.tree import LEAF

_WAYS = ("yes", "no", "missing")
"""Where values go, where others go, and where missing values go."""
_OF_TEST = {"nodeid", "depth", "split", "split_condition", *_WAYS, "gain", "cover", "children"}
_OF_LEAF = {"nodeid", "leaf", "cover"}
_LISTS = ("left_children", "right_children", "default_left", "split_indices", "split_conditions",
          "split_type", "sum_hessian", "loss_changes")  # fmt: skip
_OF_CATEGORIES = ("categories_nodes", "categories_segments", "categories_sizes")
FLAGS = (
    "columns that are there or not (type i), whose tests XGBoost prints without a number: write "
    'the model with save_model("model.json")'
)
LINEAR = "a linear model that XGBoost printed: it has no trees"

_Node = dict[str, Any]
"""A node, as it stands in JSON: with a ``leaf``, or else with a ``split``, a ``split_condition``
(what values are less than, or the categories that go the way of "yes"), and ways."""

_TOLD = "values, thresholds; sums of hessians and gains if asked for"
describe_format("trees that XGBoost printed, in JSON", ".json", _TOLD)


@reader(
    "trees that XGBoost printed, in JSON",
    lambda head: re.match(rb'\s*\[\s*\{\s*"(nodeid|bias)"', head) is not None,
)
def _read_json(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    left: list[Leftover] = []

    def made(root: Any) -> list[list[_Node]]:
        at_most(MOST_TREES, len(root), "trees")
        return [_nodes(tree, t, left) for t, tree in enumerate(root)]

    trees = read_json(path, made)
    text = read_text(path, MOST_JSON_BYTES)
    if _signless(text) not in {_signless(_json(trees, blank)) for blank in (" ", "")}:
        left += odd_layout(text)
    return _booster(trees, left)


def _checked(node: _Node, where: str) -> _Node:
    """Take a node whose test is a number, or a list of categories."""
    test: Any = node.get("leaf", node.get("split_condition"))
    listed = "leaf" not in node and isinstance(test, list) and test
    if not (all(is_whole(x, 0, MOST_CATEGORY) for x in test) if listed else is_finite(test)):
        raise BadModel(f"{where}: {test!r:.40} is neither a number nor categories")
    return node


def _nodes(tree: Any, t: int, left: list[Leftover]) -> list[_Node]:
    """List the nodes of a tree, whose objects hold each other, each before those in it."""
    out: list[_Node] = []
    todo = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        if isinstance(node, dict) and "bias" in node:
            raise BadModel(LINEAR)
        if not isinstance(node, dict) or not is_whole(node.get("nodeid"), 0, MOST_NODES):
            raise BadModel(f"tree {t}: a node without a nodeid")
        where, is_leaf = f"tree {t}, node {node['nodeid']}", "leaf" in node
        if odd := {k: x for k, x in node.items() if k not in (_OF_LEAF if is_leaf else _OF_TEST)}:
            left.append(Leftover(f"tree {t}", "what XGBoost does not print", odd))
        if any(node.get(key) is not None and not is_finite(node[key]) for key in ("gain", "cover")):
            raise BadModel(f"{where}: gain or cover is no number")
        if not is_leaf:
            if "split_condition" not in node and "split" in node:
                raise NotCovered(FLAGS)
            ways, inside = [node.get(key) for key in _WAYS], node.get("children")
            if not isinstance(inside, list) or not all(is_whole(w, 0, MOST_NODES) for w in ways):
                raise BadModel(f"{where}: no children")
            if node.get("depth", depth) != depth or not isinstance(node.get("split"), str):
                raise BadModel(f"{where}: no depth, or no column")
            todo += [(child, depth + 1) for child in reversed(inside)]
        out.append(_checked({**node, "depth": depth}, where))
    return out


# ------------------------------------------------------------------------- printed once more


def _signless(text: str) -> str:
    """Write -0 as 0, for which JSON takes it."""
    return re.sub(r"-0(?=[ ,])", "0", text)


def _sums(node: _Node, form: str) -> list[str]:
    """Print gain and cover, where they are there."""
    held = [(key, node.get(key)) for key in ("gain", "cover")]
    return [form.format(key, value) for key, value in held if value is not None]


def _json(trees: Sequence[Sequence[_Node]], blank: str) -> str:
    """Print trees as XGBoost does; versions differ in a blank behind some numbers."""
    whole = []
    for nodes in trees:
        lines: list[str] = []
        for node, after in zip(nodes, [*nodes[1:], None], strict=True):
            depth, sums = node["depth"], _sums(node, '"{}": {:.9g}')
            if "leaf" in node:
                line = f"{blank}, ".join([f'"leaf": {node["leaf"]:.9g}', *sums]) + " }"
                ends = range(depth, after["depth"] if after else 0, -1)
                line += "".join(f"\n{'  ' * level}]}}" for level in ends)
                line += f",{blank}" if after else ""
            else:
                test = node["split_condition"]
                shown = str(test) if isinstance(test, list) else f"{test:.9g}"
                line = f'"depth": {depth}, "split": "{node["split"]}", "split_condition": {shown}, '
                line += ", ".join(f'"{way}": {node[way]}' for way in _WAYS) + f"{blank}, "
                line += ", ".join([*sums, '"children": ['])
            lines.append(f'{"  " * (depth + 1)}{{ "nodeid": {node["nodeid"]}, {line}')
        whole.append("\n".join(lines))
    return "[\n" + ",\n".join(whole) + "\n]"


# ------------------------------------------------------------------------------- as a document


def _booster(trees: Sequence[Sequence[_Node]], left: Sequence[Leftover]) -> StoredObject:
    names = list(dict.fromkeys(n["split"] for nodes in trees for n in nodes if "leaf" not in n))
    numbered = all(re.fullmatch(r"f(0|[1-9]\d{0,5})", name) for name in names)
    place = {name: int(name[1:]) if numbered else i for i, name in enumerate(names)}
    n_columns = max(place.values(), default=-1) + 1
    at_most(MOST_COLUMNS, n_columns, "columns")
    model = {"trees": [_tree(nodes, place, t) for t, nodes in enumerate(trees)]}
    learner = {
        "feature_names": [] if numbered else names,
        "gradient_booster": {"model": model},
        "learner_model_param": {"num_feature": str(n_columns)},
    }
    # Level by level, or with all nodes kept, no number is larger.
    odd = [node["nodeid"] for nodes in trees for node in nodes
           if node["nodeid"] >= max(2 * len(nodes), (2 << node["depth"]) - 1)]  # fmt: skip
    more = (
        [Leftover("the trees", "numbers of nodes that XGBoost does not give", odd)] if odd else []
    )
    return replace(booster_from_dict({"learner": learner}), leftovers=(*left, *more))


def _tree(nodes: Sequence[_Node], place: dict[str, int], t: int) -> dict[str, Any]:
    """Put nodes into lists, in the order of their numbers."""
    where = f"tree {t}"
    order = sorted(nodes, key=lambda node: node["nodeid"])
    at = {node["nodeid"]: i for i, node in enumerate(order)}
    at_most(MOST_LEVELS, max((node["depth"] for node in nodes), default=0), f"levels in {where}")
    if len(at) < len(nodes) or 0 not in at:
        raise BadModel(f"{where}: two nodes of a number, or no root")
    gains = {node.get("gain") is None for node in nodes if "leaf" not in node}
    if len(gains | {node.get("cover") is None for node in nodes}) > 1:
        raise BadModel(f"{where}: some nodes have a cover or a gain, others none")
    rows: list[tuple[Any, ...]] = []
    sets: list[tuple[int, int, int]] = []
    categories: list[int] = []
    for i, node in enumerate(order):
        test: Any = node.get("leaf", node.get("split_condition"))
        left, right, missing, column = LEAF, LEAF, None, 0
        if "leaf" not in node:
            left, right, missing = (at.get(node[way], LEAF) for way in _WAYS)
            if LEAF in (left, right) or left == right or missing not in (left, right):
                raise BadModel(f"{where}, node {node['nodeid']}: leads to no node")
            column = place[node["split"]]
        if listed := isinstance(test, list):
            # Of categories, those that are listed go right.
            left, right = right, left
            sets.append((i, len(categories), len(test)))
            categories += test
        rows.append((left, right, int(missing == left), column,
                     0.0 if listed else float(test), int(listed), node.get("cover"),
                     node.get("gain") or 0.0))  # fmt: skip
    # XGBoost prints a node, what is left of it, and what is right.
    way: list[tuple[int, int]] = [(0, 0)]
    walk: list[tuple[int, int]] = []
    while way and len(walk) < len(nodes):
        i, depth = way.pop()
        walk.append((order[i]["nodeid"], depth))
        way += [(child, depth + 1) for child in rows[i][1::-1] if child != LEAF]
    if way or walk != [(node["nodeid"], node["depth"]) for node in nodes]:
        raise BadModel(f"{where}: nodes in another order, or of another depth, than XGBoost's")
    bare = nodes[0].get("cover") is None
    lists = zip(_LISTS[:-2] if bare else _LISTS, map(list, zip(*rows, strict=True)), strict=False)
    of_sets = zip(*sets, strict=True) if sets else ((),) * 3
    return {"id": t, "tree_param": {"num_nodes": str(len(nodes))}, **dict(lists),
            "categories": categories,
            **dict(zip(_OF_CATEGORIES, map(list, of_sets), strict=True))}  # fmt: skip
