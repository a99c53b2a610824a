"""Raw tables behind XGBoost's classifiers: sums of nodes, and rows from the model alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

import treeleak
from experiments.boosted_models import stored_alone
from helpers.raw_tables import at_nodes, each_for_itself, schema_of, true_leaves
from treeleak.attacks.loss_sums.layers import Bounds, met
from treeleak.attacks.loss_sums.node_search import ByNodes
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.evidence import LossSums
from treeleak.evidence.loss_sums import FIRST, SECOND, Derivative
from treeleak.evidence.predictions import chance, margins
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.schema import Binary, Schema

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


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("method", ["hist", "exact", "approx"])
@pytest.mark.parametrize("l2", [1.0, 0.0, 3.5])
def test_nodes_sum_up_what_their_rows_count(method, l2, masked):
    X, y = some_table(1, 150)
    options = {"max_depth": 4, "learning_rate": 0.2} if l2 == 0 else {}
    model = trained(X, y, tree_method=method, reg_lambda=l2, **options)
    model = stored_alone(model, masked=True) if masked else model
    geometry = Geometry.of(to_release(model), schema_of(X))
    search = ByNodes(LossSums(geometry), geometry, Clock.of(60))
    assert search._ones == y.sum()
    leaf = true_leaves(X, geometry)
    first, second = (Derivative(geometry, each)(leaf, y) for each in (FIRST, SECOND))
    sharp = 0
    for t in range(len(geometry.release.trees)):
        layers, bounds = [], []
        search._look_ahead(each_for_itself(X, geometry, t), layers, bounds)
        (layer,), totals = layers, layers[0].totals
        at = at_nodes(leaf, geometry, t)
        assert met(layer, Bounds(at, at), np.ones(layer.tree.n_nodes, dtype=bool))
        assert not np.isnan(totals.second).any()
        for told, off, each in (
            (totals.second, totals.off_second, second), (totals.first, totals.off_first, first)
        ):  # fmt: skip
            missed = np.abs(each[:, t] @ at - told) / off
            assert (missed[1:] <= 1).all()
            # Of the root, the sum does not come from the file, and classes are not known.
            assert missed[0] <= 2
            sharp += (off < 1e-3).mean()
    # They say so to many digits, also without sums of hessians: else any rows would meet them.
    assert sharp > 0.9 * 2 * len(geometry.release.trees)


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


@pytest.mark.parametrize("seed", range(3))
def test_chances_are_xgboosts_own_to_the_last_digit(seed):
    X, y = some_table(seed, 400)
    model = trained(X, y)
    geometry = Geometry.of(to_release(model), schema_of(X))
    before = margins(geometry.release, true_leaves(X, geometry))
    for t in (1, 6, 20):
        told = model.get_booster().predict(xgboost.DMatrix(X), iteration_range=(0, t))
        np.testing.assert_array_equal(chance(before[:, t]), told)


def test_a_column_that_no_tree_tests_is_as_sure_as_such_columns_are():
    X, y = some_table(3)
    rng = np.random.default_rng(3)
    X["flag"], X["rare"] = (rng.random(len(X)) < 0.1).astype(float), 0.0
    y = np.where(X.flag == 1, 1, y)
    flags = ["flag", "rare"]
    schema = Schema([*schema_of(X.drop(columns=flags)).attributes, *map(Binary, flags)])
    found = treeleak.reconstruct(to_release(trained(X, y)), schema, "none", 30.0, 0)
    assert found.numbers["trees_settled"] == 25
    assert (found.X.rare == 0).all()
    # Of the flag that is tested, few rows have 1. And trees that looked through many cuts make it
    # unlikely that half of the rows have the other value.
    assert found.confidence.rare.min() > 0.6
    assert found.confidence.rare.max() < 0.98
    assert found.expected_error < 0.1


def test_two_classes_with_an_output_each_are_not_taken_for_one_output():
    X, y = some_table(1, 80)
    params = {"objective": "multi:softprob", "num_class": 2, "nthread": 1}
    model = xgboost.train(params, xgboost.DMatrix(X, y), 12)
    with pytest.raises(NotCovered, match="at most"):
        treeleak.reconstruct(model, schema_of(X), time_limit=30)
