"""Non-negative least squares over very many columns, few of which are in use.

Minimise |A x - b|^2 over x >= 0 by active sets: a pool holds the columns in use and the most
promising others; columns outside of it are weighed by the residual, and the best join. Within the
pool the problem is solved exactly: descent by coordinates shows which columns are in use, a
Cholesky factor gives their numbers, and those that would fall below zero leave it: all at once, or,
where that leads up, one by one (Lawson and Hanson 1974, their inner loop). Columns may be all but
parallel: each solution is drawn, very slightly, to the one before (a proximal step), so that the
factor exists and the sequence still ends at a solution of the problem itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cholesky
from scipy.sparse import csr_array, vstack

from treeleak.attacks.loss_sums.kernels import descend, drop, solve
from treeleak.attacks.loss_sums.schedule import SCHEDULE
from treeleak.attacks.loss_sums.tolerances import TOLERANCES
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.decisions import greatest
from treeleak.core.private import dataclass


class Matrix(Protocol):
    """Columns of A, and b."""

    @property
    def right(self) -> FloatArray:
        """The right side b."""

    @property
    def length(self) -> FloatArray:
        """Length of each column."""

    def worth(self, residual: FloatArray) -> FloatArray:
        """A' r."""

    def take(self, chosen: IntArray) -> csr_array:
        """Rows of A' that are chosen."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The best point found."""

    chosen: IntArray
    """Columns of the pool."""
    x: FloatArray
    """Their numbers."""
    residual: FloatArray
    """b - A x."""
    accepted: bool
    """Whether it is what was looked for."""
    ended: bool
    """Whether it is a solution of the problem, as far as double precision shows."""
    rounds: int


Accept = Callable[[IntArray, FloatArray], bool]
"""Says of columns and their numbers whether they are what is looked for."""


def fit(
    matrix: Matrix,
    clock: Clock,
    accept: Accept,
    report: Callable[[FloatArray], None] = lambda _: None,
    *,
    free: IntArray | None = None,
    start: tuple[IntArray, FloatArray] | None = None,
) -> Fit:
    """Minimise |A x - b| over x >= 0, until the point is accepted or nothing improves.

    Parameters
    ----------
    accept : callable
        Asked after each round.
    report : callable
        Gets the residual of each round.
    free : int array, optional
        Columns whose numbers may fall below zero: always in the pool, as the first ones.
    start : tuple, optional
        Columns to start from and their numbers; then none is ``free``.
    """
    b = matrix.right
    n_free = 0 if free is None else len(free)
    first = np.zeros(0, dtype=np.int64) if free is None else free
    nothing = TOLERANCES.no_worth * float(np.sqrt(b @ b))
    pool = _Pool(first, matrix.take(first), np.zeros(n_free), n_free)
    if start is not None:
        chosen, x = start
        least = nothing * matrix.length[chosen]
        pool = _Pool.of(chosen, matrix.take(chosen), x).solved(b, least, clock)
    inside = np.zeros(len(matrix.length), dtype=bool)
    inside[pool.chosen] = True
    lengths: list[float] = []
    rounds = 0
    while True:
        residual = b - pool.rows.T @ pool.x
        lengths.append(float(np.sqrt(residual @ residual)))
        report(residual)
        accepted = bool(len(pool.x)) and accept(pool.chosen, pool.x)
        still = (
            len(lengths) > SCHEDULE.stall_rounds
            and lengths[-1 - SCHEDULE.stall_rounds] <= SCHEDULE.stall_factor * lengths[-1]
        )
        if accepted or still or clock.stopped:
            return Fit(pool.chosen, pool.x, residual, accepted, still, rounds)
        worth = matrix.worth(residual) / matrix.length
        worth[inside] = -np.inf
        new = greatest(worth, SCHEDULE.joining_columns)
        new = new[worth[new] > max(SCHEDULE.joining_worth * worth.max(initial=0.0), nothing)]
        inside[pool.chosen] = False
        pool = pool.tidy().joined(new, matrix.take(new), b, clock)
        inside[pool.chosen] = True
        rounds += 1


@dataclass(frozen=True, eq=False)
class _Pool:
    """Columns that are in use, or may be, with their products."""

    chosen: IntArray
    rows: csr_array
    """Shape (n_chosen, n_statements)."""
    x: FloatArray
    n_free: int
    gram: FloatArray | None = None

    def tidy(self) -> _Pool:
        """Leave out columns that are not in use, if there are many."""
        used = self.x > 0
        used[: self.n_free] = True
        if (~used).sum() <= min(SCHEDULE.unused_columns, len(used) / 2) or self.gram is None:
            return self
        gram = self.gram[np.ix_(used, used)]
        return _Pool(self.chosen[used], self.rows[used], self.x[used], self.n_free, gram)

    @classmethod
    def of(cls, chosen: IntArray, rows: csr_array, x: FloatArray) -> _Pool:
        """Start from some columns."""
        return cls(chosen, rows, x, 0, (rows @ rows.T).toarray())

    def solved(self, b: FloatArray, least: FloatArray, clock: Clock) -> _Pool:
        """Solve, until no other column of the pool has more than the least worth."""
        assert self.gram is not None  # noqa: S101 (so it begins)
        c, x, before = self.rows @ b, self.x, np.inf
        while not clock.stopped:
            x = _solved(self.gram, c, x, self.n_free, clock)
            residual = b - self.rows.T @ x
            length = float(np.sqrt(residual @ residual))
            more = (self.rows @ residual)[x <= 0] > least[x <= 0]
            if before <= SCHEDULE.stall_factor * length or not more.any():
                break
            before = length
        return replace(self, x=x)

    def joined(self, new: IntArray, rows: csr_array, b: FloatArray, clock: Clock) -> _Pool:
        """Take up new columns, and solve."""
        dense = rows.T.toarray()
        old = (self.rows @ self.rows.T).toarray() if self.gram is None else self.gram
        across = self.rows @ dense
        gram = np.block([[old, across], [across.T, rows @ dense]])
        every = vstack([self.rows, rows], format="csr")
        start = np.append(self.x, np.zeros(len(new)))
        x = _solved(gram, every @ b, start, self.n_free, clock)
        return _Pool(np.append(self.chosen, new), every, x, self.n_free, gram)


def _solved(
    gram: FloatArray, c: FloatArray, start: FloatArray, n_free: int, clock: Clock
) -> FloatArray:
    """Minimise x'Gx / 2 - c'x over x >= 0, drawn to ``start``, or come as far as there is time."""
    pull = TOLERANCES.pull * gram.diagonal() + 1e-300
    # Not the products themselves: those of the pool stay as they are.
    near = gram.copy()
    near[np.diag_indices(len(near))] += pull
    right = c + pull * start
    x = start.copy()
    descend(near, right, x, n_free, SCHEDULE.descent_sweeps)
    used = x > 0
    used[:n_free] = True
    at = np.flatnonzero(used)
    found = _all_at_once(near, right, x, at, n_free, clock)
    at, now = found or _one_by_one(near, right, x, at, n_free, clock)
    x[:] = 0
    x[at] = now
    return x


def _all_at_once(
    gram: FloatArray, right: FloatArray, x: FloatArray, start: IntArray, n_free: int, clock: Clock
) -> tuple[IntArray, FloatArray] | None:
    """Leave out all that fall below zero, until none does; None if that ends above ``x``."""
    then, at = np.zeros(len(x)), start
    while len(at):
        if clock.stopped:
            return None
        aim = solve(_factor(gram, at), len(at), right[at])
        below = aim < 0
        below[:n_free] = False
        if not below.any():
            if len(at) == len(start):
                return at, aim
            then[at] = aim
            break
        at = at[~below]
    step = then[start] - x[start]
    # f(y) - f(x) = (y - x)' (G (x + y) / 2 - c): no digits are lost to f itself.
    rise = step @ (gram[np.ix_(start, start)] @ (x[start] + then[start]) / 2 - right[start])
    return None if rise > 0 else (at, then[at])


def _one_by_one(
    gram: FloatArray, right: FloatArray, x: FloatArray, at: IntArray, n_free: int, clock: Clock
) -> tuple[IntArray, FloatArray]:
    """Leave out those first that reach zero first: no step leads up."""
    now = x[at]
    if clock.stopped:
        return at, now
    factor, size = _factor(gram, at), len(at)
    while size and not clock.stopped:
        aim = solve(factor, size, right[at])
        below = aim < 0
        below[:n_free] = False
        if not below.any():
            return at, aim
        gone, now = _towards(now, aim, below)
        if len(gone) * SCHEDULE.refactored_after > size:
            at, now = np.delete(at, gone), np.delete(now, gone)
            factor, size = _factor(gram, at), len(at)
            continue
        for i in gone[::-1].tolist():
            drop(factor, size, i)
            size -= 1
        at, now = np.delete(at, gone), np.delete(now, gone)
    return at, now


def _towards(now: FloatArray, aim: FloatArray, below: BoolArray) -> tuple[IntArray, FloatArray]:
    """Go towards the aim as far as all stay above zero; which reach it, and where all are then."""
    share = np.where(below, now / np.maximum(now - aim, 1e-300), np.inf)
    least = min(1.0, float(share.min()))
    gone = np.flatnonzero(share <= least * (1 + 1e-9) + 1e-12)
    moved = now + least * (aim - now)
    moved[below] = np.maximum(moved[below], 0.0)
    return gone, moved


def _factor(gram: FloatArray, at: IntArray) -> FloatArray:
    """Upper Cholesky factor of some columns; where rounding forbids one, of a bolder pull."""
    matrix = gram[np.ix_(at, at)]
    diagonal = matrix.diagonal().copy()
    pull = 0.0
    while True:
        try:
            return np.ascontiguousarray(cholesky(matrix, check_finite=False))
        except LinAlgError:
            pull = max(10 * pull, TOLERANCES.pull)
            matrix[np.diag_indices(len(matrix))] = diagonal * (1 + pull)
