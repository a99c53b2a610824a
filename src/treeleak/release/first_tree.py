"""Rows of two classes in the leaves of a first tree, before which all rows are alike.

All rows have one chance p of the second class then. With weights w of the classes, leaves sum up
H = p (1 - p) (w_0 n_0 + w_1 n_1) and G = p w_0 n_0 - (1 - p) w_1 n_1, so that n_0 and n_1 follow;
where p or weights are not known, these are right that leave whole numbers.

Leaves of CatBoost hold W = w_0 n_0 + w_1 n_1 in place of H, and may take several steps. How far
they come follows from W and from the share that rows of the second class have in it. They are
longer the greater that share is, so that it follows from what the leaf adds. CatBoost multiplies l2
by the mean weight of a row, and so by what is to be found: a few rounds settle it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.release.bounds import MOST_REAL
from treeleak.release.ensemble import Fitting
from treeleak.release.statistics import HESSIAN, VALUE
from treeleak.release.tree import Tree

WHOLE = 0.05
"""How far numbers of rows by class may be off that follow from two sums."""
_MOST_TRIED = 2**22
"""Pairs of a leaf and a number of rows of the second class, from which a start follows."""
_FEWEST = 4
"""Leaves from which two weights follow, with two to spare."""
_LEAVES = 10
"""Leaves with rows of a class from which its weight follows: in one of a thousand tables, all their
numbers of rows are even, and it would be taken for twice as much."""
_MULTIPLES, _NEAR = 50, 0.02
"""Rows that the leaf of the least sum may hold, and how far sums may be from multiples of a weight:
by chance, all of ten leaves are as near in 50 * 0.04^10 of cases at most."""
_NAMED = 2e-5
"""By which share weights that follow from sums may miss those that a rule gives."""


def rows_by_class(
    tree: Tree,
    fitting: Fitting,
    rate: float,
    p: FloatArray,
    w: FloatArray,
    start: FloatArray | float,
) -> FloatArray | None:
    """Count the rows, shape (2, n_starts, n_leaves); NaN where G is open.

    ``p``, shape (n_starts, 1): chances; ``w``, shape (2, n_starts, 1): weights; ``start``: what the
    values of leaves hold beside their steps. None where leaves do not say H and G.
    """
    value, hessian = tree.statistics.get(VALUE), tree.statistics.get(HESSIAN)
    if value is None or hessian is None or tree.n_nodes == 1:
        return None
    leaf, H = tree.leaves, hessian.values[tree.leaves]
    step = (value.values[leaf] - start) / rate
    pulled = fitting.pulled(step.ravel()).reshape(step.shape)
    G = -step * (H + fitting.l2_at(tree)[leaf]) - pulled
    each = H / (p * (1 - p))
    return np.array([each * (1 - p) + G, each * p - G]) / w


def sum_after(tree: Tree, rows: FloatArray, start: float) -> tuple[float, int]:
    """Say what second derivatives add up to after a first tree whose nodes have so many rows.

    Also in how many leaves rows differ by them. ``start``: log odds before the tree, unless its
    values hold it as well. NaN where leaves do not say what they add.
    """
    value = tree.statistics.get(VALUE)
    if value is None:
        return np.nan, 0
    p = expit(start + value.values[tree.leaves])
    each = p * (1 - p)
    return float(rows[tree.leaves] @ each), len(np.unique(each.astype(np.float32)))


def with_start(
    tree: Tree,
    fitting: Fitting,
    rate: float,
    n: FloatArray,
    n_rows: int,
    *,
    unbalanced: bool = False,
) -> Fitting | None:
    """Find the prediction before a first tree whose leaves hold it as well.

    It is the log odds of a number of rows of the second class, of all: the one that leaves whole
    numbers of both to each leaf. ``n``, shape (n_leaves,): rows in each leaf; ``n_rows``: rows in
    all, of which the tree may have drawn some. ``unbalanced``: whether the rarer class weighs as
    much more as it is rarer. Weights that make both classes weigh the same are tried, too: all rows
    have the chance 1 / 2 then. None where nothing leaves whole numbers.
    """
    if n_rows < 2 or n_rows * len(n) > _MOST_TRIED or np.isnan(n).any():
        return None
    ones = np.arange(1.0, n_rows)[:, None]
    zeros = n_rows - ones
    w = np.ones((2, n_rows - 1, 1))
    if fitting.class_weights:
        w = w * np.array(fitting.class_weights)[:, None, None]
    if unbalanced:
        w = w * np.maximum([ones / zeros, zeros / ones], 1.0)
    ways = [(ones / n_rows, w)]
    if not (fitting.class_weights or unbalanced):
        ways.append((np.full(ones.shape, 0.5), n_rows / (2 * np.array([zeros, ones]))))
    for p, weights in ways:
        start = np.log(p / (1 - p))
        found = rows_by_class(tree, fitting, rate, p, weights, start)
        if found is None:
            return None
        off = _off(found, n)
        best = int(off.argmin())
        if off[best] < WHOLE:
            chosen = tuple(float(x) for x in weights[:, best, 0])
            return replace(
                fitting, start=(float(start[best, 0]),),
                class_weights=() if set(chosen) == {1.0} else chosen,
            )  # fmt: skip
    return None


def _off(found: FloatArray, n: FloatArray) -> FloatArray:
    """Say how far numbers of rows are from whole ones that add up, shape (n_starts,)."""
    known = ~np.isnan(found[0])
    off = np.abs(found - np.rint(found)).max(axis=0) + np.abs(found.sum(axis=0) - n)
    off = np.maximum(off, np.where(found.min(axis=0) < -WHOLE, np.inf, 0.0))
    out = np.where(known, off, 0.0).max(axis=1)
    return np.asarray(np.where(known.sum(axis=1) < min(2, len(n)), np.inf, out))


def with_weights(tree: Tree, fitting: Fitting, rate: float | None) -> Fitting | None:
    """Find weights of two classes that no parameter says (class_weight of scikit-learn's kind).

    They start where G is 0 over all rows, as without weights. From n_0 + n_1 = n in each leaf of a
    tree that counts all rows, weights follow by least squares; None if the numbers of rows of both
    classes are not whole then.
    """
    start = fitting.start or ()
    if fitting.loss != "logistic" or len(start) != 1 or not rate or tree.totals is None:
        return None
    p = np.full((1, 1), expit(start[0]))
    sums = rows_by_class(tree, fitting, rate, p, np.ones((2, 1, 1)), start[0])
    if sums is None or len(tree.leaves) < _FEWEST or np.isnan(sums).any():
        return None
    n = tree.totals[tree.leaves].astype(float)
    inverse, *_ = np.linalg.lstsq(sums[:, 0].T, n, rcond=None)
    found = inverse[:, None, None] * sums
    if not (inverse > 1.0 / MOST_REAL).all() or not _off(found, n)[0] < WHOLE:
        return None
    balanced = n.sum() / (2 * np.maximum(np.rint(found[:, 0]).sum(axis=1), 1))
    w = balanced if np.allclose(1.0 / inverse, balanced, rtol=_NAMED) else 1.0 / inverse
    return replace(fitting, class_weights=tuple(float(x) for x in w))


def with_common_weights(tree: Tree, fitting: Fitting, rate: float, start: float) -> Fitting | None:
    """Find weights of two classes where nothing counts rows (sample_weight by class, in XGBoost).

    The sum of weights of each class in a leaf is its weight times a whole number: it is the
    greatest number of which the sums of all leaves are multiples. ``start``: log odds before the
    tree. None where no weight leaves whole numbers, where chance may have made them whole, and
    where both weights are the same: single rows were weighted, and not classes.
    """
    p = np.full((1, 1), expit(start))
    sums = rows_by_class(tree, fitting, rate, p, np.ones((2, 1, 1)), 0.0)
    if sums is None or np.isnan(sums).any():
        return None
    found = [_common_measure(of_class[0]) for of_class in sums]
    weights = tuple(w for w in found if w is not None)
    if len(weights) < len(found) or abs(weights[0] - weights[1]) <= _NAMED * weights[0]:
        return None
    return replace(fitting, class_weights=weights)


def _common_measure(sums: FloatArray) -> float | None:
    """Find the greatest number of which all sums are multiples, about."""
    sums = sums[np.abs(sums) > _NEAR * np.abs(sums).max(initial=0.0) / _MULTIPLES]
    if len(sums) < _LEAVES or sums.min() <= 0:
        return None
    for k in range(1, _MULTIPLES + 1):
        weight = float(sums.min()) / k
        for _ in range(3):  # sums of many rows tell more digits
            n: FloatArray = np.maximum(np.rint(sums / weight), 1.0)
            weight = float((sums * n).sum() / (n * n).sum())
        if (np.abs(sums / weight - n) < _NEAR).all():
            return weight
    return None


_ROUNDS, _HALVINGS = 30, 60
"""Rounds for the number of rows, and for a share by bisection."""
_NEARLY_WHOLE = 0.02
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
    if not (np.abs(rows - whole) < _NEARLY_WHOLE).all() or not added_up.all() or whole.sum() < 1:
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
        return (
            int(np.rint(n))
            if abs(n - np.rint(n)) < _NEARLY_WHOLE and 0.5 < n < total - 0.5
            else None
        )
    p = float(expit(start))
    tried = np.arange(int(total), 0, -1)[:, None]
    of_class = step * (sums * p * (1 - p) + l2 * total / tried) + sums * p
    near: BoolArray = np.asarray((np.abs(of_class - np.rint(of_class)) < _NEARLY_WHOLE).all(axis=1))
    near &= ((of_class > -_NEARLY_WHOLE) & (of_class < sums + _NEARLY_WHOLE)).all(axis=1)
    return int(tried[near.argmax(), 0]) if near.any() and not near[0] else None


def _stepped(
    sums: FloatArray, share: FloatArray, l2: float, steps: int, start: float
) -> FloatArray:
    """Say how far steps of Newton's method come in leaves of some share of the second class."""
    d = np.zeros(len(sums))
    for _ in range(steps):
        p = expit(start + d)
        d += np.divide(
            sums * (share - p), sums * p * (1 - p) + l2, out=np.zeros_like(d), where=sums > 0
        )
    return d
