"""Search for rows that meet the counts, near a given set of weights or near given rows."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.exact.schedule import SCHEDULE
from treeleak.attacks.exact.world_kernels import Places, walk
from treeleak.attacks.posterior.draw_kernels import Prior
from treeleak.core.arrays import FloatArray, IntArray, equal_entries
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass

_NONE = np.zeros(0, dtype=np.int32)
EVEN = Prior(
    _NONE, _NONE.reshape(0, 0), _NONE.astype(np.int64), np.zeros(0), False,
    _NONE.astype(np.float32), _NONE,
)  # fmt: skip
"""No preference beside the tilt."""


MAX_NEIGHBOURS = 2**27
"""Entries of the table of neighbouring points: 512 MiB."""


@dataclass(frozen=True)
class Schedule:
    """How a run cools, and what moves it makes."""

    hot: float
    cold: float
    """First and last temperature."""
    swaps: float
    """Share of the moves in which two rows exchange atoms."""


LOOSE = Schedule(6.0, 0.7, 0.3)
"""Mixes well: for systems that many datasets meet."""

TIGHT = Schedule(3.0, 0.8, 0.5)
"""Meets counts that few datasets meet: swaps keep what is right already."""

NEAR = Schedule(1.2, 0.4, 0.5)
"""Goes from a dataset to a near one at little cost: it ends warm enough to pass through others."""


@dataclass(frozen=True, eq=False)
class Chain:
    """The best rows that one annealing run met."""

    points: IntArray
    """Shape (n_rows,). Positions in the space's points."""
    misfit: int
    """Sum over the distinct equations of |A m - n|."""


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Points that rows may take, with all that a run needs; shared by all runs."""

    code: IntArray
    """Shape (n_points,). A number that tells the points apart, ascending: the grid point, and the
    class."""
    origin: IntArray
    """Shape (n_points,). Position of each point in the arrays that the space was made from."""
    attributes: IntArray
    """The attributes of which more than one atom occurs: only these can move."""
    stride: IntArray
    """Shape (n_attributes,). Weight of each attribute's atom in the code; attributes of which one
    atom occurs are left out."""
    value: NDArray[np.int32]
    """Shape (n_points, n_attributes). Atoms that occur, numbered over all attributes."""
    atom_start: IntArray
    """Shape (n_attributes + 1,)."""
    atom: IntArray
    """Shape (n_atoms,). Number of each atom within its attribute."""
    cell: NDArray[np.int32]
    """Shape (n_points,)."""
    signature: NDArray[np.int32]
    """Shape (n_cells, n_trees)."""
    target: IntArray
    """Shape (n_leaves,)."""
    n_rows: int

    @property
    def n_atoms(self) -> int:
        """Atoms of all attributes."""
        return len(self.atom)

    @classmethod
    def of(
        cls,
        atoms: IntArray,
        stride: IntArray,
        cell: IntArray,
        signature: NDArray[np.int32],
        target: IntArray,
        n_rows: int,
    ) -> SearchSpace:
        """Lay out the space.

        ``atoms``, shape (n_points, n_attributes): atom of each attribute; the last attribute is the
        class. ``stride``: shape (n_attributes,). ``cell``, shape (n_points,): column of
        ``signature`` of each point; columns that no point has are dropped.
        """
        code = atoms @ stride
        order = np.argsort(code, kind="stable")
        used, cell = np.unique(cell[order], return_inverse=True)
        value, start, number, varying = [], [0], [], []
        for a in range(atoms.shape[1]):
            column = atoms[order, a]
            occurs = np.bincount(column) > 0
            present = np.flatnonzero(occurs)
            if len(present) > 1:
                # How many smaller ones occur is an atom's number: nothing need be sorted.
                value.append((np.cumsum(occurs) - 1)[column] + start[-1])
                start.append(start[-1] + len(present))
                number.append(present)
                varying.append(a)
        return cls(
            code=code[order],
            origin=order,
            attributes=np.array(varying, dtype=np.int64),
            stride=stride[varying],
            value=np.stack(value, axis=1).astype(np.int32)
            if value
            else np.zeros((len(order), 0), np.int32),
            atom_start=np.array(start),
            atom=np.concatenate(number) if number else np.zeros(0, np.int64),
            cell=cell.ravel().astype(np.int32),
            signature=np.ascontiguousarray(signature[used]),
            target=target,
            n_rows=n_rows,
        )

    @property
    def too_large(self) -> bool:
        """Whether the table of neighbours would not fit."""
        return len(self.code) * self.n_atoms > MAX_NEIGHBOURS

    @cached_property
    def neighbour(self) -> NDArray[np.int32]:
        """The point with one atom set, -1 where it is not possible; (n_points, n_atoms)."""
        out = np.empty((len(self.code), self.n_atoms), dtype=np.int32)
        for a, stride in enumerate(self.stride):
            begin, end = self.atom_start[a : a + 2]
            # Points on a line differ in this attribute alone.
            rest = self.code - self.atom[self.value[:, a]] * stride
            order = np.argsort(rest, kind="stable")
            line = np.empty(len(rest), dtype=np.int64)
            line[order] = np.cumsum(np.diff(rest[order], prepend=rest[order[:1]]) > 0)
            table = np.full((line.max() + 1, end - begin), -1, dtype=np.int32)
            table[line, self.value[:, a] - begin] = np.arange(len(line))
            out[:, begin:end] = table[line]
        return out

    @cached_property
    def packed(self) -> NDArray[np.int32]:
        """The distinct equations of each cell, in as few columns as come of it, -1 for none."""
        return pack(self.signature, self.target)

    @cached_property
    def packed_target(self) -> IntArray:
        """The n of the equations that are packed; 0 for their copies."""
        out = np.zeros_like(self.target)
        packed = self.packed[self.packed >= 0]
        out[packed] = self.target[packed]
        return out

    @cached_property
    def reading_order(self) -> IntArray:
        """Points in the order of their leaves in the first trees."""
        keys = self.signature[self.cell, : min(8, self.signature.shape[1])]
        return np.lexsort(keys.T[::-1]).astype(np.int64)

    def spread(self, w: FloatArray, rng: np.random.Generator) -> IntArray:
        """Draw rows from weights systematically: every leaf of the first tree is met closely."""
        if not self.n_rows:
            return np.zeros(0, dtype=np.int64)
        order = self.reading_order
        edge = np.cumsum(w[order])
        at = (np.arange(self.n_rows) + rng.random()) * (edge[-1] / self.n_rows)
        chosen: IntArray = order[np.minimum(np.searchsorted(edge, at), len(order) - 1)]
        return chosen

    def misfit(self, rows: IntArray) -> int:
        """Sum over all equations of |A m - n|."""
        drawn = np.bincount(self.signature[self.cell[rows]].ravel(), minlength=len(self.target))
        return int(np.abs(drawn - self.target).sum())

    def residual(self, rows: IntArray) -> IntArray:
        """A m - n, for the distinct equations; 0 for the others."""
        equation = self.packed[self.cell[rows]]
        drawn = np.bincount(equation[equation >= 0], minlength=len(self.target)).astype(np.int64)
        return drawn - self.packed_target

    def default_steps(self) -> int:
        """Length of a run that usually meets all counts: it grows with rows times moves."""
        return int(
            np.clip(SCHEDULE.steps_per_move * self.n_rows * self.n_atoms, 200_000, 60_000_000)
        )

    @property
    def can_move(self) -> bool:
        """Whether anything is open that moves of rows can change."""
        return len(self.attributes) > 0 and self.n_rows > 0 and not self.too_large

    def places(self, tilt: FloatArray, atoms: NDArray[np.int16]) -> Places:
        """Lay the points out for a walk; ``tilt`` and ``atoms`` are as there."""
        neighbour = self.neighbour if self.can_move else np.zeros((0, 0), np.int32)
        weight = self.atom * np.repeat(self.stride, np.diff(self.atom_start))
        return Places(self.packed, self.cell, self.value, neighbour, self.code, weight, atoms, tilt)

    def near_weights(
        self, w: FloatArray, steps: int, seed: int, clock: Clock, schedule: Schedule = LOOSE
    ) -> Chain:
        """Draw a dataset near weights that meets the counts: from hot to cold, until it does."""
        rng = np.random.default_rng(seed)
        tilt = np.log(np.maximum(w, 1e-3 * w.sum() / len(w)))
        free = np.zeros((0, self.n_atoms), dtype=np.float32)
        return self._run(self.spread(w, rng), tilt, free, steps, schedule, rng, clock)

    def near_rows(
        self,
        start: IntArray,
        cost: FloatArray,
        steps: int,
        seed: int,
        clock: Clock,
    ) -> Chain:
        """Search for the cheapest rows that meet the counts as well as ``start`` does.

        ``cost``, shape (n_rows, n_atoms): expected distance of each atom, row by row.
        """
        scaled = np.ascontiguousarray(SCHEDULE.counts_per_column * cost, dtype=np.float32)
        rng = np.random.default_rng(seed)
        return self._run(start, np.zeros(len(self.code)), scaled, steps, NEAR, rng, clock)

    def _run(
        self,
        start: IntArray,
        tilt: FloatArray,
        cost: NDArray[np.float32],
        steps: int,
        schedule: Schedule,
        rng: np.random.Generator,
        clock: Clock,
    ) -> Chain:
        rows, row = np.array(start, dtype=np.int64), np.arange(len(cost))[:, None]
        best, residual, log_prior = rows.copy(), self.residual(rows), tilt[rows]
        least = np.array([np.abs(residual).sum(), cost[row, self.value[rows[: len(cost)]]].sum()])
        state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
        places = self.places(tilt, np.zeros((len(self.code), 0), dtype=np.int16))
        for temperature in np.geomspace(schedule.hot, schedule.cold, SCHEDULE.run_stages):
            if clock.stopped or not (len(cost) or least[0]):
                break
            walk(
                -(-steps // SCHEDULE.run_stages), temperature, schedule.swaps, not len(cost), rows,
                log_prior, residual, places, EVEN, _NONE, cost, best, least, state,
            )  # fmt: skip
        return Chain(best, int(least[0]))


def pack(signature: NDArray[np.int32], target: IntArray) -> NDArray[np.int32]:
    """Keep each distinct equation once, and lay trees that share no cell over each other.

    Shallow trees ask the same question many times over; a search that pays for each tree is twice
    as fast on the packed form.
    """
    n_cells, n_trees = signature.shape
    seen: set[bytes] = set()
    columns: list[NDArray[np.int32]] = []
    for t in range(n_trees):
        column = np.full(n_cells, -1, dtype=np.int32)
        for members in equal_entries(signature[:, t]):
            equation = signature[members[0], t]
            key = members.astype(np.int32).tobytes() + target[equation].tobytes()
            if key not in seen:
                seen.add(key)
                column[members] = equation
        columns.append(column)
    out: list[NDArray[np.int32]] = []
    for column in sorted(columns, key=lambda c: -int((c >= 0).sum())):
        taken = column >= 0
        if not taken.any():
            continue
        host = next((c for c in out if not (c[taken] >= 0).any()), None)
        if host is None:
            out.append(column)
        else:
            host[taken] = column[taken]
    return np.ascontiguousarray(np.stack(out, axis=1)) if out else signature[:, :0]
