"""The paper's constraint program for a forest whose draws are hidden (section 6, appendix C).

How often tree t drew row k is left to the solver. For every tree t, leaf v, class c, row k:

- y_tvkc, how often row k counts in leaf v as class c: sum_k y_tvkc = n_tvc, and 0 where z_kc is;
- w_tvk, whether it counts there at all, from which follows what the leaf's path demands;
- eta_tk = sum_vc y_tvkc, how often the tree drew it, and q_tkb, whether that is b times.

The objective is the log-likelihood of these numbers one by one, sum log(p_b) q_tkb with p_b the
probability of b draws of one row: the dependence between rows is left out, as in the paper. b runs
from 0 to 7, or further where the counts leave no choice.

The published program knows drawn counts only. Where the evidence has distinct counts, they are
linear in w, sum_k w_tvk = d_tv, and are demanded as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.published_programs.literals import RowVariables, firsts_of, paths_of
from experiments.published_programs.program import Program, built_rows, check_size, whole_logs
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model
from treeleak.core.clock import Clock
from treeleak.evidence import HiddenDraws
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex

MOST_DRAWS = 7
"""Most draws of a row by a tree that the paper considers: more has a chance below 0.0001."""


def most_draws(evidence: HiddenDraws) -> int:
    """How often a tree may have drawn a row: the paper's 7, or more where the counts force it."""
    per_tree = np.add.reduceat(evidence.n.sum(axis=1), evidence.geometry.leaf_start[:-1])
    forced = [-(-per_tree // max(evidence.n_rows, 1))]
    if evidence.d is not None:
        forced.append(-(-evidence.n.sum(axis=1) // np.maximum(evidence.d, 1)))
    return int(max(MOST_DRAWS, *(f.max() for f in forced)))


def draw_weights(n_draws: int, n_rows: int, most: int) -> list[int]:
    """Give the scaled log p_b for b = 0, ..., ``most``: a row of N in ``n_draws`` draws."""
    # Not at the top: every user would wait half a second for it.
    from scipy.stats import binom

    log_p = binom.logpmf(np.arange(most + 1), n_draws, 1.0 / n_rows)
    # Impossible numbers of draws contradict the counts; the objective need not forbid them.
    return whole_logs(log_p)


def bootstrap_program(
    evidence: HiddenDraws,
    geometry: Geometry,
    values: ValueIndex,
    most: int,
    clock: Clock,
) -> Program:
    """Build the model, with at most ``most`` draws of a row by a tree.

    Raises
    ------
    NotCovered
        If it would be too large.
    OutOfTime
    """
    start, n, n_rows = geometry.leaf_start, evidence.n.tolist(), evidence.n_rows
    n_trees = len(start) - 1
    first = firsts_of(values)
    paths = paths_of(geometry, first)
    room = [
        min(most, int(evidence.n[start[t] : start[t + 1]].max(initial=0))) for t in range(n_trees)
    ]
    n_draws = np.add.reduceat(evidence.n.sum(axis=1), start[:-1]).tolist()
    # Each w stands in its path's demands and below three links; each y in five.
    of_leaves = sum(
        len(path) + 3 + 5 * np.count_nonzero(counts)
        for path, counts in zip(paths, n, strict=True)
        if path is not None and any(counts)
    )
    per_row = int(of_leaves) + sum(2 * r + 3 for r in room) + int(first[-1])
    n_terms = n_rows * per_row
    check_size("constraint program with bootstrap", n_terms, n_rows, n_trees)
    weight = [draw_weights(n_draws[t], max(n_rows, 1), room[t]) for t in range(n_trees)]
    model = Model()
    summands: list[list[list[Any]]] = [[[] for _ in own] for own in n]
    here: list[list[Any]] = [[] for _ in n]
    rows: list[RowVariables] = []
    likelihood: list[Any] = []
    for row in built_rows(model, values, [None] * n_rows, clock):
        rows.append(row)
        of_class: dict[int, list[Any]] = {c: [] for c in row.open_classes}
        for t in range(n_trees):
            of_tree: list[Any] = []
            for v in range(start[t], start[t + 1]):
                fits = [c for c in row.open_classes if n[v][c]]
                path = paths[v]
                if path is None or not fits:
                    continue
                w = model.new_bool_var("")
                here[v].append(w)
                if path:
                    model.add_bool_and(row.demanded(path)).only_enforce_if(w)
                y = [model.new_int_var(0, min(room[t], n[v][c]), "") for c in fits]
                model.add(LinearExpr.sum(y) >= 1).only_enforce_if(w)
                for c, times in zip(fits, y, strict=True):
                    model.add(times == 0).only_enforce_if(~w)
                    of_class[c].append(times)
                    summands[v][c].append(times)
                of_tree += y
            eta = model.new_int_var(0, room[t], "")
            model.add(eta == LinearExpr.sum(of_tree))
            q = [model.new_bool_var("") for _ in weight[t]]
            model.add_map_domain(eta, q)
            likelihood.append(LinearExpr.weighted_sum(q, weight[t]))
        if row.classes:
            for c, times in of_class.items():
                none = LinearExpr.sum(times) == 0
                model.add(none).only_enforce_if(~row.classes[c])
    for v, counts in enumerate(n):
        for c, count in enumerate(counts):
            model.add(LinearExpr.sum(summands[v][c]) == count)
        if evidence.d is not None:
            model.add(LinearExpr.sum(here[v]) == int(evidence.d[v]))
    model.maximize(LinearExpr.sum(likelihood))
    return Program(model, rows, n_terms)
