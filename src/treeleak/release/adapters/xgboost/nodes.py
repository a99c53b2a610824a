"""One tree of XGBoost: its shape, and the numbers of its nodes.

Numbers of rows, worked out again where the sums of hessians were taken out of a file.

With H the sum of second derivatives of a node plus lambda, and w its value (``base_weights``; of a
leaf, what it adds over the learning rate), a node and its children fulfil

    w_l H_l + w_r H_r = w H,    w_l² H_l + w_r² H_r - w² H = gain,    H_l + H_r - H = lambda:

linear in all H, and in lambda; only the learning rate is searched for. Where each row counts the
same, whole numbers must come out that add up, as they do not with a wrong rate or lambda. Two
children of nearly one value stay open: how their rows part follows from nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
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
from treeleak.release.statistics import (
    GAIN,
    HESSIAN,
    ROWS,
    STEP,
    VALUE,
    NodeStatistic,
    Quantity,
    Statistics,
)
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
            # Zeros throughout stand for what was taken out: XGBoost asks for numbers there.
            if node_values.any():
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


MOST_SOLVED = 1000
"""In one tree: a dense system is solved for each."""
FEWEST_NODES = 5
"""With fewer, lambda does not follow from the equations."""
SEARCHED = 3
"""Trees by which the learning rate is found."""
MOST_SEARCHED = 100
"""Nodes of each, at most, whose equations that takes: they are solved hundreds of times."""
RATES = np.geomspace(0.001, 1.2, 120)
_FINER, _STEPS = 8, 41
_NEAR = 0.1
"""How far a number of rows may be from a whole one."""
ROUNDING = 1e-6
"""How far an equation may be missed, as a share of all rows, by numbers in single precision."""
TINY = 1e-30
SINGULAR, RESOLVED = 1e-12, 1e-6


@dataclass(frozen=True, eq=False)
class _Equations:
    """What the nodes of a tree with a test fulfil, but for the values of leaves."""

    tree: Tree
    gain: FloatArray
    """Shape (n_nodes,). By what each row counts."""
    inner: IntArray
    """Nodes with a test."""

    def part(self) -> _Equations:
        """Give the equations below one node, the nearest to the root of few nodes."""
        tree, top = self.tree, 0
        below = np.ones(tree.n_nodes, dtype=int)
        for v in np.flatnonzero(~tree.is_leaf)[::-1]:
            below[v] += below[tree.left[v]] + below[tree.right[v]]
        while below[top] > MOST_SEARCHED:
            top = max(int(tree.left[top]), int(tree.right[top]), key=below.__getitem__)
        inside = np.arange(tree.n_nodes) == top
        for v in self.inner.tolist():
            inside[[tree.left[v], tree.right[v]]] |= inside[v]
        return replace(self, inner=self.inner[inside[self.inner]])

    def matrix(self, rate: float) -> tuple[FloatArray, FloatArray]:
        """Write the equations down: for rows plus lambda of all nodes, and lambda as the last."""
        tree, n, inner_nodes = self.tree, self.tree.n_nodes, self.inner
        places = (tree.left[inner_nodes], tree.right[inner_nodes], inner_nodes)
        value = np.where(tree.is_leaf, _of(tree, VALUE) / rate, _of(tree, STEP))
        left = np.zeros((3, len(inner_nodes), n + 1))
        right = np.zeros((3, len(inner_nodes)))
        for power in (1, 2, 0):
            scale = np.ones(len(inner_nodes))
            if power:
                scale = np.maximum(sum(np.abs(value[p]) ** power for p in places), TINY)
            for place, sign in zip(places, (1.0, 1.0, -1.0), strict=True):
                left[power, np.arange(len(inner_nodes)), place] = (
                    sign * value[place] ** power / scale
                )
            if power == 2:
                right[power] = self.gain[inner_nodes] / scale
        left[0, :, n] = -1.0
        return left.reshape(-1, n + 1), right.ravel()

    def solved(self, rate: float) -> tuple[FloatArray, float]:
        """Solve for all that is in them, and say how well the equations are met."""
        A, b = self.matrix(rate)
        A = A[:, A.any(axis=0)]
        found = np.linalg.lstsq(A, b, rcond=None)[0]
        return np.asarray(found), float(np.sqrt(np.mean((A @ found - b) ** 2)))

    def rows(self, rate: float, extra: float) -> NodeStatistic | None:
        """Find the numbers of rows for a rate and a lambda; None where some are not whole."""
        A, b = self.matrix(rate)
        A, b = A[:, :-1], b - A[:, -1] * extra
        inverse = np.linalg.pinv(A, rcond=SINGULAR)
        found = inverse @ b - extra
        rows = np.round(found)
        # What rounding in the file, of each equation, moves a number by.
        off = np.sqrt((inverse**2).sum(axis=1)) * ROUNDING * max(float(found.max()), 1.0)
        # What no equation speaks of is not resolved, though a solution is chosen.
        resolved = np.abs(np.einsum("ij,ji->i", inverse, A) - 1) < RESOLVED
        known = (off < _NEAR) & resolved
        inner = self.inner
        below = (self.tree.left[inner], self.tree.right[inner])
        solvable = known[inner] & known[below[0]] & known[below[1]]
        added = (rows[below[0]] + rows[below[1]])[solvable]
        near = np.abs(found - rows)[known].max(initial=0.0) <= _NEAR
        if not known[0] or not near or not (rows[known] >= 1).all():
            return None
        if not np.array_equal(rows[inner][solvable], added):
            return None
        return NodeStatistic(ROWS, np.where(known, rows, 0.0), None if known.all() else known)


def restored_rows(trees: Sequence[Tree], units: Sequence[float]) -> list[NodeStatistic] | None:
    """Work out how many rows reach each node of some trees.

    Parameters
    ----------
    trees : sequence of Tree
        In which each row counts the same.
    units : sequence of float
        What it counts, for each tree.

    Returns
    -------
    list of NodeStatistic, or None
        Of the nodes whose number follows; None unless whole numbers come out, which add up.
    """
    grown = [(tree, unit) for tree, unit in zip(trees, units, strict=True) if tree.n_nodes > 1]
    if any(tree.n_nodes > MOST_SOLVED or not _has_equations(tree) for tree, _ in grown):
        return None
    systems = [
        _Equations(tree, _of(tree, GAIN) / unit, np.flatnonzero(~tree.is_leaf))
        for tree, unit in grown
    ]
    large = [k for k, (tree, _) in enumerate(grown) if tree.n_nodes >= FEWEST_NODES]
    if not large:
        return None
    searched = [systems[k].part() for k in large[:SEARCHED]]
    rate, width = _best(searched, RATES), RATES[1] / RATES[0]
    for _ in range(_FINER):
        around = rate * np.geomspace(1 / width, width, _STEPS)
        rate, width = _best(searched, around), width**0.1
    penalty = float(np.median([systems[k].solved(rate)[0][-1] * grown[k][1] for k in large]))
    found = [s.rows(rate, penalty / unit) for s, (_, unit) in zip(systems, grown, strict=True)]
    determined = [rows for rows in found if rows is not None]
    if len(determined) < len(found):
        return None
    # Of a tree that is one leaf, nothing is said but how many rows all others saw.
    alone = NodeStatistic(ROWS, np.full(1, max(float(rows.values[0]) for rows in determined)))
    after = iter(determined)
    return [next(after) if tree.n_nodes > 1 else alone for tree in trees]


def _of(tree: Tree, quantity: Quantity) -> FloatArray:
    entry = tree.statistics.get(quantity)
    return np.zeros(tree.n_nodes) if entry is None else entry.values


def _has_equations(tree: Tree) -> bool:
    return all(tree.statistics.get(quantity) is not None for quantity in (GAIN, STEP, VALUE))


def _best(systems: Sequence[_Equations], rates: FloatArray) -> float:
    """Find the rate with which the equations are met best."""
    missed = [sum(system.solved(float(rate))[1] for system in systems) for rate in rates]
    return float(rates[int(np.argmin(missed))])
