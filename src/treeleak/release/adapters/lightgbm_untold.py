"""What LightGBM's trees show of a training whose parameters the file does not hold.

Dumps never hold them. The values of inner nodes follow from those of their children by the
regularisation, and what all rows add up to at a root follows from the tree before it, if both saw
the same rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.release.adapters.lightgbm_fitting import one_start
from treeleak.release.ensemble import MOST_L2, Fitting
from treeleak.release.first_tree import sum_after
from treeleak.release.statistics import HESSIAN, VALUE
from treeleak.release.tree import LEAF, Tree

_ROUNDED = 2e-5
"""Share of their parts by which values of six digits put equations of nodes off."""
_SUMMED = 6e-6
"""How far sums of second derivatives may be off, as a share of them."""
_TELLING = 4
"""Different derivatives of rows, or repeated tests, from which another sample would show."""
_FEW, _CAT_L2 = 4, 10.0
"""LightGBM's defaults: categories that are tried one by one, and what is added below others."""
_BENT = {"path_smooth": "unknown"}
"""Of trees whose values are no steps of Newton's method, it is not known what they are."""


def shown_parameters(
    trees: Sequence[Tree], stored: Mapping[str, Any], outputs: int, infos: Sequence[str]
) -> dict[str, str]:
    """Find the parameters on which the values of leaves depend, as far as the file shows them.

    ``infos``: what it says of each column, of categories all of them, as -1:3:1.
    """
    out = {}
    bounds = str(stored.get("monotone_constraints", "")).split()
    if any(bound != "0" for bound in bounds):
        out["monotone_constraints"] = ",".join(bounds)
    listed = [str(c) for c, info in enumerate(infos) if info != "none" and info[:1] != "["]
    if listed:
        out["categorical_feature"] = ",".join(listed)
    many = [c for c, info in enumerate(infos) if len(info.split(":")) > _FEW and info[:1] != "["]
    equations = [_equations(tree, many) for tree in trees[outputs:] or trees]
    held = np.concatenate([np.zeros((4, 0)), *equations], axis=1)
    if not held.size:
        return out
    A, b = (held[:2] / held[3]).T, held[2] / held[3]
    with np.errstate(all="ignore"):
        pair = np.linalg.lstsq(A, b, rcond=None)[0] if np.isfinite(A).all() else np.zeros(2)
        l2, of_categories = np.clip(pair, 0.0, MOST_L2).tolist()
    for digits in (2, 4):
        short, more = float(f"{l2:.{digits}g}"), float(f"{of_categories:.{digits}g}")
        for candidate in ((0.0, _CAT_L2), (short, _CAT_L2), (short, more)):
            if (np.abs(A @ candidate - b) <= _ROUNDED).all():
                return out | {"lambda_l2": f"{candidate[0]:g}", "cat_l2": f"{candidate[1]:g}"}
    return out | _BENT


def _equations(tree: Tree, many: Sequence[int]) -> FloatArray:
    """Of inner nodes: what goes with lambda_l2, with cat_l2, the rest, and how large parts are.

    ``many``: the columns of so many categories that nodes below their tests have cat_l2 as well.
    """
    value, hessian = tree.statistics.get(VALUE), tree.statistics.get(HESSIAN)
    if value is None or hessian is None or value.present is not None or tree.n_nodes == 1:
        return np.zeros((4, 0))
    tested = np.zeros(tree.n_nodes, dtype=bool)
    if tree.categories is not None:
        tested[tree.categories.node] = True
    tested &= np.isin(tree.feature, many)
    below = tested[tree.parent] & (tree.parent != LEAF)
    # Sums of inner nodes have six digits; those of leaves have all.
    sums = tree.summed(hessian.values)
    v, w = np.flatnonzero(~tree.is_leaf), value.values
    children = tree.left[v], tree.right[v]
    l2 = w[v] - sum(w[c] for c in children)
    of_categories = w[v] * below[v] - sum(w[c] * below[c] for c in children)
    parts = [w[v] * sums[v], *(w[c] * sums[c] for c in children)]
    size = np.abs(parts).sum(axis=0) + np.finfo(float).tiny
    return np.array([l2, of_categories, parts[1] + parts[2] - parts[0], size])


def saw_all_rows(
    trees: Sequence[Tree], outputs: int, fitting: Fitting | None, rate: float | None
) -> bool:
    """Whether each tree saw the rows of the others, and so all of them.

    Either the sums of the second tree are those of the rows of the first one, or the same test at
    the root of trees of different rounds counts the same rows again and again.
    """
    grown = [tree for tree in trees if tree.n_nodes > 1]
    if not grown or any(tree.totals is None for tree in grown):
        return False
    if len({float(tree.totals[0]) for tree in grown if tree.totals is not None}) > 1:
        return False
    if len(trees) == outputs:
        return False
    if fitting is not None and outputs == 1 and len(grown) == len(trees) and fitting.plain:
        if fitting.loss == "logistic" and _same_sums(trees[0], trees[1]):
            return True
        if fitting.loss == "squared" and one_start(trees, fitting, rate):
            return True
    return _repeated(trees, outputs)


def _same_sums(first: Tree, second: Tree) -> bool:
    """Whether second derivatives add up to what the rows of the first tree make of them."""
    after = second.statistics.get(HESSIAN)
    if after is None or first.totals is None:
        return False
    due, different = sum_after(first, first.totals, 0.0)
    there = float(after.values[second.leaves].sum())
    # Another sample may lie alike in two or three leaves.
    return different >= _TELLING and abs(there - due) <= _SUMMED * due


def _repeated(trees: Sequence[Tree], outputs: int) -> bool:
    """Whether equal tests at roots always count the same rows, and there are enough of them."""
    counted: dict[tuple[int, float, bool], dict[int, float]] = defaultdict(dict)
    for t, tree in enumerate(trees):
        if tree.n_nodes > 1 and tree.totals is not None and tree.threshold[0] == tree.threshold[0]:
            test = int(tree.feature[0]), float(tree.threshold[0]), bool(tree.missing_left[0])
            rows = float(tree.totals[tree.left[0]])
            if counted[test].setdefault(t // outputs, rows) != rows:
                return False
    if any(len(set(rounds.values())) > 1 for rounds in counted.values()):
        return False
    return sum(len(rounds) - 1 for rounds in counted.values()) >= _TELLING
