"""Values of R objects, checked, and trees laid out from them.

R counts from 1, and keeps names and shapes of arrays as attributes, which a reader puts around the
array as an object of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.release.adapters.boosted import parents_first, renumbered
from treeleak.release.bounds import MOST_CATEGORY, MOST_ROWS, MOST_TREES, at_most
from treeleak.release.statistics import Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF, CategorySets, Tree

MOST_BITS = 53
"""Categories that a subset, written as a number, can name."""
Levels = dict[str, tuple[str, ...]]
"""The texts of factors, by the names of their columns."""


def plain(value: Any) -> Any:
    """Take the array out of what holds its attributes, whatever class it has."""
    if isinstance(value, StoredObject) and "value" in value.state:
        return value.get("value")
    return value


def inside(stored: Any, *names: str) -> Any:
    """Take what stands under some names in each other; None where there is nothing."""
    for name in names:
        state = stored.state if isinstance(stored, StoredObject) else stored
        stored = state.get(name) if isinstance(state, Mapping) else None
    return stored


def numbers(value: Any, where: str, n: int | None = None, dimensions: int = 1) -> FloatArray:
    """Take numbers, ``n`` of them along the first axis."""
    array = plain(value)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise BadModel(f"{where}: not numbers")
    if array.ndim != dimensions or n not in (None, len(array)):
        raise BadModel(f"{where}: of the shape {array.shape}")
    return array.astype(float)


def whole_numbers(
    value: Any, where: str, ends: tuple[float, float], n: int | None = None, dimensions: int = 1
) -> IntArray:
    """Take whole numbers from the first end to below the second."""
    array = numbers(value, where, n, dimensions)
    low, high = ends
    bad = ~((array >= low) & (array < high) & (array == np.floor(array)))
    if bad.any():
        raise BadModel(
            f"{where}: {array[bad][0]:g} is not a whole number from {low:g} to below {high:g}"
        )
    return array.astype(np.int64)


def number(value: Any) -> float | None:
    """Take a single number; None for anything else."""
    array = plain(value)
    fits = isinstance(array, np.ndarray) and array.size == 1 and array.dtype.kind in "biuf"
    return float(array.ravel()[0]) if fits and np.isfinite(array).all() else None


def whole(value: Any) -> int | None:
    """Take a single whole number, 0 or more; None for anything else."""
    single = number(value)
    if single is None or not 0 <= single <= MOST_ROWS or single != int(single):
        return None
    return int(single)


def text(value: Any) -> str:
    """Take a single text; empty for anything else."""
    array = plain(value)
    single = array.ravel()[0] if isinstance(array, np.ndarray) and array.size == 1 else array
    return single if isinstance(single, str) else ""


def is_factor(value: Any) -> bool:
    """Say whether this is a factor: codes from 1, and the text of each."""
    return isinstance(value, StoredObject) and value.name in ("factor", "ordered")


def texts(value: Any, where: str) -> tuple[str, ...]:
    """Take texts, none of them missing, or those of a factor's codes."""
    if is_factor(value):
        levels = texts(value.get("levels"), where)
        codes = whole_numbers(value.get("codes"), where, (1, len(levels) + 1))
        return tuple(levels[c - 1] for c in codes)
    array = plain(value)
    found = tuple(array.tolist()) if isinstance(array, np.ndarray) and array.ndim == 1 else (None,)
    if not all(isinstance(text, str) for text in found):
        raise BadModel(f"{where}: not texts")
    return found


def levels_of(columns: Iterable[tuple[str, Any]]) -> Levels:
    """Find the columns of texts among what a model keeps of the values of each column."""
    held = ((c, plain(v)) for c, v in columns)
    return {c: texts(v, c) for c, v in held if isinstance(v, np.ndarray) and v.dtype == object}


def names_along(value: Any, axis: int) -> tuple[str, ...] | None:
    """Name what stands along an axis of a matrix; None where it has no names."""
    names = inside(value, "dimnames")
    names = list(names.values()) if isinstance(names, Mapping) else names
    if not isinstance(names, (list, tuple)) or len(names) <= axis or names[axis] is None:
        return None
    return texts(names[axis], "dimnames")


def items(value: Any, where: str, n: int | None = None) -> list[Any]:
    """Take a list of ``n`` values."""
    value = plain(value)
    found = list(value.values()) if isinstance(value, Mapping) else value
    if not isinstance(found, (list, tuple)) or n not in (None, len(found)):
        raise BadModel(f"{where}: not a list" + ("" if n is None else f" of {n}"))
    at_most(MOST_TREES, len(found), f"items of {where}")
    return list(found)


def subset(mask: float, where: str) -> IntArray:
    """List the categories, from 0, whose bits are set in a number."""
    if not 0 <= mask < 2.0**MOST_BITS or mask != np.floor(mask):
        raise BadModel(f"{where}: {mask:g} names no subset of categories")
    bits = int(mask)
    return np.array([k for k in range(MOST_BITS) if bits >> k & 1], dtype=np.int64)


def tree_of(
    where: str,
    children: tuple[IntArray, IntArray],
    feature: IntArray,
    threshold: FloatArray,
    columns: tuple[Sequence[str], Mapping[str, Any]],
    members: Mapping[int, IntArray],
    strict: BoolArray | None = None,
) -> tuple[Tree, IntArray]:
    """Lay out a tree whose nodes stand in any order; also returns which given node each is.

    ``children``: -1 at a leaf; what else stands at leaves is not read. ``columns``: their names,
    and which of them are factors whose thresholds count codes from 1. ``members``: the categories
    that go left, from 0, of each node that tests for them. ``strict``: which tests ask for less
    than the threshold. The tree has no statistics yet.
    """
    left, right = children
    order = parents_first(left, right, where)
    leaf = left[order] == LEAF
    column = np.where(leaf, LEAF, feature[order])
    if (column[~leaf] < 0).any() or (column >= len(columns[0])).any():
        raise BadModel(f"{where}: tests a column that there is not")
    coded = np.array([*(name in columns[1] for name in columns[0]), False])
    cuts = np.where(leaf, np.nan, threshold[order] - coded[column])
    place = {int(node): at for at, node in enumerate(order)}
    placed = sorted((place[v], np.unique(m)) for v, m in members.items() if v in place)
    if any((m < 0).any() or (m >= MOST_CATEGORY).any() for _, m in placed):
        raise BadModel(f"{where}: a category that is not a whole number")
    sets = None
    if placed:
        nodes = [np.full(len(m), v, dtype=np.int64) for v, m in placed]
        sets = CategorySets(np.concatenate(nodes), np.concatenate([m for _, m in placed]))
    for v, m in placed:  # A set that is empty stands in no list: a test that nothing meets.
        cuts[v] = np.nan if len(m) else -np.inf
    tree = Tree(
        column,
        cuts,
        renumbered(order, left, len(left)),
        renumbered(order, right, len(left)),
        np.zeros(len(order), dtype=bool),
        Statistics(),
        strict=None if strict is None else strict[order] & ~leaf,
        categories=sets,
    )
    return tree, order
