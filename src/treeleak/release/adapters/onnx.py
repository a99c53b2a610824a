"""Tree ensembles of ONNX graphs, from stored data to a release; onnx is not imported.

What converters write, found out from skl2onnx 1.20 and onnxmltools 1.16 and checked by converting
(a test):

- An ensemble lists the nodes of all trees with the numbers of their trees, and beside them what
  each leaf adds to which class or target. No node counts rows.
- Of a forest or a tree of scikit-learn, a leaf adds its class shares over the number of trees. With
  two classes, that of the second one may stand alone. Of boosted models it adds its value.
- Values are compared in single precision, unless values and thresholds are both in double.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.adapters.boosted import (
    column_names,
    numbers,
    parents_first,
    renumbered,
    whole_numbers,
)
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_COUNTS, MOST_TREES, at_most
from treeleak.release.checked_json import located
from treeleak.release.ensemble import Ensemble
from treeleak.release.leaf_classes import classes_in_leaves
from treeleak.release.readers.onnx_graph import ENSEMBLES
from treeleak.release.registry import adapter
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Bootstrap, UnknownSampling
from treeleak.release.statistics import VALUE, NodeStatistic, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, CategorySets, Tree

__all__: list[str] = []

NO_TREES = MessageTemplate(
    "onnx_no_trees", "an ONNX model without a tree ensemble ({n:number} other operators)"
)
SEVERAL = MessageTemplate(
    "onnx_several",
    "an ONNX model of {n:number} tree ensembles, whose trees may have seen other rows or weights: "
    "audit the model that it was made from",
)
VALUES = static_message(
    "an ONNX file holds what each leaf adds, but no numbers of rows and no sums from which they "
    "follow",
    "onnx_values",
)
NUMBERED = static_message(
    "Other operators stand before the trees: columns are those that enter the trees, numbered, and "
    "not those of the table.",
    "onnx_numbered",
)
DRAWN = static_message(
    "The file does not say how trees drew their rows. They are taken to be those of a random "
    "forest, each of which drew as many rows as there are, with replacement.",
    "onnx_drawn",
)
_SAME = ("Cast", "Identity", "Concat")
"""Operators that leave the values of columns as they are."""
_WHOLE = {"treeids": 2**31, "nodeids": 2**31, "featureids": MOST_COLUMNS, "truenodeids": 2**31,
          "falsenodeids": 2**31}  # fmt: skip
_TRACKS = "nodes_missing_value_tracks_true"
MODES = ("LEAF", "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE", "BRANCH_EQ", "BRANCH_NEQ")
_LEAF, _LEQ, _LT, _GT, _GTE, _EQ, _NEQ = range(7)
_LABELS = ("classlabels_strings", "classlabels_int64s")
_DOUBLE = 11
_ROUNDING = 1e-4
"""How far shares of classes, over the number of trees in single precision, add up to another sum
than 1."""


@adapter("onnx", "Model")
def _model(stored: StoredObject) -> Release:
    graph = stored.get("graph")
    nodes = graph.get("nodes")
    found = [node for node in nodes if node.name in ENSEMBLES]
    if len(found) != 1:
        raise NotCovered(SEVERAL(n=len(found)) if found else NO_TREES(n=len(nodes)))
    (ensemble,) = found
    classifies = ensemble.name == ENSEMBLES[0]
    data = dict(ensemble.state)
    for key in ("nodes_values", "class_weights", "target_weights", "base_values"):
        data[key] = data.get(f"{key}_as_tensor", data.get(key, ()))
    trees, orders, keys, leaf = _trees(data)
    names, double, notes = _columns(graph, ensemble, 1 + int(max(data["nodes_featureids"])))
    held = [data[key] for key in _LABELS if len(data.get(key, ()))] if classifies else []
    if classifies and not held:
        raise BadModel("no class labels")
    classes = tuple(np.asarray(held[0]).tolist()) if held else ()
    outputs = len(classes) or data.get("n_targets", 1)
    if not isinstance(outputs, int) or not 0 < outputs <= MOST_CLASSES:
        raise BadModel(f"n_targets is {outputs!r:.40}")
    at_most(MOST_COUNTS, len(keys) * outputs, "values in all leaves")
    added, listed = _added(data, keys, leaf, "class" if classifies else "target", outputs)
    base, transform = np.asarray(data["base_values"], float), data.get("post_transform", "NONE")
    several, told = len(trees) > 1, dict[str, Any]()
    shares = None
    if classes and transform == "NONE" and not base.any():
        shares = _shares(added * len(trees), listed, leaf)
    if shares is not None:
        of_trees = [shares[order] for order in orders]
        trees, told["noise"], note = classes_in_leaves(trees, of_trees, drawn=several)
        told["sampling"] = Bootstrap() if several else AllRows()
        notes = (*notes, *(DRAWN,) * several, note)
    else:
        trees = [_with_values(t, added[o], outputs) for t, o in zip(trees, orders, strict=True)]
        told["not_covered"], told["n_targets"] = VALUES, 1 if classes else outputs
        told["sampling"] = UnknownSampling(VALUES)
        scores = tuple(base.tolist()) if len(base) == outputs else (0.0,) * outputs
        told["ensemble"] = Ensemble(f"not told, {transform!s:.20}", scores)
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=classes,
        n_rows=None,
        float_type="float64" if double else "float32",
        origin=f"ONNX, {ensemble.name}",
        notes=notes,
        **told,
    )


def _trees(data: Mapping[str, Any]) -> tuple[list[Tree], list[IntArray], IntArray, BoolArray]:
    """Check the lists of nodes, and lay out the trees.

    Returns
    -------
    list of Tree, list of int array, int array, bool array
        With the places that their nodes have in the other two: the keys of all nodes, ascending
        (number of the tree times 2^32, and of the node in it), and which of them are leaves.
    """
    modes = data.get("nodes_modes", ())
    n = len(modes)
    if n == 0 or set(modes) - set(MODES):
        raise BadModel(f"nodes_modes are not of {', '.join(MODES)}")
    tree, node, feature, *children = (
        whole_numbers(data, f"nodes_{name}", n, (0, most), "nodes") for name, most in _WHOLE.items()
    )
    keys = tree * 2**32 + node
    by_key = np.argsort(keys, kind="stable")
    keys, tree, feature = keys[by_key], tree[by_key], feature[by_key]
    if (np.diff(keys) == 0).any():
        raise BadModel("two nodes of a tree have one number (nodes_nodeids)")
    cuts = numbers(data, "nodes_values", n, "nodes")[by_key]
    mode = np.array([MODES.index(text) for text in modes])[by_key]
    leaf, equal, strict = mode == _LEAF, np.isin(mode, (_EQ, _NEQ)), np.isin(mode, (_LT, _GTE))
    if not ((cuts >= 0) & (cuts == np.floor(cuts)))[equal].all():
        raise NotCovered("a test whether a value equals a number that is no whole one from 0 on")
    tracks = np.zeros(n, dtype=bool)
    if len(data.get(_TRACKS, ())):
        tracks = whole_numbers(data, _TRACKS, n, (0, 2), "nodes")[by_key] == 1
    sides = np.full((2, n), LEAF)
    for side, each, name in zip(sides, children, ("true", "false"), strict=True):
        side[~leaf] = _places(keys, tree[~leaf], each[by_key][~leaf], f"nodes_{name}nodeids")
    # Small values go to the left; a value that is missing fails every test but that for another.
    swapped = np.isin(mode, (_GT, _GTE, _NEQ))
    sides = np.where(swapped, sides[::-1], sides)
    missing_left = ~leaf & ((tracks | (mode == _NEQ)) != swapped)
    starts = np.flatnonzero(np.diff(tree, prepend=-1))
    at_most(MOST_TREES, len(starts), "trees")
    trees, orders = list[Tree](), list[IntArray]()
    for t, (start, end) in enumerate(zip(starts, [*starts[1:], n], strict=True)):
        own = np.where(leaf[start:end], LEAF, sides[:, start:end] - start)
        order = _order(own[0], own[1], f"tree {t}")
        at = order + start
        sets = np.flatnonzero(equal[at])
        with located(f"tree {t}: "):
            trees.append(Tree(
                np.where(leaf[at], LEAF, feature[at]),
                np.where(leaf[at] | equal[at], np.nan, cuts[at]),
                renumbered(order, own[0], len(at)), renumbered(order, own[1], len(at)),
                missing_left[at],
                strict=strict[at] if strict[at].any() else None,
                categories=CategorySets(sets, cuts[at[sets]].astype(int)) if len(sets) else None,
            ))  # fmt: skip
        orders.append(at)
    return trees, orders, keys, leaf


def _places(keys: IntArray, tree: IntArray, node: IntArray, what: str) -> IntArray:
    """Find nodes by the numbers of their trees and their own."""
    wanted = tree * 2**32 + node
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    if (keys[place] != wanted).any():
        raise BadModel(f"{what} name a node that is not there")
    return place


def _order(left: IntArray, right: IntArray, where: str) -> IntArray:
    """Order the nodes of a tree, parents before children."""
    n = len(left)
    parents = np.bincount(np.concatenate([left, right]) + 1, minlength=n + 1)[1:]
    roots = np.flatnonzero(parents == 0)
    if len(roots) != 1:
        raise BadModel(f"{where}: {len(roots)} nodes have no parent")
    # The root first, as the walk asks for.
    own = np.roll(np.arange(n), -int(roots[0]))
    order = own[parents_first(renumbered(own, left, n), renumbered(own, right, n), where)]
    if len(order) < n:
        raise BadModel(f"{where}: {n - len(order)} nodes that the root does not lead to")
    return order


def _added(
    data: Mapping[str, Any], keys: IntArray, leaf: BoolArray, of: str, n_outputs: int
) -> tuple[FloatArray, IntArray]:
    """Give what each node adds to each output, and the outputs that the lists speak of."""
    weights = numbers(data, f"{of}_weights", None, "leaves")
    tree, node, output = (
        whole_numbers(data, f"{of}_{name}", len(weights), (0, end), "leaves")
        for name, end in (("treeids", 2**31), ("nodeids", 2**31), ("ids", n_outputs))
    )
    if not np.isfinite(weights).all():
        raise BadModel(f"{of}_weights hold a number that is not finite")
    at = _places(keys, tree, node, f"{of}_nodeids")
    if not leaf[at].all():
        raise BadModel(f"{of}_nodeids name a node that is no leaf")
    added = np.zeros((len(keys), n_outputs))
    np.add.at(added, (at, output), weights)
    return added, np.unique(output)


def _shares(shares: FloatArray, outputs: IntArray, leaf: BoolArray) -> FloatArray | None:
    """Give the class shares of leaves; None where leaves add something else."""
    if shares.shape[1] == 2 and len(outputs) == 1:
        # Of two classes the second one stands alone.
        shares = np.stack([1 - shares[:, outputs[0]], shares[:, outputs[0]]], axis=1)
        shares[np.abs(shares) < _ROUNDING] = 0.0
    off = np.abs(shares[leaf].sum(axis=1) - 1) > _ROUNDING
    return None if off.any() or (shares[leaf] < 0).any() else shares


def _with_values(tree: Tree, added: FloatArray, outputs: int) -> Tree:
    """Let leaves hold what they add, to the one output that the tree adds to or to each."""
    used = np.flatnonzero(added.any(axis=0))
    if outputs > 1 and len(used) > 1:
        return tree.with_statistics(Statistics((NodeStatistic(VALUE, added, tree.is_leaf),)))
    output = int(used[0]) if len(used) else 0
    value = NodeStatistic(VALUE, added[:, output], tree.is_leaf)
    number = output if outputs > 1 else None
    return replace(tree, statistics=Statistics((value,)), output=number)


def _columns(
    graph: StoredObject, ensemble: StoredObject, n: int
) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """Name the columns that enter the trees; say whether they do so in double precision."""
    makers = {out: node for node in graph.get("nodes") for out in node.get("output", ())}
    inputs, names, double, first, seen = graph.get("input"), list[str](), False, True, 0
    waiting = list(ensemble.get("input", ()))[:1]
    while waiting:
        tensor, seen = waiting.pop(), seen + 1
        maker = makers.get(tensor)
        if tensor in inputs and maker is None and isinstance(inputs[tensor], list):
            element, *sizes = inputs[tensor]
            double |= first and element == _DOUBLE
            width = sizes[-1] if len(sizes) == 2 and isinstance(sizes[-1], int) else -1
            lone = not names and not waiting
            if not 0 < width <= MOST_COLUMNS:
                width = n if lone else 0
            numbered = [f"x{i}" if lone else f"{tensor}_{i}" for i in range(width)]
            names += [tensor] if width == 1 else numbered
        elif maker is not None and maker.get("op_type") in _SAME and seen <= MOST_COLUMNS:
            if maker.get("op_type") == "Cast":
                double, first = (maker.get("to") == _DOUBLE and first) or double, False
            waiting += maker.get("input", ())[::-1]
        else:
            return (*column_names(None, n)[:1], False, (NUMBERED,))
    if len(names) < n or len(set(names)) < len(names):
        return (*column_names(None, max(n, len(names)))[:1], double, (NUMBERED,))
    return tuple(names), double, ()
