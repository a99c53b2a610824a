"""Another table behind the same model: both are trained on, and the trees are compared."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from experiments.benchmarks.twins import differing, same_trees, twin
from treeleak.schema import Binary, Schema


def _model(rows):
    y = (rows[:, :3].sum(axis=1) + rows[:, 4] > 2).astype(int)
    y[::7] ^= 1
    return GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0), y


@pytest.mark.parametrize("seed", range(4))
def test_a_twin_is_another_table_behind_the_same_model(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (80, 6)), columns=[f"c{k}" for k in range(6)])
    one, y = _model(X.to_numpy())
    one.fit(X.to_numpy(), y)
    other = twin(one, X, y, Schema([Binary(c) for c in X]), seed)
    everywhere = np.ones(6, dtype=bool)
    assert differing(other, X.to_numpy(float), everywhere, y) > 0
    assert np.array_equal(one.apply(other), one.apply(X.to_numpy()))
    again = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0).fit(other, y)
    assert same_trees(one, again) == 8


def test_tables_with_the_same_cells_alone_are_no_twins():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (80, 6))
    one, y = _model(X)
    one.fit(X, y)
    # No tree tests the last column, and the class follows it: another model would.
    shown = X.copy()
    unused = np.flatnonzero(one.feature_importances_ == 0)
    shown[:, unused] = y[:, None]
    assert len(unused)
    assert np.array_equal(one.apply(shown), one.apply(X))
    again = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0).fit(shown, y)
    assert same_trees(one, again) < 8


def test_differing_counts_rows_and_classes():
    one, other = np.array([[0.0], [0], [1]]), np.array([[0.0], [1], [1]])
    assert differing(one, other, np.array([True]), np.array([0, 0, 0])) == pytest.approx(1 / 3)
    assert differing(one, one[::-1], np.array([True]), np.array([0, 0, 1])) == pytest.approx(2 / 3)
