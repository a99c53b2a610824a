"""Trees in a release file: nodes, their tests and their statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_CATEGORY, MOST_CLASSES
from treeleak.release.categories import CategorySets
from treeleak.release.checked_json import (
    EXACT_WHOLE,
    REQUIRED,
    is_finite,
    is_whole,
    located,
    only,
    take,
)
from treeleak.release.sampling import Sampling
from treeleak.release.statistics import (
    COUNTS,
    DISTINCT,
    DRAWS,
    QUANTITIES,
    ROWS,
    NodeStatistic,
    Quantity,
    Statistics,
)
from treeleak.release.tree import LEAF, Tree

BY_CLASS = " by class"
_TREE_KEYS = {
    "feature", "threshold", "left", "right", "missing_left", "counts", "totals", "distinct",
    "statistics", "strict", "categories", "output",
}  # fmt: skip
_OPTIONAL = {"missing_left", "strict", "categories"}


def tree_to_dict(tree: Tree, totals: Quantity, *, noisy: bool) -> dict[str, Any]:
    """Describe a tree of a release.

    ``totals``: what counts without classes are, unless they stand below ``statistics``.
    """
    out: dict[str, Any] = {
        "feature": np.where(tree.is_leaf, LEAF, tree.feature).tolist(),
        "threshold": [
            None if leaf or math.isnan(t) else t if math.isfinite(t) else str(t)
            for leaf, t in zip(tree.is_leaf.tolist(), tree.threshold.tolist(), strict=True)
        ],
        "left": tree.left.tolist(),
        "right": tree.right.tolist(),
    }
    missing_left = tree.missing_left & ~tree.is_leaf
    if missing_left.any():
        out["missing_left"] = missing_left.tolist()
    return out | _tests_to_dict(tree) | _statistics_to_dict(tree, totals, noisy=noisy)


@dataclass(frozen=True)
class Counted:
    """What a file says of all its trees."""

    n_columns: int
    n_classes: int
    counts: Quantity
    totals: Quantity
    noisy: bool


def tree_from_dict(data: Any, t: int, of: Counted) -> Tree:
    """Read tree ``t``.

    Raises BadModel, naming the tree, the node and the key.
    """
    where, n_columns = f"tree {t}", of.n_columns
    if not isinstance(data, Mapping):
        raise BadModel(f"{where} is no object")
    only(data, _TREE_KEYS, f"{where}: ")
    n = len(take(data, "feature", list, where=f"{where}: "))

    def nodes(key: str, valid: Callable[[Any], bool], must_be: str) -> Any:
        default = None if key in _OPTIONAL else REQUIRED
        return _per_node(data, key, n, (valid, must_be), where, default)

    def is_set(value: Any) -> bool:
        return value is None or (
            isinstance(value, list)
            and len(value) > 0
            and all(is_whole(v, 0, MOST_CATEGORY) for v in value)
        )

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
    strict = nodes("strict", lambda v: isinstance(v, bool), "true or false")
    sets = nodes("categories", is_set, f"whole numbers below {MOST_CATEGORY:,}, or null") or n * [
        None
    ]
    tests = [cut if own is None else own for cut, own in zip(threshold, sets, strict=True)]
    for node, marks in enumerate(zip(feature, left, right, tests, strict=True)):
        if len({marks[0] == LEAF, marks[1] == LEAF, marks[2] == LEAF, marks[3] is None}) > 1:
            raise BadModel(f"{where}, node {node}: half a leaf, half a test")
    with located(f"{where}: "):
        return Tree(
            feature=np.array(feature, dtype=np.int64),
            threshold=np.array([math.nan if v is None else float(v) for v in threshold]),
            left=np.array(left, dtype=np.int64),
            right=np.array(right, dtype=np.int64),
            missing_left=np.array(missing_left or [False] * n, dtype=bool),
            statistics=_statistics(data, np.array(feature) == LEAF, of, where),
            strict=None if strict is None else np.array(strict, dtype=bool),
            categories=_categories_from_list(sets),
            output=_output_from(data, where),
        )


def _per_node(
    data: Mapping[str, Any],
    key: str,
    n: int,
    due: tuple[Callable[[Any], bool], str],
    where: str,
    default: Any = REQUIRED,
) -> Any:
    """Take a list with an entry for each node, all of them what is due."""
    values, (valid, must_be) = take(data, key, list, default, f"{where}: "), due
    if values is not None and len(values) != n:
        raise BadModel(f"{where}: {key} has {len(values)} entries for {n} nodes")
    for node, value in enumerate(values or ()):
        if not valid(value):
            raise BadModel(f"{where}, node {node}: {key} is {value!r:.40}, must be {must_be}")
    return values


def _statistics(data: Mapping[str, Any], leaf: BoolArray, of: Counted, where: str) -> Statistics:
    """Make a table of what stands under keys of its own, and of what stands below statistics."""
    own = {"counts": (of.counts, True), "totals": (of.totals, False), "distinct": (DISTINCT, False)}
    listed = [(data, key, *own[key]) for key in own if data.get(key) is not None]
    more = take(data, "statistics", dict, {}, f"{where}: ")
    for key in more:
        quantity = QUANTITIES.get(key.removesuffix(BY_CLASS))
        if quantity is None:
            raise BadModel(f"unknown statistic {key!r:.40}")
        listed.append((more, key, quantity, key.endswith(BY_CLASS)))
    entries = []
    for held, key, quantity, by_class in listed:
        shape, gaps = (of.n_classes,) * by_class, held is more
        must_be = f"a list of {of.n_classes} numbers" if by_class else "a number"
        must_be += ", whole and not negative" * (quantity == DISTINCT) + ", or null" * gaps
        fits = partial(_fits, shape=shape, quantity=quantity, gaps=gaps)
        values = _per_node(held, key, len(leaf), (fits, must_be), where)
        present = np.array([value is not None for value in values], dtype=bool)
        filled = [np.zeros(shape) if value is None else value for value in values]
        table = np.array(filled, dtype=np.int64 if quantity == DISTINCT else np.float64)
        table = table.reshape(len(leaf), *shape)
        # Behind noise, a 0 beside nodes that are no leaves says nothing.
        leaves_only = key == "counts" and of.noisy and not table[~leaf].any()
        some = leaf if leaves_only else None if present.all() else present
        entries.append(NodeStatistic(quantity, table, some))
    return Statistics(tuple(entries))


def _fits(value: Any, shape: tuple[int, ...], quantity: Quantity, gaps: bool) -> bool:
    if value is None:
        return gaps
    if shape and not (isinstance(value, list) and len(value) == shape[0]):
        return False
    numbers = value if shape else [value]
    if quantity == DISTINCT:
        return all(is_whole(number, 0, EXACT_WHOLE) for number in numbers)
    return all(map(is_finite, numbers))


def totals_are(counts_are: str, sampling: Sampling) -> Quantity:
    """Say what ``totals`` count, which a release file does not say by itself."""
    drawn = counts_are == "draws" or (
        counts_are == "none" and sampling.kind in ("bootstrap", "subsample")
    )
    return DRAWS if drawn else ROWS


def _statistics_to_dict(tree: Tree, totals: Quantity, *, noisy: bool) -> dict[str, Any]:
    """Describe the statistics of a tree.

    Counts that every node has stand under keys of their own, and so do noisy ones, with 0 for
    nodes that are no leaves. All others are below ``statistics``.
    """
    out: dict[str, Any] = {}
    more: dict[str, Any] = {}
    for entry in tree.statistics:
        plain = entry.per_class == (entry.called == "counts")
        if entry.called == "totals":
            plain = entry.quantity == totals
        elif entry.quantity not in (*COUNTS, DISTINCT):
            plain = False
        if plain and (entry.present is None or (noisy and entry.called == "counts")):
            out[entry.called] = _short(entry.values).tolist()
            continue
        values = _short(entry.values).tolist()
        if entry.present is not None:
            pairs = zip(values, entry.present.tolist(), strict=True)
            values = [value if given else None for value, given in pairs]
        more[entry.quantity.name + BY_CLASS * entry.per_class] = values
    return out | ({"statistics": more} if more else {})


def _tests_to_dict(tree: Tree) -> dict[str, Any]:
    """Describe tests other than ``value <= threshold``, and the tree's output."""
    out: dict[str, Any] = {}
    if tree.strict is not None and (tree.strict & ~tree.is_leaf).any():
        out["strict"] = (tree.strict & ~tree.is_leaf).tolist()
    if tree.categories is not None and tree.categories.node.size:
        sets: list[list[int] | None] = [None] * tree.n_nodes
        for node, value in zip(tree.categories.node, tree.categories.value, strict=True):
            sets[node] = [*(sets[node] or ()), int(value)]
        out["categories"] = sets
    if tree.output is not None:
        out["output"] = int(tree.output)
    return out


def _categories_from_list(sets: Sequence[list[int] | None]) -> CategorySets | None:
    """Join the categories of each node that tests for some."""
    size = [0 if own is None else len(own) for own in sets]
    values = [value for own in sets if own is not None for value in own]
    node = np.repeat(np.arange(len(sets)), size)
    return CategorySets(node, np.array(values, dtype=np.int64)) if values else None


def _output_from(data: Mapping[str, Any], where: str) -> int | None:
    """Read which output a tree adds to."""
    output: int | None = take(data, "output", int, None, f"{where}: ")
    if output is not None and not is_whole(output, 0, MOST_CLASSES):
        raise BadModel(f"{where}: output is {output!r:.40}, must be from 0 to {MOST_CLASSES - 1}")
    return output


def check_sums(tree: Tree, where: str) -> None:
    """Refuse counts without noise of which an inner node has others than its children together.

    Raises BadModel, naming the node.
    """
    for entry in tree.statistics:
        if not entry.quantity.whole:
            continue
        name, array, held = entry.called, entry.values, entry.held
        if (array < 0).any():
            node = int(np.argwhere(array < 0)[0, 0])
            raise BadModel(f"{where}, node {node}: {name} are negative, and carry no noise")
        inner = np.flatnonzero(~tree.is_leaf)
        inner = inner[held[inner] & held[tree.left[inner]] & held[tree.right[inner]]]
        children = array[tree.left[inner]] + array[tree.right[inner]]
        bad = np.any(array[inner] != children, axis=tuple(range(1, array.ndim)))
        if bad.any():
            node, sums = inner[bad.argmax()], children[bad.argmax()]
            raise BadModel(
                f"{where}, node {node}: {name} hold {array[node]!s:.80}, those of its children "
                f"are {sums!s:.80} together"
            )
    for quantity in (ROWS, DRAWS):
        counts = tree.statistics.get(quantity, per_class=True)
        totals = tree.statistics.get(quantity)
        if counts is None or totals is None:
            continue
        sums = counts.values.sum(axis=1)
        bad = (sums != totals.values) & counts.held & totals.held
        if bad.any():
            raise BadModel(
                f"{where}, node {bad.argmax()}: totals hold {totals.values[bad.argmax()]:g}, the "
                f"counts of all classes are {sums[bad.argmax()]:g}"
            )


def _short(array: NDArray[Any]) -> NDArray[Any]:
    """Make whole floats ints, which are shorter in text and read back as the same floats."""
    whole = np.all((array == np.floor(array)) & (np.abs(array) < EXACT_WHOLE))
    return array.astype(np.int64) if whole else array
