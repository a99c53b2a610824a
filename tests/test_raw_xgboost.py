"""Raw tables behind XGBoost's classifiers: sums of nodes, and rows from the model alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import treeleak
from experiments.boosted_models import stored_alone
from helpers.raw_tables import schema_of
from treeleak.core.errors import NotCovered
from treeleak.release import to_release

xgboost = pytest.importorskip("xgboost", reason="needs XGBoost: pip install 'treeleak[xgboost]'")


def some_table(seed, n=100):
    """Seven columns of numbers of few digits, and classes that depend on three of them."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"age": rng.integers(18, 90, n), "pay": rng.lognormal(3, 0.6, n).round(0),
         "size": rng.normal(17, 2, n).round(1), "bmi": rng.normal(30, 6, n).round(1),
         "rr": rng.normal(120, 15, n).round(0), "sugar": rng.normal(50, 9, n).round(0),
         "pulse": rng.normal(70, 8, n).round(0)}
    ).astype(float)  # fmt: skip
    leaning = ((X - X.mean()) / X.std()).iloc[:, :3].sum(axis=1)
    y = (rng.random(n) < 1 / (1 + np.exp(-1.5 * leaning))).astype(int).to_numpy()
    return X, y


def trained(X, y, **options):
    return xgboost.XGBClassifier(**{"n_estimators": 25, "n_jobs": 1, **options}).fit(X, y)


def paths(model, X, y):
    """How many rows of each class go through the same leaves of all trees."""
    release = to_release(model)
    at = [tree.apply(X.to_numpy(np.float32)) for tree in release.trees]
    return Counter(zip(*(own.tolist() for own in at), np.asarray(y).tolist(), strict=True))


@pytest.mark.parametrize(("seed", "depth"), [pytest.param(0, 6, marks=pytest.mark.slow), (3, 4)])
@pytest.mark.parametrize("masked", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_all_rows_are_followed_through_all_trees_with_their_classes(seed, depth, masked):
    X, y = some_table(seed)
    model = trained(X, y, max_depth=depth)
    model = stored_alone(model, masked=True) if masked else model
    found = treeleak.reconstruct(model, schema_of(X), "none", 60)
    assert found.cells.startswith("generated")
    assert found.numbers["trees_settled"] == 25
    assert found.status == "feasible"
    assert not found.proved.any()
    both = paths(model, found.X, found.y) & paths(model, X, y)
    assert both.total() >= 0.95 * len(X)
    # The same seed gives the same rows.
    again = treeleak.reconstruct(model, schema_of(X), "none", 60)
    pd.testing.assert_frame_equal(again.X, found.X)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_file_that_counts_no_rows_gives_groups_of_rows_with_their_classes(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(80, 9)).round(3), columns=list("abcdefghi"))
    y = (X.a + X.b + X.c + rng.normal(size=80) > 0).astype(int)
    model = xgboost.XGBClassifier(n_estimators=40, n_jobs=1).fit(X, y)
    schema = schema_of(X)
    found = treeleak.reconstruct(model, schema, "none", 20)
    assert found.cells.startswith("generated")
    assert len(found.X) == 80
    settled = int(found.numbers["trees_settled"])
    assert settled >= 3
    assert "time" not in found.meaning
    told = treeleak.audit(model, schema=schema, time_limit=20).headline
    assert "80 rows" in told
    assert "Time ran out" not in told
    # Leaves of the first tree hold as many rows of each class as they do in truth.
    tree = to_release(model).trees[0]
    own, true = (
        np.unique(np.column_stack([tree.apply(rows.to_numpy(np.float32)), label]), axis=0,
                  return_counts=True)
        for rows, label in ((found.X, found.y), (X, y))
    )  # fmt: skip
    assert own[0].tolist() == true[0].tolist()
    assert own[1].tolist() == true[1].tolist()
    assert not found.proved.any()


def test_two_classes_with_an_output_each_are_not_taken_for_one_output():
    X, y = some_table(1, 80)
    params = {"objective": "multi:softprob", "num_class": 2, "nthread": 1}
    model = xgboost.train(params, xgboost.DMatrix(X, y), 12)
    with pytest.raises(NotCovered, match="at most"):
        treeleak.reconstruct(model, schema_of(X), time_limit=30)
