"""Tests that rows pass on both sides: twice the threshold is the sum of two of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.release.tree import Tree


@dataclass(frozen=True, eq=False)
class Midpoints:
    """Per test with rows on both sides: the values on its left, and on its right."""

    sums: FloatArray
    """Shape (n_tests,). Twice the thresholds."""
    column: IntArray
    """Shape (n_tests,). Column that is tested."""
    at: IntArray
    """Shape (n_values,). Values, as places in the flattened table."""
    test: IntArray
    right: BoolArray
    """Test and side of each of these."""

    @classmethod
    def of(
        cls, tree: Tree, row: IntArray, node: IntArray, right: BoolArray, n_columns: int
    ) -> Midpoints:
        """Take the tests of a tree from what :func:`tests_passed` lists."""
        sides = np.zeros((2, tree.n_nodes), dtype=bool)
        sides[right.astype(np.int64), node] = True
        both = np.asarray(sides.all(axis=0))
        number, selected = np.cumsum(both) - 1, both[node]
        at = (row * n_columns + tree.feature[node])[selected]
        return cls(
            2.0 * tree.threshold[both],
            tree.feature[both],
            at,
            number[node[selected]],
            right[selected],
        )

    @classmethod
    def joined(cls, parts: Sequence[Midpoints]) -> Midpoints:
        """Take the tests of all trees together."""
        begin = np.cumsum([0, *(len(p.sums) for p in parts)])[:-1]
        return cls(
            np.concatenate([p.sums for p in parts]),
            np.concatenate([p.column for p in parts]),
            np.concatenate([p.at for p in parts]),
            np.concatenate([p.test + b for p, b in zip(parts, begin, strict=True)]),
            np.concatenate([p.right for p in parts]),
        )

    @property
    def side(self) -> IntArray:
        """Shape (n_values,). Twice the test, and one more on its right."""
        return 2 * self.test + self.right

    def nearest(self, low: FloatArray, high: FloatArray) -> Midpoints:
        """Keep the values in the intervals nearest to their threshold; in order of their sides."""
        near = np.where(self.right, low.ravel()[self.at], -high.ravel()[self.at])
        least, side = np.full(2 * len(self.sums), np.inf), self.side
        np.minimum.at(least, side, near)
        selected = np.flatnonzero(near == least[side])
        selected = selected[np.argsort(side[selected], kind="stable")]
        return replace(
            self, at=self.at[selected], test=self.test[selected], right=self.right[selected]
        )


def tests_passed(
    tree: Tree, rows: IntArray, passed: tuple[IntArray, IntArray, IntArray], open_: BoolArray
) -> tuple[IntArray, IntArray, BoolArray]:
    """Of the nodes that rows pass, list those that test a number.

    ``rows``, ``passed``: rows, and what :meth:`Tree.passed` lists of them. ``open_``, shape
    (n_rows, n_columns): which values of all rows are numbers of which something can be told.
    Returns row, node, and whether the row goes right from there.
    """
    place, node, right = passed
    row = rows[place]
    numeric = open_[row, tree.feature[node]] & np.isfinite(tree.threshold[node])
    return row[numeric], node[numeric], np.asarray(right[numeric] == 1)
