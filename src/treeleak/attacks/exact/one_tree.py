"""Where a single tree counts: each of its leaves holds a known number of rows, and is a box.

Rows of different leaves then have nothing to do with each other, but for what all rows are like.
Given that, they are drawn leaf by leaf, where behind several trees chains must walk. And the world
that is nearest to given rows is an assignment of rows to leaves.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from treeleak.attacks.exact.world_chains import RELEARN, ChainContext, WorldChain
from treeleak.attacks.exact.worlds import SolutionSampler
from treeleak.attacks.kernels import uniform
from treeleak.attacks.posterior.chains import hierarchy_of
from treeleak.attacks.posterior.draw_kernels import Prior
from treeleak.attacks.posterior.prior_kernels import HierarchicalPrior, relearn
from treeleak.attacks.samples import Info
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.compiled import copied, njit
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

    height = 0.0
    """All counts are met."""

    def under(self, prior: Prior | None) -> LeafChain:
        """Go on: what rows are like is learned."""
        if prior is not None:
            raise AssertionError("behind one tree, chains learn")
        return self

    def walked(
        self,
        sweeps: float,
        clock: Clock,
        temperature: float = 1.0,  # noqa: ARG002
        missing_row_penalty: float = 0.0,  # noqa: ARG002
    ) -> tuple[LeafChain, Info]:
        """Draw rows as often as a walk would learn; there is nothing to cool."""
        turns = 0 if clock.stopped else max(round(sweeps / RELEARN), 1)
        return self.redrawn(turns), Info(turns, turns)

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
    def resting(self) -> WorldChain:
        """The same as a chain that could walk."""
        context = self.leaves.context
        points = context.points(self.atoms)
        return WorldChain.resting(context, points, self.hierarchy, None, self.rng)


@njit()
def _shares(grid: Any, hierarchy: Any, share: Any) -> None:
    """Take what rows are like out of its logs, in place."""
    for a in range(len(grid.radix)):
        up, at = hierarchy.parent[a], hierarchy.offset[a]
        lines = hierarchy.n_bins[up] if up >= 0 else 1
        for i in range(at, at + lines * grid.radix[a]):
            share[i] = np.exp(hierarchy.log_share[i])


@njit()
def _believe(
    allowed: Any, share: Any, grid: Any, hierarchy: Any, belief: Any, message: Any
) -> None:
    """Weigh each atom by how likely a box is below it: messages from leaves to roots, in place.

    What depends on an attribute depends on bins of its atoms; ``message`` has room for these.
    Messages are scaled: only their ratios count.
    """
    start, order = grid.start, hierarchy.order
    for i in range(len(belief)):
        belief[i] = 1.0 if allowed[i] else 0.0
    for k in range(len(order) - 1, -1, -1):
        a = order[k]
        up, r = hierarchy.parent[a], grid.radix[a]
        if up < 0:
            continue
        most = 0.0
        for u in range(hierarchy.n_bins[up]):
            at, total = hierarchy.offset[a] + u * r, 0.0
            for x in range(r):
                total += share[at + x] * belief[start[a] + x]
            message[u] = total
            most = max(most, total)
        if most > 0.0:
            for x in range(grid.radix[up]):
                belief[start[up] + x] *= message[hierarchy.bin[up, x]] / most


@njit()
def redraw(atoms: Any, box: Any, allowed: Any, grid: Any, hierarchy: Any, rng: Any) -> None:
    """Draw rows anew from what rows are like, each within its box, in place.

    Parameters
    ----------
    atoms : int16 array, shape (n_rows, n_attributes + 1)
        Counted from 0 in each attribute.
    box : int array, shape (n_rows,)
        Box of each row, equal ones side by side; rows of -1 stay as they are.
    allowed : bool array, shape (n_boxes, n_atoms)
    """
    start = grid.start
    share, belief = np.empty(hierarchy.offset[-1]), np.empty(start[-1])
    message = np.empty(hierarchy.n_bins.max())
    _shares(grid, hierarchy, share)
    last = -1
    for k in range(len(box)):
        b = box[k]
        if b < 0:
            continue
        if b != last:
            _believe(allowed[b], share, grid, hierarchy, belief, message)
            last = b
        for a in hierarchy.order:
            up, r, at = hierarchy.parent[a], grid.radix[a], hierarchy.offset[a]
            if up >= 0:
                at += hierarchy.bin[up, atoms[k, up]] * r
            total = 0.0
            for x in range(r):
                total += share[at + x] * belief[start[a] + x]
            left = uniform(rng) * total
            for x in range(r):
                if allowed[b, start[a] + x]:
                    # The last one, should rounding leave something over.
                    atoms[k, a] = x
                    left -= share[at + x] * belief[start[a] + x]
                    if left < 0.0:
                        break


@njit()
def redraw_and_relearn(
    turns: int, atoms: Any, box: Any, allowed: Any, grid: Any, hierarchy: Any, rng: Any
) -> None:
    """Redraw rows and what they are like in turns, in place: a Gibbs sampler of both."""
    for _ in range(turns):
        redraw(atoms, box, allowed, grid, hierarchy, rng)
        relearn(rng, atoms, grid, hierarchy)
