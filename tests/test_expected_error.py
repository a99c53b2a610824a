"""What answers expect to be wrong, numbers in intervals included."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.patient import AMPLE
from treeleak import Numeric, Schema, reconstruct
from treeleak.attacks.large_grid.bayes_estimate import _sure
from treeleak.metrics import reconstruction_error
from treeleak.schema import Binary

MODELS = {
    "exact counts": RandomForestClassifier(12, bootstrap=False, max_depth=4, random_state=0),
    "known draws": RandomForestClassifier(12, max_depth=4, random_state=0),
    "sums": GradientBoostingClassifier(n_estimators=20, random_state=0),
    "values": HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=8, random_state=0),
}


def people(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"age": rng.normal(45, 15, n).clip(18, 90), "dose": rng.exponential(3.0, n).clip(0, 20)}
    ).round(1)
    X["smokes"] = (rng.random(n) < 0.3).astype(float)
    y = (X.age / 20 + X.dose + 2 * X.smokes + rng.normal(0, 1, n) > 6).astype(int)
    return X, y


SCHEMA = Schema([Numeric("age", 18, 90), Numeric("dose", 0, 20), Binary("smokes")])


@pytest.mark.slow
@pytest.mark.usefixtures("few_chains")
@pytest.mark.parametrize("kind", MODELS)
def test_the_expected_error_is_near_the_true_one_on_average(kind):
    expected, true = [], []
    for seed in range(4):
        X, y = people(30, seed)
        found = reconstruct(MODELS[kind].fit(X, y), SCHEMA, time_limit=AMPLE, seed=seed)
        assert found.interval_columns == ("age", "dose")
        expected.append(found.expected_error)
        true.append(reconstruction_error(found.X, X, SCHEMA))
    assert 0.6 < np.sum(expected) / np.sum(true) < 1.6


def test_a_column_that_nothing_bounds_counts_as_a_guess():
    X, _ = people(30, 0)
    model = DecisionTreeClassifier(max_depth=1).fit(X[["age", "dose"]], X.age > 45)
    free, bounded = (
        reconstruct(model, schema and Schema([Numeric("age"), Numeric("dose", *schema)]))
        for schema in (None, (0, 20))
    )
    assert free.free_columns == ("dose",)
    assert free.expected_error == pytest.approx(bounded.expected_error)
    assert free.expected_error > 0.1
    values = "the counts and the values that the thresholds suggest"
    assert values in replace(free, status="unique").meaning
    assert "under this schema" in replace(bounded, status="unique").meaning


@pytest.mark.slow
def test_what_was_given_is_no_error_and_what_is_open_counts_alone():
    X, y = people(30, 0)
    model = MODELS["exact counts"].fit(X, y)
    found = reconstruct(model, SCHEMA, time_limit=AMPLE, known_columns=X[["age"]])
    assert found.interval_columns == ("dose",)
    assert (found.lower.age == found.upper.age).all()
    assert found.expected_error == pytest.approx(found.expected_distance * 3 / 2)


# --------------------------------------------------------------------- how often values are right


@pytest.mark.parametrize("n_samples", [3, 4, 8])
def test_values_of_few_walks_are_as_sure_as_one_more_walk_has_them(n_samples):
    """Rows that walks know well, and rows of which they know next to nothing."""
    rng = np.random.default_rng(n_samples)
    n_rows, n_values = 3000, 25
    usual = rng.integers(0, n_values, n_rows)
    known = np.where(rng.random(n_rows) < 0.5, 0.97, 0.15)

    def drawn():
        others = rng.integers(0, n_values, n_rows)
        return np.where(rng.random(n_rows) < known, usual, others)[:, None]

    truth, aligned = drawn()[:, 0], [drawn() for _ in range(n_samples)]
    share = sum(np.eye(n_values)[one[:, 0]] for one in aligned) / n_samples
    chosen = share.argmax(axis=1)[:, None]
    numbered = np.array([0, n_values])
    values = SimpleNamespace(start=numbered, atom_start=numbered, atom_of=np.arange(n_values))
    sure = _sure(chosen, share, aligned, values)[:, 0]
    assert (sure < 1).all()
    right = chosen[:, 0] == truth
    tenth = (sure * 10).astype(int)
    off = [abs((sure - right)[tenth == k].sum()) for k in range(10)]
    # The share of samples that have a value itself is off by .13 to .20 here.
    assert sum(off) / n_rows < 0.07


@pytest.fixture(scope="module")
def missed():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.set_axis(list("abcd"), axis=1)
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=50, verbose=-1, n_jobs=1).fit(X, y)
    return treeleak.audit(model, time_limit=10)


@pytest.mark.slow
def test_rows_that_miss_what_a_model_discloses_say_no_confidence(missed):
    found = missed.reconstruction
    assert found.status == "unknown"
    assert found.misfit > 0
    sure = found.confidence.to_numpy()
    assert np.isnan(sure[sure != 1]).all()
    assert found.expected_error is None
    assert found.meaning.startswith("the search ended")
    rows = json.loads(found.to_json(include_rows=True))["rows"]
    assert rows["confidence"][0][0] is None
    assert missed.exposure is None or missed.exposure.recovered.probable == 0
    assert missed.to_html()
