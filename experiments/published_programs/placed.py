"""The constraint program for rows of which it is known how often each tree drew them.

For every tree t, leaf v and class c, y_tvkc says whether row k stands there. What a leaf's path
demands follows from standing in it, and the released counts are sums over rows.

- *Every row used once per tree* (the paper's model without bagging): the classes of the rows are
  fixed in advance, by the number of rows of each class, and sum_k y_tvkc = n_tvc.
- *Known draws*: the numbers b_tk are constants, sum_k b_tk y_tvkc = n_tvc, and a row that a tree
  did not draw has no variable there. The classes of the rows are fixed in advance here too, where
  no others give each tree its number of draws of each class.

Variables that a single count makes zero, because the leaf holds fewer rows of the class than the
row alone would bring, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.published_programs.literals import RowVariables, firsts_of, one_of, paths_of
from experiments.published_programs.program import Program, built_rows, check_size
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, run
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.evidence import ExactCounts, KnownDraws
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex

_CLASSES = 5.0
"""Units of the solver's work in which classes, and others instead, are looked for: seconds."""


def placed_program(
    evidence: ExactCounts | KnownDraws,
    geometry: Geometry,
    values: ValueIndex,
    clock: Clock,
    seed: int,
) -> Program:
    """Build the model; the seed is that of the solver that looks for the classes.

    Raises
    ------
    NotCovered
        If it would be too large.
    OutOfTime
    """
    start, n_classes = geometry.leaf_start, evidence.n.shape[1]
    first = firsts_of(values)
    paths = paths_of(geometry, first)
    draws, label = _rows_of(evidence, clock, seed)
    n_terms = _size(evidence, geometry, paths, draws, label)
    n_terms += draws.shape[1] * int(first[-1])
    check_size("constraint program", n_terms, draws.shape[1], draws.shape[0])
    model = Model()
    n = evidence.n.tolist()
    summands: list[list[list[Any]]] = [[[] for _ in range(n_classes)] for _ in n]
    weights: list[list[list[int]]] = [[[] for _ in range(n_classes)] for _ in n]
    rows: list[RowVariables] = []
    fixed = [None] * draws.shape[1] if label is None else label.tolist()
    for row in built_rows(model, values, fixed, clock):
        own_draws = draws[:, len(rows)].tolist()
        rows.append(row)
        for t, b in enumerate(own_draws):
            if not b:
                continue
            here = []
            for v in range(start[t], start[t + 1]):
                fits = [c for c in row.open_classes if n[v][c] >= b]
                path = paths[v]
                if path is None or not fits:
                    continue
                w = model.new_bool_var("")
                here.append(w)
                if path:
                    model.add_bool_and(row.demanded(path)).only_enforce_if(w)
                y = [w] if len(fits) == 1 else [model.new_bool_var("") for _ in fits]
                if len(y) > 1:
                    model.add_bool_or(y).only_enforce_if(w)
                for c, stands in zip(fits, y, strict=True):
                    if len(y) > 1:
                        model.add_implication(stands, w)
                    if row.classes:
                        model.add_implication(stands, row.classes[c])
                    summands[v][c].append(stands)
                    weights[v][c].append(b)
            model.add_exactly_one(here)
    for v, counts in enumerate(n):
        for c, count in enumerate(counts):
            total = LinearExpr.weighted_sum(summands[v][c], weights[v][c])
            model.add(total == count)
    return Program(model, rows, n_terms)


def _rows_of(
    evidence: ExactCounts | KnownDraws, clock: Clock, seed: int
) -> tuple[NDArray[np.unsignedinteger[Any]], IntArray | None]:
    """Give the draws, shape (n_trees, n_rows), and the rows' classes where they may be fixed."""
    start = evidence.geometry.leaf_start
    if isinstance(evidence, KnownDraws):
        totals = np.add.reduceat(evidence.n, start[:-1], axis=0)
        return evidence.draws, _only_classes(evidence.draws, totals, clock, seed)
    per_class = evidence.n[: start[1]].sum(axis=0)
    label = np.repeat(np.arange(len(per_class)), per_class)
    once = np.broadcast_to(np.uint8(1), (len(start) - 1, len(label)))
    return once, label


def _only_classes(
    draws: NDArray[np.unsignedinteger[Any]], totals: IntArray, clock: Clock, seed: int
) -> IntArray | None:
    """Find the classes of the rows, if no others give each tree its draws of each class."""
    model = Model()
    z = [one_of(model, totals.shape[1]) for _ in range(draws.shape[1])]
    if not all(z):
        return None
    for b, total in zip(draws.tolist(), totals.tolist(), strict=True):
        for c, count in enumerate(total):
            of_class = LinearExpr.weighted_sum([row[c] for row in z], b)
            model.add(of_class == count)
    ended = run(model, clock, seed, _CLASSES)
    if not ended.optimal:
        return None
    label = [[ended.solver.boolean_value(lit) for lit in row].index(True) for row in z]
    model.add_bool_or([~row[c] for row, c in zip(z, label, strict=True)])
    only = run(model, clock, seed, _CLASSES).none
    return np.array(label, dtype=np.int64) if only else None


def _size(
    evidence: ExactCounts | KnownDraws,
    geometry: Geometry,
    paths: Sequence[list[int] | None],
    draws: NDArray[np.unsignedinteger[Any]],
    label: IntArray | None,
) -> int:
    """Bound the terms of all leaves from above."""
    # Each variable of a leaf stands in its path's demands, in a count and among its tree's leaves.
    cost = np.array([0 if p is None else len(p) + 3 for p in paths])
    per_leaf = (evidence.n > 0) * cost[:, None]
    per_tree = np.add.reduceat(per_leaf, geometry.leaf_start[:-1], axis=0)
    may_have = np.ones((draws.shape[1], per_tree.shape[1]), dtype=np.int64)
    if label is not None:
        may_have = np.equal.outer(label, np.arange(per_tree.shape[1])).astype(np.int64)
    return int((per_tree * ((draws > 0).astype(np.int64) @ may_have)).sum())
