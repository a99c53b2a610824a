"""Learners of the experiments: no list or tree is better, ties as documented."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.learners import greedy_lists, optimal_lists, optimal_trees
from helpers.examples import examples
from helpers.tables import Rows, errors, random_table, shared_file, tables

pytestmark = pytest.mark.slow  # The search has loops of its own, which take long to compile.


def frame(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def wrong(model: Any) -> int:
    """Training rows that a list or tree classifies wrongly."""
    if hasattr(model, "trees"):
        counts = model.trees[0].counts[model.trees[0].is_leaf]
    else:
        counts = np.array([rule.counts for rule in (*model.rules, model.default)])
    return int(counts.sum() - counts.max(axis=1).sum())


def purity(y: np.ndarray, met: np.ndarray) -> Fraction:
    parts = (np.bincount(part) for part in (y[met], y[~met]) if len(part))
    return sum(Fraction(int((n**2).sum()), int(n.sum())) for n in parts)


@examples(80, fast=10)
@given(tables(), st.sampled_from([0.0, 0.1, 0.3]))
def test_each_rule_of_a_greedy_list_is_the_first_of_the_best(rows: Rows, support: float):
    X, y = rows
    listed = greedy_lists(frame(X), y, 5, support)[-1]
    left = np.ones(len(y), dtype=bool)
    for rule in (*listed.rules, None)[:5]:
        best, chosen = purity(y[left], left[left]), None
        for column, value in itertools.product(range(X.shape[1]), (1, 0)):
            met = X[left][:, column] == value
            if met.sum() >= max(1, support * len(y)) and purity(y[left], met) > best:
                best, chosen = purity(y[left], met), (f"x{column}", (float(value),))
        found = None if rule is None else (rule.conditions[0].column, rule.conditions[0].values)
        assert found == chosen
        if rule is not None:
            left &= X[:, int(found[0][1:])] != found[1][0]


def best_list(X: np.ndarray, y: np.ndarray, rules: int, least: int) -> int:
    """Least error over all lists, by trying them all."""
    best = errors(y)
    for j, v in itertools.product(range(X.shape[1]) if rules else (), (0, 1)):
        met = X[:, j] == v
        if met.sum() >= least:
            best = min(best, errors(y[met]) + best_list(X[~met], y[~met], rules - 1, least))
    return best


def best_tree(X: np.ndarray, y: np.ndarray, depth: int, least: int) -> int:
    """Least error over all trees, by trying them all."""
    best = errors(y)
    for j in range(X.shape[1]) if depth else ():
        right = X[:, j] == 1
        if min(right.sum(), (~right).sum()) >= least:
            best = min(best, sum(best_tree(X[p], y[p], depth - 1, least) for p in (~right, right)))
    return best


@examples(150, fast=18)
@given(tables(), st.integers(1, 4), st.sampled_from([0.0, 0.1, 0.25, 0.5]))
def test_no_list_is_better_and_none_as_good_is_shorter(rows: Rows, most: int, support: float):
    X, y = rows
    least = max(1, next(k for k in range(len(y) + 1) if k / len(y) >= support))
    shortest = [best_list(X, y, k, least) for k in range(most + 1)]
    for k, listed in enumerate(optimal_lists(frame(X), y, most, support), 1):
        assert wrong(listed) == shortest[k]
        assert len(listed.rules) == shortest.index(shortest[k])
        assert all(sum(rule.counts) >= least for rule in listed.rules)
        assert wrong(listed.counted(frame(X), y.tolist())) == shortest[k]


@examples(150, fast=18)
@given(tables(), st.integers(1, 4), st.sampled_from([0.0, 0.1, 0.25]))
def test_no_tree_is_better(rows: Rows, most: int, support: float):
    X, y = rows
    least = max(1, int(support * len(y)))
    for k, release in enumerate(optimal_trees(frame(X), y, most, support), 1):
        (tree,) = release.trees
        assert tree.depth.max() <= k
        assert wrong(release) == best_tree(X, y, k, least)
        at = np.bincount(tree.apply(X.astype(float)), minlength=tree.n_nodes)
        assert np.array_equal(at[tree.is_leaf], tree.counts[tree.is_leaf].sum(axis=1))
        assert tree.n_nodes == 1 or at[tree.is_leaf].min() >= least


def test_more_columns_than_fit_one_word():
    X, y = random_table(300, 6, classes=3)
    blank = np.zeros((300, 35), dtype=int)
    wide = np.hstack([blank, X, blank, 1 - X])
    for learn in (optimal_lists, optimal_trees):
        assert wrong(learn(frame(wide), y, 3, 0.01)[-1]) == wrong(learn(frame(X), y, 3, 0.01)[-1])


@pytest.mark.shared
def test_optimal_lists_on_compas_beat_greedy_ones():
    table = pd.read_csv(shared_file("corels_compas.csv"))
    X, y = table.iloc[:, :-1], table.iloc[:, -1]
    assert wrong(optimal_lists(X, y, 4, 0.03)[-1]) < wrong(greedy_lists(X, y, 4, 0.03)[-1])
