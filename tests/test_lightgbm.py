"""LightGBM's models: trees, leaves, sums and counts as LightGBM itself has them."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeleak
from helpers.boosted import rows_of_A
from helpers.examples import seeds
from treeleak.core.errors import BadInput, NotCovered
from treeleak.evidence import evidence_for
from treeleak.evidence.target_sums import target_sums
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.adapters.lightgbm import ZERO
from treeleak.release.draws.seeds import known_draws
from treeleak.release.infer_schema import infer_schema
from treeleak.release.readers.lightgbm_text import BOOSTER
from treeleak.release.statistics import L2, VALUE
from treeleak.release.stored import StoredObject
from treeleak.verification.counts import check_rows, leaves_off

lightgbm = pytest.importorskip(
    "lightgbm", reason="needs LightGBM: pip install 'treeleak[lightgbm]'"
)

pytestmark = pytest.mark.filterwarnings("ignore")

OBJECTIVES = (
    "binary", "regression", "multiclass", "regression_l1", "poisson", "multiclassova",
    "cross_entropy", "quantile", "huber",
)  # fmt: skip


def some_rows(rng, n, kinds, missing):
    """Columns of few values, of many, and of categories; many zeros."""
    columns = []
    for kind in kinds:
        if kind == "c":
            columns.append(rng.integers(0, 40 if rng.random() < 0.3 else 6, n).astype(float))
        elif kind == "int":
            columns.append(rng.integers(-2, 3, n).astype(float))
        else:
            columns.append(rng.normal(size=n) * (rng.random(n) < 0.8))
    X = np.column_stack(columns)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def some_model(seed):
    """A model of random options, with its rows and others to try it on."""
    rng = np.random.default_rng(seed)
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    kinds = list(rng.choice(["c", "int", "float"], rng.integers(1, 5)))
    n, missing = int(rng.integers(20, 150)), float(rng.choice([0, 0.2]))
    X = some_rows(rng, n, kinds, missing)
    n_classes = 3 if objective.startswith("multi") else 2
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    params = {
        "objective": objective, "verbose": -1, "num_threads": 1, "seed": seed,
        "learning_rate": float(rng.choice([0.1, 1.0])), "num_leaves": int(rng.integers(2, 20)),
        "min_data_in_leaf": int(rng.choice([1, 5])), "cat_smooth": 1, "min_data_per_group": 1,
        "max_cat_to_onehot": int(rng.choice([1, 4])), "min_data_in_bin": 1,
        "cat_l2": float(rng.choice([0, 10])),
        "use_missing": bool(rng.random() < 0.8), "zero_as_missing": bool(rng.random() < 0.15),
        "boosting": str(rng.choice(["gbdt", "gbdt", "dart", "rf"])),
        "lambda_l2": float(rng.choice([0, 3])), "max_depth": int(rng.choice([-1, 3])),
        "extra_trees": bool(rng.random() < 0.2), "path_smooth": float(rng.choice([0, 1])),
    }  # fmt: skip
    if n_classes > 2:
        params["num_class"] = n_classes
    if params["boosting"] == "rf" or rng.random() < 0.2:
        params |= {"bagging_freq": 1, "bagging_fraction": 0.7}
    weight = rng.random(n) + 0.5 if rng.random() < 0.3 else None
    columns = [i for i, kind in enumerate(kinds) if kind == "c"]
    data = lightgbm.Dataset(X, label=y, weight=weight, categorical_feature=columns)
    booster = lightgbm.train(params, data, int(rng.integers(1, 8)))
    tried = some_rows(rng, 200, kinds, 0.2)
    frame = booster.trees_to_dataframe() if booster.num_trees() else None
    cuts = np.array([t for t in frame["threshold"].dropna() if isinstance(t, float)])
    for column, kind in enumerate(kinds):
        if kind != "c" and len(cuts):
            at = rng.choice(cuts, 90)
            tried[:90, column] = np.concatenate([at[:30], np.nextafter(at[30:60], 99), at[60:]])
    # LightGBM takes what is as near to zero as this for zero, before any tree sees it.
    tried[np.abs(tried) <= ZERO] = 0.0
    return booster, params, X, tried


def holds(seed, tmp_path):
    """Return whether the model could be read; what is refused has its cause."""
    booster, params, X, tried = some_model(seed)
    booster.save_model(tmp_path / "model.txt")
    try:
        release = to_release(tmp_path / "model.txt")
    except NotCovered as error:
        if not params["zero_as_missing"] or "zero_as_missing" not in str(error):
            raise
        return False
    at = np.column_stack([t.apply(tried) for t in release.trees])
    inner = np.array([t.n_nodes - len(t.leaves) for t in release.trees])
    expected = booster.predict(tried, pred_leaf=True).reshape(len(tried), -1)
    np.testing.assert_array_equal(at - inner, expected)
    sums = np.zeros((len(tried), len(release.ensemble.base_scores)))
    for t, tree in enumerate(release.trees):
        sums[:, tree.output or 0] += tree.statistics.get(VALUE).values[at[:, t]]
    margin = booster.predict(tried, raw_score=True).reshape(len(tried), -1)
    np.testing.assert_array_equal(sums, margin)
    live = to_release(booster)
    for a, b in zip(release.trees, live.trees, strict=True):
        np.testing.assert_array_equal(a.threshold, b.threshold)
        np.testing.assert_array_equal(a.totals, b.totals)
    names = np.array(release.feature_names)
    numeric = [tree.feature[~np.isnan(tree.threshold)] for tree in release.trees]
    tested = set(names[np.concatenate(numeric)])
    gaps = set(names[np.isnan(X).any(axis=0)]) if params["use_missing"] else set()
    if not params["zero_as_missing"]:
        assert release.maybe_missing & tested == gaps & tested
        assert gaps & release.tested <= release.maybe_missing
    if "bagging_freq" in params:
        assert release.sampling.rule == "LightGBM bagging of 0.7 every 1"
        if any(tree.totals is None for tree in release.trees):
            return True
        # Few rounds leave open how many rows there were.
        whole = replace(release, n_rows=len(X), classes=())
        draws = known_draws(whole if len(release.trees) < 9 else release).counts
        assert draws.shape == (len(release.trees), len(X))
        assert check_rows(whole, X, None, draws).ok
        return True
    assert release.sampling.kind == "all"
    assert release.n_rows in (len(X), None)
    for t, tree in enumerate(release.trees):
        if tree.n_nodes > 1 or release.n_rows:
            leaves = np.bincount(tree.apply(X), minlength=tree.n_nodes)[tree.leaves]
            np.testing.assert_array_equal(tree.totals[tree.leaves], leaves, err_msg=f"tree {t}")
    assert release.not_covered is None or release.n_rows is None
    assert release.ranges.keys() <= {f"Column_{i}" for i in range(X.shape[1])}
    for name, ends in release.ranges.items():
        seen = X[:, int(name.removeprefix("Column_"))]
        # A missing value counts as 0 to LightGBM where it knows none, or takes zeros for such.
        zeros = params["zero_as_missing"] or not params["use_missing"]
        seen = np.where(np.isnan(seen), 0, seen) if zeros else seen[~np.isnan(seen)]
        assert ends == (seen.min(), seen.max())
    return True


@seeds(250, fast=6)
def test_leaves_sums_and_counts_are_those_of_lightgbm(seeds, tmp_path):
    read = [holds(seed, tmp_path) for seed in seeds]
    assert np.mean(read) > 0.8


ROWS = np.random.default_rng(5).integers(0, 4, (200, 3)).astype(float)
NUMBER = ROWS @ [1.0, -2.0, 0.5]
CLASS = (NUMBER > 0).astype(int)
THREE = CLASS + (NUMBER > 2)
LABEL = np.array(["no", "yes"])[CLASS]


@pytest.mark.parametrize(
    ("kind", "y", "classes"),
    [
        ("LGBMClassifier", LABEL, ("no", "yes")),
        ("LGBMClassifier", THREE, (0, 1, 2)),
        ("LGBMRegressor", NUMBER, ()),
        ("LGBMRanker", CLASS, ()),
    ],
)
@pytest.mark.parametrize("written", ["live", "pkl", "joblib"])
def test_estimators_are_read_live_and_from_pickles(kind, y, classes, written, tmp_path):
    more = {"group": [len(y)]} if kind == "LGBMRanker" else {}
    model = getattr(lightgbm, kind)(n_estimators=3, verbose=-1, n_jobs=1).fit(ROWS, y, **more)
    path = tmp_path / f"model.{written}"
    if written == "pkl":
        path.write_bytes(pickle.dumps(model))
    elif written == "joblib":
        joblib.dump(model, path, compress=3)
    release = to_release(model if written == "live" else path, trust_pickle=True)
    assert release.classes == classes
    assert release.origin.endswith(kind)
    assert release.n_rows == len(ROWS)
    at = np.column_stack([t.apply(ROWS) - (t.n_nodes - len(t.leaves)) for t in release.trees])
    expected = model.predict(ROWS, pred_leaf=True)
    np.testing.assert_array_equal(at, expected.reshape(len(ROWS), -1))


def test_a_pipeline_names_the_columns_of_the_model_in_it():
    X = pd.DataFrame({"job": np.array(list("abcd"))[ROWS[:, 0].astype(int)]})
    model = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1)
    release = to_release(make_pipeline(OneHotEncoder(sparse_output=False), model).fit(X, CLASS))
    assert release.feature_names == ("job_a", "job_b", "job_c", "job_d")


@pytest.mark.parametrize(("more", "held"), [({}, True), ({"bin_construct_sample_cnt": 199}, False)])
def test_ends_of_columns_are_read_where_they_are_those_of_all_rows(more, held):
    X = np.column_stack([ROWS[:, 0] > 1, ROWS[:, 1] * 0.5 - 1, np.ones(200), ROWS[:, 2] == 3])
    X[:20, 1] = np.nan
    X = X.astype(float)
    X[50:, 3] = 0
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1, **more).fit(X, CLASS)
    release = to_release(model)
    # Of the others, it says nothing: they are constant, or have a value too rare to split on.
    ends = {"Column_0": (0.0, 1.0), "Column_1": (-1.0, 0.5)}
    assert release.ranges == (ends if held else {})
    schema = infer_schema(release)
    assert schema.attributes[0] == treeleak.Binary("Column_0")
    assert schema.attributes[1].missing
    assert (schema.attributes[1].bounds == ends["Column_1"]) == held
    assert schema.attributes[2:] == (treeleak.Numeric("Column_2"), treeleak.Numeric("Column_3"))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"boosting_type": "goss"}, "GOSS"),
        ({"data_sample_strategy": "goss"}, "GOSS"),
        ({"pos_bagging_fraction": 0.5, "neg_bagging_fraction": 1.0, "bagging_freq": 2}, "0.5"),
    ],
)
def test_rows_that_were_sampled_are_not_taken_for_all(more, why):
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1, **more)
    release = to_release(model.fit(ROWS, CLASS))
    assert why in release.sampling.why
    assert release.n_rows is None


OWN_STARTS = {
    "scores": {"init_score": np.linspace(-1, 1, len(ROWS))},
    "one score": {"init_score": np.full(len(ROWS), 0.5)},
    "weights": {"sample_weight": 1.0 + np.arange(len(ROWS)) % 3},
}


@pytest.mark.parametrize("kind", [None, *OWN_STARTS])
@pytest.mark.parametrize("y", [CLASS, THREE, NUMBER], ids=["two", "three", "number"])
def test_scores_and_weights_of_rows_are_seen_in_the_first_sums(y, kind):
    name = "LGBMRegressor" if y is NUMBER else "LGBMClassifier"
    own = OWN_STARTS.get(kind, {})
    if y is THREE and "init_score" in own:
        own = {"init_score": np.outer(own["init_score"], [1.0, 0.0, -2.0])}
    model = getattr(lightgbm, name)(n_estimators=3, verbose=-1, n_jobs=1).fit(ROWS, y, **own)
    release = to_release(model)
    assert (release.ensemble.fitting is None) == (kind is not None)
    assert any("(init_score)" in note for note in release.notes) == (kind is not None)
    assert release.n_rows == len(ROWS)


def test_draws_of_a_bagging_that_do_not_fit_are_refused():
    model = lightgbm.LGBMRegressor(
        n_estimators=9, subsample=0.6, subsample_freq=1, verbose=-1, n_jobs=1
    ).fit(ROWS, NUMBER)
    release = to_release(model)
    assert known_draws(release).counts.shape == (9, len(ROWS))
    many = np.tile(ROWS, (15, 1)) + 0.25 * (np.arange(15 * len(ROWS)) % 3)[:, None]
    drawn = to_release(model.set_params(n_estimators=12).fit(many, many @ [1.0, -2.0, 0.5]))
    draws = known_draws(drawn).counts
    assert draws.shape == (12, 3000)
    assert check_rows(replace(drawn, n_rows=3000), many, None, draws).ok
    other = replace(release.sampling, forest_seed=99)
    for changed in (replace(release, sampling=other), replace(release, n_rows=len(ROWS) + 1)):
        with pytest.raises(NotCovered, match="no number of rows fits"):
            known_draws(changed)


def test_linear_trees_are_not_covered():
    model = lightgbm.LGBMRegressor(n_estimators=2, verbose=-1, linear_tree=True)
    with pytest.raises(NotCovered, match="linear_tree"):
        to_release(model.fit(ROWS + np.random.default_rng(0).random(ROWS.shape), NUMBER))


def test_a_model_that_is_not_fitted_says_so():
    with pytest.raises(BadInput, match="not fitted"):
        to_release(lightgbm.LGBMClassifier())


def on_two_machines(booster):
    """The file that two machines write: numbers of rows are shares of the sums of hessians."""
    text = booster.model_to_string().replace("[num_machines: 1]", "[num_machines: 2]")
    trees = text.split("\nTree=")
    for t, tree in enumerate(trees[1:], 1):
        lines = dict(line.split("=", 1) for line in tree.splitlines() if "=" in line)
        sums = np.array(lines["leaf_weight"].split(), dtype=float)
        rows = np.rint(sums * len(ROWS) / sums.sum()).astype(int)
        if rows.sum() == len(ROWS):
            words = " ".join(map(str, rows))
            trees[t] = tree.replace(f"leaf_count={lines['leaf_count']}", f"leaf_count={words}")
    return "\nTree=".join(trees)


@pytest.mark.parametrize(
    ("y", "counted"), [(CLASS, 1), (THREE, 3), (NUMBER, 6)], ids=["two", "three", "number"]
)
def test_rows_that_several_machines_estimated_are_not_taken_for_counts(y, counted, tmp_path):
    name = "LGBMRegressor" if y is NUMBER else "LGBMClassifier"
    model = getattr(lightgbm, name)(n_estimators=6, verbose=-1, n_jobs=1).fit(ROWS, y)
    (tmp_path / "model.txt").write_text(on_two_machines(model.booster_))
    release = to_release(tmp_path / "model.txt")
    assert release.n_rows == len(ROWS)
    assert release.sampling.kind == "all"
    assert release.ensemble.fitting is not None
    assert release.not_covered is None
    assert [tree.totals is not None for tree in release.trees] == [
        t < counted for t in range(len(release.trees))
    ]
    for tree in release.trees[:counted]:
        leaves = np.bincount(tree.apply(ROWS), minlength=tree.n_nodes)[tree.leaves]
        np.testing.assert_array_equal(tree.totals[tree.leaves], leaves)


def by_categories(seed, objective):
    """A model of columns of 2 to 8 categories, which tests of several categories bend."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 200))
    X = np.column_stack([rng.integers(0, k, n) for k in rng.integers(2, 9, 3)]).astype(float)
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=n)
    if objective != "regression":
        ends = np.quantile(y, [0.4, 0.8] if objective == "multiclass" else [0.5])
        y = np.searchsorted(ends, y)
    params = {
        "objective": objective, "verbose": -1, "num_threads": 1, "cat_smooth": 1,
        "cat_l2": float(rng.choice([2, 10])), "lambda_l2": float(rng.choice([0, 3])),
        "max_cat_to_onehot": int(rng.choice([1, 4, 5])), "min_data_per_group": 1,
        "min_data_in_leaf": 3, "num_class": 3 if objective == "multiclass" else 1,
    }  # fmt: skip
    data = lightgbm.Dataset(X, label=y, categorical_feature=[0, 1, 2])
    return lightgbm.train(params, data, 6), X, y


@pytest.mark.parametrize("without", [(), ("feature_infos", "none none none")], ids=["", "bare"])
@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
@seeds(40, fast=4)
def test_rows_meet_sums_in_leaves_below_tests_for_categories(seeds, objective, without, tmp_path):
    several = 0
    for seed in seeds:
        booster, X, y = by_categories(seed, objective)
        text = booster.model_to_string()
        if without:
            text = re.sub(f"{without[0]}=.*", "=".join(without), text)
        (tmp_path / "model.txt").write_text(text)
        release = to_release(tmp_path / "model.txt")
        if release.ensemble.fitting is None:
            # Without the categories of a column, tests for one of them leave it open.
            assert without
            continue
        several += any(tree.statistics.get(L2) is not None for tree in release.trees)
        leaf = rows_of_A(release, X)
        if objective == "regression":
            told = target_sums(release, leaf, None, np.ones(len(X), dtype=bool))
            assert (np.abs(told.times @ y - told.right) <= told.off).all()
        else:
            schema = treeleak.Schema([treeleak.Ordinal(c, 0, 8) for c in release.feature_names])
            evidence = evidence_for(release)(Geometry.of(release, schema))
            assert all(own.met(leaf, y).all() for own in evidence.statements())
            assert leaves_off(release, X, y) == 0
    assert several >= len(seeds) / 4


@pytest.mark.parametrize("y", [CLASS, THREE, NUMBER], ids=["two", "three", "number"])
@pytest.mark.parametrize("how", ["one", "by round", "trained further"])
def test_trees_of_learning_rates_of_their_own_are_seen(y, how, tmp_path):
    kind = {id(CLASS): "binary", id(THREE): "multiclass"}.get(id(y), "regression")
    params = {"objective": kind, "verbose": -1, "num_threads": 1, "learning_rate": 0.1}
    params |= {"num_class": 3} if y is THREE else {}
    data = lightgbm.Dataset(ROWS, label=y, free_raw_data=False)
    by_round = lightgbm.reset_parameter(learning_rate=lambda k: 0.2 * 0.9**k)
    model = lightgbm.train(params, data, 6, callbacks=[by_round] if how == "by round" else [])
    if how == "trained further":
        model = lightgbm.train(params | {"learning_rate": 0.3}, data, 3, init_model=model)
    text = model.model_to_string()
    release = to_release(lightgbm.Booster(model_str=text))
    bare = text[: text.index("\nparameters:")] + text[text.index("\npandas_categorical:") :]
    (tmp_path / "bare.txt").write_text(bare)
    for each in (release, to_release(tmp_path / "bare.txt")):
        assert (each.ensemble.fitting is None) == (how != "one")
    assert any("rates of their own" in note for note in release.notes) == (how != "one")
    assert release.n_rows == len(ROWS)


def without_hessians(booster):
    return re.sub(r"\n(leaf|internal)_weight=.*", "", booster.model_to_string())


@pytest.mark.parametrize("y", [CLASS, THREE], ids=["two", "three"])
def test_rows_of_files_without_hessians_meet_what_later_trees_say(y, tmp_path):
    model = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1).fit(ROWS, y)
    (tmp_path / "model.txt").write_text(without_hessians(model.booster_))
    release = to_release(tmp_path / "model.txt")
    assert not release.ensemble.fitting.started
    schema = treeleak.Schema([treeleak.Ordinal(f"Column_{i}", 0, 3) for i in range(3)])
    evidence = evidence_for(release)(Geometry.of(release, schema))
    leaf = rows_of_A(release, ROWS)
    assert sum(own.by_label for own in evidence.statements()) == 1
    assert all(own.met(leaf, y).all() for own in evidence.statements())
    answer = treeleak.reconstruct(tmp_path / "model.txt", schema, time_limit=60)
    assert answer.status in ("feasible", "unique")
    assert check_rows(release, np.asarray(answer.X), None).ok
    assert leaves_off(release, np.asarray(answer.X), np.asarray(answer.y)) == 0


@pytest.mark.parametrize(
    ("device", "double", "told"),
    [("cpu", 0, True), ("gpu", 0, False), ("gpu", 1, True), ("cuda", 0, False), ("cuda", 1, False)],
)
def test_sums_that_a_gpu_added_up_are_not_taken_for_exact(device, double, told):
    text = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(ROWS, CLASS)
    text = text.booster_.model_to_string().replace("[device_type: cpu]", f"[device_type: {device}]")
    text = text.replace("[gpu_use_dp: 0]", f"[gpu_use_dp: {double}]")
    release = to_release(StoredObject(BOOSTER, {"_handle": text}))
    assert (release.ensemble.fitting is not None) == told
    assert any("on a GPU" in note for note in release.notes) != told
    assert release.n_rows == len(ROWS)
