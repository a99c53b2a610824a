"""What LightGBM's files say several times: it follows from the trees, or is left over."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory.shapes import Place, array_in
from treeleak.core.arrays import FloatArray, IntArray

_PRINTED = 1e-4
"""How far sums may be off of numbers that are printed with six digits."""
_ENDS = re.compile(r"\[([^:\]]+):([^:\]]+)\]")


def underived(state: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """List counts, weights, importances and ranges that are not those of trees and columns."""
    stored = state.get("trees")
    trees = [t for t in stored if isinstance(t, Mapping)] if isinstance(stored, list) else []
    for t, tree in enumerate(trees):
        for inner, leaf in (("internal_count", "leaf_count"), ("internal_weight", "leaf_weight")):
            held, below = array_in(tree.get(inner)), array_in(tree.get(leaf))
            if held is None or below is None or not len(held) or not held.any():
                continue
            added = _added(tree, below)
            # Versions before 4 leave the root out.
            if added is None or len(added) != len(held):
                yield ("trees", t, inner), tree[inner]
                continue
            off = np.abs(added - held) * (held != 0)
            if (off > _PRINTED * np.maximum(added, 1.0)).any():
                yield ("trees", t, inner), tree[inner]
        if not _numbered(tree):
            yield ("trees", t, "right_child"), tree.get("right_child")
    listed = array_in(state.get("importances"))
    if listed is not None and len(listed) and not _are_importances(listed, trees):
        yield ("importances",), state["importances"]
    infos = str(state.get("feature_infos", "")).split()
    ends = [found for info in infos if (found := _ENDS.fullmatch(info))]
    pairs = [(found[0], array_in(list(found.groups()))) for found in ends]
    if odd := [info for info, pair in pairs if pair is None or pair[0] > pair[1]]:
        yield ("feature_infos",), odd
    categories = state.get("pandas_categorical")
    if isinstance(categories, str) and len(categories) > len("null"):
        try:
            categories = json.loads(categories)
        except (ValueError, RecursionError):
            return
    if isinstance(categories, list) and len(categories) > len(infos) - len(ends):
        yield ("pandas_categorical",), categories


def _children(tree: Mapping[str, Any]) -> IntArray | None:
    """Children of each node, leaves as -1 and less; None if these are no numbers of nodes."""
    sides = [array_in(tree.get(key)) for key in ("left_child", "right_child")]
    n = len(sides[0]) if sides[0] is not None else 0
    if any(side is None or len(side) != n or not (np.abs(side) <= n + 1).all() for side in sides):
        return None
    return np.stack(sides).astype(np.int64).T  # type: ignore[arg-type]


def _added(tree: Mapping[str, Any], leaves: FloatArray) -> FloatArray | None:
    """Add what leaves hold up to the root; None if nodes do not lead to each other."""
    children = _children(tree)
    if children is None or len(children) != len(leaves) - 1:
        return None
    if (children >= len(children)).any() or (~children >= len(leaves)).any():
        return None
    out = np.zeros(len(children))
    # A node is numbered before those below it.
    for v in range(len(children) - 1, -1, -1):
        out[v] = sum(leaves[~c] if c < 0 else out[c] for c in children[v])
    return out


def _numbered(tree: Mapping[str, Any]) -> bool:
    """Say whether a split gives the next number to the leaf on its right, and keeps the other."""
    children = _children(tree)
    if children is None:  # What reads the trees refuses others.
        stated = array_in(tree.get("left_child"))
        return stated is None or not len(stated)
    first = np.zeros(len(children) + 1, dtype=np.int64)
    for v in range(len(children) - 1, -1, -1):
        left, right = (~c if c < 0 else first[min(c, len(children))] for c in children[v])
        if right != v + 1:
            return False
        first[v] = left
    return int(first[0]) == 0


def _are_importances(listed: FloatArray, trees: list[Mapping[str, Any]]) -> bool:
    """Say whether these count the splits on each column, or add up their gains."""
    splits, gains = dict[float, float](), dict[float, float]()
    for tree in trees:
        tested, gain = (array_in(tree.get(key)) for key in ("split_feature", "split_gain"))
        for k, column in enumerate([] if tested is None else tested.tolist()):
            splits[column] = splits.get(column, 0) + 1
            more = gain[k] if gain is not None and k < len(gain) else 0.0
            gains[column] = gains.get(column, 0.0) + more
    given, counted, added = (np.sort(list(x)) for x in (listed, splits.values(), gains.values()))
    # Gains are cut to whole numbers.
    near = len(given) == len(added) and bool((np.abs(given - added) <= 1 + _PRINTED * added).all())
    return np.array_equal(given, counted) or near
