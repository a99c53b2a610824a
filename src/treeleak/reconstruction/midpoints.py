"""Tests that rows pass on both sides: twice the threshold is the sum of two of their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.compiled import njit
from treeleak.core.private import dataclass, shows_no_value
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


_NEAR, _ALMOST = 1.5, 1e-6
"""Steps that an equation may be off to move a value by one, and part of a step that rounding costs.
"""


@shows_no_value
class Sides(NamedTuple):
    """Equations ``max(left members) + min(right members) = sum``.

    Equation q has the members ``start[2q]`` to ``start[2q + 1]`` on the left, those up to
    ``start[2q + 2]`` on the right.
    """

    sums: FloatArray
    width: FloatArray
    """Shape (n_equations,). By which it is measured how far an equation is from met."""
    start: IntArray
    members: IntArray
    """Places of values."""


@njit()
def meet_midpoints(value: Any, low: Any, high: Any, sides: Any, n_sweeps: int, steps: bool) -> None:
    """Move values, in place, towards the equations of :class:`Sides`.

    Projects on one equation after another, inside ``low`` to ``high``. An equation that is far from
    met, measured by a width that shrinks from sweep to sweep, moves its values less: where rows are
    wrong, equations contradict each other, and a compromise between all would meet none. ``steps``:
    widths are steps of values, which move by one if that meets an equation, and stay where there
    are none (0).
    """
    sums, width, start, members = sides.sums, sides.width, sides.start, sides.members
    for sweep in range(n_sweeps):
        # The first third treats all alike, the last one is left with those that can be met.
        phase = max(0.0, sweep / n_sweeps - 1 / 3)
        shrunk = 10.0 ** (-6.0 * phase)
        for q in range(len(sums)):
            left, middle, right = start[2 * q], start[2 * q + 1], start[2 * q + 2]
            a, b = members[left], members[middle]
            for i in range(left + 1, middle):
                if value[members[i]] > value[a]:
                    a = members[i]
            for i in range(middle + 1, right):
                if value[members[i]] < value[b]:
                    b = members[i]
            gap = sums[q] - value[a] - value[b]
            if gap == 0.0 or (steps and abs(gap) > _NEAR * width[q]):
                continue
            if steps:
                gap = round(gap / width[q]) * width[q]
                half = math.floor(gap / 2 / width[q] + _ALMOST) * width[q]
            else:
                if phase > 0.0:
                    scaled_width = width[q] * shrunk
                    gap *= scaled_width * scaled_width / (scaled_width * scaled_width + gap * gap)
                half = gap / 2
            # What one of them cannot move because of its interval, the other does.
            up = min(max(value[a] + half, low[a]), high[a])
            down = min(max(value[b] + gap - (up - value[a]), low[b]), high[b])
            up = min(max(value[a] + gap - (down - value[b]), low[a]), high[a])
            if gap > 0.0:
                value[a] = up
                for i in range(middle, right):
                    j = members[i]
                    value[j] = max(value[j], min(down, high[j]))
            else:
                value[b] = down
                for i in range(left, middle):
                    j = members[i]
                    value[j] = min(value[j], max(up, low[j]))
