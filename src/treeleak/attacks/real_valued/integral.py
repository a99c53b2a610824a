"""Whole numbers of rows that meet all statements, where real numbers leave too much open."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, csr_array, diags_array, eye_array

from treeleak.attacks.real_valued.columns import Columns
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, run
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import run_watched

_MOST_TERMS = 300_000
"""Entries of columns up to which the integer solver is asked."""
_WORK = 10.0
"""Work for it, about seconds."""
_SCALE = 2.0**24
"""By which real coefficients are multiplied, to be whole numbers."""
_AWAY, _OFF = 1.0, 1e-6
"""How far numbers of rows may move to whole ones, and sums from what they should be."""
_SHORT = 0.1
"""Seconds that the solver has at least."""


def whole_rows(
    columns: Columns, n_rows: int, clock: Clock, seed: int
) -> tuple[IntArray, IntArray] | None:
    """Find columns and whole numbers of rows that meet all statements; None in vain.

    What the integer solver finds is checked as it is.
    """
    n = len(columns)
    if n * columns.leaf.shape[1] * len(columns.families) > _MOST_TERMS or clock.stopped:
        return None
    matrix = csr_array(columns.take(np.arange(n)).T)
    own = csr_array(diags_array(1.0 / columns.weight) @ matrix)
    right, slack = columns.right / columns.weight, columns.slack / columns.weight
    number = whole_numbers(own, right, slack, np.full(n, n_rows), n_rows, clock, seed)
    if number is None:
        return None
    chosen = np.flatnonzero(number)
    return (chosen, number[chosen]) if columns.met(chosen, number[chosen]) else None


def whole_numbers(
    A: csr_array,
    right: FloatArray,
    slack: FloatArray,
    most: IntArray,
    total: int,
    clock: Clock,
    seed: int = 0,
) -> IntArray | None:
    """Find whole numbers from 0 to ``most``, with A x = right, give or take ``slack``; or None.

    They add up to ``total``. Real coefficients are rounded for the solver: some of its answers may
    be too far off.
    """
    model = Model()
    m = [model.new_int_var(0, top, "") for top in most.tolist()]
    model.add(LinearExpr.sum(m) == total)
    for i in range(len(right)):
        part = slice(int(A.indptr[i]), int(A.indptr[i + 1]))
        members, a = A.indices[part], A.data[part]
        if not len(members):
            continue
        whole = np.rint(a)
        exact = slack[i] == 0 and bool((np.abs(a - whole) < 1e-9).all())
        scale = 1.0 if exact else _SCALE / max(float(np.abs(a).max()), 1e-12)
        off = 0 if exact else int(np.ceil(scale * slack[i] + 0.5 * total))
        middle = round(scale * float(right[i]))
        times = np.rint(scale * a).astype(np.int64).tolist()
        added = LinearExpr.weighted_sum([m[j] for j in members.tolist()], times)
        model.add_linear_constraint(added, middle - off, middle + off)
    ended = run(model, clock, seed, _WORK)
    if not ended.found:
        return None
    return np.array([ended.solver.value(x) for x in m], dtype=np.int64)


def whole_groups(
    columns: Columns, chosen: IntArray, x: FloatArray, group: IntArray, clock: Clock
) -> FloatArray | None:
    """Find numbers near a point that meets all sums, so that those of each group add up to a whole.

    ``group``, shape (n_chosen,): group of each column. Returns None in vain.
    """
    _, group = np.unique(group, return_inverse=True)
    n, n_groups = len(x), int(group.max()) + 1
    sums = csr_array(columns.take(chosen).T)
    added = csr_array((np.ones(n), (group, np.arange(n))), shape=(n_groups, n))
    both: csr_array[Any] = block_array([[sums, None], [added, -eye_array(n_groups)]], format="csr")
    off, none = columns.slack + _OFF, np.zeros(n_groups)
    total = np.bincount(group, x, n_groups)
    least, most = np.maximum(np.floor(total - _AWAY), 0), np.ceil(total + _AWAY)

    def solved() -> Any:
        return milp(
            np.zeros(n + n_groups),
            integrality=np.repeat([0, 1], [n, n_groups]),
            bounds=Bounds(np.append(np.zeros(n), least), np.append(np.full(n, np.inf), most)),
            constraints=LinearConstraint(
                both, np.append(columns.right - off, none), np.append(columns.right + off, none)
            ),
            options={"time_limit": max(clock.left, _SHORT)},
        )

    found = run_watched(solved, lambda: clock.interrupted)
    return None if found is None or found.x is None else np.asarray(found.x[:n])
