"""The learning rate and the regularisation of an XGBoost model, which its files do not hold.

Leaves hold -rate G / (H + l2), inner nodes w = -G / (H + l2), and all nodes H; the G of a node is
the sum of its children's. So each inner node gives an equation that is linear in l2, in 1 / rate
and in their quotient: sum of w (H + l2) over its inner children, and of v (H + l2) / rate over its
leaves, less w (H + l2) of itself, is 0. With alpha, G is larger by alpha times the sign of w.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.release.adapters.xgboost.model import LOGISTIC, SOFTMAX, SQUARED, Model
from treeleak.release.bounds import MOST_REAL
from treeleak.release.ensemble import Fitting
from treeleak.release.statistics import HESSIAN, STEP, VALUE
from treeleak.release.tree import Tree

ETA, LAMBDA = 0.3, 1.0
"""XGBoost's defaults."""
_FITS = 1e-4
"""Share of their parts by which equations may be off."""
_PRECISE, _AS_WELL = 1e-6, 4.0
"""Share by which single precision puts equations off, and how much further off numbers of few
digits may put them, to be taken for those that were found."""
_DIGITS = 4
_SURE = 1e-4
"""Share by which the rate may be open, to be told."""
_ALIKE = 1e-4
"""Share up to which what alpha does may differ from what rate and l2 do."""
_REFINED = 10
"""Steps by which least squares are refined."""


def fitting_of(
    model: Model, trees: Sequence[Tree], rounds: IntArray
) -> tuple[Fitting | None, float | None]:
    """Say how leaves were fitted, and give the learning rate; None where it cannot be said.

    Of the logistic loss or squares with one output, or of several classes, a tree for each in each
    round; and of rows of equal weight.
    """
    rate, l2 = model.trained_with("eta"), model.trained_with("reg_lambda")
    n_outputs = len(model.base_scores)
    logistic = model.objective in LOGISTIC and n_outputs == 1
    softmax = model.objective in SOFTMAX and n_outputs > 1
    squared = model.objective in SQUARED and n_outputs == 1
    in_turn = [t % n_outputs for t in range(len(trees))] == [tree.output or 0 for tree in trees]
    parallel = np.bincount(rounds).max(initial=0) > n_outputs
    if not (logistic or softmax or squared) or model.scaled or model.weight_drop is not None:
        return None, rate
    if not in_turn or parallel or len(trees) % n_outputs:
        return None, rate
    parts = [equations(tree) for tree in trees]
    equation = np.concatenate([array for array, _ in parts])
    size = np.concatenate([array for _, array in parts])
    found = _solved(equation, size)
    settings = (rate, l2) if rate and l2 is not None else found
    # A model that was loaded and stored again holds defaults, not what it was trained with.
    if settings is None or not _sure(equation, size, *settings):
        settings = found
    # Without any sums of hessians, nothing tells rate and l2.
    bare = not any(tree.statistics.get(HESSIAN) for tree in trees)
    assumed = settings is None and not squared and bare
    if assumed:
        settings = rate or ETA, LAMBDA if l2 is None else l2
    if settings is None:
        return None, rate
    fitting = Fitting(
        "logistic", settings[1], assumed=assumed, margins="float32", derivatives="float32"
    )
    if squared:
        shown = _checks_start(model, trees[0])
        fitting = replace(fitting, loss="squared", targets="float32", offsets_shown=shown)
    if softmax:
        # XGBoost counts 2 p (1 - p) for each class; sums were seen to be off by 8 times as much.
        fitting = replace(fitting, loss="softmax", curvature=2.0, rough=30.0)
    return fitting, settings[0]


def _checks_start(model: Model, tree: Tree) -> bool:
    """Whether the first tree of squares can show that rows had scores of their own."""
    sums = (tree.statistics.get(q) for q in (STEP, HESSIAN))
    return model.starts_at_mean and None not in sums


def one_start(model: Model, tree: Tree, fitting: Fitting) -> bool:
    """Whether, as far as a file shows, no row had a score of its own to start from.

    Squares start from the mean, which XGBoost works out from version 2 on unless it is given, and
    of which the root of the first tree has nothing to add.
    """
    step, hessian = (tree.statistics.get(q) for q in (STEP, HESSIAN))
    if fitting.loss != "squared" or not fitting.offsets_shown or step is None or hessian is None:
        return True
    leaves, weight = tree.leaves, hessian.values + fitting.l2
    spread = float(np.abs(step.values * weight)[leaves].sum())
    rounded = float(weight[0]) * abs(model.base_scores[0])
    return abs(float(step.values[0] * weight[0])) <= _FITS * spread + _PRECISE * rounded


def equations(tree: Tree) -> tuple[FloatArray, FloatArray]:
    """Give an equation for each inner node: what goes with 1, l2, 1 / rate, l2 / rate and alpha.

    The second array holds how large its parts are. A node of no value may owe that to any alpha:
    what goes with it is then NaN.
    """
    value, step, hessian = (tree.statistics.get(q) for q in (VALUE, STEP, HESSIAN))
    v = np.flatnonzero(~tree.is_leaf)
    if value is None or step is None or hessian is None or not len(v):
        return np.zeros((0, 5)), np.zeros(0)
    w, H = step.values, hessian.values
    out = np.zeros((len(v), 5))
    out[:, 0], out[:, 1], out[:, 4] = -w[v] * H[v], -w[v], -_sign(w[v])
    size = np.abs(w[v]) * (H[v] + 1.0)
    for child in (tree.left[v], tree.right[v]):
        leaf = tree.is_leaf[child]
        weight = np.where(leaf, value.values[child], w[child])
        out[:, 0] += np.where(leaf, 0.0, weight * H[child])
        out[:, 1] += np.where(leaf, 0.0, weight)
        out[:, 2] += np.where(leaf, weight * H[child], 0.0)
        out[:, 3] += np.where(leaf, weight, 0.0)
        out[:, 4] += _sign(weight)
        size += np.abs(np.where(leaf, w[child], weight)) * (H[child] + 1.0)
    return out, size


def _sign(number: FloatArray) -> FloatArray:
    return np.where(number == 0.0, np.nan, np.sign(number))


def _solved(equation: FloatArray, size: FloatArray) -> tuple[float, float] | None:
    """Find rate and l2 by least squares, as numbers of few digits where these fit.

    None where others would do as well.
    """
    equation, alpha = equation[:, :4], equation[:, 4:]
    weight = 1.0 / np.maximum(size, 1e-6)
    if len(equation) < 3:
        return None
    x, *_ = np.linalg.lstsq(equation[:, 1:] * weight[:, None], -equation[:, 0] * weight, rcond=None)
    l2, inverse = float(x[0]), float(x[1])
    for _ in range(_REFINED):
        # The third number is the product of the others, which fewer equations pin down.
        if not max(abs(l2), abs(inverse)) <= MOST_REAL:
            return None
        bend = equation @ np.array([[0, 0], [1, 0], [0, 1], [inverse, l2]])
        off = equation @ np.array([1.0, l2, inverse, l2 * inverse])
        step, *_ = np.linalg.lstsq(bend * weight[:, None], -off * weight, rcond=None)
        l2, inverse = l2 + float(step[0]), inverse + float(step[1])
    if not 1.0 / MOST_REAL < inverse <= MOST_REAL:
        return None
    rate, l2 = 1.0 / inverse, max(l2, 0.0)
    if _open(bend * weight[:, None], alpha * weight[:, None], rate):
        return None
    short, least = float(f"{rate:.{_DIGITS - 1}g}"), round(l2, _DIGITS - 1)
    most = max(_AS_WELL * _off(equation, size, rate, l2), _PRECISE)
    found = (short, least), (short, l2), (rate, least), (rate, l2)
    rate, l2 = next(
        (candidate for candidate in found if _off(equation, size, *candidate) <= most), found[-1]
    )
    return (rate, l2) if _sure(equation, size, rate, l2) else None


def _open(bend: FloatArray, alpha: FloatArray, rate: float) -> bool:
    """Whether another rate would do: by what single precision leaves open, or by another alpha.

    ``bend`` and ``alpha``: what changes if l2, 1 / rate and alpha do.
    """
    if rate * np.linalg.norm(np.linalg.pinv(bend)[1]) * _PRECISE > _SURE:
        return True
    finite_rows = np.isfinite(alpha).all(axis=1)
    bend, alpha = bend[finite_rows], alpha[finite_rows]
    # In this order: the other way takes a table of all equations by all equations.
    left = alpha - bend @ (np.linalg.pinv(bend) @ alpha)
    return bool((np.abs(left) <= _ALIKE * np.abs(alpha)).all(axis=0).any())


def _sure(equation: FloatArray, size: FloatArray, rate: float, l2: float) -> bool:
    """Whether all equations hold, and would not with a quite different rate or l2."""
    others = (2.0 * rate, l2), (rate, 2.0 * l2 + 1.0)
    return _meet(equation, size, rate, l2) and not any(_meet(equation, size, *o) for o in others)


def _meet(equation: FloatArray, size: FloatArray, rate: float, l2: float) -> bool:
    """Whether all equations hold."""
    return _off(equation, size, rate, l2) <= _FITS


def _off(equation: FloatArray, size: FloatArray, rate: float, l2: float) -> float:
    """Say by what share of their parts equations are off at most."""
    off = equation[:, :4] @ np.array([1.0, l2, 1.0 / rate, l2 / rate])
    return float((np.abs(off) / np.maximum(size, 1e-3)).max(initial=0.0))
