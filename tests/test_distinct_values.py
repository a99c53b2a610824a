"""All values of a column from the middles between neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier

import treeleak
from helpers.examples import examples
from treeleak.reconstruction.distinct_values import distinct_values, nearest
from treeleak.release import to_release
from treeleak.schema import Numeric, Schema


def middles(x: np.ndarray) -> np.ndarray:
    return (x[1:] + x[:-1]) / 2


@pytest.mark.parametrize(("step", "digits"), [(1.0, 0), (0.1, 1), (0.001, 3), (1000.0, -3)])
@pytest.mark.parametrize("offset", [0, 7])
def test_values_on_a_grid_come_back_to_the_last_digit(step, digits, offset):
    rng = np.random.default_rng(0)
    k = np.sort(rng.choice(200, 90, replace=False)) + offset
    x = np.round(k * step, digits)
    found = distinct_values(middles(x))
    np.testing.assert_array_equal(found, x)


def test_values_that_mostly_have_a_digit_less_come_back():
    x = np.unique([8.571, 8.673, 9.504, *np.round(np.linspace(10, 20, 80), 2)])
    np.testing.assert_array_equal(distinct_values(middles(x)), x)


def test_ages_in_half_years_come_back():
    x = np.append(np.arange(18, 60), np.arange(60, 90, 3)) + 0.5
    np.testing.assert_array_equal(distinct_values(middles(x)), x)


@examples(60)
@given(st.lists(st.floats(-1e6, 1e6), min_size=9, max_size=60, unique=True))
def test_values_lie_between_their_borders(values):
    borders = middles(np.sort(np.array(values)))
    if not (np.diff(borders) > 0).all():
        return
    found = distinct_values(borders)
    if found is not None:
        assert (np.diff(found) > -1e-6).all()
        np.testing.assert_allclose(middles(found), borders, rtol=0, atol=1e-6)


def test_quantiles_are_no_middles_of_all_values():
    x = np.unique(np.random.default_rng(1).normal(size=900))
    assert distinct_values(np.quantile(x, np.linspace(0, 1, 256)[1:-1])) is None
    assert distinct_values(middles(np.arange(5.0))) is None, "too few tell"


def test_rows_move_to_the_nearest_value_of_their_side():
    x, side = np.array([1.9, 2.6, 7.0]), np.array([0, 1, 2])
    moved = nearest(x, side, np.array([1.0, 2.5, 3.0]), np.array([0, 1, 1]))
    assert moved.tolist() == [1.0, 2.5, 7.0]


def test_an_answer_holds_only_values_of_the_training_columns():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[:80, [1, 3, 8]], y[:80]
    model = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=3, random_state=0).fit(X, y)
    release = to_release(model)
    schema = Schema(Numeric(c) for c in X)
    found = treeleak.reconstruct(release, schema, time_limit=20, seed=0)
    for c in X:
        assert set(found.X[c]) <= set(X[c])
