"""Values inside intervals that begin right below the value of a row, as XGBoost's do."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

import treeleak
from helpers.raw_tables import at_nodes, each_for_itself, leaning, schema_of, true_leaves
from helpers.releases import random_tree
from treeleak.attacks.loss_sums import raw_rows
from treeleak.attacks.loss_sums.layers import Bounds, choices, met, propagate_flows
from treeleak.attacks.loss_sums.node_search import ByNodes
from treeleak.core.clock import Clock
from treeleak.evidence import LossSums
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_of
from treeleak.reconstruction.point_values import _above, point_values
from treeleak.release import Release, to_release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import VALUE

DECIMALS = st.floats(-1e4, 1e4, allow_nan=False).map(lambda x: round(x, 2))


def cut_at(values: np.ndarray, rng: np.random.Generator) -> Release:
    """Trees whose thresholds lie right below some values of a column."""
    below = np.nextafter(np.unique(values.astype(np.float32)), np.float32(-np.inf)).astype(float)
    trees = tuple(random_tree(rng, [below[1:]], 3) for _ in range(3))
    return Release(
        trees, ("a",), (), AllRows(), None, float_type="float32", thresholds_are="values"
    )


def intervals(release: Release, x: np.ndarray, low: float, high: float):
    """A value of each row's interval, and its ends."""
    ends = np.concatenate([[low], release.thresholds[0], [high]])
    side = np.searchsorted(release.thresholds[0], x.astype(np.float32))
    least, most = ends[side], ends[side + 1]
    return (least + (most - least) / 2)[:, None], least[:, None], most[:, None], side


@given(st.lists(DECIMALS, min_size=2, max_size=30), st.integers(0, 10**6))
def test_values_stay_in_their_interval_and_on_their_side(values, seed):
    x = np.array(values)
    release = cut_at(x, np.random.default_rng(seed))
    low, high = x.min() - 1.0, x.max() + 1.0
    table, least, most, side = intervals(release, x, low, high)
    # What is in the middle may be a threshold itself, where nothing else lies between two.
    side = np.searchsorted(release.thresholds[0], table[:, 0].astype(np.float32))
    one = np.ones(1, dtype=bool)
    found = point_values(release, table, least, most, one, whole=~one).table
    assert (found >= least).all()
    assert (found <= most).all()
    kept = np.searchsorted(release.thresholds[0], found[:, 0].astype(np.float32))
    np.testing.assert_array_equal(kept, side)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=60).round(2), "b": rng.normal(9, 3, 60).round(1)})
    return X, (X.a + rng.normal(size=60) > 0).astype(int)


@pytest.mark.parametrize(
    ("method", "told"), [("hist", "values"), ("approx", "values"), ("exact", "unknown")]
)
def test_xgboost_cuts_at_values_but_for_exact(table, tmp_path, method, told):
    xgboost = pytest.importorskip("xgboost")
    X, y = table
    model = xgboost.XGBClassifier(n_estimators=5, tree_method=method, n_jobs=1).fit(X, y)
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(model))
    for release in (to_release(model), to_release(path, trust_pickle=True)):
        assert release.thresholds_are == told
        for j, cuts in enumerate(release.thresholds):
            seen = np.isin(_above(cuts, "float32"), X.iloc[:, j])
            assert seen.all() or told == "unknown"
    # So does any value between two thresholds that begins with one.
    parts = Geometry.of(release, schema_of(X)).parts
    assert [len(part) for part in parts] == [len(cuts) + 1 for cuts in release.thresholds]


@pytest.mark.parametrize("most", [255, 12])
def test_lightgbm_cuts_between_neighbours(table, tmp_path, most):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = table
    model = lightgbm.LGBMClassifier(
        n_estimators=9, min_child_samples=5, min_data_in_bin=1, max_bin=most, verbose=-1
    )
    model.fit(X, y)
    path = tmp_path / "model.txt"
    model.booster_.save_model(path)
    release = to_release(path)
    assert release.thresholds_are == "neighbours"
    for cuts, (_, own) in zip(release.thresholds, X.items(), strict=True):
        values = np.unique(own)
        assert len(cuts) > 3
        middles = np.append((values[1:] + values[:-1]) / 2, 0.0)
        assert (np.abs(cuts[:, None] - middles).min(axis=1) < 1e-12).all()
    # Two digits of the one, and one of the other.
    found = treeleak.reconstruct(path, time_limit=5).X
    assert found is not None
    for name, digits in (("a", 2), ("b", 1)):
        np.testing.assert_allclose(found[name], found[name].round(digits), atol=1e-9)
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace("[forcedbins_filename: ]", "[forcedbins_filename: bins.json]"),
        encoding="utf-8",
    )
    assert to_release(path).thresholds_are == "unknown"


# ----------------------------------------------------------------------------------- node by node


@pytest.fixture(scope="module", params=["HistGB", "HistGB with l2", "LightGBM", "XGBoost"])
def raw(request):
    X, y = leaning(3, 120)
    if request.param == "LightGBM":
        model = pytest.importorskip("lightgbm").LGBMClassifier(
            n_estimators=12, min_child_samples=8, n_jobs=1, verbose=-1
        )
    elif request.param == "XGBoost":
        model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=12, n_jobs=1)
    else:
        model = HistGradientBoostingClassifier(
            max_iter=12, min_samples_leaf=8, l2_regularization=1.5 * ("l2" in request.param)
        )
    return X, y, Geometry.of(to_release(model.fit(X, y)), schema_of(X))


def looked_ahead(search, groups, n=1):
    """The next ``n`` trees."""
    layers, bounds = [], []
    for _ in range(n):
        assert search._look_ahead(groups, layers, bounds)
    return layers, bounds


def test_what_a_node_leaves_open_holds_the_truth(raw):
    X, _, geometry = raw
    search = ByNodes(LossSums(geometry), geometry, Clock.of(60))
    leaf = true_leaves(X, geometry)
    asked = 0
    for t in (1, 6):
        groups = each_for_itself(X, geometry, t)
        (layer,), _ = looked_ahead(search, groups)
        right = at_nodes(leaf, geometry, t)
        rng = np.random.default_rng(t)
        for v in range(1, layer.tree.n_nodes):
            # Of all but a few rows it is known whether they are there.
            open_ = rng.permutation(len(X))[:14]
            least, most = right.copy(), right.copy()
            least[open_, v], most[open_, v] = 0, 1
            found = choices(layer, Bounds(least, most), groups, v)
            asked += found is not None
            assert found is None or (found == right[:, v]).all(axis=1).any()
    assert asked


def test_two_trees_that_are_looked_at_together_hold_the_truth(raw):
    X, _, geometry = raw
    search = ByNodes(LossSums(geometry), geometry, Clock.of(60))
    leaf = true_leaves(X, geometry)
    layers, bounds = looked_ahead(search, each_for_itself(X, geometry, 4), 3)
    assert propagate_flows(layers, bounds, {0, 1, 2})
    row = np.arange(len(X))
    for s, (layer, own) in enumerate(zip(layers, bounds, strict=True)):
        right = at_nodes(leaf, geometry, 4 + s)
        # The part of each row that went its way so far.
        parts = np.zeros_like(own.least)
        if s == 0:
            part = row
        else:
            node = layers[s - 1].tree.leaves[leaf[:, 3 + s] - geometry.leaf_start[3 + s]]
            part = np.array([
                np.flatnonzero((layer.above == p) & (layer.through == v))[0]
                for p, v in zip(part, node, strict=True)
            ])  # fmt: skip
        parts[part] = right
        assert (own.least <= parts).all()
        assert (parts <= own.most).all()
        assert met(layer, Bounds(parts, parts), np.ones(layer.tree.n_nodes, dtype=bool))


def test_rows_are_followed_through_all_trees(raw):
    X, y, geometry = raw
    clock = Clock.of(120)
    search = ByNodes(LossSums(geometry), geometry, clock)
    found = search.found()
    assert found.n_trees == len(geometry.release.trees)
    assert found.rows.sum() == len(X)

    # Groups are told apart by what trees predict.
    def total(leaf):
        values = np.concatenate(
            [t.statistics.get(VALUE).values[t.leaves] for t in geometry.release.trees]
        )
        return np.round(values[leaf].sum(axis=1), 9)

    true = total(true_leaves(X, geometry))
    assert sorted(np.repeat(total(found.leaf[0]), found.rows)) == sorted(true)
    values = values_of(geometry.parts, 2)
    answer = raw_rows.raw_rows(LossSums(geometry), geometry, values, Clock.of(120), "many")
    (rows,) = answer.rows
    atoms = values.atom_of[rows.values] - values.atom_start[:-1]
    leaf, label = geometry.trace_atoms(atoms[:, :-1]), atoms[:, -1]
    n_trees, n_leaves = len(geometry.release.trees), found.held.shape[1]
    right = true_leaves(X, geometry)
    for one, other in ((np.ones(len(X)), np.ones(len(X))), (label, y)):
        np.testing.assert_array_equal(
            np.bincount(leaf.ravel(), np.repeat(one, n_trees), n_leaves),
            np.bincount(right.ravel(), np.repeat(other, n_trees), n_leaves),
        )
    assert rows.misfit == 0
    assert 0 < answer.expected_distance < 1
    sure = rows.confidence
    assert ((sure > 0) & (sure <= 1)).all()
