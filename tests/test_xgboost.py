"""XGBoost's models: trees, leaves and sums as XGBoost itself has them."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest

import treeleak
from helpers.examples import seeds
from treeleak.auditing.findings.finding import NO_LEAK
from treeleak.core.errors import BadInput, NotCovered
from treeleak.release import to_release
from treeleak.release.adapters.xgboost.boosters import FIRST_ONLY
from treeleak.release.adapters.xgboost.model import (
    EACH_ROW_ONE,
    LOG_LINK,
    LOGISTIC,
    LOGIT_LINK,
    POISSON,
    SOFTMAX,
)
from treeleak.release.draws.seeds import subsampled
from treeleak.release.statistics import DRAWS, HESSIAN, VALUE
from treeleak.release.statistics import ROWS as COUNTED

xgboost = pytest.importorskip("xgboost", reason="needs XGBoost: pip install 'treeleak[xgboost]'")

pytestmark = pytest.mark.filterwarnings("ignore")

OBJECTIVES = (
    "binary:logistic", "binary:logitraw", "reg:squarederror", "multi:softprob", "count:poisson",
    "reg:gamma", "reg:tweedie", "reg:logistic", "reg:absoluteerror", "reg:pseudohubererror",
    "rank:pairwise", "binary:hinge",
)  # fmt: skip

COUNTED_FIRST = (*LOGISTIC, *SOFTMAX)


def some_rows(rng, n, kinds, missing):
    """Columns of few values, of many, and of categories."""
    columns = []
    for kind in kinds:
        if kind == "c":
            columns.append(rng.integers(0, 7, n).astype(float))
        elif kind == "int":
            columns.append(rng.integers(-2, 3, n).astype(float))
        else:
            columns.append(rng.normal(size=n).astype(np.float32).astype(float))
    X = np.column_stack(columns)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def some_model(seed):
    """A model of random options, with rows to try it on."""
    rng = np.random.default_rng(seed)
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    kinds = list(rng.choice(["c", "int", "float"], rng.integers(1, 5)))
    missing, n = float(rng.choice([0, 0.2])), int(rng.integers(20, 80))
    X = some_rows(rng, n, kinds, missing)
    n_classes = int(rng.integers(2, 5))
    y = rng.integers(0, n_classes if objective.startswith("multi") else 2, n).astype(float)
    y[: n_classes if objective.startswith("multi") else 2] = np.arange(
        n_classes if objective.startswith("multi") else 2
    )
    if objective.startswith(("count", "reg")) and objective != "reg:logistic":
        y = rng.random(n) + 0.5
    method = str(rng.choice(["exact", "hist", "approx"])) if "c" not in kinds else "hist"
    params = {
        "objective": objective, "seed": seed, "nthread": 1, "tree_method": method,
        "eta": float(rng.choice([0.3, 1.0, 0.05])), "max_depth": int(rng.integers(1, 6)),
        "lambda": float(rng.choice([0, 1])), "min_child_weight": float(rng.choice([0, 1])),
        "gamma": float(rng.choice([0, 0.5])), "num_parallel_tree": int(rng.choice([1, 1, 3])),
        "subsample": float(rng.choice([1, 1, 0.6])), "max_cat_to_onehot": int(rng.choice([1, 4])),
        "colsample_bytree": float(rng.choice([1, 0.7])),
    }  # fmt: skip
    if objective.startswith("multi"):
        params["num_class"] = n_classes
    if objective == "reg:absoluteerror":
        params["num_parallel_tree"] = 1  # some versions know no forest for it
    if rng.random() < 0.3:
        params |= {"booster": "dart", "rate_drop": 0.5, "normalize_type": "forest"}
    if method == "hist" and rng.random() < 0.4:
        params |= {"grow_policy": "lossguide", "max_leaves": 7, "max_depth": 0}
    if rng.random() < 0.3 and objective.startswith(("binary", "reg:sq")):
        params["base_score"] = 0.3
    types = ["c" if kind == "c" else "float" for kind in kinds]
    data = xgboost.DMatrix(X, label=y, feature_types=types, enable_categorical=True)
    if objective.startswith("rank"):
        data.set_group([n])
    booster = xgboost.train(params, data, int(rng.integers(1, 6)))
    tried = some_rows(rng, 200, kinds, 0.2)
    # On the thresholds themselves, and in the neighbouring numbers.
    cuts = np.array(list(booster.trees_to_dataframe()["Split"].dropna()), np.float32)
    for column, kind in enumerate(kinds):
        if kind != "c" and len(cuts):
            at = rng.choice(cuts, 90)
            near = np.concatenate([at[:30], np.nextafter(at[30:60], np.float32(9)), at[60:]])
            tried[:90, column] = near
    return booster, params, X, tried, types


@seeds(200, fast=4)
def test_leaves_and_sums_are_those_of_xgboost(seeds, tmp_path):
    for seed in seeds:
        holds(seed, tmp_path)


def holds(seed, tmp_path):
    booster, params, X, tried, types = some_model(seed)
    booster.save_model(tmp_path / "model.json")
    booster.save_model(tmp_path / "model.ubj")
    releases = [to_release(tmp_path / f"model.{end}") for end in ("json", "ubj")]
    live = to_release(booster)
    release = releases[0]
    data = xgboost.DMatrix(tried, feature_types=types, enable_categorical=True)
    expected = booster.predict(data, pred_leaf=True, strict_shape=True).reshape(len(tried), -1)
    at = np.column_stack([t.apply(tried.astype(np.float32)) for t in release.trees])
    dumped = [t["left_children"] for t in raw_trees(tmp_path / "model.json")]
    if all(len(d) == t.n_nodes for d, t in zip(dumped, release.trees, strict=True)):
        np.testing.assert_array_equal(at, expected)
    sums = np.tile(np.array(release.ensemble.base_scores, np.float32), (len(tried), 1))
    for t, tree in enumerate(release.trees):
        value = tree.statistics.get(VALUE).values.astype(np.float32)
        sums[:, tree.output or 0] += value[at[:, t]]
    margin = booster.predict(data, output_margin=True, strict_shape=True)
    if "booster" in params or params["objective"] in (*LOGIT_LINK, *LOG_LINK):
        # A library's logarithm may be off in the last digit; dart adds in another order.
        np.testing.assert_allclose(sums, margin, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(sums, margin)
    for other in (releases[1], live):
        for a, b in zip(release.trees, other.trees, strict=True):
            for name in ("feature", "threshold", "left", "right", "missing_left"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
            one, two = (
                {s.quantity: s.values for s in t.statistics if s.quantity not in (COUNTED, DRAWS)}
                for t in (a, b)
            )
            assert one.keys() == two.keys()
            for quantity in one:
                np.testing.assert_array_equal(one[quantity], two[quantity])
            np.testing.assert_array_equal(a.totals, b.totals)
    rate = params["eta"] / params["num_parallel_tree"]
    assert live.ensemble.learning_rate == pytest.approx(rate, rel=1e-3)
    if params["objective"] in LOGISTIC and params["num_parallel_tree"] == 1:
        plain = params["subsample"] == 1 and "booster" not in params
        telling = len(release.trees) > 1 and len(release.trees[0].leaves) > 8
        # The file does not say how rows were drawn: a search finds the seed 0, or nothing.
        found = release.sampling.kind == "subsample" and params["subsample"] == 0.6
        assert plain or found or release.sampling.kind == "unknown" or len(release.trees) == 1
        assert release.sampling.kind == "all" or not (plain and telling)
    if live.sampling.kind == "subsample":
        drawn = subsampled(replace(live, n_rows=len(X)), live.sampling).counts
        for tree, mask in zip(live.trees, drawn, strict=True):
            held = np.bincount(tree.apply(X.astype(np.float32)), mask, tree.n_nodes)
            if tree.totals is not None:
                np.testing.assert_array_equal(held[tree.leaves], tree.totals[tree.leaves])
        assert params["subsample"] < 1
        return
    if params["subsample"] < 1:
        assert live.sampling.kind == "unknown"
        assert "subsample 0.6" in live.sampling.why or "different" in live.sampling.why
        return
    assert live.sampling.kind == "all"
    every, first = (
        params["objective"] in EACH_ROW_ONE,
        params["objective"] in (*COUNTED_FIRST, POISSON),
    )
    rounds = len(live.ensemble.base_scores) * params["num_parallel_tree"]
    for t, tree in enumerate(live.trees):
        counted = every or (first and t < rounds)
        assert (tree.totals is not None) == counted
        if counted:
            leaves = np.bincount(tree.apply(X.astype(np.float32)), minlength=tree.n_nodes)
            np.testing.assert_array_equal(tree.totals[tree.leaves], leaves[tree.leaves])
    # Later trees speak of rows where it is known how their leaves follow from them.
    fitting = live.ensemble.fitting
    if fitting is not None:
        assert params["objective"] in (*COUNTED_FIRST, "reg:squarederror")
        assert fitting.parallel == params["num_parallel_tree"]
        assert fitting.l2 == pytest.approx(params["lambda"], rel=1e-2, abs=1e-2)
    told = first and (len(live.trees) == rounds or fitting is not None)
    assert (live.not_covered is None) == (every or told)


def raw_trees(path):
    import json

    booster = json.loads(path.read_text())["learner"]["gradient_booster"]
    return booster.get("gbtree", booster)["model"]["trees"]


ROWS = np.random.default_rng(5).integers(0, 4, (80, 3)).astype(float)
NUMBER = ROWS @ [1.0, -2.0, 0.5]
CLASS = (NUMBER > 0).astype(int)


@pytest.mark.parametrize(
    ("kind", "y", "classes"),
    [
        ("XGBClassifier", CLASS, (0, 1)),
        ("XGBClassifier", CLASS + (NUMBER > 2), (0, 1, 2)),
        ("XGBRegressor", NUMBER, ()),
        ("XGBRFClassifier", CLASS, (0, 1)),
        ("XGBRFRegressor", NUMBER, ()),
        ("XGBRanker", CLASS, ()),
    ],
)
@pytest.mark.parametrize("written", ["live", "pkl", "joblib"])
def test_estimators_are_read_live_and_from_pickles(kind, y, classes, written, tmp_path):
    more = {"qid": np.zeros(len(y))} if kind == "XGBRanker" else {}
    model = getattr(xgboost, kind)(n_estimators=3, max_depth=2, n_jobs=1).fit(ROWS, y, **more)
    path = tmp_path / f"model.{written}"
    if written == "pkl":
        path.write_bytes(pickle.dumps(model))
    elif written == "joblib":
        joblib.dump(model, path, compress=3)
    release = to_release(model if written == "live" else path, trust_pickle=True)
    assert release.classes == classes
    assert release.origin.endswith(kind)
    at = np.column_stack([tree.apply(ROWS.astype(np.float32)) for tree in release.trees])
    expected = model.get_booster().predict(xgboost.DMatrix(ROWS), pred_leaf=True)
    np.testing.assert_array_equal(at, expected.reshape(len(ROWS), -1))
    # Forests of XGBoost draw rows by default, and all their trees count them.
    assert release.sampling.kind == ("subsample" if "RF" in kind else "all")


@pytest.mark.parametrize(
    ("params", "y", "why"),
    [
        ({"booster": "gblinear"}, NUMBER, "gblinear"),
        ({"multi_strategy": "multi_output_tree"}, np.c_[NUMBER, CLASS], "multi_output_tree"),
    ],
)
def test_what_is_not_covered_says_so(params, y, why):
    with pytest.raises(NotCovered, match=why):
        to_release(xgboost.XGBRegressor(n_estimators=2, **params).fit(ROWS, y))


@pytest.mark.parametrize("y", [CLASS, NUMBER], ids=["class", "number"])
def test_scores_that_rows_start_from_are_seen_where_the_file_shows_them(y):
    name = "XGBRegressor" if y is NUMBER else "XGBClassifier"
    for own in ({}, {"base_score": 0.4}):
        told = to_release(getattr(xgboost, name)(n_estimators=3, n_jobs=1, **own).fit(ROWS, y))
        assert told.not_covered is None
        assert told.ensemble.fitting is not None
        assert not any("base_margin" in note for note in told.notes)
    margin = np.linspace(-1, 2, len(ROWS))
    for given in (margin, np.full(len(ROWS), 0.5)):
        model = getattr(xgboost, name)(n_estimators=3, n_jobs=1)
        release = to_release(model.fit(ROWS, y, base_margin=given))
        if y is CLASS:
            assert "base_margin" in release.not_covered
        else:
            assert release.n_rows == len(ROWS)
            assert release.ensemble.fitting is None
            assert any("base_margin" in note for note in release.notes)


def test_texts_of_categories_are_read():
    job = pd.Categorical(np.array(["clerk", "nurse"])[CLASS])
    X = pd.DataFrame({"job": job, "n": NUMBER})
    model = xgboost.XGBClassifier(n_estimators=2, enable_categorical=True, tree_method="hist")
    release = to_release(model.fit(X, CLASS))
    assert release.levels == {"job": ("clerk", "nurse")}
    assert release.feature_names == ("job", "n")


def test_a_model_that_is_not_fitted_says_so():
    for model in (xgboost.XGBClassifier(), xgboost.Booster()):
        with pytest.raises(BadInput, match="not fitted"):
            to_release(model)


def stripped(booster, tmp_path, *names):
    """Save a model with lists of numbers set to zero, as some take them out."""
    booster.save_model(tmp_path / "whole.json")
    model = json.loads((tmp_path / "whole.json").read_text())
    for tree in raw_trees_of(model):
        for name in names:
            tree[name] = [0.0] * len(tree[name])
    (tmp_path / "stripped.json").write_text(json.dumps(model))
    return to_release(tmp_path / "whole.json"), to_release(tmp_path / "stripped.json")


def without_sums(release):
    """Whether a release says that sums of hessians are missing: as a reason, or as a note."""
    said = [release.not_covered or "", *release.notes]
    return any("no longer holds the" in one or "holds no sums of hessians" in one for one in said)


def raw_trees_of(model):
    return model["learner"]["gradient_booster"]["model"]["trees"]


@seeds(60, fast=3)
def test_numbers_of_rows_follow_where_only_the_sums_of_hessians_are_stripped(seeds, tmp_path):
    told = nodes = complete = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(int(rng.integers(100, 1500)), 4)).round(1)
        y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=len(X))
        params = {
            "eta": float(rng.choice([0.3, 0.05, 0.17, 1.0])), "nthread": 1, "max_depth": 5,
            "lambda": float(rng.choice([1, 0, 3.5])),
            "tree_method": str(rng.choice(["hist", "exact", "approx"])),
            "objective": str(rng.choice(["reg:squarederror", "binary:logistic"])),
        }  # fmt: skip
        if params["objective"] == "binary:logistic":
            y = (y > 1).astype(float)
        booster = xgboost.train(params, xgboost.DMatrix(X, y), 4)
        whole, after = stripped(booster, tmp_path, "sum_hessian")
        assert all(tree.statistics.get(HESSIAN) is None for tree in after.trees)
        found = [tree.statistics.get(COUNTED) for tree in after.trees]
        if any(entry is not None for entry in found):
            assert any("follow from gains" in note for note in after.notes)
            for one, entry in zip(whole.trees, found, strict=True):
                assert (one.totals is None) == (entry is None)
                if entry is not None:
                    here = slice(None) if entry.present is None else entry.present
                    nodes += one.n_nodes
                    told += len(entry.values[here])
                    np.testing.assert_array_equal(one.totals[here], entry.values[here])
        else:
            nodes += sum(tree.n_nodes for tree in whole.trees if tree.totals is not None)
            assert without_sums(after)
        # Of a classifier, rows come from the sums that were taken out, or from leaf values alone.
        partly = after.not_covered not in (whole.not_covered, FIRST_ONLY)
        assert not partly or without_sums(after)
        complete += not partly
        more = stripped(booster, tmp_path, "sum_hessian", "loss_changes", "base_weights")[1]
        assert all(tree.totals is None for tree in more.trees)
        assert without_sums(more)
        assert more.n_rows is None
    assert told >= 0.9 * nodes
    assert complete >= 0.5 * len(seeds)


def test_rows_of_a_classifier_follow_where_only_the_sums_of_hessians_are_stripped(tmp_path):
    """NVFlare's answer to a published attack."""
    booster = xgboost.XGBClassifier(n_jobs=1).fit(ROWS, CLASS).get_booster()
    stripped(booster, tmp_path, "sum_hessian")
    schema = treeleak.Schema([treeleak.Ordinal(f"x{i}", 0, 3) for i in range(3)])
    answer = treeleak.reconstruct(tmp_path / "stripped.json", schema, time_limit=20)
    release = to_release(tmp_path / "stripped.json")
    cells = (
        sorted(
            zip(*(tree.apply(np.asarray(X, np.float32)) for tree in release.trees), y, strict=True)
        )
        for X, y in ((answer.X, answer.y), (ROWS, CLASS))
    )
    assert next(cells) == next(cells)


def test_the_only_rows_possible_say_nothing_of_medians_that_were_not_used():
    """The leaves of an absolute loss store targets of single people."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({c: rng.integers(0, 2, 201) for c in "ab"})
    model = xgboost.XGBRegressor(
        objective="reg:absoluteerror", n_estimators=3, max_depth=2, n_jobs=1
    ).fit(X, 3 * X["a"] + 2 * X["b"] * (1 - X["a"]) + rng.normal(size=201))
    schema = treeleak.Schema([treeleak.Binary(c) for c in X])
    audit = treeleak.audit(model, schema=schema, time_limit=20)
    assert audit.reconstruction.misfit == 0
    assert audit.reconstruction.proved.any()
    assert "holds more evidence" in dict(audit.not_assessed)["reconstruction"]
    assert audit.verdict != NO_LEAK
