"""Trees that XGBoost printed (``dump_model``, text or JSON), as its JSON files hold them.

Numbers have all digits of single precision (from 0.82 on). With statistics, nodes have their sums
of hessians (cover) and gains. What no dump holds is missing here as well: the objective, where
predictions begin, and which output a tree adds to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.output import read_text
from treeleak.core.private import dataclass
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
from treeleak.release.registry import reader
from treeleak.release.stored import Leftover, StoredObject

_NUMBER = r"-?(?:\d{1,40}(?:\.\d{1,40})?(?:e[-+]?\d{1,3})?|nan|inf)"
_HEAD = re.compile(r"booster\[(\d{1,9})\]:")
_TEST = re.compile(
    rf"(\t*)(\d{{1,9}}):\[(.*)(?:<({_NUMBER})|:\{{([\d,]*)\}})\] yes=(\d{{1,9}}),no=(\d{{1,9}}),"
    rf"missing=(\d{{1,9}})(?:,gain=({_NUMBER}),cover=({_NUMBER}))?"
)
_LEAF = re.compile(rf"(\t*)(\d{{1,9}}):leaf=({_NUMBER})(?:,cover=({_NUMBER}))?")
_FLAG = re.compile(r"\t*\d{1,9}:\[.*\] yes=\d+,no=\d+(,gain=.*)?")
_BIAS = re.compile(r"bias:.*")
FLAGS = (
    "columns that are there or not (type i), whose tests XGBoost prints without a number: write "
    'the model with save_model("model.json")'
)
LINEAR = "a linear model that XGBoost printed: it has no trees"


@dataclass(frozen=True, eq=False)
class _Node:
    """A node as it was printed; of a leaf, ``column`` is None and ``test`` what it adds."""

    number: int
    depth: int
    column: str | None
    test: Any
    """What a value is less than, or the categories that go the way of "yes"."""
    ways: tuple[int, int, int] = (0, 0, 0)
    """Where values go, where others go, and where missing values go."""
    gain: float | None = None
    cover: float | None = None


@reader(
    "trees that XGBoost printed, in JSON",
    lambda head: _begins(head, rb'\s*\[\s*\{\s*"(nodeid|bias)"'),
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


@reader("trees that XGBoost printed", lambda head: _begins(head, rb"booster\[0\]:\r?\n"))
def _read_text(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    text = read_text(path, MOST_JSON_BYTES)
    at_most(MOST_NODES, text.count("\n"), "lines")
    trees: list[list[_Node]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if found := _HEAD.fullmatch(line):
            if int(found[1]) != len(trees):
                raise BadModel(f"line {number}: {line!r:.40}, booster[{len(trees)}] was due")
            at_most(MOST_TREES, len(trees) + 1, "trees")
            trees.append([])
        elif line:
            trees[-1].append(_line(line, number))
    if not text.endswith("\n"):
        raise BadModel(f"line {number}: the text is cut short")
    left = []
    if text != _text(trees):
        odd = "blanks or digits that XGBoost does not print"
        left.append(Leftover("the text", odd, text))
    return _booster(trees, left)


def _begins(head: bytes, form: bytes) -> bool:
    return re.match(form, head) is not None


def _line(line: str, number: int) -> _Node:
    if found := _LEAF.fullmatch(line):
        tabs, name, value, cover = found.groups()
        held = None if cover is None else float(cover)
        return _Node(
            int(name), len(tabs), None, _checked(float(value), f"line {number}"), cover=held
        )
    found = _TEST.fullmatch(line)
    if found is None:
        if _FLAG.fullmatch(line):
            raise NotCovered(FLAGS)
        raise BadModel(LINEAR if _BIAS.match(line) else f"line {number}: {line!r:.60} is no node")
    tabs, name, column, below, listed, yes, no, missing, gain, cover = found.groups()
    test: Any = [int(x) if 0 < len(x) < 11 else None for x in (listed or "").split(",")]
    test = _checked(test if below is None else float(below), f"line {number}")
    sums = (None, None) if gain is None else (float(gain), float(cover))
    return _Node(int(name), len(tabs), column, test, (int(yes), int(no), int(missing)), *sums)


def _checked(test: Any, where: str) -> Any:
    """Take a number, or a list of categories."""
    listed = isinstance(test, list) and test
    if not (all(is_whole(x, 0, MOST_CATEGORY) for x in test) if listed else is_finite(test)):
        raise BadModel(f"{where}: {test!r:.40} is neither a number nor categories")
    return test


_OF_TEST = {"nodeid", "depth", "split", "split_condition", "yes", "no", "missing", "gain", "cover",
            "children"}  # fmt: skip
_OF_LEAF = {"nodeid", "leaf", "cover"}


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
        known = _OF_LEAF if "leaf" in node else _OF_TEST
        if odd := {key: value for key, value in node.items() if key not in known}:
            left.append(Leftover(f"tree {t}", "what XGBoost does not print", odd))
        sums = node.get("gain"), node.get("cover")
        if any(x is not None and not is_finite(x) for x in sums):
            raise BadModel(f"tree {t}, node {node['nodeid']}: gain or cover is no number")
        if "leaf" in node:
            value = _checked(node["leaf"], f"tree {t}")
            out.append(_Node(node["nodeid"], depth, None, value, (0, 0, 0), *sums))
            continue
        if "split_condition" not in node and "split" in node:
            raise NotCovered(FLAGS)
        ways = [node[key] for key in _WAYS if is_whole(node.get(key), 0, MOST_NODES)]
        inside = node.get("children")
        if len(ways) < len(_WAYS) or not isinstance(inside, list):
            raise BadModel(f"tree {t}, node {node['nodeid']}: no children")
        if node.get("depth", depth) != depth or not isinstance(node.get("split"), str):
            raise BadModel(f"tree {t}, node {node['nodeid']}: no depth, or no column")
        test = _checked(node.get("split_condition"), f"tree {t}")
        out.append(
            _Node(node["nodeid"], depth, node["split"], test, (ways[0], ways[1], ways[2]), *sums)
        )
        todo += [(child, depth + 1) for child in reversed(inside)]
    return out


# ------------------------------------------------------------------------- printed once more


def _number(value: float) -> str:
    return f"{value:.9g}"


def _signless(text: str) -> str:
    """Write -0 as 0, for which JSON takes it."""
    return re.sub(r"-0(?=[ ,])", "0", text)


def _text(trees: Sequence[Sequence[_Node]]) -> str:
    lines = []
    for t, nodes in enumerate(trees):
        lines.append(f"booster[{t}]:")
        for node in nodes:
            line, cover = f"{chr(9) * node.depth}{node.number}:", node.cover
            if node.column is None:
                line += f"leaf={_number(node.test)}"
            else:
                sets = isinstance(node.test, list)
                test = f":{{{','.join(map(str, node.test))}}}" if sets else f"<{_number(node.test)}"
                ways = ",".join(f"{k}={w}" for k, w in zip(_WAYS, node.ways, strict=True))
                line += f"[{node.column}{test}] {ways}"
                line += "" if node.gain is None else f",gain={_number(node.gain)}"
            lines.append(line + ("" if cover is None else f",cover={_number(cover)}"))
    return "".join(f"{line}\n" for line in lines)


_WAYS = ("yes", "no", "missing")


def _json(trees: Sequence[Sequence[_Node]], blank: str) -> str:
    """Print trees as XGBoost does; versions differ in a blank behind some numbers."""
    whole = []
    for nodes in trees:
        lines: list[str] = []
        last = 0
        for node in nodes:
            while lines and last > node.depth:
                last -= 1
                lines.append(f"{'  ' * (last + 1)}]}}")
            if lines and not lines[-1].endswith("["):
                lines[-1] += f",{blank}"
            last = node.depth
            cover = "" if node.cover is None else f'{blank}, "cover": {_number(node.cover)}'
            if node.column is None:
                line = f'"leaf": {_number(node.test)}{cover} }}'
            else:
                test = str(node.test) if isinstance(node.test, list) else _number(node.test)
                ways = ", ".join(f'"{k}": {w}' for k, w in zip(_WAYS, node.ways, strict=True))
                line = f'"depth": {node.depth}, "split": "{node.column}", "split_condition": {test}'
                line += f", {ways}{blank}, "
                if node.gain is not None:
                    line += f'"gain": {_number(node.gain)}{cover.removeprefix(blank)}, '
                line += '"children": ['
            lines.append(f'{"  " * (node.depth + 1)}{{ "nodeid": {node.number}, {line}')
        lines += [f"{'  ' * (level + 1)}]}}" for level in range(last - 1, -1, -1)]
        whole.append("\n".join(lines))
    return "[\n" + ",\n".join(whole) + "\n]"


# ------------------------------------------------------------------------------- as a document


def _booster(trees: Sequence[Sequence[_Node]], left: list[Leftover]) -> StoredObject:
    names = list(dict.fromkeys(n.column for nodes in trees for n in nodes if n.column is not None))
    numbered = all(re.fullmatch(r"f(0|[1-9]\d{0,5})", name) for name in names)
    place = {name: int(name[1:]) if numbered else i for i, name in enumerate(names)}
    n_columns = max(place.values(), default=-1) + 1
    at_most(MOST_COLUMNS, n_columns, "columns")
    document = {
        "learner": {
            "feature_names": [] if numbered else names,
            "gradient_booster": {
                "model": {"trees": [_tree(nodes, place, t) for t, nodes in enumerate(trees)]}
            },
            "learner_model_param": {"num_feature": str(n_columns)},
        }
    }
    booster = booster_from_dict(document)
    return StoredObject(booster.type, booster.state, leftovers=tuple(left))


def _tree(nodes: Sequence[_Node], place: dict[str, int], t: int) -> dict[str, Any]:
    """Put nodes into lists, in the order of their numbers."""
    where = f"tree {t}"
    order = sorted(nodes, key=lambda node: node.number)
    at = {node.number: i for i, node in enumerate(order)}
    at_most(MOST_LEVELS, max((node.depth for node in nodes), default=0), f"levels in {where}")
    if len(at) < len(nodes) or 0 not in at:
        raise BadModel(f"{where}: two nodes of a number, or no root")
    lists: dict[str, list[Any]] = {key: [] for key in _LISTS}
    tests = [node for node in nodes if node.column is not None]
    if len({n.cover is None for n in nodes} | {n.gain is None for n in tests}) > 1:
        raise BadModel(f"{where}: some nodes have a cover or a gain, others none")
    for i, node in enumerate(order):
        yes, no, missing = (at.get(way) for way in node.ways)
        sets = isinstance(node.test, list)
        if node.column is None:
            yes, no, missing = -1, -1, None
        elif yes is None or no is None or yes == no or missing not in (yes, no):
            raise BadModel(f"{where}, node {node.number}: leads to no node")
        # Of categories, those that are listed go right.
        left, right = (no, yes) if sets else (yes, no)
        if sets:
            lists["categories_nodes"].append(i)
            lists["categories_segments"].append(len(lists["categories"]))
            lists["categories_sizes"].append(len(node.test))
            lists["categories"] += node.test
        column = 0 if node.column is None else place[node.column]
        condition = 0.0 if sets else float(node.test)
        values = (left, right, int(missing == left), column, condition, int(sets), node.cover,
                  node.gain or 0.0)  # fmt: skip
        for key, value in zip(_LISTS, values, strict=False):
            lists[key].append(value)
    # XGBoost prints a node, what is left of it, and what is right.
    way: list[tuple[int, int]] = [(0, 0)]
    walk: list[tuple[int, int]] = []
    while way and len(walk) < len(nodes):
        i, depth = way.pop()
        walk.append((order[i].number, depth))
        if order[i].column is not None:
            way += [(lists[side][i], depth + 1) for side in ("right_children", "left_children")]
    if way or walk != [(node.number, node.depth) for node in nodes]:
        raise BadModel(f"{where}: nodes in another order, or of another depth, than XGBoost's")
    if nodes[0].cover is None:
        del lists["sum_hessian"], lists["loss_changes"]
    return {"id": t, "tree_param": {"num_nodes": str(len(nodes))}, **lists}


_LISTS = (
    "left_children", "right_children", "default_left", "split_indices", "split_conditions",
    "split_type", "sum_hessian", "loss_changes", "categories", "categories_nodes",
    "categories_segments", "categories_sizes",
)  # fmt: skip
