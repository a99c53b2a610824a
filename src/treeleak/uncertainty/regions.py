"""Regions of a grid of attributes: boxes less other boxes, counted exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass

Tests = Mapping[int, BoolArray]
"""A box by the axes that it restricts, and the atoms that it leaves of each."""

MOST_STEPS = 1 << 21
"""Edges of a decision diagram: some seconds of counting."""


@dataclass(frozen=True, eq=False)
class _Layer:
    """The decision on one axis.

    ``kinds``: which atoms no box tells apart. ``allow``: for each kind, the boxes that hold it, as
    bits. ``weight``: how many values it has. ``last``: boxes that restrict no later axis.
    """

    axis: int
    classes: tuple[IntArray, ...]
    allow: tuple[int, ...]
    weight: tuple[int, ...]
    last: int

    def after(self, node: int, allow: int) -> int:
        """Follow an edge."""
        node &= allow
        if held := node & self.last:
            node &= ((held & -held) << 1) - 1
        return node


class FirstMatch:
    """Which points of a grid the first of several boxes takes.

    A multi-valued decision diagram over the axes, built layer by layer. A node is the set of boxes
    that may take its points, as the bits of a whole number. The highest bit is a box that holds
    them for certain, or no box at all; boxes behind it do not count. A node of one bit is a leaf.

    Parameters
    ----------
    sizes : sequence of int array
        For each axis, how many values its atoms hold.
    box : sequence of bool array
        For each axis, the atoms that are possible.
    boxes : sequence of Tests
        In order: a point belongs to the first that holds it.
    """

    def __init__(
        self, sizes: Sequence[IntArray], box: Sequence[BoolArray], boxes: Sequence[Tests]
    ) -> None:
        self.box = tuple(m & (s > 0) for s, m in zip(sizes, box, strict=True))
        self.whole = math.prod(int(s[m].sum()) for s, m in zip(sizes, box, strict=True))
        self.n_boxes = len(boxes)
        self.taking: list[int] = []
        """Boxes that hold some point, down to one that holds every point; last, no box."""
        tests: list[Tests] = []
        for j, one in enumerate(boxes if self.whole else ()):
            left = {k: mask & self.box[k] for k, mask in one.items()}
            if not all(mask.any() for mask in left.values()):
                continue
            self.taking.append(j)
            left = {k: mask for k, mask in left.items() if (mask != self.box[k]).any()}
            if not left:
                break
            tests.append(left)
        else:
            self.taking.append(self.n_boxes)
        self.root = (1 << len(self.taking)) - 1
        order = _axis_order(tests)
        last = {j: max(order.index(k) for k in one) for j, one in enumerate(tests)}
        self.layers = [
            self._layer(k, sizes[k], tests, sum(1 << j for j, q in last.items() if q == p))
            for p, k in enumerate(order)
        ]

    def _layer(self, axis: int, size: IntArray, tests: Sequence[Tests], last: int) -> _Layer:
        atoms = np.flatnonzero(self.box[axis])
        allowed = np.ones((len(self.taking), len(atoms)), dtype=bool)
        for j, one in enumerate(tests):
            if axis in one:
                allowed[j] = one[axis][atoms]
        columns, kind = np.unique(
            np.packbits(allowed, axis=0, bitorder="little"), axis=1, return_inverse=True
        )
        classes = tuple(atoms[kind.ravel() == c] for c in range(columns.shape[1]))
        return _Layer(
            axis,
            classes,
            tuple(int.from_bytes(column.tobytes(), "little") for column in columns.T),
            tuple(int(size[members].sum()) for members in classes),
            last,
        )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many points each box takes, and last how many lie in none.

        Raises
        ------
        NotCovered
            If the boxes overlap in too many ways.
        """
        out = [0] * (self.n_boxes + 1)
        if not self.whole:
            return tuple(out)
        rest = self.whole
        nodes = {self.root: 1}
        if not self.layers:
            out[self.taking[0]] = rest
        steps = 0
        for layer in self.layers:
            rest //= sum(layer.weight)
            steps = self._checked(steps + len(nodes) * len(layer.allow))
            below: dict[int, int] = {}
            for node, ways in nodes.items():
                for allow, weight in zip(layer.allow, layer.weight, strict=True):
                    child = layer.after(node, allow)
                    if child & (child - 1):
                        below[child] = below.get(child, 0) + ways * weight
                    else:
                        out[self.taking[child.bit_length() - 1]] += ways * weight * rest
            nodes = below
        return tuple(out)

    @cached_property
    def _through(self) -> list[list[int]]:
        """For each layer and kind, the boxes that take some point there, as bits."""
        levels, steps, leaves = [{self.root}], 0, [0]
        for layer in self.layers:
            steps = self._checked(steps + len(levels[-1]) * len(layer.allow))
            below = {layer.after(node, allow) for node in levels[-1] for allow in layer.allow}
            levels.append({node for node in below if node & (node - 1)})
            leaves.append(leaves[-1] | sum(below - levels[-1]))
        takers: dict[int, int] = {}
        out = []
        for layer, nodes, decided in zip(
            self.layers[::-1], levels[-2::-1], leaves[-2::-1], strict=True
        ):
            above: dict[int, int] = dict.fromkeys(nodes, 0)
            # Points that a box took before may have any value here.
            through = [decided] * len(layer.allow)
            for node in nodes:
                for i, allow in enumerate(layer.allow):
                    child = layer.after(node, allow)
                    found = takers.get(child, child)
                    through[i] |= found
                    above[node] |= found
            takers = above
            out.append(through)
        return out[::-1]

    def possible(self, boxes: Iterable[int]) -> tuple[BoolArray, ...]:
        """Atoms of each axis that some point has which one of these boxes takes."""
        chosen = {*boxes}
        if not any(self.counts[j] for j in chosen):
            return tuple(np.zeros_like(mask) for mask in self.box)
        bits = sum(1 << i for i, j in enumerate(self.taking) if j in chosen)
        out = [mask.copy() for mask in self.box]
        for layer, through in zip(self.layers, self._through, strict=True):
            for atoms, takers in zip(layer.classes, through, strict=True):
                out[layer.axis][atoms] = bool(takers & bits)
        return tuple(out)

    def changes_to(self, atoms: IntArray, boxes: Iterable[int]) -> int:
        """Least number of axes that must change for one of these boxes to take a point (atoms).

        One more than there are, if none can.
        """
        chosen, best = {*boxes}, len(self.box) + 1
        if not any(self.counts[j] for j in chosen):
            return best
        out = [int(a < 0 or not mask[a]) for a, mask in zip(atoms, self.box, strict=True)]
        rest = sum(out)
        if not self.layers:
            return rest
        nodes = {self.root: rest}
        for layer in self.layers:
            below: dict[int, int] = {}
            stay = [atoms[layer.axis] in members for members in layer.classes]
            for node, changes in nodes.items():
                for allow, same in zip(layer.allow, stay, strict=True):
                    child = layer.after(node, allow)
                    n = changes + (not same and not out[layer.axis])
                    if child & (child - 1):
                        below[child] = min(n, below.get(child, n))
                    elif self.taking[child.bit_length() - 1] in chosen:
                        best = min(best, n)
            nodes = below
        return best

    def _checked(self, steps: int) -> int:
        if steps > MOST_STEPS:
            raise NotCovered(
                f"not counted: {self.n_boxes} rules overlap in too many ways "
                f"({MOST_STEPS:,} steps are not enough)"
            )
        return steps


def _axis_order(tests: Sequence[Tests]) -> list[int]:
    """Order the axes such that few boxes are decided in part at any time."""
    testing: dict[int, list[int]] = {}
    for j, one in enumerate(tests):
        for k in one:
            testing.setdefault(k, []).append(j)
    left = [len(one) for one in tests]
    out: list[int] = []

    def n_open_after(k: int) -> tuple[int, int, int]:
        n_started = sum(left[j] == len(tests[j]) > 1 for j in testing[k])
        ended = sum(1 == left[j] < len(tests[j]) for j in testing[k])
        return n_started - ended, -len(testing[k]), k

    while testing:
        k = min(testing, key=n_open_after)
        for j in testing.pop(k):
            left[j] -= 1
        out.append(k)
    return out


def is_in(tests: Tests, atoms: IntArray) -> BoolArray:
    """Say which points (atoms) lie in a box."""
    held = np.ones(len(atoms), dtype=bool)
    for k, mask in tests.items():
        held &= mask[atoms[:, k]]
    return held
