"""Another table behind the same model: what no attack on the model alone can do better.

Rows of GradientBoosting's training set are moved, one at a time, to other points of their cells:
every prediction and every sum of a node stay the same. A move is kept if in no node another column
would then split better. The same class, with the same parameters, is trained on both tables. "same
trees" is how many trees then have the same tests, numbers of rows and classes, and values and
impurities that agree to a billionth (in which order rows are added up changes the last digits).
"differ" is the share of rows that the training set does not have as often, in columns that a tree
tests. Whoever has only the model cannot tell both tables apart: of them, an answer is right in
"at most" that share of rows, in the mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier

from experiments.benchmarks.frame import options, show
from experiments.binned import table
from experiments.boosted_models import MODELS, Case, cells_of
from experiments.draft_tables import draft_sample
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.release import to_release
from treeleak.schema import Schema

_CLOSE = 1e-9
_PURE = 2e-16
"""Impurity from which scikit-learn splits a node."""
_NO_CUT = -1.0
"""Stands for what a column comes to that has one value in a node: less than any cut."""
_SWEEPS = 20
"""Moves that are tried, for each row that can move."""


class Cuts:
    """What each split on each column comes to in each node of a model, for a table of rows.

    Parameters
    ----------
    model : GradientBoostingClassifier
        Of two classes.
    X : float array, shape (n_rows, n_columns)
        Rows on which it was trained: zeros and ones.
    y : int array, shape (n_rows,)
    """

    def __init__(self, model: Any, X: FloatArray, y: IntArray) -> None:
        inside, residual, column = [], [], []
        rows = X.astype(np.float32)
        before = [model._raw_predict_init(rows), *model.staged_decision_function(rows)]
        for tree, score in zip(model.estimators_[:, 0], before, strict=False):
            own = tree.tree_
            # A leaf that might have been split has rows that are alike in all columns.
            alike = (own.impurity > _PURE) & (own.compute_node_depths() <= model.max_depth)
            split = np.flatnonzero((own.children_left >= 0) | alike)
            inside.append(tree.decision_path(rows).toarray().T[split].astype(float))
            residual.append(np.tile(y - 1 / (1 + np.exp(-score.ravel())), (len(split), 1)))
            column.append(own.feature[split])
        self._inside = np.concatenate(inside)
        self._residual = self._inside * np.concatenate(residual)
        self._n, self._total = self._inside.sum(axis=1), self._residual.sum(axis=1)
        self._ones, self._sums = self._inside @ X, self._residual @ X
        gains = self._gains(slice(None), np.arange(X.shape[1]))
        chosen = np.concatenate(column)
        self._best = np.where(chosen < 0, _NO_CUT / 2, gains[np.arange(len(gains)), chosen])
        self._constant = gains < 0
        self._tied = gains > self._best[:, None] * (1 - _CLOSE)

    def moved(self, row: int, change: FloatArray) -> bool:
        """Change the values of a row, unless a node would then be split otherwise."""
        nodes, columns = np.flatnonzero(self._inside[:, row]), np.flatnonzero(change)
        at = np.ix_(nodes, columns)
        ones, sums = self._ones[at], self._sums[at]
        self._ones[at] = ones + change[columns]
        self._sums[at] = sums + np.outer(self._residual[nodes, row], change[columns])
        best = self._best[nodes, None]
        allowed = np.where(self._tied[at], best * (1 + _CLOSE), best * (1 - _CLOSE))
        gains = self._gains(nodes, columns)
        # scikit-learn draws the order of columns, which decides between equal ones, by how many of
        # them are constant in a node.
        if (gains <= allowed).all() and np.array_equal(gains < 0, self._constant[at]):
            return True
        self._ones[at], self._sums[at] = ones, sums
        return False

    def _gains(self, nodes: Any, columns: IntArray) -> FloatArray:
        """Friedman's improvement, up to the number of rows (Greedy function approximation, 35)."""
        ones, sums = self._ones[nodes][:, columns], self._sums[nodes][:, columns]
        zeros = self._n[nodes, None] - ones
        apart = zeros * sums - ones * (self._total[nodes, None] - sums)
        both, none = zeros * ones, np.full(ones.shape, _NO_CUT)
        out: FloatArray = np.divide(apart**2, both, out=none, where=both > 0)
        return out


def twin(model: Any, X: pd.DataFrame, y: IntArray, schema: Schema, seed: int) -> FloatArray:
    """Draw another table for which the model is the same."""
    release = replace(to_release(model), feature_names=tuple(X.columns))
    partition, cell = cells_of(release, schema, X)
    geometry = partition.geometry
    atoms = geometry.atoms(partition.points)
    values = np.empty((len(atoms), X.shape[1]))
    for a, part in enumerate(geometry.parts):
        values[:, part.columns] = part.representatives[atoms[:, a]]
    rows = X.to_numpy(float).copy()
    cuts = Cuts(model, rows, y)
    own = {c: np.flatnonzero(partition.cell == c) for c in np.unique(cell).tolist()}
    movable = np.flatnonzero([len(own[c]) > 1 for c in cell.tolist()])
    rng = np.random.default_rng(seed)
    for row in rng.choice(movable, _SWEEPS * len(movable)) if len(movable) else ():
        change = values[rng.choice(own[int(cell[row])])] - rows[row]
        if change.any() and cuts.moved(int(row), change):
            rows[row] += change
    return rows


def same_trees(one: Any, other: Any) -> int:
    """Count trees of two models that are the same but for the last digits of sums over rows."""
    return sum(
        a.tree_.node_count == b.tree_.node_count
        and all(
            np.array_equal(getattr(a.tree_, name), getattr(b.tree_, name))
            for name in ("feature", "threshold", "children_left", "n_node_samples")
        )
        and all(
            np.allclose(getattr(a.tree_, name), getattr(b.tree_, name), _CLOSE, _CLOSE)
            for name in ("value", "impurity")
        )
        for a, b in zip(one.estimators_[:, 0], other.estimators_[:, 0], strict=True)
    )


def differing(one: FloatArray, other: FloatArray, tested: BoolArray, y: IntArray) -> float:
    """Share of rows of a table that another one does not have as often, class included."""
    held = [
        Counter(map(tuple, np.column_stack([rows[:, tested], y]).tolist())) for rows in (one, other)
    ]
    return (held[0] - held[1]).total() / len(y)


def main(args: Sequence[str]) -> None:
    tables = ("adult", "compas", "default_credit")
    given, lines = options("twins", __doc__, args, seeds=range(5), table=tables, rows=1000), []
    for seed in given.seeds:
        case = Case("GradientBoosting", given.table, given.rows, seed, 0.0, groups=True)
        X, label = draft_sample(table(given.table), given.rows, seed)
        y = label.to_numpy()
        models = [GradientBoostingClassifier(**MODELS[case.model][2]).fit(X.to_numpy(), y)]
        rows = twin(models[0], X, y, case.schema, seed)
        models.append(GradientBoostingClassifier(**MODELS[case.model][2]).fit(rows, y))
        used = np.concatenate([tree.tree_.feature for tree in models[0].estimators_[:, 0]])
        tested = np.isin(np.arange(X.shape[1]), used)
        differ = differing(rows, X.to_numpy(float), tested, y)
        n_trees, same = len(models[0].estimators_), same_trees(*models)
        bound = 1 - differ / 2 if same == n_trees else "not shown"
        lines.append({"seed": seed, "trees": n_trees, "same trees": same, "differ": differ,
                      "at most": bound})  # fmt: skip
    title = f"GradientBoosting, {given.table}, {given.rows:,} rows: another table, the same model"
    show(title, lines)
