"""The order in which scikit-learn's trees look at columns, replayed for a proposed table.

In each node, the splitter ``best`` (``node_split_best`` in ``sklearn/tree/_splitter.pyx``) draws
columns one after the other, without replacement, and takes the first of those with the greatest
gain. It draws no column again of which it knows that all rows of the node have one value, and
forgets none of these further down. So how many numbers a node draws, and which columns they mean,
depends on the rows: of a wrong table, the chosen column is often not the first of several that part
the rows of a node alike, and from there on nothing fits.

Columns hold 0 or 1 here. All nodes of all trees that looked for a cut are numbered through.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.compiled import njit

LEAF = -1
_RANGE = np.uint32(2**31)
_NEAR, _ROUNDED = 1e-9, 1e-12
"""Gains are equal that differ by less than this share of them, and of what they are differences
of."""


class Splits(NamedTuple):
    """Nodes that looked for a cut, and what they hold."""

    start: IntArray
    """Shape (n_trees + 1,). Nodes of tree t are start[t] to start[t + 1] - 1, in the order in which
    they were split."""
    stream: IntArray
    """Shape (n_trees,). Number with which the draws of each tree begin."""
    parent: IntArray
    """Shape (n_nodes,). The node above; -1 for a root."""
    column: IntArray
    """Shape (n_nodes,). Column that was taken; ``LEAF`` where there was none."""
    most: int
    """Columns that are looked at, if one of them parts the rows."""
    weight: FloatArray
    """Shape (n_nodes,). Draws in each node."""
    total: FloatArray
    """Shape (n_nodes, n_targets). Their targets added up."""
    ones: FloatArray
    """Shape (n_nodes, n_columns). Draws with a 1 in each column."""
    sums: FloatArray
    """Shape (n_nodes, n_columns, n_targets). Their targets added up."""


class Paths(NamedTuple):
    """In which nodes rows are."""

    start: IntArray
    """Shape (n_rows + 1,). Entries of row i below are start[i] to start[i + 1] - 1."""
    node: IntArray
    tree: IntArray
    times: FloatArray
    """Shape (n_entries,). How often the tree drew the row."""


class Costs(NamedTuple):
    """How improbable it is what a node took (minus the log of the chance)."""

    beaten: float
    """A column that was looked at gains more, or it never looked at the one that it took."""
    later: float
    """A column that parts the rows as well, the same ones to the left, was looked at before."""
    other_later: float
    """The same of a column that gains as much another way, whose gain may be rounded up or down
    ..."""
    other_first: float
    """... and where such a column was looked at afterwards."""


@njit()
def _next(state: Any) -> Any:
    """Give the next number of ``our_rand_r`` (``sklearn/utils/_random.pxd``), before the modulo."""
    if state == np.uint32(0):
        state = np.uint32(1)
    state ^= np.uint32(state << np.uint32(13))
    state ^= np.uint32(state >> np.uint32(17))
    state ^= np.uint32(state << np.uint32(5))
    return state


@njit()
def _gain(v: int, c: int, splits: Splits) -> float:
    """What a column gains in a node, up to a factor."""
    ones, weight, found = splits.ones[v, c], splits.weight[v], 0.0
    for k in range(splits.total.shape[1]):
        apart = splits.sums[v, c, k] - splits.total[v, k] * ones / weight
        found += apart * apart
    return float(found * weight / (ones * (weight - ones)))


@njit()
def _same_side(v: int, c: int, d: int, splits: Splits) -> bool:
    """Whether two columns that gain the same have their ones in the same rows.

    If not, they part these rows the other way round, or others.
    """
    ones, weight, along = splits.ones[v, c], splits.weight[v], 0.0
    for k in range(splits.total.shape[1]):
        expected = splits.total[v, k] * ones / weight
        along += (splits.sums[v, c, k] - expected) * (splits.sums[v, d, k] - expected)
    return bool(ones == splits.ones[v, d] and along > 0.0)


@njit()
def _cost(v: int, looked: Any, n_looked: int, splits: Splits, costs: Costs) -> float:
    """How improbable the column is that a node took of those it looked at, in order."""
    taken = splits.column[v]
    if taken < 0:
        return costs.beaten if n_looked > 0 else 0.0
    weight, own = splits.weight[v], splits.ones[v, taken]
    if own == 0.0 or own == weight:
        return costs.beaten
    size = 0.0
    for k in range(splits.total.shape[1]):
        size += splits.total[v, k] * splits.total[v, k]
    best = _gain(v, taken, splits)
    near = _NEAR * best + _ROUNDED * (size / weight + best)
    seen = later = other = other_before = False
    for i in range(n_looked):
        c = looked[i]
        if c == taken:
            seen = True
            continue
        ahead = _gain(v, c, splits) - best
        if ahead > near:
            return costs.beaten
        if ahead > -near:
            if _same_side(v, c, taken, splits):
                later |= not seen
            else:
                other = True
                other_before |= not seen
    if not seen:
        return costs.beaten
    found = costs.later if later else 0.0
    if other:
        found += costs.other_later if other_before else costs.other_first
    return found


@njit()
def tree_cost(t: int, splits: Splits, costs: Costs) -> float:
    """How improbable the columns are that the nodes of a tree took, given the rows in them."""
    n_columns = splits.ones.shape[1]
    columns, constant = np.arange(n_columns), np.empty(n_columns, dtype=np.int64)
    looked, first = np.empty(n_columns, dtype=np.int64), splits.start[t]
    known = np.zeros(splits.start[t + 1] - first, dtype=np.int64)
    state, found = np.uint32(splits.stream[t]), 0.0
    for v in range(first, splits.start[t + 1]):
        above, n_looked, end, drawn, new = 0, 0, n_columns, 0, 0
        if splits.parent[v] >= 0:
            above = known[splits.parent[v] - first]
        # As in scikit-learn: columns[:drawn] are known constants drawn here, columns[above:
        # above + new] those that turned out to be constant, and columns[end:] have been looked at.
        while end > above + new and (n_looked < splits.most - drawn - new or n_looked == 0):
            state = _next(state)
            at = drawn + np.int64(state % _RANGE) % (end - new - drawn)
            if at < above:
                columns[drawn], columns[at] = columns[at], columns[drawn]
                drawn += 1
                continue
            at += new
            c = columns[at]
            if splits.ones[v, c] == 0.0 or splits.ones[v, c] == splits.weight[v]:
                columns[at], columns[above + new] = columns[above + new], columns[at]
                new += 1
                continue
            end -= 1
            columns[end], columns[at] = columns[at], columns[end]
            looked[n_looked] = c
            n_looked += 1
        for i in range(above):
            columns[i] = constant[i]
        for i in range(above, above + new):
            constant[i] = columns[i]
        known[v - first] = above + new
        found += _cost(v, looked, n_looked, splits, costs)
    return found


@njit()
def all_costs(splits: Splits, costs: Costs) -> Any:
    """Give the cost of each tree, shape (n_trees,)."""
    out = np.zeros(len(splits.stream))
    for t in range(len(out)):
        out[t] = tree_cost(t, splits, costs)
    return out


@njit()
def enter(rows: Any, bits: Any, sign: float, y: Any, splits: Splits, paths: Paths) -> None:
    """Add the ones of some rows to all their nodes, or take them out again.

    ``bits``, shape (n_columns,): columns in which all of the rows have a 1.
    """
    columns = np.flatnonzero(bits)
    for i in rows:
        for e in range(paths.start[i], paths.start[i + 1]):
            v, times = paths.node[e], sign * paths.times[e]
            for c in columns:
                splits.ones[v, c] += times
                for k in range(y.shape[1]):
                    splits.sums[v, c, k] += times * y[i, k]


@njit()
def touched(rows: Any, paths: Paths, n_trees: int) -> Any:
    """Say which trees have looked at some rows."""
    out = np.zeros(n_trees, dtype=np.bool_)
    for i in rows:
        for e in range(paths.start[i], paths.start[i + 1]):
            out[paths.tree[e]] = True
    return out


@njit()
def move(rows: Any, old: Any, new: Any, y: Any, splits: Splits, paths: Paths) -> None:
    """Let rows that are alike have their ones in other columns: ``old``, then ``new``."""
    enter(rows, old & ~new, -1.0, y, splits, paths)
    enter(rows, new & ~old, 1.0, y, splits, paths)


@njit()
def costs_of_candidates(
    rows: Any, now: Any, candidates: Any, among: Any, y: Any, splits: Splits, paths: Paths,
    costs: Costs,
) -> Any:  # fmt: skip
    """Give the costs of trees for all that some rows, which are alike, may be.

    ``now``, shape (n_columns,): columns with a 1, as rows stand in ``splits``; ``candidates``,
    shape (n_candidates, n_columns): as they may be. ``among``, shape (n_trees,): the trees that
    count. Returns an array of shape (n_candidates, n_trees), 0 for trees that do not count.
    """
    out = np.zeros((len(candidates), len(splits.stream)))
    for q in range(len(candidates)):
        move(rows, now, candidates[q], y, splits, paths)
        for t in range(len(among)):
            if among[t]:
                out[q, t] = tree_cost(t, splits, costs)
        move(rows, candidates[q], now, y, splits, paths)
    return out
