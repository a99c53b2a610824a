"""Rows of raw tables tree by tree and node by node: no grid of cells is ever listed.

Rows that no tree so far tells apart are a group: a box of values. The next tree splits groups. A
group can only go to leaves that its box meets; and each node says how many rows it holds (or not),
and what their two derivatives sum up to, which follow from the groups' predictions before the tree.
Second derivatives do not depend on classes, and first ones only by whole numbers: so classes stay
open until the end. The node with the fewest choices is asked first which of its numbers of rows
meet its sums (:func:`whole_sums`): mostly one choice does. It leaves fewer choices to the nodes
above, below and beside it. Where several choices meet all sums, they are followed in turn.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from treeleak.attacks.real_valued.node_totals import NodeTotals, node_totals
from treeleak.attacks.real_valued.whole_sums import Sums, whole_sums, work
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass
from treeleak.evidence import LossSums
from treeleak.evidence.loss_sums import FIRST, SECOND, Derivative
from treeleak.evidence.predictions import chances, fitted, margins, steps
from treeleak.partition import Geometry
from treeleak.partition.boxes import leaf_boxes
from treeleak.release.tree import Tree

_MOST = 2**22
"""Choices of half of a node's groups that are looked at, at most."""
_MOST_WORK = 2.0**48
"""Choices of a node, at most."""
_MOST_ALIKE = 64
"""Choices that meet a node's sums, at most: where there are more, the node says too little."""
_STUCK = 3
"""Choices among which no node decides any more, after which the search ends."""
_STATES = 20_000
"""States that are looked at, at most."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows that the sums of the first trees do not tell apart."""

    n_trees: int
    rows: IntArray
    """Shape (n_groups,)."""
    leaf: IntArray
    """Shape (n_groups, n_trees of the model). Leaves (rows of A) of the first trees, or others that
    add up to the same prediction; any behind."""
    box: BoolArray
    """Shape (n_boxes, n_atoms). Atoms of all attributes that rows in a box may have."""
    group: IntArray
    """Shape (n_boxes,). Group of each box: rows of a group may lie in any of its boxes."""


@dataclass(frozen=True, eq=False)
class _State:
    """Groups, and how many rows of each may reach, and must reach, each node of the next tree."""

    groups: Groups
    least: IntArray | None = None
    most: IntArray | None = None
    """Shape (n_groups, n_nodes)."""


@dataclass(frozen=True, eq=False)
class _Next:
    """What is the same for all states of the same groups."""

    tree: Tree
    totals: NodeTotals
    second: FloatArray
    first: FloatArray
    """Shape (n_groups,). What a row of each counts that is of the first class."""
    shift: FloatArray
    """Shape (n_groups,). What rounding adds for a row of the second class."""


class ByNodes:
    """A search for rows, tree by tree and node by node."""

    def __init__(self, evidence: LossSums, geometry: Geometry, clock: Clock):
        self.evidence, self.geometry, self.clock = evidence, geometry, clock
        self.boxes = leaf_boxes(geometry)
        self.begin = np.append(0, np.cumsum(geometry.radix))
        self.looked = 0

    def found(self) -> Groups:
        """Find the groups of as many trees as leave no doubt."""
        self.best = start = self._start()
        stack = [_State(start)]
        n_trees, told, stuck = len(self.geometry.release.trees), None, 0
        while stack and self.looked < _STATES and not self.clock.stopped:
            state = stack.pop()
            self.looked += 1
            if state.groups.n_trees > self.best.n_trees:
                self.best = state.groups
                self.clock.tell("splitting groups of rows", 0.7 * self.best.n_trees / n_trees)
            if state.groups.n_trees == n_trees:
                return state.groups
            if told is None or told[0] is not state.groups:
                told = state.groups, self._next(state.groups)
            more = self._expanded(state, told[1])
            stuck += more is None
            if stuck > _STUCK:
                break
            stack += more or []
        return self.best

    def _start(self) -> Groups:
        first = self.geometry.leaf_start[None, :-1]
        every = np.ones((1, int(self.begin[-1])), dtype=bool)
        return Groups(0, np.array([self.evidence.n_rows]), first, every, np.zeros(1, dtype=int))

    @cached_property
    def _ones(self) -> int:
        """Count the rows of the second class: all rows of a leaf of the first tree are alike."""
        _, fitting = fitted(self.geometry.release)
        own = slice(0, int(self.geometry.leaf_start[1]))
        n, step = self.evidence.n[own], steps(self.geometry)[0][own]
        p = float(chances(self.geometry, self.geometry.leaf_start[None, :-1])[0, 0])
        H = n * fitting.curvature * p * (1 - p)
        return int(np.rint((n * p + step * (H + fitting.l2)).sum()))

    def ones(self, groups: Groups) -> FloatArray:
        """Say how many rows of the second class each leaf (row of A) of the first trees holds."""
        start = self.geometry.leaf_start
        out = np.zeros(int(start[-1]))
        for t in range(groups.n_trees):
            told = self._next(replace(groups, n_trees=t))
            at = groups.leaf[:, t] - start[t]
            leaves = slice(int(start[t]), int(start[t + 1]))
            n = int(start[t + 1] - start[t])
            p = np.bincount(at, groups.rows * told.first, n)
            out[leaves] = np.rint(p - told.totals.first[told.tree.leaves])
        return np.nan_to_num(out)

    def _next(self, groups: Groups) -> _Next:
        release, t = self.geometry.release, groups.n_trees
        ensemble, fitting = fitted(release)
        tree = release.trees[t]
        label = np.zeros(len(groups.rows), dtype=np.int64)
        second, first, other = (
            Derivative(self.geometry, which)(groups.leaf, own)[:, t]
            for which, own in ((SECOND, label), (FIRST, label), (FIRST, label + 1))
        )
        start = fitting.start[0] if fitting.start is not None and t == 0 else 0.0
        root = float(groups.rows @ second), float(groups.rows @ first) - self._ones
        rate = float(ensemble.learning_rate or np.nan)
        totals = node_totals(tree, rate, fitting, start, root, self.evidence.n_rows, first=t == 0)
        return _Next(tree, totals, second, first, other + 1.0 - first)

    def _expanded(self, state: _State, told: _Next) -> list[_State] | None:
        """Split the groups by one tree more; None where its nodes do not say enough."""
        tree, groups = told.tree, state.groups
        if state.most is None or state.least is None:
            least, most = self._begun(groups, tree)
        else:
            least, most = state.least.copy(), state.most.copy()
        asked: dict[tuple[int, bytes], IntArray | None] = {}
        while flown(tree, least, most) and not self.clock.stopped:
            open_ = np.asarray((most > least).any(axis=0))
            if not met(told, least, ~open_):
                return []
            if not open_.any():
                return [_State(self._split(groups, tree, least))]
            best: tuple[int, IntArray] | None = None
            for v in by_work(told, least, most):
                room = most[:, v] - least[:, v]
                key = v, room.tobytes()
                if key not in asked:
                    asked[key] = choices(told, least, most, v)
                found = asked[key]
                if found is None:
                    continue
                if not len(found):
                    return []
                if (found.max(axis=0) - found.min(axis=0) < room).any():
                    most[:, v] = least[:, v] + found.max(axis=0)
                    least[:, v] += found.min(axis=0)
                    break
                if best is None or len(found) < len(best[1]):
                    best = v, found
            else:
                if best is None or len(best[1]) > _MOST_ALIKE:
                    return None
                return _branches(groups, least, most, *best)
        return []

    def _begun(self, groups: Groups, tree: Tree) -> tuple[IntArray, IntArray]:
        """Say how many rows of each group leaves may hold, by geometry alone."""
        t = groups.n_trees
        own = np.arange(self.geometry.leaf_start[t], self.geometry.leaf_start[t + 1])
        box, leaf = np.nonzero(self._meets(groups.box, own))
        meet = np.zeros((len(groups.rows), len(own)), dtype=bool)
        meet[groups.group[box], leaf] = True
        most = np.repeat(groups.rows[:, None], tree.n_nodes, axis=1)
        most[:, tree.leaves] *= meet
        least = np.zeros_like(most)
        least[:, 0] = groups.rows
        return least, most

    def _meets(self, box: BoolArray, leaves: IntArray) -> BoolArray:
        """Say which boxes meet which leaves (rows of A)."""
        meet = np.ones((len(box), len(leaves)), dtype=bool)
        for begin, end in zip(self.begin[:-1], self.begin[1:], strict=True):
            own = self.boxes[leaves, begin:end].astype(np.float32)
            meet &= box[:, begin:end].astype(np.float32) @ own.T > 0
        return meet

    def _split(self, groups: Groups, tree: Tree, rows: IntArray) -> Groups:
        """Make groups of what reached the leaves; those of one prediction are one."""
        t, first = groups.n_trees, int(self.geometry.leaf_start[groups.n_trees])
        old, at = np.nonzero(rows[:, tree.leaves])
        leaf = groups.leaf[old]
        leaf[:, t] = first + at
        number = rows[old, tree.leaves[at]]
        key = self._predicted(leaf, t + 1)
        _, one, new = np.unique(key, return_index=True, return_inverse=True)
        group_of = np.full((len(groups.rows), len(tree.leaves)), -1)
        group_of[old, at] = new
        own = first + np.arange(len(tree.leaves))
        box, place = np.nonzero(self._meets(groups.box, own))
        to = group_of[groups.group[box], place]
        order = np.argsort(to, kind="stable")
        order = order[to[order] >= 0]
        box, place, to = box[order], place[order], to[order]
        return Groups(
            t + 1, np.bincount(new, number).astype(np.int64), leaf[one],
            groups.box[box] & self.boxes[first + place], to,
        )  # fmt: skip

    def _predicted(self, leaf: IntArray, n_trees: int) -> FloatArray:
        """Say what so many trees predict, in the precision of the library."""
        release = self.geometry.release
        one_more = np.append(leaf[:, :n_trees], leaf[:, :1], axis=1)
        return margins(release, one_more)[:, -1].astype(float)


def _branches(
    groups: Groups, least: IntArray, most: IntArray, v: int, found: IntArray
) -> list[_State]:
    out = []
    for each in found:
        below, above = least.copy(), most.copy()
        below[:, v] = above[:, v] = least[:, v] + each
        out.append(_State(groups, below, above))
    return out


def by_work(told: _Next, least: IntArray, most: IntArray) -> list[int]:
    """List the nodes that have choices, those with few first; without those with far too many."""
    work_of = []
    for v in np.flatnonzero((most > least).any(axis=0)).tolist():
        own = most[:, v] > least[:, v]
        sums, second, first = left_over(told, least, v)
        work_of.append((work((most - least)[own, v], second[own], first[own], sums), v))
    return [v for each, v in sorted(work_of) if each <= _MOST_WORK]


def choices(told: _Next, least: IntArray, most: IntArray, v: int) -> IntArray | None:
    """Find how many rows of each group beyond the least may be in a node; None if too many."""
    own = np.flatnonzero(most[:, v] > least[:, v])
    sums, second, first = left_over(told, least, v)
    found = whole_sums((most - least)[own, v], second[own], first[own], sums, _MOST)
    if found is None:
        return None
    out = np.zeros((len(found), len(least)), dtype=np.int64)
    out[:, own] = found
    return out


def flown(tree: Tree, least: IntArray, most: IntArray) -> bool:
    """Make both arrays agree along the tree, in place: a node holds what its children do."""
    inner = np.flatnonzero(~tree.is_leaf).tolist()
    for v in inner[::-1]:
        a, b = tree.left[v], tree.right[v]
        np.minimum(most[:, v], most[:, a] + most[:, b], out=most[:, v])
        np.maximum(least[:, v], least[:, a] + least[:, b], out=least[:, v])
    for v in inner:
        for a, b in ((tree.left[v], tree.right[v]), (tree.right[v], tree.left[v])):
            np.maximum(least[:, a], least[:, v] - most[:, b], out=least[:, a])
            np.minimum(most[:, a], most[:, v] - least[:, b], out=most[:, a])
    return bool((least <= most).all())


def left_over(told: _Next, least: IntArray, v: int) -> tuple[Sums, FloatArray, FloatArray]:
    """What is left of a node's sums for the rows that may reach it, and need not.

    Returns the weights of the groups in both sums, too: where only the ratio of the derivatives is
    known, one sum tells it, and the other counts.
    """
    totals, own = told.totals, least[:, v]
    n, H, G = (float(x[v]) for x in (totals.rows, totals.second, totals.first))
    off = float(totals.off_second[v]), float(totals.off_first[v])
    second, first = told.second, told.first
    if np.isnan(H) or np.isnan(G):
        step = totals.step[v]
        second, first = np.ones(len(own)), first + (0.0 if np.isnan(step) else step) * second
        H, G, off = n, 0.0, (0.5, np.inf if np.isnan(step) else float(totals.off_class[v]))
    free = H / max(float(second.mean()), 1e-9) if np.isnan(n) else n
    share = np.clip(float(first.mean()) - G / max(free, 1.0), 0.0, 1.0)
    first = first + share * told.shift
    rows = None if np.isnan(n) else int(n) - int(own.sum())
    return Sums(rows, H - float(own @ second), G - float(own @ first), *off), second, first


def met(told: _Next, rows: IntArray, settled: BoolArray) -> bool:
    """Whether settled nodes hold what they sum up."""
    totals, own = told.totals, rows[:, settled]
    ones = told.first @ own - totals.first[settled]
    share = np.clip(np.rint(ones) / np.maximum(own.sum(axis=0), 1), 0.0, 1.0)
    ones = ones + share * (told.shift @ own)
    off = (
        (own.sum(axis=0) - totals.rows[settled], 0.5),
        (told.second @ own - totals.second[settled], totals.off_second[settled]),
        (ones - np.rint(ones), totals.off_first[settled]),
    )
    return not any((np.abs(x) > most).any() for x, most in off)
