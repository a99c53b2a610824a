"""Boosted models and forests of scikit-learn, read as the library itself applies them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.tree import DecisionTreeRegressor

from helpers.examples import examples
from helpers.grids import shuffled
from helpers.releases import assert_same
from treeleak.core.errors import BadModel
from treeleak.release import StoredObject, snapshot, to_release
from treeleak.release.infer_schema import infer_schema
from treeleak.release.readers.release_file import release_from_dict, release_to_dict
from treeleak.release.statistics import GAIN, VALUE


def table(rng, n=60, gaps=True):
    """Numbers and a few categories, some of them missing, as a float array."""
    X = np.column_stack([rng.integers(0, 3, n), rng.normal(size=n), rng.integers(0, 9, n) / 4])
    if gaps:
        X[rng.random((n, 3)) < 0.1] = np.nan
    return X.astype(float)


def counted(tree, X):
    """Rows in every node, by following them from leaf to root."""
    found = np.bincount(tree.apply(X), minlength=tree.n_nodes).astype(float)
    for node in np.flatnonzero(~tree.is_leaf)[::-1]:
        found[node] = found[tree.left[node]] + found[tree.right[node]]
    return found


@examples(40, fast=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_trees_add_is_the_prediction_of_gradient_boosting(seed):
    rng = np.random.default_rng(seed)
    X, y = table(rng, gaps=False), rng.integers(0, 2 + int(rng.integers(2)), 60)
    few = {"n_estimators": 4, "random_state": 0, "learning_rate": float(rng.uniform(0.05, 1))}
    kinds = (GradientBoostingClassifier(**few), GradientBoostingRegressor(**few))
    losses = ("log_loss",), ("squared_error", "absolute_error", "huber", "quantile")
    k = int(rng.integers(2))
    model = kinds[k].set_params(loss=losses[k][rng.integers(len(losses[k]))])
    if k == 0 and y.max() == 1 and rng.random() < 0.5:
        model.set_params(loss="exponential")
    if rng.random() < 0.2:
        model.set_params(init="zero")
    model.fit(X, y)
    release = to_release(model)
    raw = np.tile(np.array(release.ensemble.base_scores), (60, 1))
    for tree in release.trees:
        own = tree.statistics.get(VALUE)
        present = np.ones(tree.n_nodes, bool) if own.present is None else own.present
        np.testing.assert_array_equal(present, tree.is_leaf)
        raw[:, tree.output or 0] += own.values[tree.apply(X.astype(np.float32))]
    np.testing.assert_array_equal(raw, model._raw_predict(X.astype(np.float32)))
    assert release.ensemble.objective == model.loss
    assert release.classes == (tuple(range(y.max() + 1)) if k == 0 else ())


def histogram_data(rng, n=120):
    """A frame with numbers, categories of text, and categories that are numbers."""
    frame = pd.DataFrame(table(rng, n), columns=["a", "b", "c"])
    frame["t"] = pd.Categorical(rng.choice(["red", "green", "blue"], n))
    frame["k"] = pd.Categorical(rng.choice([1, 4, 9, 12], n))
    return frame[shuffled(list(frame), rng)]


def in_codes(release, frame):
    """The frame as its own release describes it: texts as codes, categories as numbers."""
    found = pd.DataFrame(index=frame.index)
    for name in release.feature_names:
        texts = release.levels.get(name)
        column = frame[name].astype(object)
        found[name] = column.map({t: i for i, t in enumerate(texts)}) if texts else column
    return found.to_numpy(dtype=float)


@examples(60, fast=3)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_trees_add_is_the_prediction_of_histogram_boosting(seed):
    rng = np.random.default_rng(seed)
    frame = histogram_data(rng)
    y = rng.integers(0, 2 + int(rng.integers(2)), len(frame))
    options = {
        "max_iter": 4, "min_samples_leaf": int(rng.integers(2, 9)), "random_state": 0,
        "max_bins": int(rng.integers(4, 60)), "learning_rate": float(rng.uniform(0.05, 1)),
        "l2_regularization": float(rng.integers(2)), "categorical_features": "from_dtype",
    }  # fmt: skip
    kind = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)[rng.integers(2)]
    if rng.random() < 0.4:
        frame = frame[["a", "b", "c"]]
    model = kind(**options).fit(frame, y)
    release = to_release(model)
    assert (release.not_covered, release.n_rows, release.float_type) == (None, 120, "float64")
    X = in_codes(release, frame)
    raw = np.tile(np.array(release.ensemble.base_scores), (len(X), 1))
    for tree in release.trees:
        leaf, own = tree.apply(X), tree.statistics.get(VALUE)
        np.testing.assert_array_equal(counted(tree, X), tree.totals)
        raw[:, tree.output or 0] += own.values[leaf]
        gain = tree.statistics.get(GAIN)
        assert gain is None or np.array_equal(gain.present, ~tree.is_leaf)
    np.testing.assert_array_equal(raw, np.atleast_2d(model._raw_predict(frame)).reshape(raw.shape))


def test_borders_between_all_values_tell_what_a_column_can_be():
    rng = np.random.default_rng(8)
    X = pd.DataFrame({"n": rng.integers(0, 6, 200), "b": rng.integers(0, 2, 200)})
    X["x"] = rng.normal(size=200)
    X["k"] = pd.Categorical(rng.choice(["u", "v"], 200))
    model = HistGradientBoostingRegressor(
        max_iter=2, max_leaf_nodes=2, categorical_features="from_dtype"
    )
    release = to_release(model.fit(X[["k", "n", "b", "x"]], X["b"] + 0.0))
    assert release.borders["n"] == (0.5, 1.5, 2.5, 3.5, 4.5)
    assert release.borders["b"] == (0.5,)
    assert set(release.borders) == {"n", "b", "x"}
    kinds = {a.name: a.kind for a in infer_schema(release).attributes}
    # No tree tests any column but one, and they are told apart all the same.
    assert kinds == {"n": "ordinal", "b": "binary", "x": "numeric", "k": "categorical"}
    assert_same(release_from_dict(release_to_dict(release)), release)
    for wrong in ({"y": (1.0,)}, {"n": (1.0, 1.0)}, {"n": (np.inf,)}):
        with pytest.raises(BadModel, match="borders"):
            replace(release, borders=wrong)
    far = (-1.7e308, 1.7e308)  # Their difference is no number.
    assert replace(release, borders={"n": far}).borders["n"] == far


def test_early_stopping_leaves_counts_of_the_others():
    rng = np.random.default_rng(2)
    X, y = table(rng, 300), rng.integers(0, 2, 300)
    for model in (
        HistGradientBoostingClassifier(early_stopping=True, max_iter=3, random_state=0),
        GradientBoostingClassifier(n_iter_no_change=2, n_estimators=3, random_state=0),
    ):
        release = to_release(model.fit(np.nan_to_num(X), y))
        assert release.n_rows == 270
        assert any("held" in note for note in release.notes)


def test_weights_of_rows_are_named_and_counts_stay():
    rng = np.random.default_rng(3)
    X, y, w = table(rng, gaps=False), rng.normal(size=60), rng.uniform(0.5, 2, 60)
    for model in (DecisionTreeRegressor(max_depth=3), GradientBoostingRegressor(n_estimators=2)):
        release = to_release(model.fit(X, y, sample_weight=w))
        assert any("weighted" in note for note in release.notes)
        np.testing.assert_array_equal(
            release.trees[0].totals, counted(release.trees[0], X.astype(np.float32))
        )


def test_sums_are_not_used_where_weights_or_constraints_bend_leaves():
    rng = np.random.default_rng(3)
    X, w = table(rng, gaps=False), rng.uniform(0.5, 2, 60)
    y = rng.integers(0, 2, 60)
    bent = [
        HistGradientBoostingClassifier(max_iter=2, class_weight="balanced").fit(X, y),
        HistGradientBoostingClassifier(max_iter=2, class_weight={0: 1, 1: 3}).fit(X, y),
        HistGradientBoostingClassifier(max_iter=2, monotonic_cst=[1] + [0] * (X.shape[1] - 1)).fit(
            X, y
        ),
        HistGradientBoostingRegressor(max_iter=2, monotonic_cst=[-1] + [0] * (X.shape[1] - 1)).fit(
            X, y
        ),
        HistGradientBoostingClassifier(max_iter=2).fit(X, y, sample_weight=w),
        GradientBoostingClassifier(n_estimators=2).fit(X, y, sample_weight=w),
        GradientBoostingRegressor(n_estimators=2).fit(X, y, sample_weight=w),
    ]
    for model in bent:
        release = to_release(model)
        assert release.ensemble.fitting is None, model
        assert release.n_rows == 60
        plain = type(model)(**{k: 2 for k in ("max_iter", "n_estimators") if hasattr(model, k)})
        assert to_release(plain.fit(X, y)).ensemble.fitting is not None


def test_a_start_that_differs_from_row_to_row_is_named():
    rng = np.random.default_rng(5)
    X, y = table(rng, gaps=False), rng.normal(size=60)
    other = GradientBoostingRegressor(init=DecisionTreeRegressor(max_depth=1), n_estimators=2)
    release = to_release(other.fit(X, y))
    assert release.ensemble is None
    assert any("another model" in note for note in release.notes)
    dummy = GradientBoostingRegressor(init=DummyRegressor(strategy="median"), n_estimators=2)
    assert to_release(dummy.fit(X, y)).ensemble.base_scores == (np.median(y),)


def without(stored, **state):
    return StoredObject(stored.type, {**stored.state, **state})


@examples(60, fast=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_nodes_are_refused_or_read_as_they_stand(seed):
    rng = np.random.default_rng(seed)
    X, y = table(rng, gaps=False), rng.integers(0, 2, 60)
    model = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5).fit(X, y)
    stored = snapshot(model)
    predictor = stored.get("_predictors")[0][0]
    nodes = predictor.get("nodes")
    name = nodes.dtype.names[rng.integers(len(nodes.dtype.names))]
    kind = nodes.dtype[name].kind
    info = np.iinfo(nodes.dtype[name]) if kind in "iu" else None
    options = [info.max, info.min, 1] if info else [np.nan, np.inf, -np.inf, 1e300]
    nodes[name][rng.integers(len(nodes))] = options[rng.integers(len(options))]
    try:
        release = to_release(stored)
    except BadModel:
        return
    assert all(len(tree.apply(X)) == 60 for tree in release.trees)


@pytest.mark.parametrize(
    "change",
    [
        {"_predictors": [[None]]},
        {"_predictors": [[]]},
        {"is_categorical_": np.array([True])},
        {"_baseline_prediction": np.array([[np.nan]])},
    ],
    ids=str,
)
def test_damaged_histogram_boosting_is_refused(change):
    rng = np.random.default_rng(7)
    model = HistGradientBoostingClassifier(max_iter=2).fit(table(rng), rng.integers(0, 2, 60))
    stored = without(snapshot(clone(model).fit(table(rng), rng.integers(0, 2, 60))), **change)
    if "_baseline_prediction" in change:
        assert to_release(stored).ensemble is None
        return
    with pytest.raises(BadModel):
        to_release(stored)
