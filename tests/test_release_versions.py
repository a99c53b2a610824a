"""Model files written by several scikit-learn versions, against what their nodes really saw.

``tools/make_fixture_models.py`` writes the files.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sklearn
from numpy.lib.recfunctions import rename_fields
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.examples import spread
from treeleak.core.errors import BadInput, BadModel
from treeleak.release import AllRows, Bootstrap, StoredObject, to_release
from treeleak.release.live import snapshot
from treeleak.release.readers.release_file import release_to_dict

MODELS = Path(__file__).parent / "models"
FILES = sorted(p for p in MODELS.glob("[0-9]*/*") if p.suffix != ".json")
VERSIONS = {"1.3.2", "1.5.2", "1.7.2", "1.8.0", "1.9.1"}

# Where counts cannot be told from sums of weights.
WEIGHTS = {
    *((v, "row_weight") for v in ("1.3.2", "1.5.2", "1.7.2", "1.8.0")),
    *((v, "bagging_row_weight") for v in ("1.3.2", "1.5.2", "1.7.2")),
}
DRAWN = {
    *("drawn", "drawn_extra", "balanced", "balanced_subsample", "row_weight"),
    *("bagging", "bagging_rows", "bagging_columns", "bagging_row_weight"),
}


def ids(path):
    return f"{path.parent.name}-{path.stem}"


def test_every_version_is_there():
    assert {p.parent.name for p in FILES} == VERSIONS
    assert len(FILES) == len(VERSIONS) * 15


@pytest.mark.versions
@pytest.mark.parametrize("path", spread(FILES, fast=20), ids=ids)
def test_a_file_of_any_version_gives_what_its_nodes_saw(path):
    known = json.loads(path.with_suffix(".json").read_text())
    version, name = path.parent.name, path.stem
    release = to_release(path, trust_pickle=True)

    unit = "draws" if name in DRAWN else "rows"
    assert release.counts_are == ("weights" if (version, name) in WEIGHTS else unit)
    assert release.classes == tuple(known["classes"])
    assert release.feature_names == tuple(known["columns"])
    assert release.maybe_missing == set(known["missing"])
    miscounted = name == "missing" and version != "1.9.1"
    assert ("miscounts" in (release.not_covered or release.left_out or "")) == miscounted
    assert miscounted or release.not_covered is None
    assert version in release.origin
    assert isinstance(release.sampling, Bootstrap if name in DRAWN else AllRows)
    assert release.float_type == "float32"

    counts = known["weights" if release.counts_are == "weights" else "counts"]
    assert len(release.trees) == len(counts)
    for tree, count, distinct in zip(release.trees, counts, known["distinct"], strict=True):
        if release.left_out:
            np.testing.assert_array_equal(tree.counts[0], count[0])
            assert tree.n_nodes < len(count)
        elif release.counts_are == "weights":
            np.testing.assert_allclose(tree.counts, count, atol=1e-9)
        else:
            np.testing.assert_array_equal(tree.counts, count)
            np.testing.assert_array_equal(tree.totals, np.sum(count, axis=1))
        if not release.left_out:
            np.testing.assert_array_equal(tree.distinct, distinct)


def as_before(stored, version, number="n_features_"):
    """Give a fitted model the layout of an old version.

    Names are those of the sources: ``n_features_`` became ``n_features_in_`` in 0.24, nodes have
    ``missing_go_to_left`` since 1.3, and values are sums of weights before 1.4.
    """
    if isinstance(stored, np.ndarray) and stored.dtype == object:
        out = np.empty_like(stored)
        for place, item in np.ndenumerate(stored):
            out[place] = as_before(item, version, number)
        return out
    if isinstance(stored, list):
        return [as_before(item, version, number) for item in stored]
    if not isinstance(stored, StoredObject):
        return stored
    state = {k: as_before(v, version, number) for k, v in stored.state.items()}
    if "nodes" in state:
        nodes = state["nodes"]
        names = [n for n in nodes.dtype.names if n != "missing_go_to_left"]
        old = np.empty(len(nodes), [(n, nodes.dtype[n]) for n in names])
        for name in names:
            old[name] = nodes[name]
        state["nodes"] = old
        if state["values"].shape[2] > 1:
            state["values"] = state["values"] * nodes["weighted_n_node_samples"][:, None, None]
    if (columns := state.pop("n_features_in_", None)) is not None and number:
        state[number] = columns
    if "_sklearn_version" in state:
        state["_sklearn_version"] = version
    return replace(stored, state=state)


FEW = {"n_estimators": 4, "random_state": 0}
OLD_MODELS = [
    DecisionTreeClassifier(random_state=0),
    RandomForestClassifier(**FEW),
    ExtraTreesClassifier(**FEW),
    BaggingClassifier(**FEW),
    AdaBoostClassifier(**FEW),
    GradientBoostingClassifier(**FEW),
    GradientBoostingRegressor(**FEW),
]


@pytest.mark.versions
@pytest.mark.parametrize("version", ["0.17.1", "0.22.1", "1.2.2"])
@pytest.mark.parametrize("model", OLD_MODELS, ids=lambda model: type(model).__name__)
def test_trees_of_old_versions_hold_no_missing_values_and_are_fitted(model, version):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 6, (40, 3)).astype(float)
    stored = snapshot(model.fit(X, (X[:, 0] + X[:, 1] > 5).astype(int)))
    now = to_release(stored)
    # AdaBoost kept no number of columns of its own.
    number = "n_features_in_" if version == "1.2.2" else "n_features_"
    before = to_release(as_before(stored, version, number))
    assert before.not_covered is None
    assert not before.maybe_missing
    assert before.feature_names == now.feature_names
    assert version in before.origin
    for old, new in zip(before.trees, now.trees, strict=True):
        for name in ("counts", "totals", "distinct"):
            np.testing.assert_array_equal(getattr(old, name), getattr(new, name))


@pytest.mark.versions
def test_the_number_of_columns_is_that_of_the_trees_where_the_model_has_none():
    X = np.eye(5)[np.arange(20) % 5]
    stored = snapshot(AdaBoostClassifier(**FEW).fit(X, np.arange(20) % 2))
    assert to_release(as_before(stored, "0.22.1", number="")).n_features == 5


@pytest.mark.versions
@pytest.mark.parametrize(
    ("name", "state", "base"),
    [
        ("LogOddsEstimator", {"prior": np.float64(0.3)}, 0.3),
        ("ScaledLogOddsEstimator", {"prior": -0.2}, -0.2),
        ("ZeroEstimator", {"n_classes": 1}, 0.0),
    ],
)
def test_boosting_before_0_21_starts_from_what_its_own_estimators_hold(name, state, base):
    X = np.eye(5)[np.arange(20) % 5]
    stored = snapshot(GradientBoostingClassifier(**FEW).fit(X, np.arange(20) % 2))
    start = StoredObject(f"sklearn.ensemble.gradient_boosting.{name}", state)
    old = replace(stored, state=stored.state | {"init_": start, "loss": "deviance"})
    ensemble = to_release(as_before(old, "0.20.4")).ensemble
    assert ensemble.base_scores == (base,)
    assert ensemble.fitting is not None


@pytest.mark.versions
@pytest.mark.parametrize("most", [None, 0.6])
def test_draws_of_a_balanced_forest_follow_where_the_file_holds_no_number(most):
    """Files before 1.4: inverse class weights add up to the number of classes."""
    rng = np.random.default_rng(5)
    X, y = rng.integers(0, 6, (50, 3)).astype(float), rng.choice(3, 50, p=[0.6, 0.3, 0.1])
    model = RandomForestClassifier(
        6, class_weight="balanced", max_samples=most, random_state=0, max_depth=4
    )
    stored = as_before(snapshot(model.fit(X, y)), "1.3.2", "n_features_in_")
    kept = {k: v for k, v in stored.state.items() if not k.startswith("_n_samples")}
    release = to_release(replace(stored, state=kept))
    assert release.counts_are == "draws"
    assert release.sampling.n_draws == (50 if most is None else 30)
    assert release.n_rows == (50 if most is None else None)


@pytest.mark.versions
def test_a_fitted_model_of_a_version_that_is_not_read_is_told_by_its_version():
    """Histogram boosting of 0.21 to 0.23 called thresholds otherwise."""
    X = np.eye(5)[np.arange(60) % 5]
    stored = snapshot(HistGradientBoostingClassifier(max_iter=2).fit(X, np.arange(60) % 2))
    (predictor, *_), *_ = stored.get("_predictors")
    nodes = rename_fields(predictor.get("nodes"), {"num_threshold": "threshold"})
    old = [[replace(predictor, state=predictor.state | {"nodes": nodes})]]
    before = replace(
        stored, state=stored.state | {"_predictors": old, "_sklearn_version": "0.22.1"}
    )
    with pytest.raises(BadModel, match=r"no array of nodes; scikit-learn 0.22.1 wrote the file"):
        to_release(before)
    for lost in ("_predictors", "n_features_in_"):
        state = {k: v for k, v in stored.state.items() if k != lost}
        bare = replace(stored, state=state | {"_sklearn_version": "0.22.1"})
        with pytest.raises(BadModel, match=f"is fitted, but has no {lost}; scikit-learn 0.22.1"):
            to_release(bare)
    with pytest.raises(BadInput, match=r"is not fitted$"):
        to_release(HistGradientBoostingClassifier())


def missing_forest(rule):
    """Rows of which some lack column 1, and what a forest of them looks like before 1.9."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 5, (60, 4)).astype(float)
    y = (X[:, 0] + X[:, 1] > 4).astype(int)
    X[rng.random(60) < 0.2, 1] = np.nan
    model = rule(5, max_features=1, random_state=0, bootstrap=False).fit(X, y)
    stored = snapshot(model)
    return X, y, replace(stored, state=stored.state | {"_sklearn_version": "1.8.0"})


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9), reason="its trees miscount"
)
@pytest.mark.versions
def test_trees_that_test_a_column_with_missing_values_are_used_as_far_as_they_count_right():
    X, y, stored = missing_forest(RandomForestClassifier)
    release = to_release(stored)
    assert release.not_covered is None
    assert release.maybe_missing == {"x1"}
    assert "x1" not in release.tested
    assert "5 of 5 trees (0, 1, 2, 3 and 1 more)" in release.left_out
    whole = to_release(replace(stored, state=stored.state | {"_sklearn_version": "1.9.1"}))
    assert whole.left_out is None
    at = release.leaves(X)
    for t, (tree, full) in enumerate(zip(release.trees, whole.trees, strict=True)):
        assert tree.n_nodes < full.n_nodes
        seen = np.zeros((tree.n_nodes, 2))
        np.add.at(seen, (at[:, t], y), 1)
        np.testing.assert_array_equal(tree.counts[tree.leaves], seen[tree.leaves])
    # What was not looked at bars "no leak shown", and a figure on the smallest leaf.
    audit = treeleak.audit(release, time_limit=5)
    assert str(audit.verdict) != "no leak shown"
    assert audit.counts is None
    assert "miscounts" in " ".join(f.text for f in audit.findings)
    ruling = treeleak.judge(audit, treeleak.Policy("p", limits={"single_leaves": 1.0}))
    assert not ruling.passed


@pytest.mark.versions
def test_a_tree_that_begins_with_a_column_with_missing_values_counts_nothing():
    X, y = np.array([[np.nan], [0.0], [1.0], [np.nan], [2.0]] * 5), np.array([0, 1, 0, 0, 1] * 5)
    stored = snapshot(DecisionTreeClassifier(random_state=0).fit(X, y))
    release = to_release(replace(stored, state=stored.state | {"_sklearn_version": "1.8.0"}))
    assert "miscounts" in release.not_covered
    assert release.left_out is None


@pytest.mark.versions
def test_a_release_file_does_not_forget_that_trees_were_cut():
    _, _, stored = missing_forest(RandomForestClassifier)
    assert "miscounts" in release_to_dict(to_release(stored))["not_covered"]
