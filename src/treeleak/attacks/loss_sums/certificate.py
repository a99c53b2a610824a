"""Proof that no other rows meet the statements, by a weighing of the statements.

Let weights of the statements give nothing to every kind of row that the answer holds, and at least
d > 0 to every other kind. Other rows that meet the statements, too, differ from the answer in what
the statements sum up by rounding only; weighed, that is at most e. So they hold at most e / d rows
of other kinds: none, where e < d. And if the columns of the kinds in use are independent, their
numbers are off by less than one, and so by nothing.

Weights like these are a plane between the columns of the other kinds and those in use: the point
nearest to zero among all mixtures of the other columns, up to columns in use, is such a plane, if
it is not zero itself. That is a problem of least squares again.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, hstack

from treeleak.attacks.loss_sums.columns import ROUNDED, Columns
from treeleak.attacks.loss_sums.least_squares import fit
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass

_CHUNK = 20_000
"""Columns that are written out at once."""


@dataclass(frozen=True, eq=False)
class Separating:
    """The columns, with one statement more: other kinds than those in use add up to 1."""

    columns: Columns
    length: FloatArray
    right: FloatArray
    other: FloatArray
    """Shape (n_columns,). What a column counts in the last statement: 0 if it is in use."""

    @classmethod
    def of(cls, columns: Columns, used: IntArray) -> Separating:
        """Add the statement, as heavy as a column is long."""
        size = float(np.median(columns.length))
        other = np.full(len(columns), size)
        other[used] = 0.0
        right = np.append(np.zeros(len(columns.right)), size)
        return cls(columns, np.hypot(columns.length, other), right, other)

    def worth(self, residual: FloatArray) -> FloatArray:
        """A' r."""
        return np.asarray(self.columns.worth(residual[:-1]) + residual[-1] * self.other)

    def take(self, chosen: IntArray) -> csr_array:
        """Rows of A' that are chosen."""
        last = csr_array(self.other[chosen][:, None])
        return csr_array(hstack([self.columns.take(chosen), last], format="csr"))


def only_one(columns: Columns, used: IntArray, m: IntArray, clock: Clock) -> bool:
    """Whether it is proved that no other whole numbers of rows meet the statements.

    ``used``, shape (n_used,): columns that hold rows; ``m``: how many.
    """
    # What is off by rounding is off in the answer by a little more, as it was checked.
    slack = np.where(columns.slack > 0, 2.0 * columns.slack + ROUNDED, 0.0)
    if clock.stopped or not independent(columns, used, slack):
        return False
    separating = Separating.of(columns, used)

    def separates(chosen: IntArray, x: FloatArray) -> bool:
        weights = -(separating.take(chosen).T @ x)[:-1]
        worth = columns.worth(weights)
        worth[used] = -np.inf
        return bool(worth.max(initial=-np.inf) < 0) and _bounds(columns, used, m, weights, slack)

    return fit(separating, clock, separates, free=used).accepted


def independent(columns: Columns, used: IntArray, slack: FloatArray | float = 0.0) -> bool:
    """Whether rounding moves the numbers of the kinds in use by less than one, all together.

    Without ``slack``: whether no other numbers of these kinds meet the statements.
    """
    rows = columns.take(used)
    products = (rows @ rows.T).toarray()
    # Products in double precision blur the least eigenvalue by as much as this.
    blur = 1e-14 * float((columns.length[used] ** 2).sum()) * len(used)
    np.fill_diagonal(products, products.diagonal() - blur - float(np.square(slack).sum()))
    try:
        np.linalg.cholesky(products)
    except np.linalg.LinAlgError:
        return False
    return True


def _bounds(
    columns: Columns, used: IntArray, m: IntArray, weights: FloatArray, slack: FloatArray
) -> bool:
    """Check a weighing, every column in double precision."""
    e = float(np.abs(weights) @ slack)
    inside = float(np.abs(columns.take(used) @ weights).sum())
    # Numbers of rows in use are N at most, here and elsewhere.
    e += inside * float(m.sum())
    other = np.ones(len(columns), dtype=bool)
    other[used] = False
    for begin in range(0, len(columns), _CHUNK):
        at = begin + np.flatnonzero(other[begin : begin + _CHUNK])
        if len(at) and float((columns.take(at) @ weights).max()) >= -e:
            return False
    return True
