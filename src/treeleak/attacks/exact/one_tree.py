"""Where a single tree counts: each of its leaves holds a known number of rows, and is a box.

Rows of different leaves then have nothing to do with each other, but for what all rows are like.
Given that, they are drawn leaf by leaf, where behind several trees chains must walk. And the world
that is nearest to given rows is an assignment of rows to leaves.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from treeleak.attacks.exact.one_tree_kernels import redraw_and_relearn
from treeleak.attacks.exact.world_chains import ChainContext, WorldChain
from treeleak.attacks.exact.worlds import SolutionSampler
from treeleak.attacks.posterior.chains import hierarchy_of
from treeleak.attacks.posterior.prior_kernels import HierarchicalPrior
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.compiled import copied
from treeleak.core.private import dataclass
from treeleak.partition import Geometry


@dataclass(frozen=True, eq=False)
class OpenLeaves:
    """What the open rows of a system may be, leaf by leaf."""

    search: SolutionSampler
    stride: IntArray
    """Shape (n_attributes + 1,). Weight of each atom, counted from 0, in the code of a point."""
    allowed: BoolArray
    """Shape (n_boxes, n_atoms). Atoms of each box, numbered over all attributes."""
    box: IntArray
    """Shape (n_rows,), ascending. Of each open row."""

    @classmethod
    def of(cls, search: SolutionSampler, geometry: Geometry) -> OpenLeaves | None:
        """See which atoms each leaf admits; None where several trees count, or rules cut leaves."""
        space, values = search.space, search.values
        if space.packed.shape[1] > 1:
            return None
        leaves, box = np.unique(space.packed[space.cell].ravel(), return_inverse=True)
        allowed = np.zeros((len(leaves), values.n_atoms), dtype=bool)
        allowed[box.ravel()[:, None], search.atoms[search.live_of]] = True
        sides = np.add.reduceat(allowed, values.atom_start[:-1], axis=1, dtype=float)
        if (sides.prod(axis=1) != np.bincount(box.ravel(), minlength=len(leaves))).any():
            return None
        rows = np.repeat(np.arange(len(leaves)), space.packed_target[leaves])
        return cls(search, np.append(geometry.stride, geometry.n_points), allowed, rows)

    def points(self, atoms: IntArray) -> IntArray:
        """Points of the search's space of rows of atoms, counted from 0 in each attribute."""
        return np.searchsorted(self.search.space.code, atoms @ self.stride)

    def nearest(self, cost: FloatArray) -> IntArray:
        """Points of rows that meet all counts at the least total cost.

        ``cost``, shape (n_rows, n_atoms): of each atom in each row, over all attributes.
        """
        start = self.search.values.atom_start
        sides = [np.where(line, cost, np.inf) for line in self.allowed]
        least = [np.minimum.reduceat(line, start[:-1], axis=1).sum(axis=1) for line in sides]
        _, j = linear_sum_assignment(np.reshape(least, (len(sides), len(cost)))[self.box].T)
        within = np.where(self.allowed[self.box[j]], cost, np.inf)
        parts = np.split(within, start[1:-1], axis=1)
        return self.points(np.column_stack([part.argmin(axis=1) for part in parts]))


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of a tree that alone counts the rows of all systems."""

    context: ChainContext
    boxes: tuple[OpenLeaves, ...]
    """Of each system."""

    @classmethod
    def of(cls, context: ChainContext) -> Leaves | None:
        """Lay out the leaves of all systems; None unless all are boxes of one tree."""
        found = [OpenLeaves.of(search, context.geometry) for search in context.searches]
        boxes = tuple(part for part in found if part is not None)
        return cls(context, boxes) if len(boxes) == len(found) else None

    @cached_property
    def allowed(self) -> BoolArray:
        """Shape (n_boxes, n_atoms). Atoms of the boxes of all systems."""
        return np.concatenate([part.allowed for part in self.boxes])

    @cached_property
    def box(self) -> IntArray:
        """Shape (n_rows,). Of each row of all systems, -1 for those that do not move."""
        out, n = [], 0
        for fixed, part in zip(self.context.fixed, self.boxes, strict=True):
            out += [np.full(len(fixed), -1), n + part.box]
            n += len(part.allowed)
        return np.concatenate(out)


@dataclass(frozen=True, eq=False)
class LeafChain:
    """One dataset that meets all counts. Made by :meth:`started`; :meth:`redrawn` gives others."""

    leaves: Leaves
    atoms: NDArray[np.int16]
    """Shape (n_rows, n_attributes + 1). Of all systems, in each rows that do not move first."""
    hierarchy: HierarchicalPrior
    """What rows are like is learned with it."""
    rng: NDArray[np.uint64]

    @classmethod
    def started(cls, leaves: Leaves, seed: int) -> LeafChain:
        """Start with open rows that are not drawn yet."""
        context, atoms = leaves.context, []
        for fixed, part in zip(context.fixed, leaves.boxes, strict=True):
            atoms += [fixed, np.zeros((len(part.box), fixed.shape[1]), dtype=np.int16)]
        state = np.random.default_rng(seed).integers(1, 2**63, size=1, dtype=np.uint64)
        return cls(leaves, np.concatenate(atoms), hierarchy_of(context.values, 0), state)

    def redrawn(self, turns: int) -> LeafChain:
        """Draw rows, then what they are like, in so many turns."""
        out = replace(
            self,
            atoms=self.atoms.copy(),
            hierarchy=copied(self.hierarchy),
            rng=self.rng.copy(),
        )
        leaves = self.leaves
        redraw_and_relearn(
            turns,
            out.atoms,
            leaves.box,
            leaves.allowed,
            leaves.context.grid,
            out.hierarchy,
            out.rng,
        )
        return out

    @property
    def points(self) -> tuple[IntArray, ...]:
        """Points of the open rows of each system."""
        out, begin = [], 0
        for fixed, part in zip(self.leaves.context.fixed, self.leaves.boxes, strict=True):
            begin += len(fixed)
            out.append(part.points(self.atoms[begin : begin + len(part.box)].astype(np.int64)))
            begin += len(part.box)
        return tuple(out)

    @property
    def resting(self) -> WorldChain:
        """The same as a chain that could walk."""
        return WorldChain.resting(self.leaves.context, self.points, self.hierarchy, None, self.rng)
