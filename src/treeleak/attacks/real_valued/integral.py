"""Whole numbers of rows that meet all statements, where real numbers leave too much open."""

from __future__ import annotations

import numpy as np

from treeleak.attacks.real_valued.columns import Columns
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, run
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock

_MOST_TERMS = 300_000
"""Entries of columns up to which the integer solver is asked."""
_WORK = 10.0
"""Work for it, about seconds."""
_SCALE = 2.0**24
"""By which real coefficients are multiplied, to be whole numbers."""


def whole_rows(
    columns: Columns, n_rows: int, clock: Clock, seed: int
) -> tuple[IntArray, IntArray] | None:
    """Find columns and whole numbers of rows that meet all statements; None in vain.

    Real coefficients are rounded for the solver, whose answer is then checked as it is.
    """
    n = len(columns)
    if n * columns.leaf.shape[1] * len(columns.families) > _MOST_TERMS or clock.stopped:
        return None
    matrix = columns.take(np.arange(n)).tocsc()
    right, slack = columns.right / columns.weight, columns.slack / columns.weight
    model = Model()
    m = [model.new_int_var(0, n_rows, "") for _ in range(n)]
    model.add(LinearExpr.sum(m) == n_rows)
    for i in range(len(right)):
        part = slice(int(matrix.indptr[i]), int(matrix.indptr[i + 1]))
        members, a = matrix.indices[part], matrix.data[part] / columns.weight[i]
        if not len(members):
            continue
        whole = np.rint(a)
        exact = slack[i] == 0 and bool((np.abs(a - whole) < 1e-9).all())
        scale = 1.0 if exact else _SCALE / max(float(np.abs(a).max()), 1e-12)
        off = 0 if exact else int(np.ceil(scale * slack[i] + 0.5 * n_rows))
        middle = round(scale * float(right[i]))
        times = np.rint(scale * a).astype(np.int64).tolist()
        total = LinearExpr.weighted_sum([m[j] for j in members.tolist()], times)
        model.add_linear_constraint(total, middle - off, middle + off)
    ended = run(model, clock, seed, _WORK)
    if not ended.found:
        return None
    number = np.array([ended.solver.value(x) for x in m], dtype=np.int64)
    chosen = np.flatnonzero(number)
    return (chosen, number[chosen]) if columns.met(chosen, number[chosen]) else None
