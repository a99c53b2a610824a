"""The scorer for searches: what it counts, and how scikit-learn calls it."""

import functools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

import treeleak
from treeleak.metrics import leak_score

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


def table(n=60, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, columns)), columns=[f"c{i}" for i in range(columns)])
    return X, (X["c0"] ^ X["c1"]) ^ (rng.random(n) < 0.1)


@pytest.mark.slow
def test_a_forest_that_leaks_scores_worse():
    X, y = table()
    scores = [
        leak_score(
            RandomForestClassifier(
                30, bootstrap=False, min_samples_leaf=least, max_features=None, random_state=0
            ).fit(X, y)
        )
        for least in (1, 20)
    ]
    assert -1 <= scores[0] < scores[1] <= 0


@pytest.mark.slow
def test_it_is_the_share_of_values_that_the_attack_is_sure_of():
    X, y = table()
    forest = RandomForestClassifier(
        10, bootstrap=False, min_samples_leaf=5, max_features=None, random_state=0
    ).fit(X, y)
    rebuilt = treeleak.reconstruct(forest, time_limit=10)
    sure = rebuilt.confidence.drop(columns=[*rebuilt.free_columns]) >= 0.9
    assert rebuilt.free_columns
    assert leak_score(forest) == -sure.to_numpy().sum() / X.size < -0.3


def test_rows_held_back_change_nothing():
    X, y = table()
    forest = RandomForestClassifier(10, bootstrap=False, random_state=0).fit(X, y)
    assert leak_score(forest, X, y) == leak_score(forest, X[:3], y[:3]) == leak_score(forest)


def test_trees_without_a_test_give_nothing_away():
    X, y = table()
    assert leak_score(DecisionTreeClassifier(min_samples_leaf=40).fit(X, y)) == 0


@pytest.mark.parametrize("status", ["unknown", "infeasible"])
def test_without_an_answer_nothing_is_said(status, instead):
    X, y = table()
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    answered = treeleak.reconstruct(tree)
    other = replace(answered, status=status)
    instead("reconstruct", lambda *_, **__: other, scores)
    assert math.isnan(leak_score(tree))


def test_other_models_are_refused():
    X, y = table()
    with pytest.raises(treeleak.NotCovered):
        leak_score(LogisticRegression().fit(X, y))


def test_a_search_looks_at_both():
    X, y = table()
    search = GridSearchCV(
        RandomForestClassifier(10, bootstrap=False, random_state=0),
        {"min_samples_leaf": [1, 25]},
        scoring={"accuracy": "accuracy", "leak": functools.partial(leak_score, time_limit=5)},
        refit="accuracy",
        cv=2,
    ).fit(X, y)
    leak = search.cv_results_["mean_test_leak"]
    assert leak[0] < leak[1] <= 0
    assert np.isfinite(search.cv_results_["mean_test_accuracy"]).all()
