"""What is likely of binary columns that no tree tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import treeleak
from helpers.examples import examples
from treeleak.learn import DPForestClassifier
from treeleak.partition.untested import FLAGS, NOT_SEARCHED, Searched, shares_of_ones
from treeleak.release import to_release
from treeleak.schema import Binary, Schema


def some_columns(rng, n_rows, n_columns):
    """Flags whose shares of ones are those of the papers' tables."""
    share = rng.beta(1.1, 2.9, n_columns)
    return (rng.random((n_rows, n_columns)) < share).astype(int)


@examples(200, fast=30)
@given(
    st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), max_size=6),
    st.floats(0, 200),
    st.floats(0, 0.5),
)
def test_shares_are_a_law_and_tests_make_the_rarer_value_rare(heard, tests, least):
    share, weight = shares_of_ones(np.array(heard).reshape(-1, 2), Searched(tests, least))
    assert weight.sum() == pytest.approx(1)
    assert (weight >= 0).all()
    assert (share > 0).all()
    assert (share < 1).all()

    def rarer(tests, least):
        share, weight = shares_of_ones(np.zeros((0, 2)), Searched(tests, least))
        return float(np.minimum(share, 1 - share) @ weight)

    assert rarer(tests + 5, least) <= rarer(tests, least) + 1e-12
    assert rarer(tests, min(least + 0.1, 0.5)) >= rarer(tests, least) - 1e-12


@pytest.mark.parametrize("ones", [0.1, 0.3, 0.5, 0.8])
def test_without_tests_a_column_is_as_skewed_as_tested_ones(ones):
    share, weight = shares_of_ones(np.tile([1 - ones, ones], (1000, 1)), NOT_SEARCHED)
    assert share @ weight == pytest.approx(ones, abs=0.01)


@pytest.mark.parametrize("n_tested", [0, 3, 30])
def test_few_tested_columns_leave_their_mean_in_doubt(n_tested):
    """Against draws of a mean that is held to be 1 in 3, and of columns around it."""
    rng, (zeros, ones) = np.random.default_rng(0), FLAGS
    heard = np.tile([2.0, 1.0], (n_tested, 1))
    share, weight = shares_of_ones(heard, NOT_SEARCHED)
    q = rng.beta(ones + n_tested / 3, zeros + 2 * n_tested / 3, 200_000)
    drawn = rng.beta(4 * q, 4 - 4 * q)
    mean = share @ weight
    assert mean == pytest.approx(drawn.mean(), abs=0.015)
    assert np.sqrt((share - mean) ** 2 @ weight) == pytest.approx(drawn.std(), abs=0.015)


def test_columns_are_mostly_ones_where_tested_ones_are():
    for searched in (NOT_SEARCHED, Searched(10, 0.1)):
        share, weight = shares_of_ones(np.tile([1.0, 9.0], (20, 1)), searched)
        assert share @ weight > 0.5
        share, weight = shares_of_ones(np.tile([9.0, 1.0], (20, 1)), searched)
        assert share @ weight < 0.2


def test_how_thoroughly_a_model_searched():
    rng = np.random.default_rng(0)
    X, y = some_columns(rng, 80, 6), rng.integers(0, 2, 80)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    release = to_release(forest)
    found = Searched.of(release)
    inner = sum(int((t.tree_.feature >= 0).sum()) for t in forest.estimators_)
    assert found.tests == inner / 6
    assert found.least == 1 / 80
    bare = [tree.with_counts(counts=None, totals=None, distinct=None) for tree in release.trees]
    assert Searched.of(replace(release, trees=tuple(bare))) == NOT_SEARCHED
    schema = Schema([Binary(f"x{i}") for i in range(6)])
    noisy = DPForestClassifier(5, epsilon=1.0, classes=[0, 1], schema=schema)
    assert Searched.of(to_release(noisy.fit(X, y))) == NOT_SEARCHED


def test_what_is_said_of_untested_columns_is_so_on_average():
    rng = np.random.default_rng(1)
    said, true = [], []
    for seed in range(25):
        X = some_columns(rng, 100, 15)
        y = (X @ rng.normal(size=15) + rng.normal(size=100) > 0).astype(int)
        model = HistGradientBoostingClassifier(max_iter=60, random_state=seed).fit(X, y)
        release = to_release(model)
        tested = np.array([len(cuts) > 0 for cuts in release.thresholds])
        ones = X.mean(axis=0)
        heard = np.column_stack([1 - ones, ones])[tested]
        share, weight = shares_of_ones(heard, Searched.of(release))
        said += [share @ weight] * int((~tested).sum())
        true += ones[~tested].tolist()
    assert len(true) > 50
    assert abs(np.mean(said) - np.mean(true)) < 0.06


def test_values_that_nobody_knows_are_one_guess_and_no_surer_than_that():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(some_columns(rng, 100, 8), columns=[f"x{i}" for i in range(8)])
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
