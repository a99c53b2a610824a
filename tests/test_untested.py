"""What is likely of binary columns that no tree tests."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.examples import examples
from treeleak.learn import DPForestClassifier
from treeleak.partition.untested_priors import mean_skew, nodes_per_column, shares_of_ones
from treeleak.release import to_release
from treeleak.schema import Binary, Schema

NONE = np.zeros((0, 2))
LAWS = {
    "uniform": lambda rng, n: rng.random(n),
    "half": lambda rng, n: np.full(n, 0.5),
    "rare": lambda rng, n: np.full(n, 0.02),
    "frequent": lambda rng, n: np.full(n, 0.98),
    "both ends": lambda rng, n: rng.beta(0.2, 0.2, n),
    "middle": lambda rng, n: rng.beta(5.0, 5.0, n),
}
"""Shares of ones in columns; none is the prior."""


def some_columns(rng, n_rows, shares):
    return (rng.random((n_rows, len(shares))) < shares).astype(int)


TESTED = st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), max_size=6)


@examples(200, fast=30)
@given(TESTED, st.floats(0, 200))
def test_shares_are_a_law_and_tests_make_the_rarer_value_rare(tested, tests):
    share, weight = shares_of_ones(np.array(tested).reshape(-1, 2), tests)
    assert weight.sum() == pytest.approx(1)
    assert (weight >= 0).all()
    assert (share > 0).all()
    assert (share < 1).all()

    def rarer(tests):
        share, weight = shares_of_ones(NONE, tests)
        return float(np.minimum(share, 1 - share) @ weight)

    assert rarer(tests + 5) < rarer(tests)


@given(TESTED, st.floats(0, 200))
def test_zeros_and_ones_are_alike_before_any_column_is_looked_at(tested, tests):
    tested = np.array(tested).reshape(-1, 2)
    share, weight = shares_of_ones(tested, tests)
    mirrored, other = shares_of_ones(tested[:, ::-1], tests)
    assert mirrored @ other == pytest.approx(1.0 - share @ weight)
    np.testing.assert_allclose(mean_skew(tested), mean_skew(tested[:, ::-1])[::-1])
    share, weight = shares_of_ones(NONE, tests)
    assert share @ weight == pytest.approx(0.5)
    np.testing.assert_array_equal(mean_skew(NONE), [0.5, 0.5])


def test_without_tests_the_law_is_that_of_jeffreys():
    share, weight = shares_of_ones(NONE, 0.0)
    assert share @ weight == pytest.approx(0.5)
    assert share**2 @ weight - 0.25 == pytest.approx(1 / 8, rel=1e-3)  # the variance of Beta(½, ½)


@pytest.mark.parametrize("ones", [0.1, 0.3, 0.8, 0.95])
def test_tested_columns_say_which_value_is_the_rarer_one(ones):
    def mean(n, tests):
        share, weight = shares_of_ones(np.tile([1 - ones, ones], (n, 1)), tests)
        return share @ weight

    for tests in (0.0, 10.0):
        means = [mean(n, tests) for n in (0, 1, 5, 50)]
        assert np.all(np.diff(means) * (1 if ones > 0.5 else -1) > 0)


@pytest.mark.parametrize("law", LAWS)
def test_a_likelier_value_is_no_surer_than_it_should_be(law):
    """Whatever law columns are drawn from: where most tested ones are alike, so are untested."""
    rng = np.random.default_rng(0)
    sure, right = [], []
    for _ in range(300):
        tested, untested = LAWS[law](rng, 8), LAWS[law](rng, 1)[0]
        heard = np.column_stack([1 - tested, tested])
        share, weight = shares_of_ones(heard, rng.choice([0.0, 2.0]))
        mean = share @ weight
        sure.append(max(mean, 1 - mean))
        right.append(untested if mean > 0.5 else 1 - untested)
    # Of no law is more known than eight columns show; of a point at one half, too much.
    assert np.mean(sure) < np.mean(right) + (0.3 if law in ("half", "middle") else 0.1)


def test_over_laws_of_all_kinds_probabilities_are_right_on_average():
    rng = np.random.default_rng(1)
    said, true = [], []
    for seed in range(24):
        law = list(LAWS.values())[seed % len(LAWS)]
        shares = law(rng, 15)
        X = some_columns(rng, 100, shares)
        y = (X @ rng.normal(size=15) + rng.normal(size=100) > 0).astype(int)
        release = to_release(DecisionTreeClassifier(max_depth=3, random_state=seed).fit(X, y))
        tested = np.array([len(cuts) > 0 for cuts in release.thresholds])
        ones = X.mean(axis=0)
        heard = np.column_stack([1 - ones, ones])[tested]
        share, weight = shares_of_ones(heard, nodes_per_column(release))
        said += [share @ weight] * int((~tested).sum())
        true += ones[~tested].tolist()
    said, true = np.array(said), np.array(true)
    assert len(true) > 150
    likelier = np.where(said > 0.5, true, 1 - true)
    assert abs(likelier.mean() - np.maximum(said, 1 - said).mean()) < 0.12


def test_tests_of_a_column_are_counted_where_splits_follow_rows():
    rng = np.random.default_rng(0)
    X, y = some_columns(rng, 80, rng.random(6)), rng.integers(0, 2, 80)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    inner = sum(int((t.tree_.feature >= 0).sum()) for t in forest.estimators_)
    assert nodes_per_column(to_release(forest)) == inner / 6
    schema = Schema([Binary(f"x{i}") for i in range(6)])
    noisy = DPForestClassifier(5, epsilon=1.0, classes=[0, 1], schema=schema)
    assert nodes_per_column(to_release(noisy.fit(X, y))) == 0.0


def test_values_that_nobody_knows_are_one_guess_and_no_surer_than_that():
    rng = np.random.default_rng(2)
    shares = rng.uniform(0.1, 0.5, 8)
    X = pd.DataFrame(some_columns(rng, 100, shares), columns=[f"x{i}" for i in range(8)])
    X["rare"] = (np.arange(100) < 6).astype(int)
    y = (X.to_numpy() @ rng.normal(size=9) > 0).astype(int)
    model = HistGradientBoostingClassifier(max_iter=30).fit(X, y)
    release = to_release(model)
    schema = Schema([Binary(name) for name in X])
    found = treeleak.reconstruct(release, schema, time_limit=10)
    untested = [n for n, cuts in zip(X, release.thresholds, strict=True) if not len(cuts)]
    assert "rare" in untested
    for name in untested:
        assert found.X[name].nunique() == 1
        assert found.confidence[name].nunique() == 1
        assert 0.5 < found.confidence[name].iloc[0] < 0.99
    assert (found.X["rare"] == 0).all()
