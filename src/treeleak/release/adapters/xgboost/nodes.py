"""One tree of XGBoost: its shape, and the numbers of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.release.adapters.boosted import (
    count_in,
    finite,
    numbers,
    parents_first,
    renumbered,
    whole_numbers,
)
from treeleak.release.adapters.xgboost.model import Model, object_in
from treeleak.release.bounds import MOST_CATEGORY, MOST_CLASSES, MOST_NODES
from treeleak.release.checked_json import located
from treeleak.release.statistics import GAIN, HESSIAN, STEP, VALUE, Statistics
from treeleak.release.tree import LEAF, CategorySets, Tree

VECTORS = static_message(
    "XGBoost trees whose leaves hold several numbers (multi_output_tree) are not covered",
    "xgboost_vectors",
)


def read_tree(t: int, raw: Mapping[str, Any], model: Model, output: int) -> Tree:
    """Read tree ``t``, which adds to an output, with all statistics but counts of rows."""
    where = f"tree {t}"
    param = object_in(raw, "tree_param", where)
    if count_in(param, "size_leaf_vector", MOST_CLASSES, "0") > 1 or np.size(
        raw.get("leaf_weights", ())
    ):
        raise NotCovered(VECTORS)
    n = count_in(param, "num_nodes", MOST_NODES)
    if n == 0:
        raise BadModel(f"{where}: no nodes")
    left, right = (
        whole_numbers(raw, f"{side}_children", n, (LEAF, n), where) for side in ("left", "right")
    )
    if ((left == LEAF) != (right == LEAF)).any():
        raise BadModel(f"{where}: a node has one child only")
    order = parents_first(left, right, where)
    leaf = left[order] == LEAF
    feature = numbers(raw, "split_indices", n, where)[order]
    feature = np.where(leaf, LEAF, feature)
    if (bad := ~leaf & ~((feature >= 0) & (feature < max(model.n_columns, 1)))).any():
        at = order[bad.argmax()]
        raise BadModel(f"{where}, node {at}: tests column {feature[bad][0]:g}, there are "
                       f"{model.n_columns}")  # fmt: skip
    conditions = _single(raw, "split_conditions", n, where)[order]
    missing_left = whole_numbers(raw, "default_left", n, (0, 2), where)[order].astype(bool) & ~leaf
    sets, tested = _categories(raw, n, order, leaf, where)
    children = [renumbered(order, child, n) for child in (left, right)]
    # Of categories, those stored go right, and all others left.
    ours = [np.where(tested, children[1 - i], children[i]) for i in range(2)]
    values = conditions
    if model.weight_drop is not None:
        values = conditions * np.float32(model.weight_drop[t])
    statistics = [finite(VALUE, values, leaf)]
    for quantity, key in ((STEP, "base_weights"), (HESSIAN, "sum_hessian"), (GAIN, "loss_changes")):
        if key in raw:
            node_values = _single(raw, key, n, where)[order]
            # Zeros throughout stand for what was taken out: XGBoost asks for numbers there. So do
            # ones, which NVFlare writes: a sum over a node is that of its children.
            out = quantity == HESSIAN and n > 1 and (node_values == 1.0).all()
            if node_values.any() and not out:
                statistics.append(
                    finite(quantity, node_values, ~leaf if quantity == GAIN else None)
                )
    with located(f"{where}: "):
        return Tree(
            feature=feature.astype(np.int64),
            threshold=np.where(leaf | tested, np.nan, conditions.astype(float)),
            left=ours[0],
            right=ours[1],
            missing_left=(missing_left ^ tested) & ~leaf,
            statistics=Statistics(tuple(statistics)),
            strict=~leaf & ~tested,
            categories=sets,
            output=output if model.n_outputs > 1 else None,
        )


def _single(raw: Mapping[str, Any], key: str, n: int, where: str) -> NDArray[np.float32]:
    """Take numbers in the precision in which XGBoost holds them; JSON gives their shortest text."""
    with np.errstate(over="ignore"):
        return numbers(raw, key, n, where).astype(np.float32)


def _categories(
    raw: Mapping[str, Any], n: int, order: IntArray, leaf: BoolArray, where: str
) -> tuple[CategorySets | None, BoolArray]:
    """Read the tests for categories, and say which nodes have one."""
    none = np.zeros(len(order), dtype=bool)
    if "split_type" not in raw or "categories_nodes" not in raw:
        return None, none
    kind = whole_numbers(raw, "split_type", n, (0, 2), where)[order]
    tested = (kind == 1) & ~leaf
    if not tested.any():
        return None, none
    nodes = whole_numbers(raw, "categories_nodes", None, (0, n), where)
    members = whole_numbers(raw, "categories", None, (0, MOST_CATEGORY), where)
    ends = (0, len(members) + 1)
    first = whole_numbers(raw, "categories_segments", len(nodes), ends, where)
    size = whole_numbers(raw, "categories_sizes", len(nodes), ends, where)
    place = np.full(n, LEAF)
    place[order] = np.arange(len(order))
    owner = place[nodes]
    listed = np.zeros(len(order), dtype=bool)
    listed[owner[owner >= 0]] = True
    if len(np.unique(nodes)) != len(nodes) or (size < 1).any() or (tested & ~listed).any():
        raise BadModel(f"{where}: a test for categories without categories, or with two lists")
    if (first + size > len(members)).any() or size.sum() > len(members):
        raise BadModel(f"{where}: categories_segments and categories_sizes point past the list")
    take = np.repeat(first - np.cumsum(size) + size, size) + np.arange(size.sum())
    node, value = np.repeat(owner, size), members[take]
    keep = (node >= 0) & tested[np.maximum(node, 0)]
    pairs = np.unique(np.column_stack([node[keep], value[keep]]), axis=0)
    return CategorySets(pairs[:, 0], pairs[:, 1]), tested
