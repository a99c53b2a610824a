"""Trees in a release file: nodes, their tests and their statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.declared import EXACT_WHOLE
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.formats import release as declared
from treeleak.release.checked_json import located
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
from treeleak.release.tree import LEAF, CategorySets, Tree

BY_CLASS = " by class"


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


def made_of(found: declared.Tree, t: int, of: Counted) -> Tree:
    """Make tree ``t`` of what a file says of it.

    Raises BadModel, naming the tree, the node and the key.
    """
    where, n = f"tree {t}", len(found.feature)
    for key in _PER_NODE:
        _check_length(getattr(found, key), n, f"{where}: {key}")
    feature, left, right = (
        np.array(array, dtype=np.int64) for array in (found.feature, found.left, found.right)
    )
    columns = f"a column below {of.n_columns}, or {LEAF}"
    _check_nodes(feature, feature < of.n_columns, columns, "feature", where)
    for key, array in (("left", left), ("right", right)):
        child = f"a node from 1 to {n - 1}, or {LEAF} at a leaf"
        _check_nodes(array, (array == LEAF) | ((array >= 1) & (array < n)), child, key, where)
    sets = found.categories or [None] * n
    has_no_test = np.array(
        [c is None and s is None for c, s in zip(found.threshold, sets, strict=True)]
    )
    half = ((feature == LEAF) != (left == LEAF)) | ((left == LEAF) != (right == LEAF))
    half |= (left == LEAF) != has_no_test
    if half.any():
        raise BadModel(f"{where}, node {half.argmax()}: half a leaf, half a test")
    statistics = _statistics(found, feature == LEAF, of, where)
    with located(f"{where}: "):
        # Join the categories of each node that tests for some.
        size = [0 if members is None else len(members) for members in sets]
        values = [value for members in sets if members is not None for value in members]
        node = np.repeat(np.arange(len(sets)), size)
        return Tree(
            feature=feature,
            threshold=np.array([math.nan if v is None else float(v) for v in found.threshold]),
            left=left,
            right=right,
            missing_left=np.array(found.missing_left or [False] * n, dtype=bool),
            statistics=statistics,
            strict=None if found.strict is None else np.array(found.strict, dtype=bool),
            categories=CategorySets(node, np.array(values, dtype=np.int64)) if values else None,
            output=found.output,
        )


_PER_NODE = (
    "threshold", "left", "right", "missing_left", "strict", "categories", "counts", "totals",
    "distinct",
)  # fmt: skip


def _check_length(values: Sequence[Any] | None, n: int, what: str) -> None:
    if values is not None and len(values) != n:
        raise BadModel(f"{what} has {len(values)} entries for {n} nodes")


def _check_nodes(values: IntArray, right: BoolArray, must_be: str, key: str, where: str) -> None:
    if not right.all():
        node = int(right.argmin())
        raise BadModel(f"{where}, node {node}: {key} is {values[node]}, must be {must_be}")


def _statistics(found: declared.Tree, leaf: BoolArray, of: Counted, where: str) -> Statistics:
    """Make a table of what stands under keys of its own, and of what stands below statistics."""
    listed: list[tuple[str, Any, Quantity, bool]] = [
        ("counts", found.counts, of.counts, True),
        ("totals", found.totals, of.totals, False),
        ("distinct", found.distinct, DISTINCT, False),
    ]
    for key, numbers in found.statistics.items():
        quantity = QUANTITIES.get(key.removesuffix(BY_CLASS))
        if quantity is None:
            raise BadModel(f"unknown statistic {key!r:.40}")
        _check_length(numbers, len(leaf), f"{where}: {key}")
        listed.append((key, numbers, quantity, key.endswith(BY_CLASS)))
    entries = []
    for key, values, quantity, by_class in listed:
        if values is None:
            continue
        shape = (of.n_classes,) * by_class
        present = np.array([value is not None for value in values], dtype=bool)
        if by_class or key in found.statistics:
            _check_shape(values, shape, key, where)
        filled = values if present.all() else [np.zeros(shape) if v is None else v for v in values]
        table: Any = np.array(filled, dtype=np.float64).reshape(len(leaf), *shape)
        if quantity == DISTINCT:
            bad = ~((table >= 0) & (table < EXACT_WHOLE) & (table == np.floor(table)))
            if bad.any():
                node = int(np.argwhere(bad)[0, 0])
                raise BadModel(
                    f"{where}, node {node}: {key} is {table[node]!s:.40}, must be whole and "
                    "not negative"
                )
            table = table.astype(np.int64)
        # Behind noise, a 0 beside nodes that are no leaves says nothing.
        leaves_only = key == "counts" and of.noisy and not table[~leaf].any()
        some = leaf if leaves_only else None if present.all() else present
        entries.append(NodeStatistic(quantity, table, some))
    return Statistics(tuple(entries))


def _check_shape(values: Sequence[Any], shape: tuple[int, ...], key: str, where: str) -> None:
    due = f"a list of {shape[0]} numbers" if shape else "a number"
    for node, value in enumerate(values):
        several = isinstance(value, list)
        fits = (several and len(value) == shape[0]) if shape else not several
        if not fits and value is not None:
            raise BadModel(f"{where}, node {node}: {key} is {value!r:.40}, must be {due}")


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
            values = [value if is_present else None for value, is_present in pairs]
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
