"""The published constraint program for forests that used every row once per tree.

For every tree t, leaf v and class c, y_tvkc says whether row k stands there. What a leaf's path
demands follows from standing in it, and the released counts are sums over rows: sum_k y_tvkc =
n_tvc. The classes of the rows are fixed in advance, by the number of rows of each class. Variables
that a count of zero makes zero are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.published_programs.literals import RowVariables, firsts_of, paths_of
from experiments.published_programs.program import Program, built_rows, check_size
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model
from treeleak.core.clock import Clock
from treeleak.evidence import ExactCounts
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex


def placed_program(
    evidence: ExactCounts, geometry: Geometry, values: ValueIndex, clock: Clock
) -> Program:
    """Build the model.

    Raises
    ------
    NotCovered
        If it would be too large.
    OutOfTime
    """
    start, first = geometry.leaf_start, firsts_of(values)
    paths = paths_of(geometry, first)
    per_class = evidence.n[: start[1]].sum(axis=0)
    label = np.repeat(np.arange(len(per_class)), per_class).tolist()
    # Each variable of a leaf stands in its path's demands, in a count and among its tree's leaves.
    cost = np.array([0 if p is None else len(p) + 3 for p in paths])
    n_terms = int(((evidence.n > 0) * cost[:, None]).sum(axis=0) @ per_class)
    n_terms += len(label) * int(first[-1])
    check_size("constraint program", n_terms, len(label), len(start) - 1)
    model, n = Model(), evidence.n.tolist()
    summands: list[list[list[Any]]] = [[[] for _ in counts] for counts in n]
    rows: list[RowVariables] = []
    for row in built_rows(model, values, label, clock):
        c = label[len(rows)]
        rows.append(row)
        for begin, end in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
            here = []
            for v in range(begin, end):
                path = paths[v]
                if path is None or not n[v][c]:
                    continue
                stands = model.new_bool_var("")
                here.append(stands)
                summands[v][c].append(stands)
                if path:
                    model.add_bool_and(row.demanded(path)).only_enforce_if(stands)
            model.add_exactly_one(here)
    for v, counts in enumerate(n):
        for c, count in enumerate(counts):
            model.add(LinearExpr.sum(summands[v][c]) == count)
    return Program(model, rows, n_terms)
