"""What a release says of a scikit-learn model, against what the model really saw."""

import pickle
import zipfile
from dataclasses import fields

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from helpers.examples import examples
from helpers.older import COUNTS_GAPS
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.release import (
    AllRows,
    Bootstrap,
    Release,
    StoredObject,
    snapshot,
    to_release,
)

rng = np.random.default_rng(11)
N = 50
X = rng.integers(0, 6, (N, 4)).astype(float)
Y = rng.choice(["a", "b", "c"], N, p=[0.55, 0.3, 0.15])
GAPS = np.where(rng.random(X.shape) < 0.3, np.nan, X)
FEW = {"n_estimators": 4, "random_state": 0}
NEW_OLD = "1.9.1", "1.8.0"


def times_drawn(model, n_trees, n_rows=N):
    if not hasattr(model, "estimators_samples_") or not model.bootstrap:
        return np.ones((n_trees, n_rows))
    return np.array([np.bincount(s, minlength=n_rows) for s in model.estimators_samples_])


def seen(tree, X, y, classes, times):
    """Counts per node and class, by pushing rows through the release's own traversal."""
    counts = np.zeros((tree.n_nodes, len(classes)))
    np.add.at(counts, tree.apply(X.astype(np.float32)), times[:, None] * (y[:, None] == classes))
    for node in reversed(np.flatnonzero(~tree.is_leaf)):
        counts[node] = counts[tree.left[node]] + counts[tree.right[node]]
    return counts


def assert_true(release, model, X, y):
    times = times_drawn(model, len(release.trees), len(X))
    for tree, t in zip(release.trees, times, strict=True):
        counts = seen(tree, X, y, np.array(release.classes), t)
        np.testing.assert_array_equal(tree.counts, counts)
        np.testing.assert_array_equal(tree.totals, counts.sum(axis=1))
        distinct = seen(tree, X, y, np.array(release.classes), t > 0).sum(axis=1)
        np.testing.assert_array_equal(tree.distinct, distinct)


def assert_same(one, other):
    for field in fields(Release):
        if field.name not in ("trees", "sources"):
            assert getattr(one, field.name) == getattr(other, field.name), field.name
    assert len(one.trees) == len(other.trees)
    for a, b in zip(one.trees, other.trees, strict=True):
        for field in fields(a):
            if field.name != "statistics":
                np.testing.assert_array_equal(getattr(a, field.name), getattr(b, field.name))
        for x, y in zip(a.statistics, b.statistics, strict=True):
            assert (x.quantity, x.per_class) == (y.quantity, y.per_class)
            np.testing.assert_array_equal(x.values, y.values)
            np.testing.assert_array_equal(x.present, y.present)


# ------------------------------------------------------------------------------------- the truth


@st.composite
def forests(draw):
    n = draw(st.integers(1, 25))
    bits = st.lists(st.integers(0, 2), min_size=n * 3, max_size=n * 3)
    table = np.array(draw(bits), dtype=float).reshape(n, 3)
    labels = draw(st.sampled_from([["no", "yes"], [0, 1, 2], [False, True], [1.0, 2.0]]))
    y = np.array(draw(st.lists(st.sampled_from(labels), min_size=n, max_size=n)))
    kind = draw(st.sampled_from([RandomForestClassifier, ExtraTreesClassifier]))
    model = kind(
        draw(st.integers(1, 4)),
        max_depth=draw(st.sampled_from([None, 1, 3])),
        bootstrap=draw(st.booleans()),
        ccp_alpha=draw(st.sampled_from([0.0, 0.02])),
        max_leaf_nodes=draw(st.sampled_from([None, 5])),
        random_state=draw(st.integers(0, 9)),
    )
    if draw(st.booleans()) and COUNTS_GAPS:
        table[draw(st.integers(0, n - 1)), draw(st.integers(0, 2))] = np.nan
    named = pd.DataFrame(table, columns=["age", "sex", "bmi"])
    return model.fit(named if draw(st.booleans()) else table, y), table, y


@examples(60, fast=8)
@given(forests())
def test_counts_are_what_the_nodes_saw(case):
    model, table, y = case
    release = to_release(model)
    assert release.counts_are == ("draws" if model.bootstrap else "rows")
    assert release.n_rows == len(table)
    assert release.classes == tuple(model.classes_.tolist())
    assert all(type(c) in (str, int, float, bool) for c in release.classes)
    assert_true(release, model, table, y)
    gaps = np.isnan(table).any(axis=0)
    missing = {c for c, gap in zip(release.feature_names, gaps, strict=True) if gap}
    assert release.maybe_missing <= missing


@settings(max_examples=6, deadline=None)
@given(forests(), st.sampled_from([0, 2, 4, 5]), st.sampled_from([0, ("zlib", 1), ("xz", 1)]))
@pytest.mark.slow
def test_every_form_of_a_model_gives_the_same_release(tmp_path_factory, case, protocol, compress):
    model = case[0]
    folder = tmp_path_factory.mktemp("forms")
    release = to_release(model)
    skops.io.dump(model, folder / "a.skops")
    skops.io.dump(model, folder / "b.skops", compression=zipfile.ZIP_DEFLATED)
    (folder / "a.pkl").write_bytes(pickle.dumps(model, protocol=protocol))
    joblib.dump(model, folder / "a.joblib", compress=compress)
    for path in sorted(folder.iterdir()):
        assert_same(release, to_release(path, trust_pickle=True))
        assert_same(release, to_release(str(path), trust_pickle=True))
    assert_same(release, to_release(snapshot(model)))
    assert to_release(release) is release


def test_rows_go_where_scikit_learn_sends_them():
    model = RandomForestClassifier(**FEW).fit(GAPS, Y)
    release = to_release(model)
    assert release.maybe_missing == {"x0", "x1", "x2", "x3"}
    new = np.where(rng.random((500, 4)) < 0.2, np.nan, rng.normal(3, 2, (500, 4)))
    for tree, own in zip(release.trees, model.estimators_, strict=True):
        np.testing.assert_array_equal(tree.apply(new.astype(np.float32)), own.apply(new))


@pytest.mark.parametrize(
    ("bagging", "unit", "sampling"),
    [
        ({"max_features": 2}, "draws", Bootstrap),
        ({"max_samples": 0.5}, "draws", Bootstrap),
        ({"bootstrap": False}, "rows", AllRows),
        ({"bootstrap_features": True}, "draws", Bootstrap),
    ],
)
def test_bagging_of_trees(bagging, unit, sampling):
    model = BaggingClassifier(DecisionTreeClassifier(), **FEW, **bagging).fit(X, Y)
    release = to_release(model)
    assert release.counts_are == unit
    assert isinstance(release.sampling, sampling)
    assert release.n_rows == N
    assert_true(release, model, X, Y)
    if sampling is Bootstrap:
        assert release.sampling.n_draws == N * bagging.get("max_samples", 1)
        assert release.sampling.tree_seeds == tuple(model._seeds.tolist())


# ----------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize(
    "class_weight",
    ["balanced", {"a": 1.75, "b": 0.1, "c": 1.0}, {"b": 3}],
    ids=["balanced", "all", "one"],
)
@pytest.mark.parametrize("depth", [None, 2])
@pytest.mark.parametrize("bootstrap", [False, True])
def test_counts_behind_class_weights(class_weight, depth, bootstrap):
    options = {"class_weight": class_weight, "max_depth": depth, "bootstrap": bootstrap}
    model = RandomForestClassifier(**FEW, **options).fit(X, Y)
    release = to_release(model)
    assert release.counts_are == ("draws" if bootstrap else "rows")
    assert_true(release, model, X, Y)


@pytest.mark.parametrize("class_weight", ["balanced", "balanced_subsample"])
def test_balanced_sums_that_equal_the_rows_are_not_taken_for_counts(class_weight):
    """In a tree of one node, weights that balance the classes add up to the rows."""
    y = np.array(["a"] * 6 + ["b"] * 22)
    model = RandomForestClassifier(bootstrap=False, class_weight=class_weight, **FEW)
    release = to_release(model.fit(np.ones((28, 1)), y))
    assert release.counts_are == "weights"
    assert [t.totals.tolist() for t in release.trees] == [[28]] * len(release.trees)


def test_impurities_that_are_no_numbers_keep_no_model_from_being_read():
    """Older versions of scikit-learn wrote some where missing values went."""
    stored = snapshot(DecisionTreeClassifier(random_state=0).fit(X, Y))
    nodes = stored.get("tree_").get("nodes")
    nodes["impurity"][-1] = np.nan
    assert to_release(stored).n_rows == N
    nodes["impurity"][-1] = np.inf
    old, new = ({**stored.state, "_sklearn_version": version} for version in ("1.8.0", "1.9.1"))
    assert to_release(StoredObject(stored.type, old)).n_rows == N
    with pytest.raises(BadModel, match="impurity is not a finite number"):
        to_release(StoredObject(stored.type, new))


@pytest.mark.parametrize("criterion", ["gini", "entropy", "log_loss"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 1e-6, "b": 3.0}])
def test_impurities_that_contradict_the_counts_are_refused(criterion, class_weight):
    model = RandomForestClassifier(criterion=criterion, class_weight=class_weight, **FEW)
    stored = snapshot(model.fit(X, Y, sample_weight=np.arange(1, N + 1)))
    # Before 1.9, missing values may be behind it.
    of = {v: StoredObject(stored.type, {**stored.state, "_sklearn_version": v}) for v in NEW_OLD}
    for own in of.values():
        to_release(own)
    nodes = stored.get("estimators_")[1].get("tree_").get("nodes")
    nodes["impurity"][2] += 1e-3
    to_release(of[NEW_OLD[1]])
    with pytest.raises(BadModel, match=r"tree 1, node 2: its impurity is .*, but its classes make"):
        to_release(of[NEW_OLD[0]])
    nodes["impurity"] = 0
    to_release(of[NEW_OLD[0]])


def test_counts_that_weights_hide_are_not_guessed():
    """In stumps, many counts fit the balanced sums of weights."""
    forest = RandomForestClassifier(class_weight="balanced_subsample", max_depth=1, **FEW)
    release = to_release(forest.fit(X, Y))
    assert release.counts_are == "weights"
    assert release.trees[0].totals is None
    assert "weighted" in release.notes[0]


def test_row_weights_beside_class_weights_are_not_taken_for_counts():
    model = RandomForestClassifier(bootstrap=False, class_weight="balanced", **FEW)
    model.fit(X, Y, sample_weight=rng.choice([0.3, 1.1], N))
    assert to_release(model).counts_are == "weights"


# ------------------------------------------------------------------------------ not reconstructed


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (AdaBoostRegressor(n_estimators=3), "errors of earlier trees"),
        (IsolationForest(n_estimators=3, bootstrap=True), "with replacement"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_trees_that_drew_rows_in_ways_not_covered_still_show_them(model, reason):
    release = to_release(model.fit(X, rng.normal(size=N)))
    assert reason in release.not_covered
    assert release.counts_are == "none"
    assert release.classes == ()
    assert len(release.trees) >= 1
    for tree in release.trees:
        inner = np.flatnonzero(~tree.is_leaf)
        parts = tree.totals[tree.left[inner]] + tree.totals[tree.right[inner]]
        np.testing.assert_array_equal(parts, tree.totals[inner])
        assert tree.counts is None


def test_monotonic_constraints_clip_the_counts():
    model = RandomForestClassifier(bootstrap=False, monotonic_cst=[1, 0, 0, 0], **FEW)
    release = to_release(model.fit(X, Y == "a"))
    assert "monotonic" in release.not_covered
    assert release.trees[0].counts is None
    assert release.trees[0].totals[0] == N


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        VotingClassifier([("linear", LogisticRegression())]),
        BaggingClassifier(LogisticRegression(), 2),
        CalibratedClassifierCV(DecisionTreeClassifier(max_depth=2), cv=2),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(StandardScaler(), "passthrough"),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_tree_model_is_not_covered(model):
    with pytest.raises(NotCovered):
        to_release(model.fit(X, Y))


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        RandomForestClassifier(),
        BaggingClassifier(),
        GradientBoostingClassifier(),
        HistGradientBoostingClassifier(),
        GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}),
        CalibratedClassifierCV(DecisionTreeClassifier()),
        make_pipeline(StandardScaler(), RandomForestClassifier()),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_model_that_is_not_fitted(model):
    with pytest.raises(BadInput, match=r"not fitted|no fitted model"):
        to_release(model)


# ------------------------------------------------------------------------------ around the model


def test_seeds_and_weights_that_cannot_be_are_not_released():
    stored = snapshot(BaggingClassifier(DecisionTreeClassifier(), 3).fit(X, Y))
    for seeds, released in (
        ([1, 2, 3], (1, 2, 3)),
        ([1, 2], ()),
        ([1, -2, 2**32], (1, None, None)),
    ):
        state = {**stored.state, "_seeds": np.array(seeds), "random_state": -1}
        sampling = to_release(StoredObject(stored.type, state)).sampling
        assert sampling.tree_seeds == released
        assert sampling.forest_seed is None
    for weight, released in ((2.0, (2.0,) * N), (-1.0, None), (np.inf, None), (np.nan, None)):
        # As a version that draws by weight writes it.
        version = {"_sklearn_version": "1.9.1"}
        state = {**stored.state, **version, "_sample_weight": np.full(N, weight)}
        assert to_release(StoredObject(stored.type, state)).sampling.row_weights == released


def test_a_snapshot_ends_where_an_object_refers_to_itself():
    model = DecisionTreeClassifier().fit(X, Y)
    model.itself_ = {"again": [model]}
    stored = snapshot(model)
    assert stored.get("itself_")["again"][0].why == "refers back to itself"
    deep = model.deep_ = []
    for _ in range(5000):
        deep.append([])
        deep = deep[0]
    assert to_release(model).n_rows == N
