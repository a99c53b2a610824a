"""How far bagging alone keeps training rows apart from the truth: DRAFT's appendix B.

With the training rows at hand, the likeliest draws that give the released counts are found. A row
that a tree drew is fixed in every column that its leaf's path tests; what no such path tests is
free, and is guessed wrong. The error of that table is the worst that an adversary makes who knows
how often each tree drew each row and uses nothing but the counts.

The paper asks its constraint program for the draws. No solver is needed. With the rows given, each
tree, leaf and class stands alone: n draws among the a rows that lie there, with the greatest sum of
log p_b. Binomial probabilities are strictly log-concave, so moving a draw from a row to one that
has at least two fewer always gains: every row has floor(n / a) or one more. Which rows have one
more is a tie, which the paper's solver breaks in a way of its own; here it is broken at random,
several times. The published figures for COMPAS and trees of unlimited depth come out so, within
0.005; most others are higher, by up to 0.06 for a single run, and it is not known why.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.core.message import own_words
from treeleak.core.private import dataclass
from treeleak.metrics.matching import reconstruction_error
from treeleak.release import to_release
from treeleak.release.release import Release
from treeleak.release.tree import Tree
from treeleak.verification.columns import in_model_columns
from treeleak.verification.training_rows import match_training


@dataclass(frozen=True)
class BaggingBound:
    """Worst error that is left once the draws are known or guessed as well as can be.

    Attributes
    ----------
    error : float
        As :func:`reconstruction_error` measures it; the mean over the ways to break ties.
    lowest, highest : float
        Least and greatest error among these ways: not the extremes over all there are.
    free : float
        Share of the values that no path fixes, as a mean over the same ways.
    n_ties : int
        Ways tried; 1 where there is no choice.
    seed : int
    """

    error: float
    lowest: float
    highest: float
    free: float
    n_ties: int
    seed: int


def bagging_bound(
    model: Any,
    X: Any,
    y: Any,
    *,
    draws: NDArray[np.unsignedinteger[Any]] | None = None,
    n_ties: int = 10,
    seed: int = 0,
) -> BaggingBound:
    """Measure the worst error of an adversary who knows, or guesses best, what each tree drew.

    Parameters
    ----------
    model : fitted estimator, path, StoredObject or Release
    X : DataFrame or array, shape (n_rows, n_columns)
        The training rows, in the model's columns, which must hold 0 and 1 only. As in the paper,
        columns of a one-hot group are free or fixed one by one.
    y : sequence
        Their labels.
    draws : int array, shape (n_trees, n_rows), optional
        How often each tree drew each row, where that is known: nothing is guessed then.
    n_ties : int
        How often to break the ties between equally likely draws.
    seed : int
        For the ties.

    Returns
    -------
    BaggingBound

    Raises
    ------
    Mismatch
        If the rows are not those that the model counted.
    NotCovered
        If a column holds other values, or the model does not count rows or draws by class.
    """
    if n_ties < 1:
        raise BadInput(f"{n_ties} ways to break ties: at least one is needed")
    release = to_release(model)
    if release.counts_are not in ("rows", "draws") or not release.classes:
        raise NotCovered(
            own_words("the bound needs a model that counts the rows of each class in its leaves")
        )
    if draws is not None:
        match_training(release, X, y, draws)
    table, label, _ = in_model_columns(release, X, y)
    for name in table:
        if not table[name].isin((0, 1)).all():
            raise NotCovered(f"the bound is for columns of 0 and 1; {name!r} holds other values")
    rows = table.to_numpy()
    leaves = release.leaves(table)
    rng = np.random.default_rng(seed)
    errors, free = [], []
    for _ in range(n_ties if draws is None else 1):
        b = _likeliest(release, leaves, label, rng) if draws is None else draws
        fixed = np.zeros(rows.shape, dtype=bool)
        for tree, leaf, drawn in zip(release.trees, leaves.T, b > 0, strict=True):
            fixed[drawn] |= _tested(tree, release.n_features)[leaf[drawn]]
        worst = np.where(fixed, rows, 1 - rows)
        errors.append(reconstruction_error(worst, rows))
        free.append(1.0 - float(fixed.mean()))
    mean, share = float(np.mean(errors)), float(np.mean(free))
    return BaggingBound(mean, min(errors), max(errors), share, len(errors), seed)


def likeliest_draws(release: Release, X: Any, y: Any, seed: int = 0) -> IntArray:
    """Find the likeliest draws with which these rows give the released counts.

    Parameters
    ----------
    release : Release
    X, y
        As in :func:`bagging_bound`, of any values.
    seed : int
        For the ties.

    Returns
    -------
    int array, shape (n_trees, n_rows)

    Raises
    ------
    Mismatch
        If a leaf counts a class of which none of the rows lies there.
    """
    table, label, _ = in_model_columns(release, X, y)
    return _likeliest(release, release.leaves(table), label, np.random.default_rng(seed))


def _likeliest(
    release: Release, leaves: IntArray, label: IntArray, rng: np.random.Generator
) -> IntArray:
    n_classes = len(release.classes)
    out = np.zeros((len(release.trees), len(label)), dtype=np.int64)
    for t, (tree, leaf) in enumerate(zip(release.trees, leaves.T, strict=True)):
        if tree.counts is None:
            raise NotCovered(f"tree {t} gives no counts")
        counts = np.rint(tree.counts * tree.is_leaf[:, None]).astype(np.int64).ravel()
        group = leaf * n_classes + label
        present = np.bincount(group, minlength=len(counts))
        if (lost := (counts > 0) & (present == 0)).any():
            v, c = divmod(int(lost.argmax()), n_classes)
            raise Mismatch(
                f"tree {t}, leaf {v}: the model counts {counts[lost][0]} of class "
                f"{release.classes[c]!r}, and none of these rows lies there"
            )
        every, more = np.divmod(counts, np.maximum(present, 1))
        order = rng.permutation(len(label))
        order = order[np.argsort(group[order], kind="stable")]
        place = np.arange(len(order)) - (np.cumsum(present) - present)[group[order]]
        out[t, order] = every[group[order]] + (place < more[group[order]])
    return out


def _tested(tree: Tree, n_columns: int) -> BoolArray:
    """Whether the path to a node tests a column, shape (n_nodes, n_columns)."""
    out = np.zeros((tree.n_nodes, n_columns), dtype=bool)
    for v in np.flatnonzero(~tree.is_leaf):
        below = out[v].copy()
        below[tree.feature[v]] = True
        out[tree.left[v]] = out[tree.right[v]] = below
    return out
