"""The learning rate and the regularisation of an XGBoost model, which its files do not hold.

Leaves hold -rate G / (H + l2), inner nodes w = -G / (H + l2), and all nodes H; the G of a node is
the sum of its children's. So each inner node gives an equation that is linear in l2, in 1 / rate
and in their quotient: sum of w (H + l2) over its inner children, and of v (H + l2) / rate over its
leaves, less w (H + l2) of itself, is 0.
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
_ROUND = 1e-4
"""How near a number must come to one of few digits to be taken for it, as a share."""
_DIGITS = 4
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
    equation = np.concatenate([own for own, _ in parts])
    size = np.concatenate([own for _, own in parts])
    found = _solved(equation, size)
    given = (rate, l2) if rate and l2 is not None else found
    # A model that was loaded and stored again holds defaults, not what it was trained with.
    if given is None or not _sure(equation, size, *given):
        given = found
    assumed = given is None and not squared and _bare(trees)
    if assumed:
        given = rate or ETA, LAMBDA if l2 is None else l2
    if given is None:
        return None, rate
    fitting = Fitting(
        "logistic", given[1], assumed=assumed, margins="float32", derivatives="float32"
    )
    if squared:
        fitting = replace(fitting, loss="squared", targets="float32")
    if softmax:
        # XGBoost counts 2 p (1 - p) for each class; sums were seen to be off by 8 times as much.
        fitting = replace(fitting, loss="softmax", curvature=2.0, rough=30.0)
    return fitting, given[0]


def _bare(trees: Sequence[Tree]) -> bool:
    """Whether all sums of hessians and all inner values were taken out."""
    return not any(tree.statistics.get(q) for tree in trees for q in (HESSIAN, STEP))


def equations(tree: Tree) -> tuple[FloatArray, FloatArray]:
    """Give an equation for each inner node: what goes with 1, l2, 1 / rate and l2 / rate.

    The second array holds how large its parts are.
    """
    value, step, hessian = (tree.statistics.get(q) for q in (VALUE, STEP, HESSIAN))
    v = np.flatnonzero(~tree.is_leaf)
    if value is None or step is None or hessian is None or not len(v):
        return np.zeros((0, 4)), np.zeros(0)
    w, H = step.values, hessian.values
    out = np.zeros((len(v), 4))
    out[:, 0], out[:, 1] = -w[v] * H[v], -w[v]
    size = np.abs(w[v]) * (H[v] + 1.0)
    for child in (tree.left[v], tree.right[v]):
        leaf = tree.is_leaf[child]
        own = np.where(leaf, value.values[child], w[child])
        out[:, 0] += np.where(leaf, 0.0, own * H[child])
        out[:, 1] += np.where(leaf, 0.0, own)
        out[:, 2] += np.where(leaf, own * H[child], 0.0)
        out[:, 3] += np.where(leaf, own, 0.0)
        size += np.abs(np.where(leaf, w[child], own)) * (H[child] + 1.0)
    return out, size


def _solved(equation: FloatArray, size: FloatArray) -> tuple[float, float] | None:
    """Find rate and l2 by least squares, as numbers of few digits where these fit."""
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
    rate, l2 = _short(1.0 / inverse) or 1.0 / inverse, max(_short(l2), 0.0)
    return (rate, l2) if _sure(equation, size, rate, l2) else None


def _short(number: float) -> float:
    near = float(f"{number:.{_DIGITS - 1}g}") if abs(number) > _ROUND else 0.0
    return near if abs(near - number) <= _ROUND * max(abs(near), 1.0) else number


def _sure(equation: FloatArray, size: FloatArray, rate: float, l2: float) -> bool:
    """Whether all equations hold, and would not with a quite different rate or l2."""
    others = (2.0 * rate, l2), (rate, 2.0 * l2 + 1.0)
    return _meet(equation, size, rate, l2) and not any(_meet(equation, size, *o) for o in others)


def _meet(equation: FloatArray, size: FloatArray, rate: float, l2: float) -> bool:
    """Whether all equations hold, as far as single precision can tell."""
    off = equation @ np.array([1.0, l2, 1.0 / rate, l2 / rate])
    return bool((np.abs(off) <= _FITS * np.maximum(size, 1e-3)).all())
