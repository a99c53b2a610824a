"""The second path for boosted models: add up the loss over rows, tree by tree, and compare.

Like :mod:`treeleak.verification.counts`, nothing here shares code with the evidence or the attacks.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.release.ensemble import Ensemble
from treeleak.release.release import Release
from treeleak.release.statistics import HESSIAN, VALUE
from treeleak.release.tree import Tree

_OFF = 1e-5
"""By how much a leaf may be off that holds these rows: as a share of what it sums up, and beside
that. A row more or less, or of the other class, makes far more of a difference."""

_EACH = 4e-7
"""How far each row's derivatives may be off."""


def leaves_off(release: Release, X: NDArray[Any], y: IntArray) -> int | None:
    """Count the leaves whose sums, or whose values, these rows do not give.

    Parameters
    ----------
    X : float array, shape (n_rows, n_features)
        In the model's columns.
    y : int array, shape (n_rows,)
        The number of each row's class.

    Returns
    -------
    int or None
        None where it is not known how the leaves were fitted.
    """
    ensemble = release.ensemble
    fitting = None if ensemble is None else ensemble.fitting
    if ensemble is None or fitting is None or not fitting.of_classes:
        return None
    rows, copies = np.unique(
        np.column_stack([X.astype(release.float_type), y]), axis=0, return_counts=True
    )
    X, label, times = rows[:, :-1], rows[:, -1].astype(float), copies.astype(float)
    n_outputs, kind = len(ensemble.base_scores), np.dtype(fitting.margins)
    margin = np.tile(np.array(ensemble.base_scores, dtype=kind), (len(X), 1))
    wrong, before = 0, _Before(margin)
    for t, tree in enumerate(release.trees):
        value = tree.statistics.get(VALUE)
        if value is None:
            return None
        leaf = tree.apply(X)
        k, start = t % n_outputs, 0.0
        if k == 0:
            before = _Before(margin.copy())
        if fitting.start is not None and t < n_outputs:
            start = fitting.start[k]
            if k == 0:
                before = _Before(np.tile(np.array(fitting.start), (len(X), 1)))
        is_class = (label == (k if n_outputs > 1 else 1)).astype(float)
        if fitting.started or t >= n_outputs:
            wrong += _off(tree, leaf, before, k, is_class, times, ensemble, start)
        margin[:, k] += value.values[leaf].astype(kind)
    return wrong


@dataclass(frozen=True, eq=False)
class _Before:
    """What each row's outputs were before a round of trees, one for each output."""

    margin: FloatArray

    @cached_property
    def _shares(self) -> FloatArray:
        """What the classes of the outputs have of each row: the same for all trees of a round."""
        return _shares(self.margin.astype(float))

    def share(self, k: int, moved: FloatArray | None) -> FloatArray:
        """What one of them has, once its output has been moved, if it has."""
        if moved is None:
            return self._shares[:, k]
        margin = self.margin.astype(float)
        margin[:, k] += moved
        return _shares(margin)[:, k]


def _shares(margin: FloatArray) -> FloatArray:
    if margin.shape[1] == 1:
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / (1.0 + np.exp(-margin)))
    power = np.exp(margin - margin.max(axis=1, keepdims=True))
    return np.asarray(power / power.sum(axis=1, keepdims=True))


def _off(
    tree: Tree,
    leaf: IntArray,
    before: _Before,
    k: int,
    y: FloatArray,
    times: FloatArray,
    ensemble: Ensemble,
    start: float,
) -> int:
    """Count the leaves of one tree, of output k, that the rows do not give."""
    n, fitting = tree.n_nodes, ensemble.fitting
    assert fitting is not None  # noqa: S101
    held, l2 = np.bincount(leaf, times, n), fitting.l2_at(tree)
    step = np.zeros(n)
    first_hessian = None
    for taken in range(fitting.steps):
        p = before.share(k, step[leaf] if taken else None)
        G = np.bincount(leaf, times * (p - y), n)
        H = fitting.curvature * np.bincount(leaf, times * p * (1 - p), n)
        first_hessian = H if first_hessian is None else first_hessian
        with np.errstate(invalid="ignore", divide="ignore"):
            step -= np.where(held > 0, G / (H + l2), 0.0)
    wrong = np.zeros(n, dtype=bool)
    hessian, value = tree.statistics.get(HESSIAN), tree.statistics.get(VALUE)
    checked, off = tree.is_leaf & (held > 0), _OFF * fitting.rough
    if hessian is not None and first_hessian is not None:
        wrong |= np.abs(hessian.values - first_hessian) > off * (1.0 + first_hessian)
    # A tree that is one leaf, and adds nothing, took no step.
    stepped = fitting.steps == 1 and (n > 1 or (value is not None and value.values[0] != start))
    if value is not None and ensemble.learning_rate and stepped and first_hessian is not None:
        due = start + ensemble.learning_rate * step
        # Where rows are all but certain, little divides what rounding leaves of their sum.
        least = np.maximum(first_hessian + l2, 1e-300)
        blur = ensemble.learning_rate * fitting.rough * _EACH * held / least
        wrong |= np.abs(value.values - due) > off * (1.0 + np.abs(due)) + blur
    return int((wrong & checked).sum())
