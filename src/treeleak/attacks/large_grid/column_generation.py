"""The linear program over cells that are generated as they are needed, and what it proves.

The restricted master looks for the histogram over the cells found so far that misses the counts by
the least, fractions of rows allowed. Its duals are weights of leaves; a point of the grid whose
leaves weigh more than the rows cost is a cell that helps, and pricing finds it or proves that there
is none. Then the least misfit over the cells found is the least over all cells: where it is above
zero, no dataset under the schema meets the counts, and no cell had to be listed to prove it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt.python import mathopt

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass
from treeleak.partition.boxes import Boxes
from treeleak.partition.pricing import best_point, best_points

_TOLERANCE = 1e-6
"""A misfit of the whole program, or a gain per row, that counts as none."""
_CLIMBS, _COLUMNS = 100, 50
"""Climbs per round and class, and cells that are added after them."""
_ENOUGH = 20
"""Cells after which branch and bound stops; short of them, it proves that there are no others."""


# The cuts are added to a basis that stays dual feasible.
_PARAMETERS = mathopt.SolveParameters(
    threads=1, lp_algorithm=mathopt.LPAlgorithm.DUAL_SIMPLEX, presolve=mathopt.Emphasis.OFF
)


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """The least misfit over the cells found, and what is proved about all cells."""

    atoms: NDArray[np.int32]
    """Shape (n_cells, n_attributes). A point in each cell found."""
    label: IntArray
    """Shape (n_cells,). The column of ``open_leaves`` of each: its class."""
    m: FloatArray
    """Shape (n_cells,). Rows in each cell."""
    residual: FloatArray
    """Shape (n_leaves,). A m - n."""
    value: float
    lower: float
    """Sum of |A m - n|, and what no histogram over all cells falls below."""
    proved: bool
    """Whether no further cell lowers the misfit."""

    @property
    def contradiction(self) -> bool:
        """Whether it is proved that no dataset under the schema meets the counts."""
        return self.lower > _contradictory(self.residual)

    @property
    def worst(self) -> int:
        """The leaf (row of A) that misses its count by the most."""
        return int(np.abs(self.residual).argmax())


def _contradictory(leaves: NDArray[Any]) -> float:
    """Misfit that rounding does not explain."""
    return _TOLERANCE * max(len(leaves), 1)


def fixed_point(
    boxes: Boxes,
    target: IntArray,
    open_leaves: BoolArray,
    clock: Clock,
    seed: int,
    *,
    settle: bool = True,
) -> FixedPoint:
    """Generate cells until none lowers the misfit of the counts, or the clock stops.

    Parameters
    ----------
    target : int array, shape (n_leaves,)
        Rows in each leaf.
    open_leaves : bool array, shape (n_leaves, n_classes)
        Whether a row of the class may lie in the leaf: of one class, where each has counts of its
        own; of all, where leaves count rows of any class.
    settle : bool
        Whether to go on once it is proved that the counts contradict each other.

    Notes
    -----
    Holds one column per cell found, with one entry per tree: 16 bytes each, and again as much in
    the solver.
    """
    master = _Master(boxes, target, open_leaves)
    rng = np.random.default_rng(seed)
    lower, proved = 0.0, False
    while True:
        weight = master.solve()
        # Fractions of rows that meet every count: nothing is below zero.
        proved = master.value <= _TOLERANCE
        clock.tell(
            f"generating cells: {len(master.label):,}, misfit {master.value:.4g}, at least "
            f"{lower:.4g}",
            lower / master.value if master.value > _TOLERANCE else 1.0,
            math.ceil(master.value - _TOLERANCE),
        )
        if proved or clock.stopped:
            break
        if master.climb(weight, int(rng.integers(2**31))):
            continue
        added, most, sure = 0, 0.0, True
        for c in range(open_leaves.shape[1]):
            found = best_point(
                boxes, master.closed(weight, c), clock, master.fee + _TOLERANCE,
                seed=int(rng.integers(2**31)), enough=_ENOUGH,
            )  # fmt: skip
            most, sure = max(most, found.upper), sure and found.proved
            if found.value > master.fee + _TOLERANCE:
                added += master.add(np.append(found.others, found.atoms[None], axis=0), c)
        # N rows, none of which earns more than ``most``.
        lower = max(lower, float(weight @ target) - master.n_rows * most)
        if not added:
            proved = sure
            break
        if not settle and lower > _contradictory(target):
            break
    return FixedPoint(
        atoms=np.concatenate(master.atoms),
        label=np.array(master.label, dtype=np.int64),
        m=master.m,
        residual=master.residual,
        value=master.value,
        lower=lower,
        proved=proved,
    )


class _Master:
    """The program over the cells found so far, in its dual form: a cell is a cut.

    Leaves have weights between -1 and 1. The sum of n times these weights, less what the rows cost,
    is to be large, and no cell may weigh more than a row costs. What a cut is worth is m.
    Cuts are added: each solve starts from the last one's basis.
    """

    def __init__(self, boxes: Boxes, target: IntArray, open_leaves: BoolArray) -> None:
        self.boxes, self.target, self.open_leaves = boxes, target, open_leaves
        geometry = boxes.geometry
        self.n_rows = int(target[: geometry.leaf_start[1]].sum())
        self.label: list[int] = []
        self.atoms = [np.zeros((0, len(geometry.radix)), dtype=np.int32)]
        self._seen: set[tuple[bytes, int]] = set()
        model = mathopt.Model()
        self._counted = np.flatnonzero(target > 0)
        self._fee = model.add_variable(lb=0.0)
        self._weight = {int(v): model.add_variable(lb=-1.0, ub=1.0) for v in self._counted}
        self._weights = list(self._weight.values())
        model.maximize_linear_objective(
            mathopt.LinearSum(int(target[v]) * w for v, w in self._weight.items())
            - self.n_rows * self._fee
        )
        self._model = model
        self._cuts: list[Any] = []
        self._solver = mathopt.IncrementalSolver(model, mathopt.SolverType.GLOP)
        self.residual = -target.astype(float)

    def add(self, atoms: NDArray[np.int32], c: int) -> int:
        """Add the cells of these points that are open for class c and not held yet; how many."""
        signature = self.boxes.geometry.trace_atoms(atoms)
        new = []
        for k in np.flatnonzero(self.open_leaves[signature, c].all(axis=1)):
            key = signature[k].tobytes(), c
            if key not in self._seen:
                self._seen.add(key)
                new.append(k)
                cut = self._model.add_linear_constraint(ub=0.0)
                cut.set_coefficient(self._fee, -1.0)
                for v in signature[k].tolist():
                    cut.set_coefficient(self._weight[v], 1.0)
                self._cuts.append(cut)
        self.atoms.append(np.ascontiguousarray(atoms[new], dtype=np.int32))
        self.label += [c] * len(new)
        return len(new)

    def solve(self) -> FloatArray:
        """Solve; the weight of every leaf."""
        found = self._solver.solve(params=_PARAMETERS)
        weight = np.zeros(len(self.target))
        weight[self._counted] = found.variable_values(self._weights)
        self.fee = float(found.variable_values(self._fee))
        self.m = np.array(found.dual_values(self._cuts), dtype=float)
        self.residual[self._counted] = np.negative(found.reduced_costs(self._weights))
        self.value = float(found.objective_value())
        return np.clip(weight, -1.0, 1.0)

    def closed(self, weight: FloatArray, c: int) -> FloatArray:
        """Duals, with the leaves closed that hold no row of class c."""
        return np.where(self.open_leaves[:, c], weight, -np.inf)

    def climb(self, weight: FloatArray, seed: int) -> int:
        """Add cells that lower the misfit, from climbs; how many."""
        added = 0
        everything, label = np.concatenate(self.atoms), np.array(self.label)
        for c in range(self.open_leaves.shape[1]):
            # Cells in use are a good start: a better one differs from them in little.
            used = everything[(label == c) & (self.m > _TOLERANCE)]
            starts = used[np.random.default_rng(seed).permutation(len(used))]
            points, values = best_points(
                self.boxes, self.closed(weight, c), _CLIMBS, seed + c, starts
            )
            gains = values > self.fee + _TOLERANCE
            added += self.add(points[gains][:_COLUMNS], c)
        return added
