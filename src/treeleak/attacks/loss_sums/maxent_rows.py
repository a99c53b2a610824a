"""The rows that sums make likely, where they do not tell which rows there are.

Of all ways to spread rows over columns that meet the sums on average, one has the greatest entropy:
x_j = q_j exp(y'A_j), with a multiplier y_i for each sum, and q_j for how much of the grid column j
stands for. It is a model of the population that the sums alone have taught. Its columns hold
Poisson numbers of rows; so the table of which most rows are expected to be right has a k-th row of
column j where at least k are likely.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammainc

from treeleak.attacks.loss_sums.columns import Columns
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass


@dataclass(frozen=True, eq=False)
class Likely:
    """Columns with the numbers of rows of which most are expected to be right."""

    chosen: IntArray
    m: IntArray
    share: FloatArray
    """Shape (n_chosen,). Share of each column's rows that is expected to be right."""


class _TimeUp(Exception):
    """Ends a minimisation."""


def maxent_rows(columns: Columns, size: FloatArray, n_rows: int, clock: Clock) -> Likely | None:
    """Find the rows that sums make likely; None if there is no time to come near these sums.

    ``columns`` are those of all classes of all cells; ``size``, shape (n_cells,): points of each.
    Numbers of rows in leaves say which cells may hold rows; then all sums are met for these.
    """
    n = len(size)
    counts = tuple(family for family in columns.families if family.counts is None)
    every = Columns(counts, columns.leaf[:n], columns.label[:n], columns.n_leaves)
    start = np.log(size * (n_rows / size.sum()))
    x = every.spread(
        _multipliers(every, start, clock.part(SCHEDULE.entropy_share * clock.left)), start
    )[0]
    order = np.argsort(-x, kind="stable")
    cells = np.sort(
        order[: 1 + int((np.cumsum(x[order]) < SCHEDULE.entropy_kept_rows * x.sum()).sum())]
    )
    k = len(columns) // n
    columns_left = np.concatenate([cells + c * n for c in range(k)])
    few = Columns(
        columns.families, columns.leaf[columns_left], columns.label[columns_left], columns.n_leaves
    )
    start = np.tile(np.log(x[cells] / k), k)
    x, left = few.spread(_multipliers(few, start, clock), start)
    if np.mean((left - few.right) ** 2) > 1.0:
        return None  # They are missed by more than rows drawn by chance would.
    # Of no other columns, even one row is among the likeliest.
    most = np.argsort(-x, kind="stable")[:n_rows]
    columns_left, x = columns_left[most], x[most]
    at_least = np.arange(1, int(x.max(initial=0.0)) + SCHEDULE.entropy_rows_beyond)
    right = gammainc(at_least[:, None], x[None, :]).ravel()
    best = np.argsort(-right, kind="stable")[:n_rows]
    m = np.bincount(best % len(x), minlength=len(x))
    share = np.bincount(best % len(x), right[best], len(x)) / np.maximum(m, 1)
    return Likely(columns_left[m > 0], m[m > 0], share[m > 0])


def _multipliers(columns: Columns, start: FloatArray, clock: Clock) -> FloatArray:
    """Find the multipliers of sums, or the best there was time for."""
    y, least = np.zeros(len(columns.right)), np.inf

    def weighed(at: FloatArray) -> tuple[float, FloatArray]:
        nonlocal y, least
        if clock.stopped:
            raise _TimeUp
        x, left = columns.spread(at, start)
        value = float(x.sum() - at @ columns.right + 0.5 * SCHEDULE.entropy_ridge * (at @ at))
        if value < least:
            least, y = value, at.copy()
        return value, left - columns.right + SCHEDULE.entropy_ridge * at

    with suppress(_TimeUp):
        options: Any = {"maxiter": SCHEDULE.entropy_rounds, "maxcor": 20}
        minimize(weighed, y, jac=True, method="L-BFGS-B", options=options)
    return y
