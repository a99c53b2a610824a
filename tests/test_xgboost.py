"""XGBoost's models: trees, leaves and sums as XGBoost itself has them."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.examples import seeds
from treeleak.release import to_release
from treeleak.release.adapters.xgboost.model import LOG_LINK, LOGIT_LINK
from treeleak.release.statistics import VALUE

xgboost = pytest.importorskip("xgboost", reason="needs XGBoost: pip install 'treeleak[xgboost]'")

pytestmark = pytest.mark.filterwarnings("ignore")

OBJECTIVES = (
    "binary:logistic", "binary:logitraw", "reg:squarederror", "multi:softprob", "count:poisson",
    "reg:gamma", "reg:tweedie", "reg:logistic", "reg:absoluteerror", "reg:pseudohubererror",
    "rank:pairwise", "binary:hinge",
)  # fmt: skip


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


@seeds(200, fast=8)
def test_leaves_and_sums_are_those_of_xgboost(seeds, tmp_path):
    for seed in seeds:
        holds(seed, tmp_path)


def holds(seed, tmp_path):
    booster, params, _, tried, types = some_model(seed)
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
            for one, two in zip(a.statistics, b.statistics, strict=True):
                assert one.quantity == two.quantity
                np.testing.assert_array_equal(one.values, two.values)
    assert live.ensemble.learning_rate == pytest.approx(params["eta"])


def raw_trees(path):
    import json

    booster = json.loads(path.read_text())["learner"]["gradient_booster"]
    return booster.get("gbtree", booster)["model"]["trees"]
