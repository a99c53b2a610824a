"""One tree of a release file: its nodes as lists, each checked before it is used."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import BadModel
from treeleak.release.checked_json import (
    EXACT_WHOLE,
    REQUIRED,
    is_finite,
    is_whole,
    take,
)
from treeleak.release.tree import (
    LEAF,
    Tree,
)

__all__ = ["check_sums", "tree_from_dict", "tree_to_dict"]

_TREE_KEYS = {
    "feature", "threshold", "left", "right", "missing_left", "counts", "totals", "distinct",
}  # fmt: skip


def tree_to_dict(tree: Tree) -> dict[str, Any]:
    """Describe a tree in plain lists."""
    out: dict[str, Any] = {
        "feature": np.where(tree.is_leaf, LEAF, tree.feature).tolist(),
        "threshold": [
            None if leaf else t if math.isfinite(t) else str(t)
            for leaf, t in zip(tree.is_leaf.tolist(), tree.threshold.tolist(), strict=True)
        ],
        "left": tree.left.tolist(),
        "right": tree.right.tolist(),
    }
    missing_left = tree.missing_left & ~tree.is_leaf
    if missing_left.any():
        out["missing_left"] = missing_left.tolist()
    for key in ("counts", "totals", "distinct"):
        array = getattr(tree, key)
        if array is not None:
            out[key] = _short(array).tolist()
    return out


def tree_from_dict(data: Any, t: int, n_columns: int, n_classes: int) -> Tree:
    """Read tree ``t`` of a release file, of so many columns and classes."""
    where = f"tree {t}"
    if not isinstance(data, Mapping):
        raise BadModel(f"{where} is no object")
    if unknown := set(data) - _TREE_KEYS:
        raise BadModel(f"{where}: unknown keys {sorted(map(str, unknown))[:5]}")
    n = len(take(data, "feature", list, where=f"{where}: "))

    def nodes(key: str, valid: Callable[[Any], bool], must_be: str) -> Any:
        values = take(data, key, list, None if key in _OPTIONAL else REQUIRED, f"{where}: ")
        if values is None:
            return None
        if len(values) != n:
            raise BadModel(f"{where}: {key} has {len(values)} entries for {n} nodes")
        for node, value in enumerate(values):
            if not valid(value):
                raise BadModel(f"{where}, node {node}: {key} is {value!r:.40}, must be {must_be}")
        return values

    def is_count(value: Any) -> bool:
        return isinstance(value, list) and len(value) == n_classes and all(map(is_finite, value))

    child = f"a node from 1 to {n - 1}, or {LEAF} at a leaf"
    feature = nodes(
        "feature", lambda v: is_whole(v, LEAF, n_columns), f"a column below {n_columns}, or {LEAF}"
    )
    left = nodes("left", lambda v: v == LEAF or is_whole(v, 1, n), child)
    right = nodes("right", lambda v: v == LEAF or is_whole(v, 1, n), child)
    threshold = nodes(
        "threshold",
        lambda v: v is None or is_finite(v) or v in ("inf", "-inf"),
        'a number, "inf" or "-inf", or null at a leaf',
    )
    missing_left = nodes("missing_left", lambda v: isinstance(v, bool), "true or false")
    counts = nodes("counts", is_count, f"a list of {n_classes} numbers")
    totals = nodes("totals", is_finite, "a number")
    distinct = nodes("distinct", lambda v: is_whole(v, 0, EXACT_WHOLE), "a whole number")
    for node, marks in enumerate(zip(feature, left, right, threshold, strict=True)):
        if len({marks[0] == LEAF, marks[1] == LEAF, marks[2] == LEAF, marks[3] is None}) > 1:
            raise BadModel(f"{where}, node {node}: half a leaf, half a test")
    try:
        return Tree(
            feature=np.array(feature, dtype=np.int64),
            threshold=np.array([math.nan if v is None else float(v) for v in threshold]),
            left=np.array(left, dtype=np.int64),
            right=np.array(right, dtype=np.int64),
            missing_left=np.array(missing_left or [False] * n, dtype=bool),
            counts=None if counts is None else np.array(counts, float).reshape(n, n_classes),
            totals=None if totals is None else np.array(totals, dtype=float),
            distinct=None if distinct is None else np.array(distinct, dtype=np.int64),
        )
    except BadModel as error:
        raise BadModel(f"{where}: {error}") from error


def check_sums(tree: Tree, where: str, by_class: bool) -> None:
    """Refuse counts without noise of which an inner node has others than its children together."""
    inner = np.flatnonzero(~tree.is_leaf)
    for name in ("counts", "totals", "distinct") if by_class else ("totals", "distinct"):
        array = getattr(tree, name)
        if array is None:
            continue
        if (array < 0).any():
            node = int(np.argwhere(array < 0)[0, 0])
            raise BadModel(f"{where}, node {node}: {name} are negative, and carry no noise")
        children = array[tree.left[inner]] + array[tree.right[inner]]
        bad = np.any(array[inner] != children, axis=tuple(range(1, array.ndim)))
        if bad.any():
            node, sums = inner[bad.argmax()], children[bad.argmax()]
            raise BadModel(
                f"{where}, node {node}: {name} hold {array[node]!s:.80}, those of its children "
                f"are {sums!s:.80} together"
            )
    if by_class and tree.counts is not None and tree.totals is not None:
        bad = tree.counts.sum(axis=1) != tree.totals
        if bad.any():
            raise BadModel(
                f"{where}, node {bad.argmax()}: totals hold {tree.totals[bad.argmax()]:g}, the "
                f"counts of all classes are {tree.counts[bad.argmax()].sum():g}"
            )


_OPTIONAL = {"missing_left", "counts", "totals", "distinct"}


def _short(array: NDArray[Any]) -> NDArray[Any]:
    """Make whole floats ints, which are shorter in text and read back as the same floats."""
    whole = np.all((array == np.floor(array)) & (np.abs(array) < EXACT_WHOLE))
    return array.astype(np.int64) if whole else array
