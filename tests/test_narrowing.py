"""What thresholds leave of values, where it is known which rows each tree drew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.examples import examples
from treeleak import Numeric, Ordinal, Schema
from treeleak.reconstruction.interval_imputation import numbers_in
from treeleak.reconstruction.narrowing import Movable, narrowed
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws

# Values are narrowed after the rows have been placed.
rows_quickly = pytest.mark.usefixtures("short_walks")


def some_forest(seed, n=40, steps=None):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    X = X if steps is None else X.round(steps)
    y = X.a + X.b > rng.normal(size=n)
    model = RandomForestClassifier(20, random_state=seed).fit(X, y)
    release = to_release(model)
    return X, release, known_draws(release, seed_search=0).counts


def narrow(release, table, draws, seconds=60.0):
    n = table.shape[1]
    low, high, whole = np.full(n, -np.inf), np.full(n, np.inf), np.zeros(n, bool)
    numbers = Movable(np.ones(table.shape, bool), low, high, whole)
    return narrowed(release, table, np.zeros(len(table), int), numbers, draws, seconds)


@examples(40, fast=10)
@given(st.integers(0, 10**6), st.sampled_from([None, 0, 1]))
def test_right_values_move_to_other_values_that_thresholds_leave(seed, steps):
    X, release, draws = some_forest(seed, steps=steps)
    found = narrow(release, X.to_numpy(), draws)
    assert ((found.chance > 0) & (found.chance <= 1)).all()
    for tree, times in zip(release.trees, draws, strict=True):
        k = np.flatnonzero(times)
        own, now = (tree.apply(np.float32(table[k])) for table in (X.to_numpy(), found.table))
        np.testing.assert_array_equal(own, now)
    if steps == 0:
        # Few whole numbers have anywhere to go.
        assert (found.table != X.to_numpy()).mean() < 0.15


def whole_numbers():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({c: rng.integers(0, 30, 30) for c in "abc"}).astype(float)
    return X, X.a + X.b - X.c > rng.normal(15, 5, 30)


def test_numbers_of_rows_that_miss_counts_are_no_surer_for_the_thresholds_around_them() -> None:
    """Every threshold lies halfway between whole numbers, wherever the rows are."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"level": rng.integers(4, size=150)})
    y = (rng.random(150) < 0.2 + 0.15 * X["level"]).astype(int)
    forest = RandomForestClassifier(10, random_state=23).fit(X, y)
    for limit in (0.5, 5, 50):  # A slower machine has rows later; they always miss counts.
        found = treeleak.reconstruct(forest, time_limit=limit, seed=0)
        if found.confidence is not None:
            break
    assert found.status == "unknown"
    assert found.midpoints_met == 1.0
    assert found.confidence["level"].isna().all()
    assert found.expected_error is None


def test_whole_numbers_beyond_the_precision_of_the_model_stay_where_they_are():
    X, y = whole_numbers()
    X += 2.0**25
    release = to_release(RandomForestClassifier(10, random_state=0).fit(X, y))
    draws = known_draws(release, seed_search=0).counts
    table, whole = np.random.default_rng(0).permutation(X.to_numpy()), np.ones(3, bool)
    ends = np.full(3, 2.0**25)
    numbers = Movable(np.ones(table.shape, bool), ends, ends + 30, whole)
    found = narrowed(release, table, np.zeros(30, int), numbers, draws, 60.0)
    np.testing.assert_array_equal(found.table, table)


@pytest.mark.slow
@rows_quickly
@pytest.mark.parametrize("kind", [Numeric, Ordinal])
def test_no_value_leaves_an_interval_in_which_it_certainly_lies(kind, monkeypatch):
    """Bounds that follow from wrong rows move the right ones, but not out of what is proved."""
    X, y = whole_numbers()
    given = []

    def noted(*arguments):
        given[:] = arguments
        return numbers_in(*arguments)

    monkeypatch.setattr("treeleak.reconstruction.rows.numbers_in", noted)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    treeleak.reconstruct(forest, Schema([kind(c, 0, 30) for c in X]), time_limit=2.0)
    whole, geometry, *others = given
    table = np.random.default_rng(0).permutation(X.to_numpy())
    wrong = replace(whole, table=table, sure=np.ones(table.shape))
    found = numbers_in(wrong, geometry, *others)
    for part in geometry.parts:
        j = part.columns[0]
        low, high = part.ends(table[:, j], geometry.release)
        np.testing.assert_array_equal(found.low[:, j], low)
        np.testing.assert_array_equal(found.high[:, j], high)
        assert ((found.table[:, j] >= low) & (found.table[:, j] <= high)).all()
    # Nor does a row leave a cell in which it certainly lies, in trees that did not draw it.
    release, proved = geometry.release, np.ones(len(table), dtype=bool)
    wrong = replace(whole, table=table, sure=np.full(table.shape, 0.5), proved=proved)
    found = numbers_in(wrong, geometry, *others)
    np.testing.assert_array_equal(release.leaves(found.table), release.leaves(table))
    loose = numbers_in(replace(wrong, proved=~proved), geometry, *others)
    assert (release.leaves(loose.table) != release.leaves(table)).any()
