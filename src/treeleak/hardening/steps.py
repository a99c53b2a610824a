"""What a stored model can lose and still predict.

Each measure is a pure function from an archive to an archive. What a tree needs to predict are its
tests and the values of its leaves; all else in it can go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory.conditions import fits
from treeleak.auditing.inventory.inventory import unknown_places
from treeleak.auditing.inventory.known_classes import known_class
from treeleak.auditing.inventory.rules import SEED_NAMES
from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import BadInput
from treeleak.core.text import did_you_mean
from treeleak.hardening.archive import NONE, Archive, Place, TreeArrays, walk
from treeleak.hardening.files.document import NOTHING, Step
from treeleak.release.readers.npy import odd_header, parse_npy, plain_records, write_npy
from treeleak.release.readers.skops_archive import read_with_sources
from treeleak.release.readers.skops_layout import SCHEMA, Node, is_mark, laid_out, odd_text
from treeleak.release.stored import StoredObject

# Of what these hold, predictions need what names them below and nothing else; that predictions
# stayed the same is checked at the end.
_TREES = (
    "RandomForest", "ExtraTree", "DecisionTree", "Bagging", "GradientBoosting", "AdaBoost",
    "IsolationForest",
)  # fmt: skip
_NEEDED = (
    "estimators_", "tree_", "classes_", "n_classes_", "n_outputs_", "n_features_in_",
    "estimators_features_", "init_", "_loss", "loss", "learning_rate",
)  # fmt: skip


def without_unknown(archive: Archive) -> Archive:
    """Drop members, keys, attributes and bytes that no rule knows.

    What a class does not know by name is dropped with its name. What has a known name, but not the
    type or size that goes with it, becomes None in a model of trees; elsewhere it stays, for the
    predictions may rest on it.
    """
    data = dict(archive.data)
    model, schema, sources, unread = read_with_sources(archive.to_bytes())
    for node, key in unread:
        del node[key]
    changed = _drop_attributes(model, sources) or bool(unread)
    for _, node in walk(schema):
        changed |= _plain_value(node)
    named = {str(node["file"]) for _, node in walk(schema) if "file" in node} | {SCHEMA}
    for name in named & data.keys():
        if name.endswith(".npy"):
            data[name] = _plain_array(data[name], name)
    changed |= any(odd_text(data[SCHEMA].decode(), json.loads(data[SCHEMA])))
    if changed:
        data[SCHEMA] = laid_out(schema).encode()
    if data.keys() == named and all(data[n] is archive.data[n] for n in data):
        return archive
    infos = tuple(info for info in archive.infos if info.filename in named)
    return replace(archive, infos=infos, data={n: d for n, d in data.items() if n in named})


def _plain_value(node: Node) -> bool:
    """Describe a value as skops does: nothing in its text, class or mark but itself."""
    before = dict(node)
    if node.get("__loader__") == "JsonNode":
        content = {"content": json.dumps(json.loads(node["content"]))}
        node |= {**NONE, **content, "__class__": "str" if node.get("__class__") else ""}
    if "__id__" in node and not is_mark(node["__id__"]):
        del node["__id__"]
    return before != node


def _drop_attributes(model: StoredObject, sources: list[tuple[StoredObject, Node]]) -> bool:
    nodes = {id(stored): node for stored, node in sources}
    dropped: set[tuple[int, str]] = set()
    for holders in unknown_places(model):
        for owner, name in holders:
            node = nodes.get(id(owner))
            values = {} if node is None else node.get("content", {}).get("content", {})
            known = known_class(owner.type)
            if not isinstance(values, dict) or name not in values:
                if (id(owner), name) in dropped:
                    break
                continue
            if known is None or node is None:
                continue
            if not known.holds(name):
                at = list(values).index(name)
                del values[name]
                types = node["content"].get("key_types", {}).get("content", [])
                if len(types) > at:
                    del types[at]
            elif owner.name.startswith(_TREES) and name not in _NEEDED:
                values[name] = dict(NONE)
            else:
                continue
            dropped.add((id(owner), name))
            break
    return bool(dropped)


def _plain_array(content: bytes, name: str) -> bytes:
    """The same array, with nothing beside it: in its header, fields, leaves and flags."""
    array = parse_npy(content, name)
    clean = plain_records(array)
    fields = array.dtype.names or ()
    if {"left_child", "threshold"} <= set(fields):
        leaf = clean["left_child"] == -1
        at_leaves = clean["threshold"][leaf]
        if len(np.unique(at_leaves)) > 1:
            clean["threshold"][leaf] = -2.0
        if "missing_go_to_left" in fields:
            clean["missing_go_to_left"] = clean["missing_go_to_left"] != 0
    if clean.tobytes() == array.tobytes() and not odd_header(content, array):
        return content
    return write_npy(clean)


_SIZES = "_n_samples _n_samples_bootstrap _max_samples"
_SCORES = "train_score_ validation_score_"
_WEIGHTS = "_sample_weight sample_weight row_weights"
_OOB = "oob_*_ estimators_samples_ _estimators_samples"
_MAX_DIGITS, _MAX_LEVELS = 15, 1000


# ------------------------------------------------------------------------------ what is deleted


def _deleting(names: str) -> Callable[[Archive], Archive]:
    return lambda archive: archive.without(lambda place: fits(names, place.name))


def _no_sizes(archive: Archive) -> Archive:
    return archive.without(lambda place: fits(_SIZES, place.name) and not _scores_by_size(place))


def _scores_by_size(place: Place | TreeArrays) -> bool:
    """An isolation forest scores a row by how many rows reach its leaves."""
    return "IsolationForest" in place.owners


# ------------------------------------------------------------------------------ inside of trees


def _zeroed(*names: str) -> Callable[[TreeArrays], TreeArrays]:
    def change(tree: TreeArrays) -> TreeArrays:
        filled = [n for n in names if n in (tree.nodes.dtype.names or ()) and tree.nodes[n].any()]
        if not filled or _scores_by_size(tree):
            return tree
        nodes = tree.nodes.copy()
        for name in filled:
            nodes[name] = 0
        return replace(tree, nodes=nodes)

    return change


def _no_counts(tree: TreeArrays) -> TreeArrays:
    tree = _zeroed("n_node_samples", "weighted_n_node_samples", "count")(tree)
    if not _has_shares(tree) or tree.values is None:
        return tree
    # Before scikit-learn 1.4 they are sums of weights: the same counts, once more.
    sums = tree.values.sum(axis=2, keepdims=True)
    if np.all((np.abs(sums - 1) < 1e-6) | (sums == 0)):
        return tree
    return replace(tree, values=_shares(tree.values))


def _no_inner_values(tree: TreeArrays) -> TreeArrays:
    inner = ~_leaf(tree)
    if tree.values is not None:
        if not tree.values[inner].any():
            return tree
        values = tree.values.copy()
        values[inner] = 0.0
        return replace(tree, values=values)
    if "value" not in (tree.nodes.dtype.names or ()) or not tree.nodes["value"][inner].any():
        return tree
    nodes = tree.nodes.copy()
    nodes["value"][inner] = 0.0
    return replace(tree, nodes=nodes)


def _no_borders(archive: Archive) -> Archive:
    """Take out between which values columns were cut into bins; categories are needed."""
    without = archive.without(lambda place: place.name == "n_bins_non_missing_")
    without = without.without_items("bin_thresholds_", _of_numbers)
    return without.with_trees(_zeroed("bin_threshold"))


def _of_numbers(beside: Mapping[str, Any]) -> Sequence[bool]:
    flags = beside.get("is_categorical_")
    return [] if not isinstance(flags, np.ndarray) else (~flags.astype(bool).ravel()).tolist()


def _on_trees(change: Callable[[TreeArrays], TreeArrays]) -> Callable[[Archive], Archive]:
    return lambda archive: archive.with_trees(change)


def _on_leaves(change: Callable[[FloatArray], FloatArray]) -> Callable[[Archive], Archive]:
    """Change the class shares of all leaves."""

    def of_tree(tree: TreeArrays) -> TreeArrays:
        if not _has_shares(tree) or tree.values is None:
            return tree
        leaf = _leaf(tree)
        values = tree.values.copy()
        for k in range(values.shape[1]):
            values[leaf, k] = change(_shares(values[leaf, k]))
        return tree if np.array_equal(values, tree.values) else replace(tree, values=values)

    return _on_trees(of_tree)


def _leaf(tree: TreeArrays) -> BoolArray:
    if "is_leaf" in (tree.nodes.dtype.names or ()):
        return np.asarray(tree.nodes["is_leaf"].astype(bool))
    return np.asarray(tree.nodes["left_child"] == -1)


def _has_shares(tree: TreeArrays) -> bool:
    """Whether values speak of classes; those of a regression are means."""
    return tree.values is not None and tree.values.ndim == 3 and tree.values.shape[2] > 1


def _shares(values: NDArray[Any]) -> NDArray[Any]:
    sums = values.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(values, sums, out=np.zeros_like(values), where=sums != 0))


def _in_units(shares: FloatArray, units: int) -> FloatArray:
    """Whole numbers of units, as near as possible to the shares and adding up to all of them."""
    scaled = shares * units
    whole = np.floor(scaled + 1e-9)
    left = np.rint(units - whole.sum(axis=1)).astype(int)
    # Of equal remainders the larger class comes first, so that it stays the larger one.
    order = np.lexsort((-shares, -np.round(scaled - whole, 9)), axis=1)
    rank = np.argsort(order, axis=1)
    return np.asarray(whole + (rank < left[:, None]))


def _rounded(digits: int) -> Callable[[FloatArray], FloatArray]:
    return lambda shares: np.round(_in_units(shares, 10**digits) / 10**digits, digits)


def _merged(levels: int) -> Callable[[FloatArray], FloatArray]:
    units = levels - 1

    def change(shares: FloatArray) -> FloatArray:
        # The middle of each level: a leaf of one class looks like one of nearly one class.
        whole = units + shares.shape[1] / 2
        level = shares * whole - 0.5
        done = ((np.abs(level - np.rint(level)) < 1e-9) & (level > -1e-9)).all(axis=1)
        counts = np.where(done[:, None], np.rint(level), _in_units(shares, units))
        return np.asarray((counts + 0.5) / whole)

    return change


def _majority(shares: FloatArray) -> FloatArray:
    out = np.zeros_like(shares)
    out[np.arange(len(shares)), shares.argmax(axis=1)] = 1.0
    return out


# ------------------------------------------------------------------------------------ the table

# fmt: off
STEPS: dict[str, Step] = {step.name: step for step in (
    Step("oob", "predictions and scores of rows that trees did not draw",
         "out-of-bag attributes", _deleting(_OOB)),
    Step("weights", "weights of the training rows", NOTHING, _deleting(_WEIGHTS)),
    Step("sizes", "numbers of training rows and of draws", "estimators_samples_", _no_sizes),
    Step("impurity", "impurity of each node", "feature_importances_",
         _on_trees(_zeroed("impurity", "gain"))),
    Step("seeds", "seeds of the forest, of its trees and of all other parts",
         "estimators_samples_, and training the same model again", _deleting(SEED_NAMES)),
    Step("counts", "numbers of rows in each node",
         "feature_importances_, partial dependence by recursion", _on_trees(_no_counts)),
    Step("inner", "class shares or means of inner nodes",
         "pictures of trees show them empty", _on_trees(_no_inner_values)),
    Step("borders", "borders between all values of the columns of numbers, and their numbers",
         "training on from this model (warm_start)", _no_borders),
    Step("scores", "scores on training and validation rows after each round",
         "train_score_, validation_score_", _deleting(_SCORES)),
    Step("unknown", "all parts that no rule knows: members, keys, attributes, bytes between values",
         "parts that other programs read", without_unknown),
)}
# fmt: on
"""The measures that change no prediction, in the order in which they are applied by default."""

DEFAULT = tuple(STEPS)


_COARSER = "probabilities are coarser; nearly equal votes may change"


def _round(digits: int) -> Step:
    takes = f"digits of the class shares of leaves after the first {digits}"
    return Step(f"round={digits}", takes, _COARSER, _on_leaves(_rounded(digits)), lossless=False)


def _merge(levels: int) -> Step:
    takes = f"class shares of leaves but for {levels} levels"
    return Step(f"merge={levels}", takes, _COARSER, _on_leaves(_merged(levels)), lossless=False)


_SIZED: dict[str, tuple[Callable[[int], Step], int, int]] = {
    "round": (_round, 0, _MAX_DIGITS),
    "merge": (_merge, 2, _MAX_LEVELS),
}
_MAJORITY = Step(
    "majority",
    "class shares of leaves but for their largest class",
    "probabilities become shares of votes; labels may change",
    _on_leaves(_majority),
    lossless=False,
)


def parse_steps(text: str | Sequence[str], known: Mapping[str, Step] = STEPS) -> tuple[Step, ...]:
    """Find measures by their names, in the order given.

    ``text``: names, separated by commas: ``"seeds,counts,round=2"``. ``known``: the lossless ones
    of the file's format. Raises BadInput if there is no such measure, one appears twice, or its
    number is out of bounds.
    """
    names = text.split(",") if isinstance(text, str) else list(text)
    found: list[Step] = []
    for name in (n.strip() for n in names):
        step = _step(name, known)
        if step.name in {s.name for s in found}:
            raise BadInput(f"step {step.name} appears twice")
        found.append(step)
    return tuple(found)


def _step(name: str, known: Mapping[str, Step]) -> Step:
    if name in known:
        return known[name]
    if name == _MAJORITY.name:
        return _MAJORITY
    kind, equals, number = name.partition("=")
    if kind in _SIZED:
        make, least, most = _SIZED[kind]
        if not (equals and number.isascii() and number.isdigit() and least <= int(number) <= most):
            raise BadInput(f"step {name}: say {kind}=N, with N from {least} to {most}")
        return make(int(number))
    names = [*known, *(f"{k}=N" for k in _SIZED), _MAJORITY.name]
    raise BadInput(
        f"no step is named {name!r}{did_you_mean(name, names)}; there are {', '.join(names)}"
    )
