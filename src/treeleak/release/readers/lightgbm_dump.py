"""What LightGBM's ``dump_model`` gives, written to JSON: read as the text of the same model.

Nodes hold each other there, numbers are numbers, and the parameters of the training are missing.
The text is made anew and then read like any other, so that all that is checked of a text is checked
of a dump.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from treeleak.core.errors import BadModel, NotCovered
from treeleak.release.bounds import MOST_COLUMNS, MOST_TREES, at_most
from treeleak.release.checked_json import is_finite, is_whole
from treeleak.release.readers.lightgbm_text import (
    END,
    IMPORTANCES,
    LINEAR,
    MOST_ENTRIES,
    MOST_WORDS,
    booster_from_text,
)
from treeleak.release.stored import Leftover, StoredObject

_BEGIN = ("version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx",
          "objective")  # fmt: skip
_BEHIND = ("feature_importances", "pandas_categorical")
_HEAD = {"name", *_BEGIN, "average_output", "feature_names", "monotone_constraints",
         "feature_infos", "tree_info", *_BEHIND}  # fmt: skip
_TREE = {"tree_index", "num_leaves", "num_cat", "shrinkage", "tree_structure"}
_INNER = ("split_feature", "split_gain", "internal_value", "internal_weight", "internal_count")
_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
_OF_INNER = {"split_index", *_INNER, "threshold", "decision_type", "default_left", "missing_type",
             "left_child", "right_child"}  # fmt: skip
_OF_LEAF = {"leaf_index", *_LEAF}
_MISSING = {"None": 0, "Zero": 4, "NaN": 8}
_INFINITE = 1e300
"""Thresholds that part missing values from all others are printed as this."""
_SET = re.compile(r"\d{1,10}(\|\|\d{1,10})*")


def is_dump(root: Any) -> bool:
    """Say whether this is what LightGBM's ``dump_model`` gives."""
    return isinstance(root, Mapping) and {"tree_info", "feature_names"} <= root.keys()


def booster_from_dump(root: Mapping[str, Any]) -> StoredObject:
    """Take what a dump says, as the text of the model would say it.

    Raises
    ------
    BadModel
        Naming the tree.
    """
    trees, names = root["tree_info"], root["feature_names"]
    if not isinstance(trees, list) or not isinstance(names, list):
        raise BadModel("tree_info or feature_names is not a list")
    at_most(MOST_TREES, len(trees), "trees")
    at_most(MOST_COLUMNS, len(names), "columns")
    left = [*_unknown(root, _HEAD, "the dump")]
    lines = [_word(root.get("name", "tree"), "name")]
    lines += [f"{key}={_word(root[key], key)}" for key in _BEGIN if key in root]
    averaged = root.get("average_output", False)
    if not isinstance(averaged, bool):
        raise BadModel("average_output is neither true nor false")
    lines += ["average_output"] * averaged
    lines.append(f"feature_names={' '.join(_word(x, 'feature_names', ' ') for x in names)}")
    if bounds := root.get("monotone_constraints", []):
        lines.append(f"monotone_constraints={' '.join(_numbers(bounds, 'monotone_constraints'))}")
    infos, importances = (root.get(key, {}) for key in ("feature_infos", "feature_importances"))
    if not isinstance(infos, Mapping) or not isinstance(importances, Mapping):
        raise BadModel("feature_infos or feature_importances is not an object")
    left += _unknown(infos, names, "feature_infos")
    left += _unknown(importances, names, "feature_importances")
    lines += [f"feature_infos={' '.join(_info(infos.get(x), x, left) for x in names)}", ""]
    for t, tree in enumerate(trees):
        lines += [f"Tree={t}", *_tree(tree, t, left), "", ""]
    listed = [name for name in names if name in importances]
    numbers = _numbers([importances[name] for name in listed], "feature_importances")
    lines += [END, "", IMPORTANCES[0], *map("{}={}".format, listed, numbers), ""]
    if "pandas_categorical" in root:
        lines += [f"pandas_categorical:{json.dumps(root['pandas_categorical'])}", ""]
    booster = booster_from_text("\n".join(lines))
    return replace(booster, leftovers=(*left, *booster.leftovers))


def _unknown(held: Mapping[str, Any], known: Iterable[str], where: str) -> Iterator[Leftover]:
    for key in held.keys() - known:
        yield Leftover(where, f"what LightGBM does not write: {key:.40}", {key: held[key]})


def _info(info: Any, name: str, left: list[Leftover]) -> str:
    """Say in the words of a text what values a column has."""
    if info is None:
        return "none"
    if not isinstance(info, Mapping) or not isinstance(info.get("values", []), list):
        raise BadModel(f"feature_infos of {name!r:.40} is no description of values")
    where = "feature_infos"
    left += _unknown(info, {"min_value", "max_value", "values"}, where)
    ends = [info.get("min_value"), info.get("max_value")]
    if not (values := info.get("values", [])):
        return f"[{':'.join(_numbers(ends, where))}]"
    listed = _numbers(values, where)
    if ends != [min(values), max(values)]:
        left.append(Leftover(where, "ends that are not those of the categories", ends))
    return ":".join(listed)


def _word(value: Any, key: str, besides: str = "") -> str:
    """Take what stands in one line of a text: a number or a word."""
    text = str(value) if is_whole(value, 0, 2**31) else value
    if not isinstance(text, str) or not text.isprintable() or set(text) & set(besides):
        raise BadModel(f"{key} is {value!r:.40}, which LightGBM does not write")
    return text


def _numbers(values: Any, where: str) -> list[str]:
    if not isinstance(values, list) or not all(map(is_finite, values)):
        raise BadModel(f"{where} holds something other than numbers")
    at_most(MOST_ENTRIES, len(values), f"numbers in {where}")
    # As LightGBM writes numbers of double precision.
    return [str(x) if isinstance(x, int) else f"{x:.17g}" for x in values]


def _tree(tree: Any, t: int, left: list[Leftover]) -> Iterator[str]:
    where = f"tree {t}"
    if not isinstance(tree, Mapping) or tree.get("tree_index", t) != t:
        raise BadModel(f"{where}: no tree of number {t}")
    left += _unknown(tree, _TREE, where)
    n: Any = tree.get("num_leaves")
    if not is_whole(n, 1, MOST_ENTRIES):
        raise BadModel(f"{where}: num_leaves is {n!r:.40}")
    inner: dict[int, Mapping[str, Any]] = {}
    leaves: dict[int, Mapping[str, Any]] = {}
    todo = [tree.get("tree_structure")]
    while todo:
        node = todo.pop()
        is_inner = isinstance(node, Mapping) and "split_index" in node
        found, most = (inner, n - 1) if is_inner else (leaves, n)
        if isinstance(node, Mapping) and "leaf_const" in node:
            raise NotCovered(LINEAR)
        if not isinstance(node, Mapping) or not is_whole(_number(node), 0, most):
            raise BadModel(f"{where}: a node without a number below num_leaves ({n})")
        if found.setdefault(_number(node), node) is not node:
            raise BadModel(f"{where}: two nodes of the number {_number(node)}")
        left += _unknown(node, _OF_INNER if is_inner else _OF_LEAF, where)
        if is_inner:
            todo += [node.get("right_child"), node.get("left_child")]
    if len(leaves) != n or len(inner) != n - 1:
        raise BadModel(f"{where}: {len(leaves)} leaves, num_leaves is {n}")
    nodes, ends = ([held[i] for i in range(len(held))] for held in (inner, leaves))
    sets, words = [0], list[int]()
    tests = [_test(node, sets, words, where) for node in nodes]
    if tree.get("num_cat", len(sets) - 1) != len(sets) - 1:
        raise BadModel(f"{where}: num_cat is not {len(sets) - 1}")
    lines: dict[str, list[Any]] = {
        "num_leaves": [n], "num_cat": [len(sets) - 1],
        "threshold": [threshold for threshold, _ in tests],
        "decision_type": [kind for _, kind in tests],
    }  # fmt: skip
    for side in ("left_child", "right_child"):
        children = [node[side] for node in nodes]
        lines[side] = [_number(c) if "split_index" in c else ~_number(c) for c in children]
    for keys, group in ((_INNER, nodes), (_LEAF, ends)):
        for key in keys:
            held = [node[key] for node in group if key in node]
            if held and len(held) < len(group):
                raise BadModel(f"{where}: {key} stands at {len(held)} of {len(group)} nodes")
            if held or not group:
                lines[key] = _numbers(held, f"{where}, {key}")
    if words:
        lines |= {"cat_boundaries": sets, "cat_threshold": words}
    lines["is_linear"] = [0]
    if "shrinkage" in tree:
        lines["shrinkage"] = _numbers([tree["shrinkage"]], where)
    for key, values in lines.items():
        yield f"{key}={' '.join(map(str, values))}"


def _number(node: Mapping[str, Any]) -> Any:
    """Give the number of a node; a tree that is one leaf does not number it."""
    return node["split_index"] if "split_index" in node else node.get("leaf_index", 0)


def _test(
    node: Mapping[str, Any], sets: list[int], words: list[int], where: str
) -> tuple[str, int]:
    """Give threshold and decision_type of a test; categories go into words of 32 bits."""
    threshold, kind = node.get("threshold"), node.get("decision_type")
    missing, default = node.get("missing_type"), node.get("default_left")
    if not (isinstance(missing, str) and missing in _MISSING and isinstance(default, bool)):
        raise BadModel(f"{where}: a test that does not say where missing values go")
    decision = _MISSING[missing] + 2 * default
    if kind == "<=" and threshold is not None and is_finite(threshold):
        ends = abs(threshold) >= _INFINITE
        return "inf" if ends else _numbers([threshold], where)[0], decision
    if kind != "==" or not isinstance(threshold, str) or not _SET.fullmatch(threshold):
        raise BadModel(f"{where}: a test of the kind {kind!r:.20} against {threshold!r:.40}")
    members = [int(x) for x in threshold.split("||")]
    if members != sorted({*members}):
        raise BadModel(f"{where}: categories in another order than LightGBM's")
    n = max(members) // 32 + 1
    at_most(MOST_WORDS, len(words) + n, f"words of categories in {where}")
    bits = [0] * n
    for member in members:
        bits[member // 32] |= 1 << member % 32
    words += bits
    sets.append(len(words))
    return str(len(sets) - 2), decision + 1
