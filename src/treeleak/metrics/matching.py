"""The reconstruction error: minimum-cost matching of reconstructed rows with true ones.

The distance of two rows is the sum over columns of ``min(|a - b| / range, 1)``, or of 0/1 where
a column is categorical. Each term is a metric, hence so is the sum. Therefore some best matching
pairs every reconstructed row that equals a true row with its equal: if it paired the equal rows
``a = b`` as ``(a, b')`` and ``(c, b)``, then pairing ``(a, b)`` and ``(c, b')`` costs
``d(c, b') <= d(c, b) + d(b, b') = d(c, b) + d(a, b')``, which is no more. Equal rows are
cancelled first, and only what is left has to be matched. The same holds where ``b`` is one of
more true rows than are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from treeleak.core.arrays import BoolArray, FloatArray, IntArray, copies_before
from treeleak.core.errors import BadInput
from treeleak.core.memory import require
from treeleak.core.private import shows_no_value
from treeleak.metrics.encoding import Table, encoded_pair, in_numbers
from treeleak.schema import Attribute, Numeric, Ordinal, Schema

MATCH_LIMIT = 6_000
"""Most rows of each table that are matched one by one: the costs fill 0.3 GB."""

FLOW_LIMIT = 4_000_000
"""Most pairs of different points between which rows are moved in bulk."""

NEAR = 0.01
"""Difference from which on a number is wrong, as a share of its range."""

# The flow solver counts in whole numbers; sums of 0/1 terms stay exact under this factor.
FLOW_SCALE = 2**20


def reconstruction_error(X_rec: Table, X_true: Table, schema: Schema | None = None) -> float:
    """Measure how far a reconstruction is from the true rows, as DRAFT does.

    The mean, over rows and columns, of the distance between each reconstructed row and the true
    row that it is matched with, under the matching that makes this least. The label does not
    count: leave it out of both tables. A column of a one-hot group counts like any other.

    Parameters
    ----------
    X_rec, X_true : DataFrame or array, shape (n_rows, n_columns)
        Columns of DataFrames are aligned by name. An array has the columns of the other table
        if that is a DataFrame, else of ``schema``, in order.
    schema : Schema, optional
        Tells which columns count, which are categorical, and the range by which the difference
        in a numeric or ordinal column is divided (where it is not bounded, or without a schema:
        the range in the true rows). A column of text is categorical.

    Returns
    -------
    float
        0 if both hold the same rows, 1 if they differ in everything.

    Raises
    ------
    BadInput
        If the tables do not have the same columns and number of rows, or more than 6,000 rows
        without an equal lie at too many different points to be matched.
    """
    return float(row_distances(X_rec, X_true, schema).mean())


@shows_no_value
class Matching(NamedTuple):
    """A best matching: for each reconstructed row, its true row, and how far each value is off."""

    true_row: IntArray
    distance: FloatArray


def best_matching(X_rec: Table, X_true: Table, schema: Schema | None = None) -> Matching:
    """Match rows at the least total distance, and measure each value.

    Parameters and errors are those of :func:`reconstruction_error`. Where several matchings cost
    the least, one of them.

    ``distance`` has the shape (n_rows, n_columns), columns as :func:`table_columns` has them.
    """
    rec, true = encoded_pair(X_rec, X_true, schema)
    matched = _match(rec, true)
    return Matching(matched, _distance(rec, true[matched]))


def row_distances(X_rec: Table, X_true: Table, schema: Schema | None = None) -> FloatArray:
    """Distance of each value of the reconstructed rows from that of the row matched with it.

    Parameters and errors are those of :func:`reconstruction_error`.

    Returns columns as :func:`table_columns` has them, shape (n_rows, n_columns).
    """
    return best_matching(X_rec, X_true, schema).distance


def part_errors(
    X: Table, pool: Table, parts: Iterable[IntArray], schema: Schema | None = None
) -> FloatArray:
    """Measure one table against several parts of another, as :func:`reconstruction_error` does.

    ``X``, ``pool`` and ``schema``: as for :func:`reconstruction_error`; where the schema says no
    range, it is that of the pool. ``parts``: positions in ``pool``; at least as many as ``X`` has
    rows. Of a larger part, the rows that cost the least are matched. Returns an array of shape
    (n_parts,). Raises BadInput: as for :func:`reconstruction_error`, and if a part is too small.
    """
    a, b = in_numbers(X, pool, schema)
    errors = []
    for part in parts:
        if len(part) < len(a):
            raise BadInput(f"{len(a)} rows against {len(part)}: there must be at least as many")
        subset = b[part]
        errors.append(_distance(a, subset[_match(a, subset)]).mean())
    return np.array(errors)


def right_values(
    distance: FloatArray, columns: Sequence[str], attributes: Sequence[Attribute]
) -> BoolArray:
    """Say which values are right: without a difference, or for a number within 1 % of its range.

    ``distance``, shape (n_rows, n_columns): as :class:`Matching` has it. ``attributes``: a one-hot
    group is right if all of its columns are. Returns an array of shape (n_rows, n_attributes).
    """
    at = {c: i for i, c in enumerate(columns)}
    found = np.empty((len(distance), len(attributes)), dtype=bool)
    for k, attribute in enumerate(attributes):
        column_distance = distance[:, [at[c] for c in attribute.columns]]
        off = NEAR if isinstance(attribute, (Numeric, Ordinal)) else 0.0
        found[:, k] = (column_distance <= off).all(axis=1)
    return found


def same_size(rows: pd.DataFrame, n_rows: int, seed: int = 0) -> pd.DataFrame:
    """Give a reconstruction as many rows as the training set has, as DRAFT-DP does.

    Rows too many are left out at random; where there are too few, rows chosen at random are
    repeated, none twice more often than another.

    Parameters
    ----------
    rows : DataFrame
    n_rows : int
    seed : int

    Raises
    ------
    BadInput
        If there is no row to repeat.
    """
    if len(rows) == n_rows:
        return rows
    if rows.empty:
        raise BadInput("no rows were rebuilt")
    copies, rest = divmod(n_rows, len(rows))
    chosen = np.random.default_rng(seed).permutation(len(rows))[:rest]
    at = np.concatenate([*[np.arange(len(rows))] * copies, chosen])
    return rows.iloc[np.sort(at)].reset_index(drop=True)


def paired_distances(X_rec: Table, X_true: Table, schema: Schema | None = None) -> FloatArray:
    """Distance of each value from the true one in the same place, without matching.

    Parameters, errors and shape are those of :func:`row_distances`.
    """
    return _distance(*encoded_pair(X_rec, X_true, schema))


def match_rows(X_rec: Table, X_true: Table, schema: Schema | None = None) -> IntArray:
    """Match each reconstructed row with a true row, at the least total distance.

    Parameters and errors are those of :func:`reconstruction_error`.

    Returns
    -------
    int array, shape (n_rows,)
        Position in ``X_true`` of the row matched with each row of ``X_rec``.
    """
    return best_matching(X_rec, X_true, schema).true_row


def exact_row_share(X_rec: Table, X_true: Table) -> float:
    """Share of the true rows that were reconstructed without any difference.

    A row that appears twice in one table and once in the other counts once.
    """
    rec, true = encoded_pair(X_rec, X_true, None, exact=True)
    return len(_equal_pairs(*_points(rec, true)[0])[0]) / len(rec)


def _distance(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.minimum(np.abs(a - b), 1.0)


def _match(rec: FloatArray, true: FloatArray) -> IntArray:
    """Match each row of ``rec`` with one of ``true``, which has at least as many."""
    (of_rec, of_true), first = _points(rec, true)
    assigned = np.full(len(rec), -1, dtype=np.int64)
    equal_rec, equal_true = _equal_pairs(of_rec, of_true)
    assigned[equal_rec] = equal_true
    left = np.flatnonzero(assigned < 0)
    open_ = np.setdiff1d(np.arange(len(true)), equal_true, assume_unique=True)
    if len(left) <= MATCH_LIMIT:
        i, j = linear_sum_assignment(pair_costs(rec[left], true[open_]))
        assigned[left[i]] = open_[j]
        return assigned
    points = np.concatenate([rec, true])[first]
    i, j = _transport(points, of_rec[left], of_true[open_])
    assigned[left[i]] = open_[j]
    return assigned


def _points(rec: FloatArray, true: FloatArray) -> tuple[tuple[IntArray, IntArray], IntArray]:
    """Number the distinct rows of both tables: each row's number, each number's first row."""
    # Adding zero makes -0.0 and 0.0 the same bytes.
    both = np.ascontiguousarray(np.concatenate([rec, true]) + 0.0)
    keys = both.view(np.dtype((np.void, both.shape[1] * both.itemsize))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return (group[: len(rec)], group[len(rec) :]), first


def _equal_pairs(of_rec: IntArray, of_true: IntArray) -> tuple[IntArray, IntArray]:
    """Pair equal rows of both tables, given the number of each row's point."""
    most = len(of_rec) + len(of_true)
    rec, true = (point * most + copies_before(point) for point in (of_rec, of_true))
    _, row_rec, row_true = np.intersect1d(rec, true, assume_unique=True, return_indices=True)
    return row_rec, row_true


def pair_costs(a: FloatArray, b: FloatArray) -> FloatArray:
    """Distances of all pairs of rows."""
    if not len(a):
        return np.zeros((0, 0))
    require("a table of all pairs of rows", (len(a), len(b)))
    reach = np.maximum(a.max(axis=0), b.max(axis=0)) - np.minimum(a.min(axis=0), b.min(axis=0))
    short = reach <= 1.0
    costs = (
        cdist(a[:, short], b[:, short], "cityblock") if short.any() else np.zeros((len(a), len(b)))
    )
    for start in range(0, len(a), 256):
        block = costs[start : start + 256]
        for column in np.flatnonzero(~short):
            block += _distance(a[start : start + 256, None, column], b[None, :, column])
    return costs


def _transport(points: FloatArray, source: IntArray, target: IntArray) -> tuple[IntArray, IntArray]:
    """Match rows that share few points: move them in bulk from point to point."""
    from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

    froms, n_from = np.unique(source, return_counts=True)
    tos, n_to = np.unique(target, return_counts=True)
    if len(froms) * len(tos) > FLOW_LIMIT:
        raise BadInput(
            f"{len(source)} rows have no equal and lie at {len(froms)} and {len(tos)} different "
            f"points: too many to match. Compare at most {MATCH_LIMIT} rows"
        )
    costs = np.rint(pair_costs(points[froms], points[tos]) * FLOW_SCALE).astype(np.int64)
    tail, head = (x.ravel() for x in np.indices(costs.shape))
    flow = SimpleMinCostFlow()
    most = np.minimum(n_from[tail], n_to[head])
    arcs = flow.add_arcs_with_capacity_and_unit_cost(tail, head + len(froms), most, costs.ravel())
    nodes = np.arange(len(froms) + len(tos))
    flow.set_nodes_supplies(nodes, np.concatenate([n_from, -n_to]))
    if flow.solve() != flow.OPTIMAL:
        raise RuntimeError("the flow solver failed on a problem that always has an answer")
    moved = flow.flows(arcs)
    used = np.flatnonzero(moved)
    # Rows of one point are alike: hand them out in the order of the arcs, on both sides.
    by_source = np.argsort(source, kind="stable")
    by_target = np.argsort(target, kind="stable")
    arc_of = np.repeat(used, moved[used])
    at_target = np.empty_like(by_target)
    at_target[np.argsort(head[arc_of], kind="stable")] = by_target
    return by_source, at_target
