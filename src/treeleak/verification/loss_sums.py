"""The second path for boosted models: add up the loss over rows, tree by tree, and compare.

Like :mod:`treeleak.verification.counts`, nothing here shares code with the evidence or the attacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.release.ensemble import Ensemble, Fitting
from treeleak.release.release import Release
from treeleak.release.statistics import HESSIAN, VALUE
from treeleak.release.tree import Tree

_OFF = 1e-5
"""By how much a leaf may be off that holds these rows: as a share of what it sums up, and beside
that. A row more or less, or of the other class, makes far more of a difference."""


def leaves_off(release: Release, X: NDArray[Any], y: IntArray) -> int | None:
    """Count the leaves whose sums, or whose values, these rows do not give.

    Parameters
    ----------
    X : float array, shape (n_rows, n_features)
        In the model's columns.
    y : int array, shape (n_rows,)
        0 or 1.

    Returns
    -------
    int or None
        None where it is not known how the leaves were fitted.
    """
    ensemble = release.ensemble
    if ensemble is None or ensemble.fitting is None or len(ensemble.base_scores) != 1:
        return None
    fitting = ensemble.fitting
    rows, copies = np.unique(
        np.column_stack([X.astype(release.float_type), y]), axis=0, return_counts=True
    )
    X, label, times = rows[:, :-1], rows[:, -1].astype(float), copies.astype(float)
    kind = np.dtype(fitting.margins).type
    margin = np.full(len(X), ensemble.base_scores[0], dtype=fitting.margins)
    wrong = 0
    for t, tree in enumerate(release.trees):
        value = tree.statistics.get(VALUE)
        if value is None:
            return None
        leaf = tree.apply(X)
        started = fitting.start if t == 0 else None
        before = margin if started is None else np.full_like(margin, started)
        wrong += _off(tree, leaf, before, label, times, ensemble, fitting, started or 0.0)
        margin = margin + value.values[leaf].astype(kind)
    return wrong


def _off(
    tree: Tree,
    leaf: IntArray,
    margin: FloatArray,
    y: FloatArray,
    times: FloatArray,
    ensemble: Ensemble,
    fitting: Fitting,
    start: float,
) -> int:
    """Count the leaves of one tree that the rows do not give."""
    n = tree.n_nodes
    held = np.bincount(leaf, times, n)
    step = np.zeros(n)
    first_hessian = None
    for _ in range(fitting.steps):
        p = 1.0 / (1.0 + np.exp(-(margin.astype(float) + step[leaf])))
        G, H = np.bincount(leaf, times * (p - y), n), np.bincount(leaf, times * p * (1 - p), n)
        first_hessian = H if first_hessian is None else first_hessian
        with np.errstate(invalid="ignore", divide="ignore"):
            step -= np.where(held > 0, G / (H + fitting.l2), 0.0)
    wrong = np.zeros(n, dtype=bool)
    hessian, value = tree.statistics.get(HESSIAN), tree.statistics.get(VALUE)
    own = tree.is_leaf & (held > 0)
    if hessian is not None and first_hessian is not None:
        wrong |= np.abs(hessian.values - first_hessian) > _OFF * (1.0 + first_hessian)
    if value is not None and ensemble.learning_rate and fitting.steps == 1:
        due = start + ensemble.learning_rate * step
        wrong |= np.abs(value.values - due) > _OFF * (1.0 + np.abs(due))
    return int((wrong & own).sum())
