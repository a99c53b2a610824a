"""Maximum entropy: how many rows to expect at each point, given the evidence alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks._kernels import fit_weights

__all__ = ["Weights", "maximum_entropy"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Weights:
    """A fitted histogram over points.

    Attributes
    ----------
    w : float array, shape (n_points,)
        Expected rows at each point.
    prior : float array, shape (n_points,)
        The product of marginals it was fitted from.
    residual : float
        Largest |A w - n|.
    """

    w: FloatArray
    prior: FloatArray
    residual: float


def maximum_entropy(
    values: IntArray,
    sizes: FloatArray,
    cell: IntArray,
    signature: NDArray[np.int32],
    target: IntArray,
    *,
    rounds: int = 4,
    sweeps: int = 25,
) -> Weights:
    """Fit the histogram of least KL(w || prior) with A w = n.

    The prior is the product of the attributes' marginals, and the marginals are those of the fit
    itself: fit and prior take turns.

    Parameters
    ----------
    values : int array, shape (n_points, n_attributes)
        Values, numbered over all attributes.
    sizes : float array, shape (n_values,)
        Points of the schema that each value stands for.
    cell, signature, target
        As in :class:`~treeleak.evidence.CountSystem`.
    rounds, sweeps : int
        Rounds of refitting the prior, and sweeps of scaling in each.
    """
    n_cells = len(signature)
    target_float = target.astype(float)
    base = np.log(sizes)[values].sum(axis=1)
    prior = _normalised(base)
    w, worst = prior, np.inf
    for turn in range(rounds):
        if turn:
            # Half a row of each attribute stays with the sizes: a fit rules no value out.
            heard = np.zeros(len(sizes))
            for a in range(values.shape[1]):
                heard += np.bincount(values[:, a], w, minlength=len(sizes))
            marginal = heard + 0.5 * sizes / _group_total(values, sizes)
            prior = _normalised(np.log(marginal)[values].sum(axis=1))
        mass = np.bincount(cell, prior, minlength=n_cells)
        fitted = mass * (target.sum() / signature.shape[1])
        worst = fit_weights(signature, target_float, fitted, sweeps, 1e-3)
        w = prior * (fitted / np.maximum(mass, 1e-300))[cell]
    return Weights(w, prior, float(worst))


def _normalised(log_q: FloatArray) -> FloatArray:
    q = np.exp(log_q - log_q.max())
    return q / q.sum()  # type: ignore[no-any-return]


def _group_total(values: IntArray, sizes: FloatArray) -> FloatArray:
    """Total size of the values that occur of the same attribute, per value."""
    out = np.ones(len(sizes))
    for a in range(values.shape[1]):
        own = np.unique(values[:, a])
        out[own] = sizes[own].sum()
    return out
