"""Whole numbers of rows that meet all statements, where real numbers leave too much open."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, csr_array, diags_array, eye_array

from treeleak.attacks.loss_sums.columns import Columns
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.attacks.loss_sums.tolerances import TOLERANCES
from treeleak.attacks.solvers.cp_sat import LinearExpr, Model, run
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.parallel import run_watched


def whole_rows(
    columns: Columns, n_rows: int, clock: Clock, seed: int
) -> tuple[IntArray, IntArray] | None:
    """Find columns and whole numbers of rows that meet all statements; None in vain.

    What the integer solver finds is checked as it is.
    """
    n = len(columns)
    if n * columns.leaf.shape[1] * len(columns.families) > SCHEDULE.solver_terms or clock.stopped:
        return None
    matrix = csr_array(columns.take(np.arange(n)).T)
    unweighted = csr_array(diags_array(1.0 / columns.weight) @ matrix)
    right, slack = columns.right / columns.weight, columns.slack / columns.weight
    number = whole_numbers(unweighted, right, slack, np.full(n, n_rows), n_rows, clock, seed)
    if number is None:
        return None
    chosen = np.flatnonzero(number)
    return (chosen, number[chosen]) if columns.met(chosen, number[chosen]) else None


def whole_near(
    columns: Columns, chosen: IntArray, x: FloatArray, n_rows: int, clock: Clock, seed: int
) -> tuple[IntArray, IntArray] | None:
    """Find whole numbers of rows among the points that meet all statements; None in vain.

    One of them is known: x > 0, shape (n_chosen,), of the columns chosen. Others can differ from it
    in columns only that depend on each other, and in those that depend on columns in use. What is
    found is checked as it is.
    """
    used = chosen[x > TOLERANCES.unused_rows]
    if clock.stopped or clock.left < SCHEDULE.basis_seconds * len(used) ** 3:
        return None
    over = columns.take(chosen).T @ x - columns.right
    if (
        len(used) > SCHEDULE.basis_columns
        or not (np.abs(over) <= columns.slack + TOLERANCES.sum_off).all()
    ):
        return None
    every = np.append(used, _dependent(columns, used, seed))
    if len(every) > SCHEDULE.basis_columns:
        return None  # Where columns in use span all statements, every column depends on them.
    number = np.append(x[x > TOLERANCES.unused_rows], np.zeros(len(every) - len(used)))
    rows = columns.take(every)
    values, vectors = np.linalg.eigh((rows @ rows.T).toarray())
    none = vectors[:, values < TOLERANCES.flat_square * values[-1]]
    m = np.rint(number).astype(np.int64)
    open_ = (np.abs(none) > TOLERANCES.dependent_length).any(axis=1) | (
        np.abs(number - m) > TOLERANCES.whole_off
    )
    m[open_] = 0
    if not open_.any() or rows[open_].nnz > SCHEDULE.solver_terms:
        return None
    A = csr_array((rows[open_] @ diags_array(1.0 / columns.weight)).T)
    rest = (columns.right - rows.T @ m) / columns.weight
    held = np.flatnonzero(np.diff(A.indptr))
    left = n_rows - int(m.sum())
    most = np.full(A.shape[1], max(left, 0))
    slack = columns.slack[held] / columns.weight[held]
    found = whole_numbers(csr_array(A[held]), rest[held], slack, most, left, clock, seed)
    if found is None:
        return None
    m[open_] = found
    return (every[m > 0], m[m > 0]) if columns.met(every, m) else None


def _dependent(columns: Columns, used: IntArray, seed: int) -> IntArray:
    """Columns that are sums of multiples of those in use.

    What stands upright on all columns in use stands upright on these: two random directions show.
    """
    rows = columns.take(used)
    gram = (rows @ rows.T).toarray()
    gram[np.diag_indices(len(used))] += TOLERANCES.flat_square * gram.diagonal().max(initial=0.0)
    factor = cho_factor(gram, overwrite_a=True, check_finite=False)
    rng = np.random.default_rng(seed)
    worth = np.zeros(len(columns.length))
    for _ in range(2):
        upright = rng.normal(size=len(columns.right))
        for _ in range(TOLERANCES.projections):
            upright = upright - rows.T @ cho_solve(factor, rows @ upright)
        worth = np.maximum(worth, np.abs(columns.worth(upright)) / columns.length)
    worth[used] = np.inf
    return np.flatnonzero(worth < TOLERANCES.dependent_length)


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
        scale = 1.0 if exact else TOLERANCES.solver_scale / max(float(np.abs(a).max()), 1e-12)
        off = 0 if exact else int(np.ceil(scale * slack[i] + 0.5 * total))
        middle = round(scale * float(right[i]))
        times = np.rint(scale * a).astype(np.int64).tolist()
        added = LinearExpr.weighted_sum([m[j] for j in members.tolist()], times)
        model.add_linear_constraint(added, middle - off, middle + off)
    ended = run(model, clock, seed, SCHEDULE.solver_work)
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
    off, none = columns.slack + TOLERANCES.sum_off, np.zeros(n_groups)
    total = np.bincount(group, x, n_groups)
    least, most = (
        np.maximum(np.floor(total - TOLERANCES.moved_rows), 0),
        np.ceil(total + TOLERANCES.moved_rows),
    )

    def solved() -> Any:
        return milp(
            np.zeros(n + n_groups),
            integrality=np.repeat([0, 1], [n, n_groups]),
            bounds=Bounds(np.append(np.zeros(n), least), np.append(np.full(n, np.inf), most)),
            constraints=LinearConstraint(
                both, np.append(columns.right - off, none), np.append(columns.right + off, none)
            ),
            options={"time_limit": max(clock.left, SCHEDULE.solver_seconds)},
        )

    found = run_watched(solved, lambda: clock.interrupted)
    return None if found is None or found.x is None else np.asarray(found.x[:n])
