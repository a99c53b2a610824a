"""Trees laid out node by node."""

from __future__ import annotations

import math

import numpy as np

from treeleak.core.arrays import IntArray
from treeleak.release.statistics import Statistics
from treeleak.release.tree import LEAF, CategorySets, Tree


class GrowingTree:
    """A tree that grows: nodes are numbered as they come, parents before their children."""

    def __init__(self) -> None:
        self._feature: list[int] = []
        self._threshold: list[float] = []
        self._missing_left: list[bool] = []
        self._strict: list[bool] = []
        self._members: list[tuple[int, IntArray]] = []
        self.children: list[list[int]] = []
        """Of each node, on the left and on the right; -1 for none yet."""

    def __len__(self) -> int:
        return len(self.children)

    def add(
        self,
        feature: int = LEAF,
        threshold: float = math.nan,
        parent: int = LEAF,
        side: int = 0,
        missing_left: bool = False,
        members: IntArray | None = None,
        strict: bool = False,
    ) -> int:
        """Add a node, on the left (0) or the right (1) of its parent, and give its number.

        ``members``: the categories, ascending, that go left, where it tests for some. ``strict``:
        whether it asks for less than the threshold.
        """
        node = len(self)
        if members is not None:
            self._members.append((node, members))
        self._feature.append(feature)
        self._threshold.append(threshold)
        self._missing_left.append(missing_left)
        self._strict.append(strict)
        self.children.append([LEAF, LEAF])
        if parent != LEAF:
            self.children[parent][side] = node
        return node

    def tree(self, statistics: Statistics) -> Tree:
        """Give the tree as it stands.

        Raises BadModel if it is none.
        """
        left, right = np.array(self.children, dtype=np.int64).reshape(-1, 2).T
        categories = None
        if self._members:
            nodes, sets = zip(*self._members, strict=True)
            at = np.repeat(np.array(nodes), [len(members) for members in sets])
            categories = CategorySets(at, np.concatenate(sets))
        return Tree(
            np.array(self._feature, dtype=np.int64),
            np.array(self._threshold, dtype=np.float64),
            left.copy(),
            right.copy(),
            np.array(self._missing_left, dtype=bool),
            statistics,
            np.array(self._strict) if any(self._strict) else None,
            categories,
        )
