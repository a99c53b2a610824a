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

from dataclasses import field
from functools import cached_property
from heapq import heappop, heappush

import numpy as np

from treeleak.attacks.loss_sums.layers import (
    Bounds,
    Groups,
    Layer,
    choices,
    effort,
    equal_states,
    held,
    met,
    propagate_flows,
)
from treeleak.attacks.loss_sums.node_totals import Root, node_totals, steps_of
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass
from treeleak.evidence import LossSums
from treeleak.evidence.loss_sums import FIRST, SECOND, Derivative
from treeleak.evidence.predictions import chances, fitted, l2_at_leaves, margins, steps
from treeleak.partition import Geometry
from treeleak.partition.masks import leaf_boxes
from treeleak.release.tree import Tree


@dataclass(frozen=True, eq=False)
class _State:
    """Groups, and what is known of how the next trees split them."""

    groups: Groups
    layers: list[Layer] = field(default_factory=list)
    bounds: list[Bounds] = field(default_factory=list)

    def chosen(self, layer: int, node: int, rows: IntArray) -> _State:
        """Say how many rows of each part are in a node."""
        bounds = [b.copy() for b in self.bounds]
        bounds[layer].least[:, node] = bounds[layer].most[:, node] = rows
        return _State(self.groups, list(self.layers), bounds)


@dataclass(frozen=True)
class _Level:
    """How much is done to split the groups of a state."""

    work: float
    """Choices of a node's parts, at most: others are not asked."""
    layers: int
    """Trees that are looked at together, at most."""
    n_equal: int
    """Choices that meet a node's sums, at most: where there are more, it says too little."""


_LEVELS = (
    _Level(2.0**44, 1, SCHEDULE.followed_choices),
    _Level(2.0**50, 3, 64),
    _Level(2.0**50, 16, 64),
)
"""What is tried first, and what only when nothing else goes on."""


_Key = tuple[int, int, bytes, bytes]


@dataclass(frozen=True, eq=False)
class _Cache:
    """What nodes said, for each of the bounds that they were asked with."""

    effort: dict[_Key, float]
    found: dict[_Key, IntArray | None]


@dataclass(frozen=True, eq=False)
class _Choices:
    """Choices of a node of a layer that meet its sums."""

    layer: int
    node: int
    found: IntArray


class ByNodes:
    """A search for rows, tree by tree and node by node."""

    def __init__(self, evidence: LossSums, geometry: Geometry, clock: Clock):
        self.evidence, self.geometry, self.clock = evidence, geometry, clock
        self.boxes = leaf_boxes(geometry)
        self.begin = np.append(0, np.cumsum(geometry.radix))

    def found(self) -> Groups:
        """Find the groups of as many trees as leave no doubt."""
        self.best = start = self._start()
        queue, number = [(0, 0, 0, _State(start))], 0
        n_trees = len(self.geometry.release.trees)
        while queue and number < SCHEDULE.node_states and not self.clock.stopped:
            level, _, _, state = heappop(queue)
            if state.groups.n_trees > self.best.n_trees:
                self.best = state.groups
                self.clock.report_progress(
                    "splitting groups of rows", 0.7 * self.best.n_trees / n_trees
                )
            if state.groups.n_trees == n_trees:
                return state.groups
            more = self._expanded(state, _LEVELS[level])
            if more is None:
                # Others that follow from the same choices may be refuted, or go on, more easily.
                more, level = [state], level + 1
            else:
                level = 0
            for each in more if level < len(_LEVELS) else ():
                number += 1
                heappush(queue, (level, (not each.layers) - each.groups.n_trees, number, each))
        return self.best

    def _start(self) -> Groups:
        first = np.tile(self.geometry.leaf_start[:-1], (2, 1, 1))
        every = np.ones((1, int(self.begin[-1])), dtype=bool)
        return Groups(0, np.array([self.evidence.n_rows]), first, every, np.zeros(1, dtype=int))

    @cached_property
    def _ones(self) -> int:
        """Count the rows of the second class: all rows of a leaf of the first tree are alike."""
        _, fitting = fitted(self.geometry.release)
        leaves = slice(0, int(self.geometry.leaf_start[1]))
        l2 = l2_at_leaves(self.geometry.release)[leaves]
        n, step = self.evidence.n[leaves], steps(self.geometry)[0][leaves]
        p = float(chances(self.geometry, self.geometry.leaf_start[None, :-1])[0, 0])
        H = n * fitting.curvature * p * (1 - p)
        return int(np.rint((n * p + step * (H + l2)).sum()))

    def _expanded(self, state: _State, level: _Level) -> list[_State] | None:
        """Split the groups by one tree more; None where its nodes do not say enough."""
        groups, layers, bounds = state.groups, state.layers, state.bounds
        if not layers:
            self._look_ahead(groups, layers, bounds)
        cache = _Cache({}, {})
        while not self.clock.stopped:
            agrees, best = self._narrowed(groups, layers, bounds, cache, level)
            if not agrees:
                return []
            if not bounds[0].open.any():
                return [_State(self._split(groups, layers[0], bounds[0]))]
            few = best is not None and len(best.found) <= SCHEDULE.followed_choices
            if not few and len(layers) < level.layers and self._look_ahead(groups, layers, bounds):
                continue
            if best is None or len(best.found) > level.n_equal:
                return None
            return [state.chosen(best.layer, best.node, each) for each in best.found]
        return []

    def _narrowed(
        self,
        groups: Groups,
        layers: list[Layer],
        bounds: list[Bounds],
        cache: _Cache,
        level: _Level,
    ) -> tuple[bool, _Choices | None]:
        """Narrow bounds as far as nodes do, in place.

        Returns whether bounds agree, and the choices of the node that leaves the fewest, if any
        does.
        """
        changed = set(range(len(layers)))
        while propagate_flows(layers, bounds, changed):
            order = []
            for s, (layer, layer_bounds) in enumerate(zip(layers, bounds, strict=True)):
                if not met(layer, layer_bounds, ~layer_bounds.open):
                    return False, None
                for v in np.flatnonzero(layer_bounds.open).tolist():
                    key = (
                        s,
                        v,
                        layer_bounds.least[:, v].tobytes(),
                        layer_bounds.most[:, v].tobytes(),
                    )
                    if key not in cache.effort:
                        cache.effort[key] = effort(layer, layer_bounds, groups, v)
                    if cache.effort[key] <= level.work:
                        order.append((cache.effort[key], s, v, key))
            best, changed = None, set()
            for _, s, v, key in sorted(order):
                layer_bounds = bounds[s]
                if key not in cache.found:
                    cache.found[key] = choices(layers[s], layer_bounds, groups, v)
                found = cache.found[key]
                if found is None:
                    continue
                if not len(found):
                    return False, None
                low, high = found.min(axis=0), found.max(axis=0)
                if (low > layer_bounds.least[:, v]).any() or (high < layer_bounds.most[:, v]).any():
                    layer_bounds.least[:, v], layer_bounds.most[:, v] = low, high
                    changed = {s}
                    break
                if best is None or len(found) < len(best.found):
                    best = _Choices(s, v, found)
                if self.clock.stopped:
                    break
            if not changed:
                return True, best
        return False, None

    def _look_ahead(self, groups: Groups, layers: list[Layer], bounds: list[Bounds]) -> bool:
        """Add a layer: the tree behind those that are looked at; False if there is none."""
        t = groups.n_trees + len(layers)
        release = self.geometry.release
        if t == len(release.trees):
            return False
        if layers:
            parts, group, above, through = self._parts(layers[-1], bounds[-1])
        else:
            parts = groups
            group = above = through = np.arange(len(groups.rows))
        ensemble, fitting = fitted(release)
        tree = release.trees[t]
        low, high = parts.leaf[:, :, : t + 1]
        second, first, other = derivatives = self._derivatives(low)
        # Of most groups, all predictions are the same.
        wide = (low != high).any(axis=1)
        apart = np.abs(self._derivatives(high[wide]) - derivatives[:, wide])
        blur = np.zeros((2, len(low)))
        blur[:, wide] = apart[0], apart[1:].max(axis=0)
        start = fitting.start[0] if fitting.start is not None and t == 0 else 0.0
        rate = float(ensemble.learning_rate or np.nan)
        shift = (other + 1.0) - first
        root = None
        if not layers:
            # A row is of the second class as often as is likely.
            usual = first + first * shift
            root = Root(
                float(groups.rows @ second), float(groups.rows @ usual) - self._ones,
                *(blur @ groups.rows).tolist(),
            )  # fmt: skip
        step = steps_of(tree, rate, start)
        totals = node_totals(tree, step, fitting, root, self.evidence.n_rows, first=t == 0)
        likely = np.where(first > 0.5, other, first)
        layers.append(
            Layer(tree, totals, second, likely, np.abs(shift), blur, parts, group, above, through)
        )
        least, most = self._rows_allowed(parts, tree, t)
        if len(layers) > 1:
            least[:, 0] = bounds[-1].least[above, through]
        bounds.append(Bounds(least, most))
        return True

    def _derivatives(self, leaf: IntArray) -> FloatArray:
        """Say what rows count in the last of some trees, shape (3, n_items).

        The second derivative, and the first one of either class.
        """
        label = np.zeros(len(leaf), dtype=np.int64)
        requests = (SECOND, label), (FIRST, label), (FIRST, label + 1)
        return np.array([Derivative(self.geometry, which)(leaf, k)[:, -1] for which, k in requests])

    def _rows_allowed(self, parts: Groups, tree: Tree, t: int) -> tuple[IntArray, IntArray]:
        """Say how many rows of each part leaves may hold, by geometry alone."""
        tree_leaves = np.arange(self.geometry.leaf_start[t], self.geometry.leaf_start[t + 1])
        box, leaf = np.nonzero(self._meets(parts.box, tree_leaves))
        meet = np.zeros((len(parts.rows), len(tree_leaves)), dtype=bool)
        meet[parts.group[box], leaf] = True
        most = np.repeat(parts.rows[:, None], tree.n_nodes, axis=1)
        most[:, tree.leaves] *= meet
        least = np.zeros_like(most)
        least[:, 0] = parts.rows
        return least, most

    def _parts(self, layer: Layer, bounds: Bounds) -> tuple[Groups, IntArray, IntArray, IntArray]:
        """List the parts that leave a layer: for each part of it, its leaves."""
        t = layer.parts.n_trees
        first = int(self.geometry.leaf_start[t])
        above, at = np.nonzero(bounds.most[:, layer.tree.leaves])
        through = layer.tree.leaves[at]
        leaf = layer.parts.leaf[:, above]
        leaf[:, :, t] = first + at
        number = np.full((len(layer.group), len(layer.tree.leaves)), -1)
        number[above, at] = np.arange(len(above))
        box, part = self._cut(layer.parts, first + np.arange(len(layer.tree.leaves)), number)
        parts = Groups(t + 1, bounds.most[above, through], leaf, box, part)
        return parts, layer.group[above], above, through

    def _cut(self, parts: Groups, leaves: IntArray, to: IntArray) -> tuple[BoolArray, IntArray]:
        """Cut boxes by leaves; ``to``, shape (n_parts, n_leaves): where they go, -1 if nowhere."""
        box, place = np.nonzero(self._meets(parts.box, leaves))
        goes = to[parts.group[box], place]
        order = np.argsort(goes, kind="stable")
        order = order[goes[order] >= 0]
        box, place = box[order], place[order]
        return parts.box[box] & self.boxes[leaves[place]], goes[order]

    def _meets(self, box: BoolArray, leaves: IntArray) -> BoolArray:
        """Say which boxes meet which leaves (rows of A)."""
        meet = np.ones((len(box), len(leaves)), dtype=bool)
        for begin, end in zip(self.begin[:-1], self.begin[1:], strict=True):
            leaf_box = self.boxes[leaves, begin:end].astype(np.float32)
            meet &= box[:, begin:end].astype(np.float32) @ leaf_box.T > 0
        return meet

    def _split(self, groups: Groups, layer: Layer, bounds: Bounds) -> Groups:
        """Make groups of what reached the leaves; those of next to one prediction are one."""
        t, leaves = groups.n_trees, layer.tree.leaves
        first = int(self.geometry.leaf_start[t])
        old, at = np.nonzero(bounds.least[:, leaves])
        leaf = groups.leaf[:, old]
        leaf[:, :, t] = first + at
        number = bounds.least[old, leaves[at]]
        low, high = self._predicted(leaf, t + 1)
        ends, new = equal_states(low, high)
        to = np.full((len(groups.rows), len(leaves)), -1)
        to[old, at] = new
        box, group = self._cut(groups, first + np.arange(len(leaves)), to)
        rows = np.bincount(new, number).astype(np.int64)
        counts = np.concatenate([groups.held, held(layer, bounds)], axis=1)
        leaf = np.stack([each[one] for each, one in zip(leaf, ends, strict=True)])
        return Groups(t + 1, rows, leaf, box, group, counts)

    def _predicted(self, leaf: IntArray, n_trees: int) -> FloatArray:
        """Say what so many trees predict at least and at most, in the precision of the library."""
        release, (_, n, m) = self.geometry.release, leaf.shape
        each = leaf.reshape(2 * n, m)
        one_more = np.append(each[:, :n_trees], each[:, :1], axis=1)
        return margins(release, one_more)[:, -1].astype(float).reshape(2, n)
