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
from treeleak.core.private import dataclass
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
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.readers.onnx_graph import ENSEMBLES
from treeleak.release.registry import adapter
from treeleak.release.release import SEVERAL_TARGETS, Release
from treeleak.release.sampling import AllRows, Bootstrap, Sampling, UnknownSampling
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
_DOUBLE = 11
_ROUNDING = 1e-4
"""How far shares of classes, over the number of trees in single precision, add up to another sum
than 1."""


@adapter("onnx", "Model")
def _model(stored: StoredObject) -> Release:
    graph = stored.get("graph")
    nodes = graph.get("nodes")
    found = [node for node in nodes if node.name in ENSEMBLES]
    if not found:
        raise NotCovered(NO_TREES(n=len(nodes)))
    if len(found) > 1:
        raise NotCovered(SEVERAL(n=len(found)))
    (ensemble,) = found
    data = dict(ensemble.state)
    for key in ("nodes_values", "class_weights", "target_weights", "base_values"):
        data[key] = data.get(f"{key}_as_tensor", data.get(key, ()))
    laid = _laid_out(data)
    names, double, notes = _columns(graph, ensemble, 1 + int(laid.feature.max()))
    classifies = ensemble.name == ENSEMBLES[0]
    classes = _labels(data) if classifies else ()
    outputs = len(classes) or data.get("n_targets", 1)
    if not isinstance(outputs, int) or not 0 < outputs <= MOST_CLASSES:
        raise BadModel(f"n_targets is {outputs!r:.40}")
    at_most(MOST_COUNTS, len(laid.key) * outputs, "values in all leaves")
    added, listed = _added(data, laid, "class" if classifies else "target", outputs)
    base, transform = np.asarray(data["base_values"], float), data.get("post_transform", "NONE")
    trees, n_trees = laid.trees(), len(laid.order)
    noise: LabelNoise | None = None
    not_covered: str | None = None
    sampling: Sampling = AllRows()
    summed: Ensemble | None = None
    shares = _shares(added, listed, laid) if classes and transform == "NONE" else None
    if shares is not None and not base.any():
        if n_trees > 1:
            sampling, notes = Bootstrap(), (*notes, DRAWN)
        of_trees = [shares[order] for order in laid.order]
        trees, noise, note = classes_in_leaves(trees, of_trees, drawn=n_trees > 1)
        notes = (*notes, note)
    else:
        not_covered = VALUES if classes or outputs == 1 else SEVERAL_TARGETS
        sampling = UnknownSampling(VALUES)
        trees = [
            _with_values(tree, added[order], outputs)
            for tree, order in zip(trees, laid.order, strict=True)
        ]
        scores = tuple(base.tolist()) if len(base) == outputs else (0.0,) * outputs
        summed = Ensemble(f"not told, {transform!s:.20}", scores)
    return Release(
        trees=tuple(trees),
        feature_names=names,
        classes=classes,
        sampling=sampling,
        n_rows=None,
        noise=noise,
        not_covered=not_covered,
        float_type="float64" if double else "float32",
        origin=f"ONNX, {ensemble.name}",
        notes=notes,
        ensemble=summed,
    )


@dataclass(frozen=True, eq=False)
class _LaidOut:
    """The nodes of all trees, those of a tree together."""

    key: IntArray
    """Ascending: number of the tree times 2^32, and of the node in it."""
    feature: IntArray
    threshold: FloatArray
    mode: IntArray
    left: IntArray
    right: IntArray
    """Children by their places in these arrays; -1 at a leaf."""
    missing_left: BoolArray
    order: tuple[IntArray, ...]
    """Of each tree: its nodes, parents before children."""

    def at(self, tree: IntArray, node: IntArray, what: str) -> IntArray:
        """Find nodes by the numbers of their trees and their own."""
        return _places(self.key, tree, node, what)

    def trees(self) -> list[Tree]:
        """Lay out the trees."""
        sets = np.isin(self.mode, (_EQ, _NEQ))
        value = self.threshold[sets]
        if not ((value >= 0) & (value == np.floor(value))).all():
            raise NotCovered(
                "a test whether a value equals a number that is no whole one from 0 on"
            )
        found = []
        for t, order in enumerate(self.order):
            first = int(order.min())
            inner, equals = self.mode[order] != _LEAF, sets[order]
            cuts, strict = self.threshold[order], np.isin(self.mode[order], (_LT, _GTE))
            sides = (np.where(side < 0, LEAF, side - first)[first : first + len(order)]
                     for side in (self.left, self.right))  # fmt: skip
            left, right = (renumbered(order - first, side, len(order)) for side in sides)
            at = np.flatnonzero(equals)
            with located(f"tree {t}: "):
                found.append(
                    Tree(
                        feature=np.where(inner, self.feature[order], LEAF),
                        threshold=np.where(inner & ~equals, cuts, np.nan),
                        left=left,
                        right=right,
                        missing_left=inner & self.missing_left[order],
                        strict=strict if strict.any() else None,
                        categories=CategorySets(at, cuts[at].astype(int)) if len(at) else None,
                    )
                )
        return found


def _places(keys: IntArray, tree: IntArray, node: IntArray, what: str) -> IntArray:
    wanted = tree * 2**32 + node
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    if (keys[place] != wanted).any():
        raise BadModel(f"{what} name a node that is not there")
    return place


def _laid_out(data: Mapping[str, Any]) -> _LaidOut:
    """Check the lists of nodes, and order the nodes of each tree."""
    modes = data.get("nodes_modes", ())
    n = len(modes)
    if n == 0 or set(modes) - set(MODES):
        raise BadModel(f"nodes_modes are not of {', '.join(MODES)}")
    listed = {name: whole_numbers(data, f"nodes_{name}", n, (0, most), "nodes")
              for name, most in _WHOLE.items()}  # fmt: skip
    keys = listed["treeids"] * 2**32 + listed["nodeids"]
    by_key = np.argsort(keys, kind="stable")
    keys = keys[by_key]
    if (np.diff(keys) == 0).any():
        raise BadModel("two nodes of a tree have one number (nodes_nodeids)")
    listed = {name: values[by_key] for name, values in listed.items()}
    threshold = numbers(data, "nodes_values", n, "nodes")[by_key]
    mode = np.array([MODES.index(text) for text in modes])[by_key]
    tracks = np.zeros(n, dtype=bool)
    if len(data.get(_TRACKS, ())):
        tracks = whole_numbers(data, _TRACKS, n, (0, 2), "nodes")[by_key] == 1
    tree, inner = listed["treeids"], np.flatnonzero(mode != _LEAF)
    true, false = np.full((2, n), LEAF)
    for side, name in ((true, "truenodeids"), (false, "falsenodeids")):
        side[inner] = _places(keys, tree[inner], listed[name][inner], f"nodes_{name}")
    # Small values go to the left; a value that is missing fails every test but that for another.
    swapped = np.isin(mode, (_GT, _GTE, _NEQ))
    left, right = np.where(swapped, false, true), np.where(swapped, true, false)
    missing_left = (tracks | (mode == _NEQ)) != swapped
    starts = np.flatnonzero(np.diff(tree, prepend=-1))
    at_most(MOST_TREES, len(starts), "trees")
    orders = [
        _order(int(start), left[start:end] - start, right[start:end] - start, f"tree {t}")
        for t, (start, end) in enumerate(zip(starts, [*starts[1:], n], strict=True))
    ]
    return _LaidOut(keys, listed["featureids"], threshold, mode, left, right, missing_left,
                    tuple(orders))  # fmt: skip


def _order(start: int, left: IntArray, right: IntArray, where: str) -> IntArray:
    """Order the nodes of a tree, whose children are counted from its first node."""
    n = len(left)
    left, right = (np.maximum(side, LEAF) for side in (left, right))
    parents = np.bincount(np.concatenate([left, right]) + 1, minlength=n + 1)[1:]
    roots = np.flatnonzero(parents == 0)
    if len(roots) != 1:
        raise BadModel(f"{where}: {len(roots)} nodes have no parent")
    # The root first, as the walk asks for.
    own = np.roll(np.arange(n), -int(roots[0]))
    left, right = (renumbered(own, side, n) for side in (left, right))
    order = own[parents_first(left, right, where)]
    if len(order) < n:
        raise BadModel(f"{where}: {n - len(order)} nodes that the root does not lead to")
    return order + start


def _added(
    data: Mapping[str, Any], laid: _LaidOut, of: str, n_outputs: int
) -> tuple[FloatArray, IntArray]:
    """Give what each node adds to each output, and the outputs that the lists speak of."""
    weights = numbers(data, f"{of}_weights", None, "leaves")
    ends = {"treeids": 2**31, "nodeids": 2**31, "ids": n_outputs}
    tree, node, output = (
        whole_numbers(data, f"{of}_{name}", len(weights), (0, end), "leaves")
        for name, end in ends.items()
    )
    if not np.isfinite(weights).all():
        raise BadModel(f"{of}_weights hold a number that is not finite")
    at = laid.at(tree, node, f"{of}_nodeids")
    if (laid.mode[at] != _LEAF).any():
        raise BadModel(f"{of}_nodeids name a node that is no leaf")
    added = np.zeros((len(laid.key), n_outputs))
    np.add.at(added, (at, output), weights)
    return added, np.unique(output)


def _shares(added: FloatArray, outputs: IntArray, laid: _LaidOut) -> FloatArray | None:
    """Give the class shares of leaves; None where leaves add something else."""
    shares = added * len(laid.order)
    if added.shape[1] == 2 and len(outputs) == 1:
        # Of two classes the second one stands alone.
        shares = np.stack([1 - shares[:, outputs[0]], shares[:, outputs[0]]], axis=1)
        shares[np.abs(shares) < _ROUNDING] = 0.0
    leaf = laid.mode == _LEAF
    sums = shares[leaf].sum(axis=1)
    if (shares[leaf] < 0).any() or (np.abs(sums - 1) > _ROUNDING).any():
        return None
    return shares


def _with_values(tree: Tree, added: FloatArray, outputs: int) -> Tree:
    """Let leaves hold what they add, to the one output that the tree adds to or to each."""
    used = np.flatnonzero(added.any(axis=0))
    if outputs > 1 and len(used) > 1:
        return tree.with_statistics(Statistics((NodeStatistic(VALUE, added, tree.is_leaf),)))
    output = int(used[0]) if len(used) else 0
    value = NodeStatistic(VALUE, added[:, output], tree.is_leaf)
    number = output if outputs > 1 else None
    return replace(tree, statistics=Statistics((value,)), output=number)


def _labels(data: Mapping[str, Any]) -> tuple[Any, ...]:
    for key in ("classlabels_strings", "classlabels_int64s"):
        if len(data.get(key, ())):
            return tuple(np.asarray(data[key]).tolist())
    raise BadModel("no class labels")


def _columns(
    graph: StoredObject, ensemble: StoredObject, n: int
) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """Name the columns that enter the trees; say whether they do so in double precision."""
    makers = {out: node for node in graph.get("nodes") for out in node.get("output", ())}
    inputs, double = graph.get("input"), False
    names: list[str] = []
    waiting, seen = list(ensemble.get("input", ()))[:1], 0
    first = True
    while waiting:
        tensor, seen = waiting.pop(), seen + 1
        maker = makers.get(tensor)
        kind = None if maker is None else maker.get("op_type")
        if tensor in inputs and maker is None and isinstance(inputs[tensor], list):
            element, *sizes = inputs[tensor]
            double |= first and element == _DOUBLE
            width = sizes[-1] if len(sizes) == 2 and isinstance(sizes[-1], int) else -1
            lone = not names and not waiting
            if not 0 < width <= MOST_COLUMNS:
                width = n if lone else 0
            names += [tensor] if width == 1 else (
                [f"x{i}" if lone else f"{tensor}_{i}" for i in range(width)])  # fmt: skip
        elif maker is not None and kind in _SAME and seen <= MOST_COLUMNS:
            if kind == "Cast":
                double, first = (maker.get("to") == _DOUBLE and first) or double, False
            waiting += maker.get("input", ())[::-1]
        else:
            return (*column_names(None, n)[:1], False, (NUMBERED,))
    if len(names) < n or len(set(names)) < len(names):
        return (*column_names(None, max(n, len(names)))[:1], double, (NUMBERED,))
    return tuple(names), double, ()
