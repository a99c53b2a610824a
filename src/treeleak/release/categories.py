"""Tests for membership in a set of categories."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_CATEGORY


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

    def behind(self, n: int) -> CategorySets:
        """The same tests where a tree has ``n`` more nodes before its own."""
        return CategorySets(self.node + n, self.value)

    def hold(self, node: IntArray, x: NDArray[Any]) -> BoolArray:
        """Say of each value whether it is one of those of its node."""
        known = (x >= 0) & (x < MOST_CATEGORY) & (x == np.floor(x))
        key = node * MOST_CATEGORY + np.where(known, x, 0).astype(np.int64)
        return np.asarray(known & np.isin(key, self._members))
