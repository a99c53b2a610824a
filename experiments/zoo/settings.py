"""Settings of four libraries, and what trains and saves a model with each."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

ROWS = 120

# A setting: its name, the table it is trained on, and parameters. What starts with "_" is for the
# functions below: how the model is made and saved.
XGBOOST: list[tuple[str, str, dict[str, Any]]] = [
    ("default", "two", {}),
    ("stump", "two", {"max_depth": 1}),
    ("subsample", "two", {"subsample": 0.5, "seed": 3}),
    ("random_forest", "two", {"num_parallel_tree": 5, "subsample": 0.8, "_rounds": 1, "eta": 1.0}),
    ("dart", "two", {"booster": "dart", "rate_drop": 0.3}),
    ("scaled", "two", {"scale_pos_weight": 3.0}),
    ("missing", "missing", {}),
    ("categories", "categories", {"tree_method": "hist", "max_cat_to_onehot": 2}),
    ("softprob", "three", {"objective": "multi:softprob", "num_class": 3}),
    ("squarederror", "number", {"objective": "reg:squarederror"}),
    ("absolute", "number", {"objective": "reg:absoluteerror"}),
    ("poisson", "counts", {"objective": "count:poisson"}),
    ("vector_leaves", "outputs", {"objective": "reg:squarederror", "tree_method": "hist",
                                  "multi_strategy": "multi_output_tree"}),
    ("lossguide", "two", {"grow_policy": "lossguide", "max_leaves": 9, "tree_method": "hist"}),
    ("ubjson", "two", {"_save": "ubj"}),
    ("booster_pickle", "two", {"_save": "pkl"}),
    ("exact", "two", {"tree_method": "exact", "alpha": 0.5}),
]  # fmt: skip

LIGHTGBM: list[tuple[str, str, dict[str, Any]]] = [
    ("default", "two", {"objective": "binary"}),
    ("deep", "two", {"objective": "binary", "num_leaves": 200, "min_data_in_leaf": 1}),
    ("bagging", "two", {"objective": "binary", "bagging_freq": 1, "bagging_fraction": 0.6}),
    ("dart", "two", {"objective": "binary", "boosting": "dart"}),
    ("goss", "two", {"objective": "binary", "boosting": "goss", "learning_rate": 0.5}),
    ("forest", "two", {"objective": "binary", "boosting": "rf", "bagging_freq": 1,
                       "bagging_fraction": 0.6}),
    ("unbalanced", "two", {"objective": "binary", "is_unbalance": True}),
    ("missing", "missing", {"objective": "binary"}),
    ("zero_missing", "missing", {"objective": "binary", "zero_as_missing": True}),
    ("category", "categories", {"objective": "binary", "_categories": [3]}),
    ("frame", "categories", {"objective": "binary"}),
    ("classes", "three", {"objective": "multiclass", "num_class": 3}),
    ("regression", "number", {"objective": "regression"}),
    ("quantile", "number", {"objective": "quantile", "alpha": 0.3}),
    ("linear_trees", "number", {"objective": "regression", "linear_tree": True}),
    ("booster_pickle", "two", {"objective": "binary", "_save": "pkl"}),
]  # fmt: skip

CATBOOST: list[tuple[str, str, dict[str, Any]]] = [
    ("default", "two", {"loss_function": "Logloss"}),
    ("json", "two", {"loss_function": "Logloss", "_save": "json"}),
    ("pickle", "two", {"loss_function": "Logloss", "_save": "pkl"}),
    ("classes", "three", {"loss_function": "MultiClass"}),
    ("squares", "number", {"loss_function": "RMSE"}),
    ("outputs", "outputs", {"loss_function": "MultiRMSE"}),
    ("one_hot", "categories", {"loss_function": "Logloss", "one_hot_max_size": 20,
                               "_categories": [3]}),
    ("counters", "categories", {"loss_function": "Logloss", "one_hot_max_size": 1,
                                "_categories": [3]}),
    ("depthwise", "two", {"loss_function": "Logloss", "grow_policy": "Depthwise"}),
    ("bernoulli", "two", {"loss_function": "Logloss", "bootstrap_type": "Bernoulli",
                          "subsample": 0.6}),
    ("no_bootstrap", "two", {"loss_function": "Logloss", "bootstrap_type": "No"}),
    ("ordered", "two", {"loss_function": "Logloss", "boosting_type": "Ordered"}),
    ("missing", "missing", {"loss_function": "Logloss", "nan_mode": "Max"}),
    ("counters_pairs", "categories", {"loss_function": "Logloss", "one_hot_max_size": 1,
                                      "max_ctr_complexity": 2, "_categories": [3]}),
]  # fmt: skip

_TREE, _ENSEMBLE, _HIST = "tree.", "ensemble.", "ensemble.HistGradientBoosting"
_DTC, _RFC = _TREE + "DecisionTreeClassifier", _ENSEMBLE + "RandomForestClassifier"
_GBC, _GBR = (_ENSEMBLE + "GradientBoosting" + kind for kind in ("Classifier", "Regressor"))
_HGC, _HGR = _HIST + "Classifier", _HIST + "Regressor"
# A value that is a pair of a class and parameters is a model within the model.
_FEW: dict[str, Any] = {"n_estimators": 5, "random_state": 0}
SKLEARN: list[tuple[str, str, dict[str, Any]]] = [
    ("tree", "two", {"_class": _DTC}),
    ("tree_entropy", "three", {"_class": _DTC, "criterion": "entropy", "max_depth": 4}),
    ("tree_pruned", "two", {"_class": _DTC, "ccp_alpha": 0.01, "max_leaf_nodes": 12}),
    ("regression_tree", "number", {"_class": _TREE + "DecisionTreeRegressor", "max_depth": 5}),
    ("extra_tree", "two", {"_class": _TREE + "ExtraTreeClassifier", "random_state": 0}),
    ("forest", "two", {"_class": _RFC, **_FEW}),
    ("forest_all_rows", "three", {"_class": _RFC, **_FEW, "bootstrap": False}),
    ("forest_share", "two", {"_class": _RFC, **_FEW, "max_samples": 0.5}),
    ("forest_balanced", "two", {"_class": _RFC, **_FEW, "class_weight": "balanced"}),
    ("forest_oob", "two", {"_class": _RFC, "n_estimators": 40, "oob_score": True}),
    ("regression_forest", "number", {"_class": _ENSEMBLE + "RandomForestRegressor", **_FEW}),
    ("extra_trees", "two", {"_class": _ENSEMBLE + "ExtraTreesClassifier", **_FEW}),
    ("bagging", "two", {"_class": _ENSEMBLE + "BaggingClassifier", **_FEW}),
    ("bagging_share", "two", {"_class": _ENSEMBLE + "BaggingClassifier", **_FEW,
                              "max_samples": 0.5, "bootstrap": False, "max_features": 0.5}),
    ("isolation", "two", {"_class": _ENSEMBLE + "IsolationForest", **_FEW}),
    ("ada", "two", {"_class": _ENSEMBLE + "AdaBoostClassifier", **_FEW}),
    ("boosting", "two", {"_class": _GBC, **_FEW}),
    ("boosting_classes", "three", {"_class": _GBC, **_FEW}),
    ("boosting_subsample", "two", {"_class": _GBC, **_FEW, "subsample": 0.5}),
    ("boosting_early", "two", {"_class": _GBC, "n_iter_no_change": 3}),
    ("boosting_squares", "number", {"_class": _GBR, **_FEW}),
    ("boosting_absolute", "number", {"_class": _GBR, **_FEW, "loss": "absolute_error"}),
    ("hist", "two", {"_class": _HGC, "max_iter": 5}),
    ("hist_early", "two", {"_class": _HGC, "early_stopping": True}),
    ("hist_poisson", "counts", {"_class": _HGR, "max_iter": 5, "loss": "poisson"}),
    ("one_vs_rest", "three", {"_class": "multiclass.OneVsRestClassifier", "_of": (_DTC, {})}),
]  # fmt: skip

SETTINGS = {
    "scikit-learn": SKLEARN, "xgboost": XGBOOST, "lightgbm": LIGHTGBM, "catboost": CATBOOST,
}  # fmt: skip


def table(name: str) -> dict[str, Any]:
    """Make rows and targets."""
    rng = np.random.RandomState(1)
    rows = np.round(rng.normal(size=(ROWS, 4)), 1)
    score = rows[:, 0] + rows[:, 1] * rows[:, 2] + rng.normal(scale=0.5, size=ROWS)
    y: Any = (score > 0).astype(int)
    if name == "missing":
        rows[rng.rand(*rows.shape) < 0.15] = np.nan
    elif name == "three":
        y = np.digitize(score, [-0.7, 0.7])
    elif name == "number":
        y = np.round(score, 2)
    elif name == "counts":
        y = np.floor(np.exp(score / 2))
    elif name == "outputs":
        y = np.round(np.column_stack([score, rows[:, 3] - score]), 2)
    elif name == "categories":
        frame = pd.DataFrame(rows[:, :3], columns=["a", "b", "c"])
        frame["kind"] = pd.Categorical(np.array(list("qrstuvw"))[rng.randint(0, 7, ROWS)])
        return {"X": frame, "y": y}
    return {"X": rows, "y": y}


def coded(X: Any) -> Any:
    """Give categories by their codes, for what knows no pandas categories."""
    if hasattr(X, "columns"):
        X = X.assign(kind=X["kind"].cat.codes.astype(float))
    return X


def own(params: dict[str, Any]) -> dict[str, Any]:
    """Give the parameters that are the library's."""
    return {k: v for k, v in params.items() if not k.startswith("_")}


def dump(model: Any, path: Path, form: str) -> Path:
    """Write a model as a pickle or as joblib does; say where."""
    path = path.with_name(f"{path.name}.{form}")
    if form == "joblib":
        joblib.dump(model, path, compress=3)
    else:
        path.write_bytes(pickle.dumps(model, protocol=4))
    return path


def _saved(model: Any, path: Path, form: str, **how: Any) -> Path:
    """Write a model as its library does, or as a pickle; say where."""
    if form in ("pkl", "joblib"):
        return dump(model, path, form)
    path = path.with_name(f"{path.name}.{form}")
    model.save_model(str(path), **how)
    return path


def make_xgboost(params: dict[str, Any], data: dict[str, Any], path: Path) -> Path:
    """Train and save a model of XGBoost; say where."""
    xgb = importlib.import_module("xgboost")

    matrix = xgb.DMatrix(data["X"], data["y"], enable_categorical=hasattr(data["X"], "columns"))
    given = {"max_depth": 3, "objective": "binary:logistic", "verbosity": 0, **own(params)}
    model = xgb.train(given, matrix, params.get("_rounds", 6))
    return _saved(model, path, params.get("_save", "json"))


def make_lightgbm(params: dict[str, Any], data: dict[str, Any], path: Path) -> Path:
    """Train and save a model of LightGBM; say where."""
    lgb = importlib.import_module("lightgbm")

    categories = params.get("_categories")
    X = data["X"] if categories is None else coded(data["X"])
    if categories and hasattr(X, "columns"):
        X = X.to_numpy()
    given = {"num_leaves": 7, "min_data_in_leaf": 3, "verbose": -1, "seed": 1, **own(params)}
    # Settings of the table are read when it is made.
    of_table = ("zero_as_missing", "use_missing", "linear_tree", "min_data_in_leaf", "verbose")
    made = lgb.Dataset(
        X, data["y"], categorical_feature="auto" if categories is None else categories,
        params={k: given[k] for k in of_table if k in given}, free_raw_data=False,
    )  # fmt: skip
    return _saved(lgb.train(given, made, 6), path, params.get("_save", "txt"))


def make_catboost(params: dict[str, Any], data: dict[str, Any], path: Path) -> Path:
    """Train and save a model of CatBoost; say where."""
    import catboost

    form = params.get("_save", "cbm")
    pool = catboost.Pool(data["X"], data["y"], cat_features=params.get("_categories"))
    given = {"depth": 3, "random_seed": 1, "logging_level": "Silent", **own(params)}
    model = catboost.CatBoost(
        {"iterations": 6, "allow_writing_files": False, "thread_count": 1, **given}
    )
    return _saved(model.fit(pool), path, form, format=form)


def built(kind: str, params: dict[str, Any]) -> Any:
    """Make an estimator of scikit-learn, and the one within it."""
    module, _, name = kind.rpartition(".")
    found = getattr(importlib.import_module(f"sklearn.{module}"), name)
    return found(*([built(*params["_of"])] if "_of" in params else []), **own(params))


def make_sklearn(params: dict[str, Any], data: dict[str, Any], path: Path) -> Path:
    """Train and save a model of scikit-learn; say where."""
    import skops.io

    model = built(params["_class"], params).fit(data["X"], data["y"])
    path = path.with_name(f"{path.name}.skops")
    skops.io.dump(model, path)
    return path


MAKERS = {
    "scikit-learn": make_sklearn, "xgboost": make_xgboost,
    "lightgbm": make_lightgbm, "catboost": make_catboost,
}  # fmt: skip
