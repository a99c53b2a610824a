"""Trees that XGBoost printed (dump_model): what their sums show of what no dump holds.

A dump names neither the loss nor where predictions begin. With statistics it has the sums of
hessians in all their digits. If these are whole throughout, each row counts 1. Of the logistic
loss, those of the first tree are multiples of p (1 - p), and those at the root of the second tree
confirm the chance p; of several classes, p is the same for each class. Learning rate and lambda
follow from gains, and from them the values of inner nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.release.adapters.boosted import numbers, parents_first, whole_numbers, whole_sums
from treeleak.release.adapters.xgboost.model import Model, object_in
from treeleak.release.bounds import MOST_CLASSES, MOST_NODES, MOST_REAL
from treeleak.release.release import Release
from treeleak.release.stored import StoredObject
from treeleak.release.tree import LEAF

_RELATIVE, _SAME, _FITS = 1e-6, 5e-6, 1e-4
"""Shares by which single precision puts sums, sums at a root, and gains off."""
_TELLING = 8
"""Leaves from which a loss follows."""
_MOST_IN_LEAF = 200
"""Rows that the leaf of the least sum may hold."""
_DIVISORS = 6
"""Numbers by which all leaves' rows may be divisible."""
_LAMBDAS = np.append(0.0, np.geomspace(1e-3, 1e3, 121))
_SEARCHED = 5
"""Trees by which lambda is searched for."""
_DIGITS = 4

BARE = static_message(
    "trees that XGBoost printed without statistics: they count no rows. Nothing but the trees "
    'follows from the file. Save the model with save_model("model.json")',
    "xgboost_printed_bare",
)
UNCLEAR = static_message(
    "trees that XGBoost printed (dump_model) do not name their loss, nor where predictions begin, "
    'and their sums of hessians do not show it. Save the model with save_model("model.json")',
    "xgboost_printed_unclear",
)
PRINTED = MessageTemplate(
    "xgboost_printed",
    "Printed trees (dump_model) name no loss and no start of predictions: the sums of hessians "
    "are those of {loss}.",
)
WHOLE, LOGISTIC, SOFTMAX = "reg:squarederror", "binary:logistic", "multi:softprob"
_COUNTED = "a loss of which each row counts 1; targets stay unknown, as far as they depend on it"


@dataclass(frozen=True, eq=False)
class _Printed:
    """Numbers of a tree, nodes in the order of the file."""

    left: IntArray
    right: IntArray
    inner: IntArray
    """Nodes that have children, parents before children."""
    leaves: IntArray
    value: FloatArray
    hessian: FloatArray
    gain: FloatArray

    def weighed(self, l2: float) -> tuple[FloatArray, FloatArray]:
        """Give what all nodes would add, times its weight, and these weights."""
        weight = self.hessian + l2 + 1e-300
        out = self.value * weight
        for v in self.inner[::-1].tolist():
            out[v] = out[self.left[v]] + out[self.right[v]]
        return out, weight

    def rows(self, unit: float) -> FloatArray | None:
        """Count rows, each of which counts a unit; None where these are no whole numbers."""
        return whole_sums(self.hessian, unit, _RELATIVE, self.left, self.right)


def is_printed(stored: StoredObject) -> bool:
    """Say whether these are trees alone, as a dump has them."""
    learner = stored.get("learner")
    return isinstance(learner, Mapping) and not {"objective", "attributes"} & learner.keys()


def of_printed(stored: StoredObject, release_of: Callable[[Model], Release]) -> Release:
    """Make a release of printed trees; ``release_of`` makes one of a model that is known whole."""
    learner = object_in(stored.state, "learner")
    model = object_in(object_in(learner, "gradient_booster"), "model")
    raw = model.get("trees")
    if not isinstance(raw, list) or not all(isinstance(tree, Mapping) for tree in raw):
        raise BadModel("the model has no list of trees")
    summed = bool(raw) and all("sum_hessian" in tree for tree in raw)
    trees = [_arrays(tree, t) for t, tree in enumerate(raw)] if summed else []
    loss, base, outputs = (_loss_of(trees) if summed else None) or ("", 0.5, 1)
    config: dict[str, Any] = {}
    if loss in (LOGISTIC, SOFTMAX) and (settings := _settings(trees)) is not None:
        rate, l2 = settings
        config = {"eta": f"{rate!r:.39}", "reg_lambda": f"{l2!r:.39}"}
        raw = [
            {**tree, "base_weights": step}
            for tree, step in zip(raw, _steps(trees, *settings), strict=True)
        ]
    param = {"base_score": f"{base:.9g}", "num_class": str(outputs if outputs > 1 else 0)}
    whole = {
        **learner, "objective": {"name": loss},
        "learner_model_param": {**object_in(learner, "learner_model_param"), **param},
        "gradient_booster": {"name": "gbtree", "model": {
            "trees": raw, "tree_info": np.arange(len(raw)) % outputs}},
    }  # fmt: skip
    completed = StoredObject(stored.type, {"Model": {"learner": whole}, "Config": config})
    release = release_of(Model.of(completed))
    if not loss:
        return replace(release, not_covered=UNCLEAR if summed else BARE)
    ensemble = release.ensemble
    if loss == WHOLE and ensemble is not None:
        ensemble = replace(ensemble, objective="", fitting=None)
    note = PRINTED(loss=_COUNTED if loss == WHOLE else loss)
    return replace(release, ensemble=ensemble, notes=(note, *release.notes))


def _steps(trees: Sequence[_Printed], rate: float, l2: float) -> list[FloatArray]:
    return [weighed / weight / rate for weighed, weight in (tree.weighed(l2) for tree in trees)]


def _arrays(raw: Mapping[str, Any], t: int) -> _Printed:
    where = f"tree {t}"
    left = whole_numbers(raw, "left_children", None, (LEAF, MOST_NODES), where)
    n = len(left)
    right = whole_numbers(raw, "right_children", n, (LEAF, MOST_NODES), where)
    if ((left == LEAF) != (right == LEAF)).any():
        raise BadModel(f"{where}: a node has one child only")
    order = parents_first(left, right, where)
    value, hessian = (numbers(raw, k, n, where) for k in ("split_conditions", "sum_hessian"))
    gain = numbers(raw, "loss_changes", n, where) if "loss_changes" in raw else np.zeros(n)
    held = np.concatenate([value, hessian, gain])
    if len(order) < n or (np.abs(held) > MOST_REAL).any() or (hessian < 0).any():
        raise BadModel(f"{where}: nodes that nothing leads to, or sums that no rows have")
    inner, leaves = order[left[order] != LEAF], np.flatnonzero(left == LEAF)
    return _Printed(left, right, inner, leaves, value, hessian, gain)


# ------------------------------------------------------------------------- loss and start


def _loss_of(trees: Sequence[_Printed]) -> tuple[str, float, int] | None:
    """Find the loss, the chance before the first tree, and how many outputs there are."""
    if sum(len(tree.leaves) for tree in trees if len(tree.left) > 1) < _TELLING:
        return None
    sums = np.concatenate([tree.hessian for tree in trees])
    if (sums == np.rint(sums)).all():
        return WHOLE, 0.0, 1
    if len(trees) > 1 and (p := _chance(trees[0], trees[1])) is not None:
        return LOGISTIC, p, 1
    for n in range(3, min(len(trees), MOST_CLASSES) + 1):
        unit = 2 * (n - 1) / n**2
        roots = {None if (rows := t.rows(unit)) is None else float(rows[0]) for t in trees[:n]}
        if len(trees) % n == 0 and len(roots) == 1 and roots != {None}:
            return SOFTMAX, 0.5, n
    return None


def _chance(first: _Printed, second: _Printed) -> float | None:
    """Find the chance of the second class before the first tree, if the second one confirms it."""
    least = float(first.hessian[first.leaves].min())
    if len(first.leaves) < 2 or least <= 0:
        return None
    for k in range(1, _MOST_IN_LEAF + 1):
        unit = least / k
        if unit > 0.25 * (1 + _RELATIVE) or (rows := first.rows(unit)) is None:
            continue
        for divisor in range(1, _DIVISORS + 1):
            n = rows * divisor
            for p in _chances(float(first.hessian[0]), int(n[0])):
                each = expit(logit(p) + first.value[first.leaves])
                due = float(n[first.leaves] @ (each * (1 - each)))
                if abs(due - second.hessian[0]) <= _SAME * due:
                    return p
        return None
    return None


def _chances(hessian: float, n: int) -> list[float]:
    """Give chances p of which n p (1 - p) is a sum, as exactly as XGBoost works them out.

    A half by default, or the share of the class, or one step of Newton's method towards it.
    """
    unit = min(hessian / n, 0.25)
    spread = np.sqrt(1 - 4 * unit)
    share = np.arange(1, n) / n if n <= 2**20 else np.zeros(0)
    known = np.concatenate([[0.5], share, expit(4 * (share - 0.5))])
    found = []
    for p in {(1 - spread) / 2, (1 + spread) / 2}:
        near = np.abs(known * (1 - known) - unit) <= _RELATIVE * unit
        near &= np.abs(known - p) <= 1e-3
        exact = known[near][np.argmin(np.abs(known[near] - p))] if near.any() else p
        found.append(float(np.float32(exact)))
    return [p for p in found if 0 < p < 1]


# ------------------------------------------------------------------- learning rate and lambda


def _settings(trees: Sequence[_Printed]) -> tuple[float, float] | None:
    """Find the learning rate and lambda with which leaves and sums give the gains."""
    grown = [tree for tree in trees if len(tree.inner)]
    if sum(len(tree.inner) for tree in grown) < 3:
        return None
    around = _LAMBDAS
    for _ in range(6):
        off = [_missed(grown[:_SEARCHED], l2)[0] for l2 in around]
        best = int(np.argmin(off))
        low, high = around[max(best - 1, 0)], around[min(best + 1, len(around) - 1)]
        l2, around = float(around[best]), np.linspace(low, high, 31)
    for candidate in (0.0, round(l2, 2), round(l2, _DIGITS), l2):
        off_most, rate = _missed(grown, candidate)
        if off_most <= _FITS and 0 < rate <= MOST_REAL:
            short = float(f"{rate:.{_DIGITS}g}")
            return short if abs(short - rate) <= _FITS * rate else rate, candidate
    return None


def _missed(trees: Sequence[_Printed], l2: float) -> tuple[float, float]:
    """Say by what share of their parts gains are off at most, with the rate that fits best."""
    gains, parts, sizes = [], [], []
    for tree in trees:
        (weighed, weight), v = tree.weighed(l2), tree.inner
        square = weighed**2 / weight
        below = square[tree.left[v]] + square[tree.right[v]]
        parts.append(below - square[v])
        sizes.append(below + square[v] + 1e-300)
        gains.append(tree.gain[v])
    gain, part, size = map(np.concatenate, (gains, parts, sizes))
    a, b = gain / size, part / size
    with np.errstate(all="ignore"):
        squared = float(a @ b / (a @ a))
        off = np.abs(squared * a - b).max()
    return (float(off), float(np.sqrt(squared))) if squared > 0 else (np.inf, np.nan)
