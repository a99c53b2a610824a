"""Rows of raw tables from groups of rows: classes from what leaves count, values inside boxes."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, hstack, identity

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.consensus import cheapest
from treeleak.attacks.real_valued import sum_kernels, value_kernels
from treeleak.attacks.real_valued.by_nodes import ByNodes
from treeleak.attacks.real_valued.layers import Groups
from treeleak.attacks.real_valued.values_in_boxes import values_in_boxes
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.evidence import LossSums
from treeleak.partition import Geometry
from treeleak.partition.values import Values
from treeleak.schema import Numeric

_SHARE = 0.6
"""Share of the time for the search."""
_LATE = 0.2
"""Seconds after which the search is broken off."""
_LEAST_TREES = 3
"""Trees that must be settled for their groups to say more than counts alone."""
_SURE, _LABEL = 0.99, 0.9
"""Probability that a row lies in its box, and that it is of the class found, at most."""
_SECONDS = 10.0
"""Most time for classes."""


def raw_rows(
    evidence: LossSums, geometry: Geometry, values: Values, clock: Clock, seed: int, why: str
) -> Answer | None:
    """Rebuild rows without a list of the cells; None where too few trees are settled.

    ``why``: why cells are not enumerated.
    """
    if len(geometry.release.classes) != 2 or geometry.schema.rules:
        return None
    begin = clock.seconds
    compile_loops()  # once for all, which is not held against the time
    clock.forgive(clock.seconds - begin)
    search = ByNodes(evidence, geometry, clock.part(_SHARE * clock.left))
    # What lies between two looks at the clock may take long.
    with search.clock.cut_short(_LATE):
        search.found()
    groups = search.best
    if groups.n_trees < min(_LEAST_TREES, len(geometry.release.trees)):
        return None
    clock.tell("choosing values", 0.8)
    row = np.repeat(np.arange(len(groups.rows)), groups.rows)
    ones = _ones(search, groups, clock)
    # The first so many rows of a group are of the second class.
    place = np.arange(len(row)) - np.repeat(np.cumsum(groups.rows) - groups.rows, groups.rows)
    label = (place < ones[row]).astype(np.int64)
    box, n_boxes = _boxes(search, row, place)
    share = np.column_stack([_shares(search, box, label, clock, seed), np.eye(2)[label]])
    alike = np.bincount(values.atom_of)[values.atom_of]
    cost = values.expected_cost(share[:, values.atom_of] / alike)
    own = cheapest(cost, values.start)
    atoms = values.atom_of[own]
    sure = np.take_along_axis(share, atoms, axis=1)
    sure *= np.append(np.full(len(geometry.parts), _SURE), _LABEL) / n_boxes[:, None]
    leaf = geometry.trace_atoms((atoms - values.atom_start[:-1])[:, :-1]).astype(np.int64)
    missed = sum(int((~told.met(leaf, label)).sum()) for told in evidence.statements())
    rows = Rows(own, sure, np.zeros(len(row), dtype=bool), False, missed)
    clock.tell("choosing values", 1.0, missed)
    return Answer(
        "unknown" if missed else "feasible", values, (rows,),
        numbers={
            "grid_points": geometry.n_points,
            "trees_settled": groups.n_trees,
            "groups": len(groups.rows),
        },
        expected_distance=_distance(values, own, cost),
        cells=f"generated: {why}",
    )  # fmt: skip


def compile_loops() -> None:
    """Compile the loops that rebuild rows."""
    sum_kernels.compile_all()
    value_kernels.compile_all()


def _boxes(search: ByNodes, row: IntArray, place: IntArray) -> tuple[BoolArray, IntArray]:
    """Choose a box for each row of a group, and say how many there are.

    ``row`` and ``place``: group of each row, and its number in it.
    """
    groups = search.best
    n_boxes = np.bincount(groups.group, minlength=len(groups.rows))[row]
    first = np.searchsorted(groups.group, np.arange(len(groups.rows)))
    # Rows of groups with several boxes take turns.
    return groups.box[first[row] + place % n_boxes], n_boxes


def _shares(
    search: ByNodes, box: BoolArray, label: IntArray, clock: Clock, seed: int
) -> FloatArray:
    """Say how likely each row has each atom, shape (n_rows, n_atoms)."""
    parts = np.split(box, search.begin[1:-1], axis=1)
    inside = np.column_stack([own.argmax(axis=1) for own in parts])
    leaf = search.geometry.trace_atoms(inside)[:, : search.best.n_trees].astype(np.int64)
    return values_in_boxes(search.geometry, leaf, label, box, clock, seed)


def _distance(values: Values, own: IntArray, cost: FloatArray) -> float:
    """Say how far values are from those of the training set, per row and column.

    ``own``: their numbers. ``cost``, shape (n_rows, n_values): how far each value is from those
    that the row may have.
    """
    width = sum(len(part.columns) for part in values.parts)
    inside = np.zeros(values.n_atoms)
    for part, begin in zip(values.parts, values.atom_start[:-2].tolist(), strict=True):
        for k, atom in enumerate(part.atoms):
            if atom.interval and isinstance(part.attribute, Numeric):
                low, high = part.attribute.bounds
                # From the middle of an interval, its values are a quarter of it away.
                inside[begin + k] = (atom.interval[1] - atom.interval[0]) / (high - low) / 4
    inside = np.nan_to_num(inside, posinf=0.0)
    far = np.take_along_axis(cost, own, axis=1) + inside[values.atom_of[own]]
    return float(far[:, :-1].sum() / (len(own) * width))


def _ones(search: ByNodes, groups: Groups, clock: Clock) -> IntArray:
    """Find how many rows of each group are of the second class, so that all leaves hold theirs."""
    n, leaf = len(groups.rows), groups.leaf[:, : groups.n_trees]
    told = search.ones(groups)
    used = np.unique(leaf)
    at = np.searchsorted(used, leaf)
    A = csr_array(
        (np.ones(at.size), (at.ravel(), np.repeat(np.arange(n), at.shape[1]))), shape=(len(used), n)
    )
    # What cannot be met is missed by as little as can be.
    both = hstack([A, identity(len(used)), -identity(len(used))], format="csr")
    cost = np.append(np.zeros(n), np.ones(2 * len(used)))
    high = np.append(groups.rows, np.full(2 * len(used), search.evidence.n_rows))
    found = milp(
        cost, integrality=np.append(np.ones(n), np.zeros(2 * len(used))),
        bounds=Bounds(np.zeros(len(high)), high),
        constraints=LinearConstraint(both, told[used], told[used]),
        options={"time_limit": max(min(clock.left, _SECONDS), 1.0)},
    )  # fmt: skip
    if found.x is None:
        return np.rint(groups.rows * told[leaf[:, 0]] / _held(groups)).astype(np.int64)
    return np.rint(found.x[:n]).astype(np.int64)


def _held(groups: Groups) -> FloatArray:
    """Rows in each group's leaf of the first tree."""
    own = groups.leaf[:, 0]
    return np.asarray(np.bincount(own, groups.rows)[own], dtype=float)
