"""Rows of raw tables from groups of rows: boxes and classes, and values inside boxes.

A group may lie in several boxes: no sum of the trees tells them apart. Counts of leaves rule out
some ways to share out its rows, and mostly leave others. Of these, the likeliest is the answer.
Inside its box, a row has each value as often as it is frequent in its column.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_diag, csr_array, hstack, identity, vstack

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.consensus import cheapest
from treeleak.attacks.loss_sums.layers import Groups
from treeleak.attacks.loss_sums.node_search import ByNodes
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.attacks.loss_sums.sum_kernels import compile_all
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass
from treeleak.core.text import bounded
from treeleak.evidence import LossSums
from treeleak.evidence.predictions import fitted
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex


def raw_rows(
    evidence: LossSums, geometry: Geometry, values: ValueIndex, clock: Clock, why: str
) -> Answer | None:
    """Rebuild rows without a list of the cells; None where too few trees are settled.

    ``why``: why cells are not enumerated.
    """
    if not followed(evidence, geometry):
        return None
    clock.untimed(compile_all)
    search = ByNodes(evidence, geometry, clock.part(SCHEDULE.raw_search_share * clock.left))
    # What lies between two looks at the clock may take long.
    with search.clock.cut_short(SCHEDULE.raw_late):
        search.found()
    groups = search.best
    if groups.n_trees < min(SCHEDULE.raw_trees, len(geometry.release.trees)):
        return None
    clock.report_progress("choosing values", 0.8)
    leaf = _leaves(search)
    of_box, likely = inside_boxes(groups, search.begin)
    label, box = assign_rows_to_boxes(groups, leaf, likely, clock)
    share = np.column_stack([of_box[box], np.eye(2)[label]])
    # What the columns' rows say of those that no tree tests.
    share = share[:, values.atom_of] * values.prior(share.sum(axis=0))
    cost = values.expected_cost(share)
    allowed = np.column_stack([groups.box[box], np.eye(2, dtype=bool)[label]])[:, values.atom_of]
    chosen = cheapest(np.where(allowed, cost, np.inf), values.start)
    atoms, sure = values.atom_of[chosen], np.take_along_axis(share, chosen, axis=1)
    sure *= np.append(np.full(len(geometry.parts), SCHEDULE.box_sure), SCHEDULE.label_sure)
    leaf = geometry.trace_atoms((atoms - values.atom_start[:-1])[:, :-1]).astype(np.int64)
    missed = sum(
        int((~constraints.met(leaf, label)).sum()) for constraints in evidence.statements()
    )
    rows = Rows(chosen, sure, np.zeros(len(chosen), dtype=bool), False, missed)
    clock.report_progress("choosing values", 1.0, missed)
    return Answer(
        "unknown" if missed else "feasible", values, (rows,),
        numbers={
            "grid_points": bounded(geometry.n_points),
            "trees_settled": groups.n_trees,
            "groups": len(groups.rows),
        },
        expected_distance=values.mean_cost(chosen, cost),
        cells=f"generated: {why}",
    )  # fmt: skip


def followed(evidence: LossSums, geometry: Geometry) -> bool:
    """Whether rows can be followed through the trees, node by node."""
    ensemble, fitting = fitted(geometry.release)
    return (
        len(geometry.release.classes) == 2
        and len(ensemble.base_scores) == 1
        and not geometry.schema.rules
        and evidence.n_rows <= SCHEDULE.raw_rows
        # The number of rows of a class follows from the first tree's steps; each leaf takes one.
        and fitting.started
        and fitting.plain
        and not evidence.rough
    )


def _leaves(search: ByNodes) -> IntArray:
    """Say in which leaf (row of A) of each settled tree each box lies."""
    groups = search.best
    parts = np.split(groups.box, search.begin[1:-1], axis=1)
    inside = np.column_stack([inside_tree.argmax(axis=1) for inside_tree in parts])
    return search.geometry.trace_atoms(inside)[:, : groups.n_trees].astype(np.int64)


def assign_rows_to_boxes(
    groups: Groups, leaf: IntArray, likely: FloatArray, clock: Clock
) -> tuple[IntArray, IntArray]:
    """Share out rows over boxes and classes in the likeliest way; returns classes and boxes.

    ``leaf``, shape (n_boxes, n_trees): leaves of each box. ``likely``, shape (n_boxes,): how likely
    a row is to lie in each, a logarithm.
    """
    found = _Program.of(groups, leaf).likeliest(likely, min(clock.left, SCHEDULE.sharing_seconds))
    held = _in_turns(groups, leaf) if found is None else found
    label, box = np.divmod(np.repeat(np.arange(held.size), held.ravel()), held.shape[1])
    order = np.lexsort((label, box))
    return label[order], box[order]


def inside_boxes(groups: Groups, begin: IntArray) -> tuple[FloatArray, FloatArray]:
    """Say how likely a row of each box has each atom, and how likely it is to lie in the box.

    Attributes are taken one by one, and each atom for as frequent as it is where groups lie evenly
    in their boxes, and one row more over all atoms. ``begin``: first atom of each attribute.
    Returns shares, shape (n_boxes, n_atoms), and logarithms, shape (n_boxes,).
    """
    rows, size = (groups.rows / np.bincount(groups.group))[groups.group], np.diff(begin)

    def added(of_atoms: FloatArray) -> FloatArray:
        return np.add.reduceat(of_atoms, begin[:-1], axis=1)

    even = groups.box / np.repeat(added(groups.box.astype(float)), size, axis=1)
    frequent = rows @ even + np.repeat(1.0 / size, size)
    weight = groups.box * frequent
    inside = added(weight)
    likely = np.log(inside / added(frequent[None])).sum(axis=1)
    return weight / np.repeat(inside, size, axis=1), likely


@dataclass(frozen=True, eq=False)
class _Program:
    """The integer program of all ways in which leaves hold what they count.

    Of each box the rows of either class; then of each count by how much it is missed, either way.
    """

    n_boxes: int
    high: FloatArray
    """Shape (n_variables,). Upper bounds."""
    constraint: LinearConstraint

    @classmethod
    def of(cls, groups: Groups, leaf: IntArray) -> _Program:
        (n, n_trees), (rows, ones) = leaf.shape, groups.held
        counted, classed = ~np.isnan(rows), ~np.isnan(ones)
        box = np.repeat(np.arange(n), n_trees)
        at = csr_array((np.ones(leaf.size), (leaf.ravel(), box)), shape=(len(rows), n))
        of = csr_array((np.ones(n), (groups.group, np.arange(n))), shape=(len(groups.rows), n))
        every = hstack([at[counted], at[counted]])
        sums = vstack([every, block_diag([csr_array((0, n)), at[classed]])])
        target = np.append(rows[counted], ones[classed])
        slack = identity(len(target))
        both = vstack([
            hstack([sums, slack, -slack]),
            hstack([of, of, csr_array((len(groups.rows), 2 * len(target)))]),
        ], format="csr")  # fmt: skip
        most = groups.rows[groups.group]
        high = np.concatenate([most, most, np.full(2 * len(target), groups.rows.sum())])
        wanted = np.append(target, groups.rows)
        return cls(n, high, LinearConstraint(both, wanted, wanted))

    def likeliest(self, likely: FloatArray, seconds: float) -> IntArray | None:
        """Find the way with the greatest sum of ``likely``, of shape (n_boxes,), over rows.

        What cannot be met is missed by as little as can be. Returns how many rows of each class
        boxes hold, shape (2, n_boxes); None if there was too little time.
        """
        n = 2 * self.n_boxes
        whole = (np.arange(len(self.high)) < n).astype(np.int64)
        cost = np.full(len(self.high), SCHEDULE.missing_row_weight)
        cost[:n] = np.tile(-likely, 2)
        found = milp(
            cost, integrality=whole, bounds=Bounds(np.zeros(len(cost)), self.high),
            constraints=self.constraint, options={"time_limit": max(seconds, 1.0)},
        )  # fmt: skip
        return None if found.x is None else np.rint(found.x[:n]).astype(np.int64).reshape(2, -1)


def _in_turns(groups: Groups, leaf: IntArray) -> IntArray:
    """Share out rows over boxes evenly, and classes as in the leaves of the first tree."""
    n_boxes = np.bincount(groups.group)[groups.group]
    place = np.arange(len(leaf)) - np.searchsorted(groups.group, groups.group)
    held = (groups.rows[groups.group] + n_boxes - 1 - place) // n_boxes
    rows, ones = groups.held[:, leaf[:, 0]]
    of_class = np.rint(np.nan_to_num(held * ones / np.maximum(rows, 1))).astype(np.int64)
    return np.array([held - of_class, of_class])
