"""Rows of raw tables from groups of rows: boxes and classes, and values inside boxes."""

from __future__ import annotations

from functools import partial

import numpy as np

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.consensus import cheapest
from treeleak.attacks.loss_sums import sum_kernels, value_kernels
from treeleak.attacks.loss_sums.assign_rows_to_boxes import assign_rows_to_boxes
from treeleak.attacks.loss_sums.layers import Groups
from treeleak.attacks.loss_sums.node_search import ByNodes
from treeleak.attacks.loss_sums.values_in_boxes import values_in_boxes
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.huge import bounded
from treeleak.core.parallel import run_all
from treeleak.evidence import LossSums
from treeleak.evidence.predictions import fitted
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex

_MOST_ROWS = 20_000
"""Most rows. Before the first tree they are one group: choices of its nodes take time that grows
with the square of them, between two looks at the clock, and are counted in 16 bits."""
_SHARE = 0.75
"""Share of the time for the search."""
_LATE = 0.2
"""Seconds after which the search is broken off."""
_LEAST_TREES = 3
"""Trees that must be settled for their groups to say more than counts alone."""
_SURE, _LABEL = 0.99, 0.9
"""Probability that a row lies in its box, and that it is of the class found, at most."""
_CHAINS = 4
"""Chains of draws of values, over all ways to share out rows; each has one at least."""


def raw_rows(
    evidence: LossSums, geometry: Geometry, values: ValueIndex, clock: Clock, seed: int, why: str
) -> Answer | None:
    """Rebuild rows without a list of the cells; None where too few trees are settled.

    ``why``: why cells are not enumerated.
    """
    ensemble, fitting = fitted(geometry.release)
    if (
        len(geometry.release.classes) != 2
        or len(ensemble.base_scores) != 1
        or geometry.schema.rules
        or evidence.n_rows > _MOST_ROWS
        # The number of rows of a class follows from the first tree's steps; each leaf takes one.
        or not fitting.started
        or evidence.rough
    ):
        return None
    clock.untimed(compile_loops)
    search = ByNodes(evidence, geometry, clock.part(_SHARE * clock.left))
    # What lies between two looks at the clock may take long.
    with search.clock.cut_short(_LATE):
        search.found()
    groups = search.best
    if groups.n_trees < min(_LEAST_TREES, len(geometry.release.trees)):
        return None
    clock.report_progress("choosing values", 0.8)
    leaf = _leaves(search)
    label, box, share = _shares(groups, geometry, leaf, search.begin, clock, seed)
    # What the columns' rows say of those that no tree tests.
    share = share[:, values.atom_of] * values.prior(share.sum(axis=0))
    cost = values.expected_cost(share)
    allowed = np.column_stack([groups.box[box], np.eye(2, dtype=bool)[label]])[:, values.atom_of]
    chosen = cheapest(np.where(allowed, cost, np.inf), values.start)
    atoms, sure = values.atom_of[chosen], np.take_along_axis(share, chosen, axis=1)
    sure *= np.append(np.full(len(geometry.parts), _SURE), _LABEL)
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


def compile_loops() -> None:
    """Compile the loops that rebuild rows."""
    sum_kernels.compile_all()
    value_kernels.compile_all()


def _leaves(search: ByNodes) -> IntArray:
    """Say in which leaf (row of A) of each settled tree each box lies."""
    groups = search.best
    parts = np.split(groups.box, search.begin[1:-1], axis=1)
    inside = np.column_stack([inside_tree.argmax(axis=1) for inside_tree in parts])
    return search.geometry.trace_atoms(inside)[:, : groups.n_trees].astype(np.int64)


def _shares(
    groups: Groups, geometry: Geometry, leaf: IntArray, begin: IntArray, clock: Clock, seed: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Say where rows lie, and how likely each has each atom and is of each class.

    ``leaf``, shape (n_boxes, n_trees): those of each box; ``begin``: first atom of each attribute.
    Returns classes, boxes, and an array of shape (n_rows, n_atoms + 2).
    """
    ways = assign_rows_to_boxes(groups, leaf, begin, clock, seed)
    n_chains = max(_CHAINS // len(ways), 1)

    def values(way: int) -> list[FloatArray]:
        if way and clock.stopped:
            return []
        label, box = ways[way]
        atom_share = values_in_boxes(
            geometry, leaf[box], label, groups.box[box], clock, (seed, way), n_chains
        )
        return [np.column_stack([atom_share, np.eye(2)[label]])]

    every = run_all([partial(values, way) for way in range(len(ways))])
    return *ways[0], np.mean([share for shares in every for share in shares], axis=0)
