"""One tree of a model, whatever library made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_CATEGORY, MOST_CLASSES, MOST_LEVELS, at_most
from treeleak.release.statistics import (
    COUNTS,
    DISTINCT,
    DRAWS,
    ROWS,
    NodeStatistic,
    Quantity,
    Statistics,
)


@dataclass(frozen=True, eq=False)
class CategorySets:
    """Tests for membership: a row goes left where its value is one of a node's.

    Raises
    ------
    BadModel
        If they are not in this order, or a value is no whole number from 0 to below 2^31.
    """

    node: IntArray
    value: IntArray
    """Shape (n_members,). The values of each node that has such a test, by node and then
    ascending."""

    def __post_init__(self) -> None:
        if self.node.shape != self.value.shape or self.node.ndim != 1:
            raise BadModel("a category without a node, or the other way round")
        if self.value.min(initial=0) < 0 or self.value.max(initial=0) >= MOST_CATEGORY:
            raise BadModel(f"a category that is not a whole number below {MOST_CATEGORY:,}")
        if self.node.min(initial=0) < 0 or (np.diff(self._members) <= 0).any():
            raise BadModel("categories of nodes that are not in order, or appear twice")

    @cached_property
    def by_node(self) -> dict[int, IntArray]:
        """The values of each node that has such a test, ascending."""
        nodes, first = np.unique(self.node, return_index=True)
        return dict(zip(nodes.tolist(), np.split(self.value, first[1:]), strict=True))

    @cached_property
    def _members(self) -> IntArray:
        return self.node.astype(np.int64) * MOST_CATEGORY + self.value

    def hold(self, node: IntArray, x: NDArray[Any]) -> BoolArray:
        """Say of each value whether it is one of those of its node."""
        known = (x >= 0) & (x < MOST_CATEGORY) & (x == np.floor(x))
        key = node * MOST_CATEGORY + np.where(known, x, 0).astype(np.int64)
        return np.asarray(known & np.isin(key, self._members))


LEAF = -1
_MANY = 1000
"""Rows from which compiled code pushes them down."""
_VIEWS = {
    "counts": (COUNTS, True),
    "totals": ((ROWS, DRAWS), False),
    "distinct": ((DISTINCT,), False),
}


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree as arrays over its nodes; node 0 is the root.

    A row goes left where ``value <= threshold``, or where ``value < threshold`` if the test is
    ``strict``, or where the value is one of the node's ``categories``; a missing value goes left
    where ``missing_left``.

    Attributes
    ----------
    feature : int array, shape (n_nodes,)
        Column tested; -1 at a leaf.
    threshold : float array, shape (n_nodes,)
        NaN at a leaf, and where a node tests for categories.
    left, right : int array, shape (n_nodes,)
        Children; -1 at a leaf.
    missing_left : bool array, shape (n_nodes,)
    statistics : Statistics
        What the release says of the rows that reach each node.
    strict : bool array, shape (n_nodes,), or None
        Which tests ask for less than the threshold; None: none does.
    categories : CategorySets or None
    output : int or None
        Which of the model's outputs (a class, a target) the tree adds to; None: all of them.

    Raises
    ------
    BadModel
        On arrays that do not describe a tree.
    """

    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    missing_left: BoolArray
    statistics: Statistics = Statistics()
    strict: BoolArray | None = None
    categories: CategorySets | None = None
    output: int | None = None

    def __post_init__(self) -> None:
        n = len(self.feature)
        if n == 0:
            raise BadModel("a tree without nodes")
        for name in ("threshold", "left", "right", "missing_left", "strict"):
            array = getattr(self, name)
            if array is not None and len(array) != n:
                raise BadModel(f"{name} has {len(array)} entries for {n} nodes")
        self._check_sizes()
        leaf = self.left == LEAF
        if not np.array_equal(leaf, self.right == LEAF):
            raise BadModel(f"node {_first(leaf != (self.right == LEAF))} has one child only")
        inner = ~leaf
        # Children behind their parent and each node with one parent: no cycle, nothing shared.
        children = np.concatenate([self.left[inner], self.right[inner]])
        if children.size and (children.min() < 1 or children.max() >= n):
            raise BadModel(f"a child index outside 1..{n - 1}")
        if len(np.unique(children)) != len(children) or len(children) != n - 1:
            raise BadModel("the nodes do not form one tree: a node has no parent or two")
        parents = np.tile(np.flatnonzero(inner), 2)
        if np.any(children <= parents):
            raise BadModel("a child comes before its parent: a cycle")
        if np.any(self.feature[inner] < 0):
            raise BadModel(f"node {np.flatnonzero(inner)[0]} tests no column")
        ordered = inner.copy()
        if self.categories is not None and self.categories.node.size:
            tests = self.categories.node
            if tests[-1] >= n or leaf[tests].any() or not np.isnan(self.threshold[tests]).all():
                raise BadModel("categories at a leaf, or beside a threshold")
            ordered[tests] = False
        if np.any(np.isnan(self.threshold[ordered])):
            raise BadModel(f"node {_first(ordered & np.isnan(self.threshold))}: threshold is NaN")
        if self.output is not None and not 0 <= self.output < MOST_CLASSES:
            raise BadModel(f"it adds to output {self.output}")
        for depth, _ in enumerate(self._levels()):
            at_most(MOST_LEVELS, depth, "levels or more below the root")

    def _check_sizes(self) -> None:
        for entry in self.statistics:
            if entry.n_nodes != self.n_nodes:
                raise BadModel(
                    f"{entry.called} has {entry.n_nodes} entries for {self.n_nodes} nodes"
                )

    def __getstate__(self) -> dict[str, Any]:
        """Give counts of rows as arrays of their own, as learners' files have held them."""
        held = self.__dict__.copy()
        if not all(e.quantity in (ROWS, DISTINCT) and e.present is None for e in self.statistics):
            return held
        del held["statistics"]
        for name in ("strict", "categories", "output"):
            if held[name] is None:
                del held[name]
        return held | {name: getattr(self, name) for name in _VIEWS}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        held: dict[str, Any] = {f.name: f.default for f in fields(self)[5:]} | dict(state)
        views = {name: held.pop(name, None) for name in _VIEWS}
        if "statistics" not in state:
            held["statistics"] = Statistics.counting(ROWS, **views)
        self.__dict__.update(held)

    def with_counts(self, quantity: Quantity | None = None, **changes: Any) -> Tree:
        """Count something else at the nodes.

        Parameters
        ----------
        quantity : Quantity, optional
            What is counted by class, and together if these are rows or draws; by default what was,
            or else rows.
        **changes : array or None
            New ``counts``, ``totals`` or ``distinct``; None takes them away. What is not given
            stays, and so do statistics that are no counts.
        """
        entries = {n: self.statistics.get(*q, per_class=c) for n, (q, c) in _VIEWS.items()}
        units = {n: entry.quantity for n, entry in entries.items() if entry is not None}
        if quantity is not None:
            units |= {"counts": quantity} | ({"totals": quantity} if quantity.whole else {})
        units.setdefault("counts", units.get("totals", ROWS))
        units.setdefault("totals", DRAWS if units["counts"] == DRAWS else ROWS)
        others = [e for e in self.statistics if e not in entries.values()]
        for name, entry in entries.items():
            if name in changes:
                new = changes[name]
                entry = None if new is None else NodeStatistic(units.get(name, DISTINCT), new)
            elif entry is not None:
                entry = replace(entry, quantity=units[name])
            if entry is not None:
                others.append(entry)
        return self.with_statistics(Statistics(tuple(others)))

    def with_statistics(self, statistics: Statistics) -> Tree:
        """Hold other statistics at the same nodes, which were checked before."""
        tree = object.__new__(Tree)
        tree.__dict__.update(self.__dict__, statistics=statistics)
        tree._check_sizes()
        return tree

    @property
    def counts(self) -> FloatArray | None:
        """Counts of each class in each node, shape (n_nodes, n_classes), or None.

        In the unit of :attr:`Release.counts_are`; 0 where a node is not counted.
        """
        return self._values("counts")

    @property
    def totals(self) -> FloatArray | None:
        """Counts without classes, rows or draws, shape (n_nodes,), or None."""
        return self._values("totals")

    @property
    def distinct(self) -> IntArray | None:
        """Distinct rows that reach each node, shape (n_nodes,), or None."""
        return self._values("distinct")

    def _values(self, name: str) -> NDArray[Any] | None:
        quantities, per_class = _VIEWS[name]
        entry = self.statistics.get(*quantities, per_class=per_class)
        if entry is None or (entry.present is not None and not entry.present[self.leaves].all()):
            return None
        return entry.values

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.feature)

    @cached_property
    def is_leaf(self) -> BoolArray:
        """Which nodes are leaves, shape (n_nodes,)."""
        leaf: BoolArray = self.left == LEAF
        return leaf

    @cached_property
    def leaves(self) -> IntArray:
        """Node numbers of the leaves, ascending."""
        return np.flatnonzero(self.is_leaf)

    @cached_property
    def depth(self) -> IntArray:
        """Depth of each node, 0 at the root."""
        depth = np.zeros(self.n_nodes, dtype=np.int64)
        for level, nodes in enumerate(self._levels()):
            depth[nodes] = level
        return depth

    @property
    def parent(self) -> IntArray:
        """Parent of each node, -1 for the root, shape (n_nodes,)."""
        inner = np.flatnonzero(~self.is_leaf)
        parent = np.full(self.n_nodes, -1)
        parent[self.left[inner]] = parent[self.right[inner]] = inner
        return parent

    def summed(self, of_leaves: NDArray[Any]) -> FloatArray:
        """Add up what leaves hold over all nodes above; ``of_leaves`` has a line for each node."""
        leaf = self.is_leaf if of_leaves.ndim == 1 else self.is_leaf[:, None]
        out = np.where(leaf, of_leaves, 0.0)
        for v in np.flatnonzero(~self.is_leaf)[::-1]:  # Children stand behind their parents.
            out[v] = out[self.left[v]] + out[self.right[v]]
        return out

    def passed(self, at: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """List the inner nodes through which rows get to nodes.

        ``at``, shape (n_rows,): where each row ends. Returns row, node, and 1 if it goes right from
        there, 0 if left.
        """
        parent = self.parent
        row, found = np.arange(len(at)), [np.zeros((3, 0), dtype=np.int64)]
        while len(row):
            above = parent[at]
            row, at, above = (x[above >= 0] for x in (row, at, above))
            found.append(np.array([row, above, self.right[above] == at]))
            at = above
        row, node, right = np.concatenate(found, axis=1)
        return row, node, right

    def _levels(self) -> Iterator[IntArray]:
        """The nodes of each level, from the root down."""
        nodes = np.zeros(1, dtype=np.int64)
        while nodes.size:
            yield nodes
            inner = nodes[self.left[nodes] != LEAF]
            nodes = np.concatenate([self.left[inner], self.right[inner]])

    def apply(self, X: NDArray[Any]) -> IntArray:
        """Push rows through the tree.

        Parameters
        ----------
        X : array, shape (n_rows, n_columns)
            In the type in which the model compares (float32 for scikit-learn).

        Returns
        -------
        int array, shape (n_rows,)
            The node number of each row's leaf.
        """
        at = np.zeros(len(X), dtype=np.int64)
        # Compiled code reads what it is told to, columns that are not there as well.
        there = X.ndim == 2 and self.feature.max(initial=LEAF) < X.shape[1]
        if len(X) > _MANY and self.categories is None and there:
            from treeleak.release.traversal import push_down  # Compiled code takes long to load.

            kind = X.dtype if X.dtype in (np.float32, np.float64) else np.float64
            strict = np.zeros(self.n_nodes, dtype=bool) if self.strict is None else self.strict
            children = self.left.astype(np.int64), self.right.astype(np.int64)
            cuts = self.threshold.astype(float), strict.astype(bool)
            feature, ways = self.feature.astype(np.int64), self.missing_left.astype(bool)
            push_down(np.require(X, kind, ["C", "W"]), feature, cuts, ways, children, at)
            return at
        active = np.flatnonzero(~self.is_leaf[at])
        while active.size:
            node = at[active]
            left = self.goes_left(node, X[active, self.feature[node]])
            at[active] = np.where(left, self.left[node], self.right[node])
            active = active[~self.is_leaf[at[active]]]
        return at

    def goes_left(self, node: IntArray, x: NDArray[Any]) -> BoolArray:
        """Say of each value, in the type in which the model compares, whether it goes left.

        Parameters
        ----------
        node : int array
            The inner node that tests it, or one for each value.
        x : array
        """
        threshold = self.threshold[node]
        left = x <= threshold
        if self.strict is not None:
            left &= (x < threshold) | ~self.strict[node]
        if self.categories is not None:
            left |= self.categories.hold(node, x)
        return np.asarray(np.where(np.isnan(x), self.missing_left[node], left), dtype=bool)

    def cuts(self, float_type: str) -> FloatArray:
        """Give each test as ``value <= cut``: the greatest value of the type that goes left.

        For values of this type. NaN at leaves, and where a node tests for categories.
        """
        if self.strict is None:
            return self.threshold
        with np.errstate(over="ignore"):
            near = self.threshold.astype(float_type)
        below = np.nextafter(near, np.array(-np.inf, dtype=float_type))
        below = np.where(near < self.threshold, near, below).astype(float)
        return np.where(self.strict, below, self.threshold)


def _first(mask: BoolArray) -> int:
    return int(np.flatnonzero(mask)[0])
