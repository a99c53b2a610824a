"""Rows of both classes in the leaves of a first tree of CatBoost, where classes have weights.

Leaves hold sums of weights then, W = w_0 n_0 + w_1 n_1, and the file says both weights. Before the
first tree, all rows have one chance of the second class. How far a leaf's steps of Newton's method
come follows from W and from the share that rows of the second class have in it. They are longer
the greater that share is, so that it follows from what the leaf adds. CatBoost multiplies l2 by the
mean weight of a row, and so by what is to be found: a few rounds settle it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.release.ensemble import Fitting

_ROUNDS, _HALVINGS = 30, 60
"""Rounds for the number of rows, and for a share by bisection."""
_WHOLE = 0.02
"""How far a number of rows may be from a whole one."""
_FLAT, _MOST_WEIGHED = 1e-3, 100_000
"""Share of the longest step below which steps that cancel each other tell nothing; and the greatest
sum of weights that is taken apart."""
_SINGLE = 3e-7
"""Share by which sums of weights in single precision may be off."""


def rows_of_both_classes(
    sums: FloatArray, values: FloatArray, fitting: Fitting, rate: float, start: float
) -> tuple[FloatArray, Fitting] | None:
    """Count the rows of both classes in the leaves of the first tree.

    Parameters
    ----------
    sums, values : float array, shape (n_leaves,)
        Sums of weights, and what leaves add.
    fitting : Fitting
        With the weights of both classes, and l2 as a parameter gives it.
    rate, start : float
        The learning rate, and the log odds before the first tree.

    Returns
    -------
    rows : float array, shape (2, n_leaves)
        Whole numbers.
    fitting : Fitting
        With l2 times the mean weight of a row.

    None unless whole numbers come out, which add up to these weights.
    """
    w = np.array(fitting.class_weights)[:, None]
    if len(w) != 2 or not (w > 0).all() or not rate > 0 or not (sums >= 0).all():
        return None
    total, n_rows = float(sums.sum()), float(sums.sum() / w.mean())
    rows = np.zeros((2, len(sums)))
    for _ in range(_ROUNDS):
        l2 = fitting.l2 * total / n_rows
        low, high = np.zeros(len(sums)), np.ones(len(sums))
        for _ in range(_HALVINGS):
            share = (low + high) / 2
            short = rate * _stepped(sums, share, l2, fitting.steps, start) < values
            low, high = np.where(short, share, low), np.where(short, high, share)
        share = (low + high) / 2
        rows = sums * np.array([1.0 - share, share]) / w
        before, n_rows = n_rows, max(float(rows.sum()), 1.0)
        if abs(n_rows - before) < 1e-9 * n_rows:
            break
    whole = np.rint(rows)
    added_up = np.abs((w * whole).sum(axis=0) - sums) <= _SINGLE * (sums + w.max())
    if not (np.abs(rows - whole) < _WHOLE).all() or not added_up.all() or whole.sum() < 1:
        return None
    return whole, replace(fitting, l2=fitting.l2 * total / float(whole.sum()))


def rows_behind_weights(
    sums: FloatArray, values: FloatArray, fitting: Fitting, rate: float, start: float
) -> int | None:
    """Find how many rows a first tree summed up whose whole weights look like numbers of rows.

    Their mean weight shows, since l2 was multiplied by it. For squares, the residuals of all rows
    add up to 0 before the first tree. For the logistic loss, leaves hold whole numbers of both
    classes. None where rows may have had no weights: then that mean is 1.
    """
    total, l2 = float(sums.sum()), fitting.l2
    if not 1 < total <= _MOST_WEIGHED or not l2 > 0 or not rate > 0 or fitting.steps > 1:
        return None
    step = values / rate
    if fitting.loss == "squared":
        added = float(step.sum())
        if not fitting.offsets_shown or abs(added) < _FLAT * np.abs(step).max(initial=0.0):
            return None
        mean = -float(step @ sums) / (l2 * added)
        n = total / mean if mean > 0 else np.nan
        return int(np.rint(n)) if abs(n - np.rint(n)) < _WHOLE and 0.5 < n < total - 0.5 else None
    p = 1.0 / (1.0 + np.exp(-np.clip(start, -80.0, 80.0)))
    tried = np.arange(int(total), 0, -1)[:, None]
    of_class = step * (sums * p * (1 - p) + l2 * total / tried) + sums * p
    near = (np.abs(of_class - np.rint(of_class)) < _WHOLE).all(axis=1)
    near &= ((of_class > -_WHOLE) & (of_class < sums + _WHOLE)).all(axis=1)
    return int(tried[near.argmax(), 0]) if near.any() and not near[0] else None


def _stepped(
    sums: FloatArray, share: FloatArray, l2: float, steps: int, start: float
) -> FloatArray:
    """Say how far steps of Newton's method come in leaves of some share of the second class."""
    d = np.zeros(len(sums))
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-np.clip(start + d, -80.0, 80.0)))
        d += np.divide(
            sums * (share - p), sums * p * (1 - p) + l2, out=np.zeros_like(d), where=sums > 0
        )
    return d
