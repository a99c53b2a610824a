"""Sizes that an object states of itself, and whether its numbers can be what their name says."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.release.bounds import MOST_LEVELS
from treeleak.release.stored import Opaque, StoredObject

CHANCE = 1e-6
"""Draws that are refused although they follow their law."""
_RANDOM = 0.95
"""Random bytes do not get shorter at all; a table within them does."""
_LAWS: Mapping[str, str] = {
    "GaussianRandomProjection": "norm",
    "RBFSampler": "norm",
    "SkewedChi2Sampler": "hypsecant",
}
"""By class: the law of its matrix, but for the scale."""
_QUIET = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}
"""How processors write "not a number", by bytes; the sign aside."""


def is_drawn(owner: StoredObject) -> bool:
    """Say whether objects of this class hold numbers that were drawn without looking at rows."""
    return owner.name in _LAWS


def follows_law(value: Any, owner: StoredObject) -> bool:
    """Say whether numbers can have been drawn from the law of their class, each by itself."""
    from scipy.stats import kstest  # Takes long to load.

    array = numbers_in(value)
    if array is None or array.ndim not in (1, 2) or len(np.unique(array)) < array.size:
        return False
    flat = array.ravel().astype(float)
    if array.ndim == 1:
        return bool(kstest(flat / (2 * np.pi), "uniform").pvalue >= CHANCE)
    # The logistic-like law has the deviation pi / 2.
    scale = (np.pi / 2 if _LAWS[owner.name] == "hypsecant" else 1.0) / max(flat.std(), 1e-300)
    return bool(kstest(flat * scale, _LAWS[owner.name]).pvalue >= CHANCE)


def is_random(key: NDArray[Any]) -> bool:
    """Say whether the state of a generator looks random, as it is after any seed."""
    raw = np.ascontiguousarray(key).tobytes()
    return len(raw) < 64 or len(zlib.compress(raw, 9)) >= _RANDOM * len(raw)


def hides_bits(value: Any) -> bool:
    """Say whether numbers hold bits that no arithmetic sees.

    These are the payloads of "not a number", and bytes that pad long numbers.
    """
    if not isinstance(value, (np.ndarray, np.floating)):
        return False
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return False
    size = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
    if size not in _QUIET:
        return True
    flat = np.ascontiguousarray(array).ravel().view(f"f{size}")
    bits = flat[np.isnan(flat)].view(f"u{size}")
    return bool(((bits & np.array((1 << (8 * size - 1)) - 1, bits.dtype)) != _QUIET[size]).any())


def checked_by_reader(owner: StoredObject) -> bool:
    """Of release files and rule files every number is checked where they are read."""
    return owner.type in ("release", "rules")


def numbers_in(value: Any) -> np.ndarray[Any, Any] | None:
    """Numbers in an array or in lists; None if there is anything else."""
    if value is None or isinstance(value, (StoredObject, Mapping, str, bytes, Opaque)):
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    if array.dtype == object:
        try:
            array = array.astype(float)
        except (TypeError, ValueError, OverflowError):  # A whole number may have any length.
            return None
    return array if array.dtype.kind in "biuf" and array.dtype.names is None else None


def whole(values: Iterable[Any]) -> list[int]:
    """Take the whole numbers of a size that there can be."""
    plain = (int(v) for v in values if isinstance(v, (int, np.integer)))
    return [v for v in plain if 0 <= v <= 1_000_000]


def n_columns(owner: StoredObject) -> int:
    """Count the columns, as far as the object says."""
    if checked_by_reader(owner):
        return len(owner.get("columns", ()))
    stated = ("n_features_in_", "n_features_", "n_features", "n_output_features_")
    first = owner.args[:1] if owner.name == "Tree" else ()
    return max(whole([*(owner.get(k) for k in stated), *first]), default=0)


def n_classes_of(owner: StoredObject) -> int:
    """Count the classes, as far as the object says."""
    classes = owner.get("classes_", owner.get("classes", ()))
    return len(classes) if isinstance(classes, (list, tuple, np.ndarray)) else 0


def is_model_tree(owner: StoredObject) -> bool:
    """Say whether this is a tree of treeleak's own."""
    return owner.type == "treeleak.release.tree.Tree"


def n_nodes(owner: StoredObject) -> int:
    """Count the nodes of a tree; -1 where what it says of them does not agree."""
    nodes = owner.get("feature" if is_model_tree(owner) else "nodes", ())
    if not isinstance(nodes, np.ndarray):
        return 0
    if nodes.ndim != 1:
        return -1
    stated = owner.get("node_count", len(nodes))
    return len(nodes) if whole([stated]) == [len(nodes)] else -1


def follows_from_nodes(owner: StoredObject, name: str, value: Any) -> bool:
    """Say whether a size of scikit-learn's tree only repeats what its nodes say."""
    if owner.name != "Tree" or name not in ("node_count", "max_depth"):
        return False
    count = n_nodes(owner)
    if name != "node_count":
        # The tests above the deepest node; -1 where the nodes are no tree.
        return count > 0 and whole([value]) == [int(_depths(owner.get("nodes")).max(initial=-1))]
    return count > 0 and whole([value]) == [count]


def _depths(nodes: Any) -> NDArray[np.int64]:
    """Count the tests above each node; all -1 where the nodes are no tree."""
    none = np.full(len(nodes), -1)
    fields = ("left_child", "right_child")
    if not {*fields} <= {*(nodes.dtype.names or ())}:
        return none
    depths, level, seen = none.copy(), np.zeros(1, int), 0
    for depth in range(MOST_LEVELS + 1):
        seen += len(level)
        depths[level] = depth
        below = np.concatenate([nodes[field][level] for field in fields])
        below = below[below > 0]
        if not below.size:
            return depths
        if seen + below.size > len(nodes) or below.max() >= len(nodes):
            return none
        level = below
    return none


def path_lengths(value: Any, owner: StoredObject) -> bool:
    """Say whether arrays of an isolation forest only repeat the depths or the counts of its nodes.

    scikit-learn keeps two: the depth of each node, 1 at the root, and the mean length of a path in
    a tree grown on as many rows as the node has (Liu, Ting and Zhou 2008, eq. 1).
    """
    trees = owner.get("estimators_")
    if not isinstance(trees, list) or not isinstance(value, (list, tuple)):
        return False
    return len(trees) == len(value) and all(
        isinstance(tree, StoredObject)
        and isinstance(inner := tree.get("tree_"), StoredObject)
        and _of_paths(inner.get("nodes"), stored)
        for tree, stored in zip(trees, value, strict=True)
    )


def _of_paths(nodes: Any, stored: Any) -> bool:
    if not isinstance(nodes, np.ndarray) or not isinstance(stored, np.ndarray):
        return False
    if nodes.ndim != 1 or stored.shape != nodes.shape or stored.dtype.kind not in "iuf":
        return False
    if {"n_node_samples", "left_child", "right_child"} - {*(nodes.dtype.names or ())}:
        return False
    if stored.dtype.kind != "f":
        return bool((stored == _depths(nodes) + 1).all())
    n = nodes["n_node_samples"].astype(float)
    more = np.maximum(n, 3.0)
    mean = 2.0 * (np.log(more - 1.0) + np.euler_gamma - (more - 1.0) / more)
    mean = np.where(n <= 1, 0.0, np.where(n == 2, 1.0, mean))
    return bool(np.isclose(stored, mean, rtol=1e-9, atol=1e-12).all())
