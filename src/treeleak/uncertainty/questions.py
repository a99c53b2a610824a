"""How far a probabilistic dataset is from a table, and whether it allows the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.release.release import class_numbers

if TYPE_CHECKING:
    from treeleak.uncertainty.dataset import ProbabilisticDataset

# Costs are rounded to whole units of this.
UNIT = 1e-9
MOST_PAIRS = 10_000_000


def contains(data: ProbabilisticDataset, X: pd.DataFrame, y: Sequence[Any] | None = None) -> bool:
    """Say whether a table is one of the worlds, in any order of its rows.

    Parameters
    ----------
    X : DataFrame
    y : sequence, optional
        Labels; not looked at, if not given.

    Raises
    ------
    BadInput
        Naming the column that is missing or cannot be read.
    NotCovered
        If there are too many pairs of different rows and groups.
    """
    return len(X) == data.n_rows and distance_to_world(data, X, y) == 0


def distance_to_world(
    data: ProbabilisticDataset, X: pd.DataFrame, y: Sequence[Any] | None = None
) -> float:
    """Distance of a table to the nearest world.

    The least share of values that must change before the table is a world; with labels, these
    are values as well. A row too many or too few counts as one all of whose values change.
    Behind noise, the training rows need not be a world: this says how far they are from one
    (Ferry 2024, appendix C).

    Raises
    ------
    BadInput
        Naming the column that is missing or cannot be read.
    """
    if not (len(X) or data.n_rows):
        return 0.0
    atoms, label, rows = _points_of(data, X, y)
    # A group without rows may have no room for any.
    groups = data.by_class()
    pairs = len(rows) + 1, len(groups.names) + 1
    if math.prod(pairs) > MOST_PAIRS:
        raise NotCovered(
            f"{pairs[0]:,} x {pairs[1]:,} groups of rows are too many to align "
            f"({MOST_PAIRS:,} pairs are covered)"
        )
    d = data.n_attributes + (y is not None)
    changes = np.array(
        [_changes(groups, g, atoms) for g in range(len(groups.names))], dtype=float
    ).reshape(-1, len(atoms)).T  # fmt: skip
    if y is not None:
        majority = groups.counts.argmax(axis=1)
        changes += (label[:, None] != majority) & (majority != len(data.classes))
    short = data.n_rows - len(X)
    cost, theirs = changes, groups.support
    if short > 0:
        cost, rows = np.vstack([cost, np.full((1, len(theirs)), d)]), np.append(rows, short)
    if short < 0:
        cost, theirs = np.hstack([cost, np.full((len(rows), 1), d)]), np.append(theirs, -short)
    i, j, n = align(cost, rows, theirs)
    return float(cost[i, j] @ n) / (d * int(rows.sum()))


def _points_of(
    data: ProbabilisticDataset, X: pd.DataFrame, y: Sequence[Any] | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Different rows of a table as atoms, their class numbers, and how often each stands."""
    label = np.zeros(len(X), dtype=np.int64) if y is None else class_numbers(data.classes, y)
    if len(label) != len(X):
        raise BadInput(f"{len(X)} rows have {len(label)} labels")
    rows = np.column_stack([data.space.locate(X), label])
    different, n = np.unique(rows, axis=0, return_counts=True)
    return different[:, :-1], different[:, -1], n


def _changes(data: ProbabilisticDataset, group: int, atoms: IntArray) -> IntArray:
    """How many attributes of each row (atoms) must change to be one of a group."""
    if not data.boxed[group]:
        matches, taking = data.region(group)
        return np.array([matches.changes_to(row, taking) for row in atoms], dtype=np.int64)
    unchanged = np.zeros(len(atoms), dtype=np.int64)
    for k, (sets, at) in enumerate(zip(data.sets, data.boxes[group], strict=True)):
        unchanged += sets[at][atoms[:, k]] & (atoms[:, k] >= 0)
    return data.n_attributes - unchanged


def align(
    cost: FloatArray, mine: IntArray, theirs: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Pair the rows of two datasets at the least total cost.

    Rows of a group are alike, so this is the Hungarian method on groups.

    Parameters
    ----------
    cost : float array, shape (n_mine, n_theirs)
        Of pairing a row of one group with a row of the other.
    mine, theirs : int array
        Rows in each group; both have the same sum.

    Returns
    -------
    i, j, n : int array
        Pairs of groups, and how many rows they share.
    """
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    tails, heads = (x.ravel() for x in np.indices(cost.shape))
    whole = np.rint((cost - cost.min(initial=0.0)) / UNIT).astype(np.int64).ravel()
    flow = SimpleMinCostFlow()
    most = np.minimum.outer(mine, theirs).ravel()
    arcs = flow.add_arcs_with_capacity_and_unit_cost(tails, len(mine) + heads, most, whole)
    flow.set_nodes_supplies(np.arange(len(mine) + len(theirs)), np.concatenate([mine, -theirs]))
    status = flow.solve()
    if status != flow.OPTIMAL:
        raise AssertionError(f"no alignment of {mine.sum()} with {theirs.sum()} rows: {status}")
    n = np.asarray(flow.flows(arcs), dtype=np.int64)
    used = np.flatnonzero(n)
    return used // cost.shape[1], used % cost.shape[1], n[used]
