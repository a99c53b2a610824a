"""Values inside intervals that begin right below the value of a row, as XGBoost's do."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treeleak
from helpers.raw_tables import schema_of
from helpers.releases import random_tree
from treeleak.partition import Geometry
from treeleak.reconstruction.point_values import _above, _from_below, point_values
from treeleak.release import Release, to_release
from treeleak.release.readers.release_file import release_from_dict, release_to_dict
from treeleak.release.sampling import AllRows

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


def test_one_row_that_begins_with_a_threshold_has_the_next_number():
    values = np.array([0.1, 2.35, 7.81, 9.99, 123.4])
    release = cut_at(values, np.random.default_rng(0))
    cuts = np.nextafter(values[1:].astype(np.float32), np.float32(-np.inf)).astype(float)
    assert set(release.thresholds[0]) <= set(cuts)
    table, low, high, side = intervals(release, values, 0.0, 200.0)
    one = np.ones(1, dtype=bool)
    found = point_values(release, table, low, high, one, whole=~one).table[:, 0]
    alone = (side > 0) & (np.bincount(side)[side] == 1)
    assert alone.any()
    np.testing.assert_array_equal(found[alone], values[alone])
    # Of thresholds of which nothing is known, nothing follows.
    unknown = replace(release, thresholds_are="unknown")
    other = point_values(unknown, table, low, high, one, whole=~one).table[:, 0]
    assert (other[alone] != values[alone]).any()


def test_of_several_rows_one_is_at_the_beginning():
    x = np.array([1.25, 7.5], dtype=np.float32)
    cuts = np.nextafter(x, np.float32(-np.inf)).astype(float)
    np.testing.assert_array_equal(_above(cuts, "float32"), [1.25, 7.5])
    least = cuts[[0, 0, 0, 1]]
    wanted = _from_below(least, np.array([3.0, 3.0, 3.0, 9.0]), "float32")
    # The middle one of three is as near to the beginning as to the middle.
    np.testing.assert_allclose(wanted, [2.125, 2.125, 2.125, 7.5])


@pytest.mark.parametrize("are", ["midpoints", "neighbours", "values", "unknown"])
def test_what_thresholds_are_is_written_and_read(are):
    release = replace(cut_at(np.arange(5.0), np.random.default_rng(0)), thresholds_are=are)
    assert release_from_dict(release_to_dict(release)).thresholds_are == are
    assert ("thresholds_are" in release_to_dict(release)) == (are != "unknown")


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


@pytest.mark.parametrize(
    ("version", "told"),
    [([3, 0, 0], "values"), ([2, 1, 4], "values"), ([1, 7, 6], "unknown"), (None, "unknown")],
)
def test_a_file_without_options_goes_by_its_version(table, tmp_path, version, told):
    xgboost = pytest.importorskip("xgboost")
    X, y = table
    model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(X, y)
    path = tmp_path / "model.json"
    model.save_model(path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    del stored["version"]
    if version is not None:
        stored["version"] = version
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert to_release(path).thresholds_are == told
