"""Optimal trees: no tree is better, ties as documented, and read like any other model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import experiments.learners.subcubes as subcubes
from experiments.learners import OptimalTreeClassifier
from helpers.examples import examples
from helpers.tables import Rows, errors, random_table, shared_file, tables
from treeleak.core.errors import BadInput, NotProvedWarning
from treeleak.release.tree import Tree

pytestmark = pytest.mark.slow  # The search has loops of its own, which take long to compile.


def best_tree(X: np.ndarray, y: np.ndarray, depth: int, least: int) -> int:
    """Least error over all trees, by trying them all."""
    best = errors(y)
    for j in range(X.shape[1]) if depth else ():
        right = X[:, j] == 1
        if min(right.sum(), (~right).sum()) >= least:
            parts = (best_tree(X[p], y[p], depth - 1, least) for p in (~right, right))
            best = min(best, sum(parts))
    return best


def reach(tree: Tree, X: np.ndarray) -> np.ndarray:
    """Which rows reach which node."""
    at = np.zeros((tree.n_nodes, len(X)), dtype=bool)
    at[0] = True
    for node in np.flatnonzero(~tree.is_leaf):
        right = X[:, tree.feature[node]] == 1
        at[tree.left[node]], at[tree.right[node]] = at[node] & ~right, at[node] & right
    return at


@examples(150, fast=18)
@given(tables(), st.integers(1, 4), st.sampled_from([0.0, 0.1, 0.25]))
def test_no_tree_is_better(rows: Rows, depth: int, support: float):
    X, y = rows
    least = max(1, int(support * len(y)))
    for k, model in enumerate(OptimalTreeClassifier(depth, min_support=support).path(X, y), 1):
        tree = model.tree_
        assert model.optimal_
        assert tree.depth.max() <= k
        assert round((1 - model.score(X, y)) * len(y)) == best_tree(X, y, k, least)
        assert round((1 - model.bound_) * len(y)) == best_tree(X, y, k, least)
        at = reach(tree, X)
        assert at.sum(axis=1).min() >= (least if tree.n_nodes > 1 else 0)
        for node, reached in enumerate(at):
            assert (
                tree.counts[node].tolist()
                == np.bincount(
                    np.searchsorted(model.classes_, y[reached]), minlength=len(model.classes_)
                ).tolist()
            )


@examples(80, fast=10)
@given(tables(), st.integers(1, 3), st.sampled_from([0.0, 0.1]), st.booleans())
def test_nodes_split_where_documented_and_by_the_first_column_that_does_most(
    rows: Rows, depth: int, support: float, full: bool
):
    X, y = rows
    least = max(1, int(support * len(y)))
    tree = OptimalTreeClassifier(depth, min_support=support, full=full).fit(X, y).tree_
    at = reach(tree, X)
    for node, reached in enumerate(at):
        left = depth - int(tree.depth[node])
        here, labels = X[reached], y[reached]
        best = best_tree(here, labels, left, least)
        by_column = [split_error(here, labels, j, left, least) for j in range(X.shape[1])]
        splits = best < errors(labels)
        if full and left and errors(labels):
            splits = min(by_column) < np.inf
        assert splits != tree.is_leaf[node]
        if splits:
            assert by_column.index(best) == tree.feature[node]


def split_error(X: np.ndarray, y: np.ndarray, j: int, depth: int, least: int) -> float:
    right = X[:, j] == 1
    if not depth or min(right.sum(), (~right).sum()) < least:
        return np.inf
    return sum(best_tree(X[p], y[p], depth - 1, least) for p in (~right, right))


@pytest.mark.parametrize("classes", [2, 4])
def test_deeper_is_never_worse_and_never_below_cart(classes: int):
    X, y = random_table(400, 8, classes=classes)
    scores = [m.score(X, y) for m in OptimalTreeClassifier(5, min_support=0.02).path(X, y)]
    assert scores == sorted(scores)
    for k, score in enumerate(scores, 1):
        cart = DecisionTreeClassifier(max_depth=k, min_samples_leaf=8, random_state=0)
        assert score >= cart.fit(X, y).score(X, y)
    assert scores[0] < scores[-1]


def test_more_columns_than_fit_one_word():
    X, y = random_table(300, 6, classes=3)
    blank = np.zeros((300, 35), dtype=int)
    wide = np.hstack([blank, X, blank, 1 - X])
    narrow = OptimalTreeClassifier(3).fit(X, y)
    model = OptimalTreeClassifier(3).fit(wide, y)
    assert model.n_states_ == narrow.n_states_
    used = np.where(narrow.tree_.is_leaf, -1, narrow.tree_.feature + 35)
    assert np.array_equal(model.tree_.feature, used)
    assert np.array_equal(model.tree_.counts, narrow.tree_.counts)


@pytest.mark.parametrize("limits", [{"max_states": 1}, {"time_limit": 0}, {"max_states": 60}])
def test_a_search_that_is_ended_hands_over_its_best_and_says_so(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]
):
    monkeypatch.setattr(subcubes, "WORK", 1)
    X, y = random_table(500, 9, seed=3, classes=3)
    best = OptimalTreeClassifier(6).fit(X, y)
    cart = DecisionTreeClassifier(max_depth=6, min_samples_leaf=5, random_state=0).fit(X, y)
    with pytest.warns(NotProvedWarning, match="max_depth=6 may not be the best"):
        model = OptimalTreeClassifier(6, **limits).fit(X, y)
    assert not model.optimal_
    assert cart.score(X, y) <= model.score(X, y) <= best.score(X, y) <= model.bound_
    assert reach(model.tree_, X).sum(axis=1).min() >= 5
    assert model.tree_.counts[:, 0].sum() > 0


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (OptimalTreeClassifier(0), "max_depth must be from 1 to"),
        (OptimalTreeClassifier(min_support=-1), "min_support must be a share"),
        (OptimalTreeClassifier(full="yes"), "full must be True or False"),
        (OptimalTreeClassifier(max_states=1.5), "max_states must be a whole number"),
        (OptimalTreeClassifier(time_limit="soon"), "time_limit must be a number of seconds"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_refused_by_name(model: Any, says: str):
    with pytest.raises(BadInput, match=says):
        model.fit([[0], [1]], [0, 1])


def test_columns_are_found_by_name():
    X, y = random_table(200, 5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = OptimalTreeClassifier(3).fit(frame, y)
    assert np.array_equal(model.predict(frame[list("edcba")]), model.predict(X))
    with pytest.raises(BadInput, match="column 'b', row 3"):
        model.predict(frame.assign(b=[0, 0, 0, 7, *[0] * 196]))


def reduction(tree: Tree, n_columns: int) -> float:
    """Share of the entropy left, of columns that are independent: no column twice on a path."""
    free = tree.counts[tree.leaves].sum(axis=1) @ (n_columns - tree.depth[tree.leaves])
    return float(free / n_columns / tree.counts[0].sum())


@pytest.mark.shared
def test_trees_on_compas_are_near_those_published():
    table = pd.read_csv(shared_file("corels_compas.csv"))
    published = pd.read_csv(shared_file("probabilistic_2024_trees_compas.csv", "published"))
    published = published[published.method == "DL8.5"]
    X, y = table.iloc[:, :-1], table.iloc[:, -1]
    left = []
    for seed in range(5):
        train, _, label, _ = train_test_split(X, y, test_size=0.2, random_state=seed)
        path = OptimalTreeClassifier(10, min_support=0.05, full=True).path(train, label)
        runs = published[
            (published.random_state_value == seed) & np.isclose(published.min_support, 0.05)
        ].sort_values("max_depth")
        found = [model.score(train, label) for model in path]
        np.testing.assert_allclose(found, runs.train_acc, atol=1e-6)
        left.append(
            [reduction(m.tree_, 27) for m in path] - runs.entropy_reduction_ratio.to_numpy()
        )
    assert np.abs(np.mean(left, axis=0)).max() < 0.01
