"""Maximum entropy: how many rows to expect at each point, given the evidence alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.kernels import fit_weights
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.decisions import on_grid, rounded
from treeleak.core.private import dataclass
from treeleak.partition.untested_priors import mean_skew

_MOST_TILT = 30.0
"""Where w is as good as zero, its log is taken to be this far below the greatest."""


@dataclass(frozen=True, eq=False)
class Weights:
    """A fitted histogram over points."""

    w: FloatArray
    """Shape (n_points,). Expected rows at each point."""
    prior: FloatArray
    """Shape (n_points,). What it was fitted from: a product of marginals, or the population."""
    residual: float
    """Largest |A w - n|."""

    @property
    def tilt(self) -> FloatArray:
        """Log of w over the prior, up to a constant: a sum over the equations of each point."""
        with np.errstate(divide="ignore", invalid="ignore"):
            tilt = np.log(self.w) - np.log(self.prior)
        return np.asarray(on_grid(np.nan_to_num(np.clip(tilt - np.nanmax(tilt), -_MOST_TILT, 0.0))))


def maximum_entropy(
    values: IntArray,
    sizes: FloatArray,
    cell: IntArray,
    signature: NDArray[np.int32],
    target: IntArray,
    *,
    fixed_counts: FloatArray | None = None,
    binaries: IntArray | None = None,
    log_population: FloatArray | None = None,
    known_binaries: FloatArray | None = None,
    rounds: int = 12,
    sweeps: int = 6,
) -> Weights:
    """Fit the histogram of least KL(w || prior) with A w = n.

    The prior is the product of the attributes' marginals, and the marginals are those of the fit
    itself and of the settled rows: fit and prior take turns, so that what the evidence says of a
    column in some rows speaks for the rows in which it is silent. A column of which it says
    nothing anywhere is taken to be as skewed as the other binary columns are on average.

    Where the population is known, it is the prior, and there is nothing to refit.

    Parameters
    ----------
    values : int array, shape (n_points, n_attributes)
        Values, numbered over all attributes.
    sizes : float array, shape (n_values,)
        Points of the schema that each value stands for.
    cell, signature, target
        As in :class:`~treeleak.evidence.CountSystem`.
    fixed_counts : float array, shape (n_values,), optional
        Rows with each value beside those that are fitted.
    binaries : int array, shape (n_binaries, 2), optional
        The two values, 0 and 1, of each binary column.
    log_population : float array, shape (n_points,), optional
        Log probability of each point in the population, up to a constant.
    known_binaries : float array, shape (n_told, 2, n_values), optional
        The same of further binary columns: 1 for each value that has a 0, or a 1, there.
    rounds, sweeps : int
        Rounds of refitting the prior, and sweeps of scaling in each.
    """
    n_cells, by_tree = len(signature), np.ascontiguousarray(signature.T)
    target_float = target.astype(float)
    n_rows = target.sum() / max(signature.shape[1], 1)
    beside = np.zeros(len(sizes)) if fixed_counts is None else fixed_counts
    pairs = np.zeros((0, 2), dtype=np.int64) if binaries is None else binaries
    further = np.zeros((0, 2, len(sizes))) if known_binaries is None else known_binaries
    # Attribute by attribute in memory, which every round reads twice.
    columns = np.ascontiguousarray(values.T)
    # One row's worth of the sizes stays with every attribute: a fit rules no value out.
    pseudo_counts = sizes / _group_total(columns, sizes)
    prior = _normalised(_summed(np.log(sizes), columns))
    if log_population is not None:
        prior, rounds = _normalised(log_population), 1
    w, worst = prior * n_rows, np.inf
    for turn in range(rounds):
        if turn:
            expected = beside.copy()
            for column in columns:
                expected += np.bincount(column, w, minlength=len(sizes))
            pseudo_counts[pairs] = mean_skew(np.concatenate([expected[pairs], further @ expected]))
            prior = _normalised(_summed(np.log(expected + pseudo_counts), columns))
        mass = np.bincount(cell, prior, minlength=n_cells)
        fitted = mass * n_rows
        last = 5 if turn == rounds - 1 else 1
        worst = fit_weights(by_tree, target_float, fitted, last * sweeps, 1e-3)
        w = prior * (fitted / np.maximum(mass, 1e-300))[cell]
    # Walks begin with these.
    return Weights(rounded(w), rounded(prior), float(worst))


def _summed(log: FloatArray, columns: IntArray) -> FloatArray:
    """Sum over the attributes of each point; one at a time stays in the cache."""
    out = np.zeros(columns.shape[1])
    for column in columns:
        out += log[column]
    return out


def _normalised(log_q: FloatArray) -> FloatArray:
    q = np.exp(log_q - log_q.max())
    return q / q.sum()  # type: ignore[no-any-return]


def _group_total(columns: IntArray, sizes: FloatArray) -> FloatArray:
    """Total size of the values that occur of the same attribute, per value."""
    out = np.ones(len(sizes))
    for column in columns:
        occurs = np.bincount(column, minlength=len(sizes)) > 0
        out[occurs] = sizes[occurs].sum()
    return out
