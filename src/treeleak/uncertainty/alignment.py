"""Which row of one dataset is which row of another: a flow of least cost between groups of rows."""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import NotCovered

# Costs are rounded to whole units of this.
UNIT = 1e-9
MOST_PAIRS = 10_000_000


def check_pairs(n_mine: int, n_theirs: int, most: int = MOST_PAIRS) -> None:
    """Refuse to pair so many groups of rows with so many others, before any memory is taken."""
    if n_mine * n_theirs > most:
        raise NotCovered(
            f"{n_mine:,} x {n_theirs:,} groups of rows are too many to align "
            f"({most:,} pairs are covered)"
        )


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

    Raises
    ------
    NotCovered
        If there are too many pairs of groups.
    """
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    check_pairs(*cost.shape)
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


def fits(i: IntArray, j: IntArray, mine: IntArray, theirs: IntArray) -> bool:
    """Say whether all rows can be paired, each in a pair of groups (i, j) that may be one."""
    from ortools.graph.python.max_flow import SimpleMaxFlow

    source, sink = len(mine) + len(theirs), len(mine) + len(theirs) + 1
    flow = SimpleMaxFlow()
    tails = np.concatenate([np.full(len(mine), source), i, len(mine) + np.arange(len(theirs))])
    heads = np.concatenate([np.arange(len(mine)), len(mine) + j, np.full(len(theirs), sink)])
    most = np.concatenate([mine, np.minimum(mine[i], theirs[j]), theirs])
    flow.add_arcs_with_capacity(tails, heads, most)
    if flow.solve(source, sink) != flow.OPTIMAL:
        return False
    return bool(flow.optimal_flow() == mine.sum() == theirs.sum())
