"""Settings of four libraries, and what trains a model with each, by any version of a library.

``python real_models.py LIBRARY FOLDER`` writes a file for each setting, and ``made.json``, which
says of the others why this version refuses them. The script stands alone: it runs in an environment
that holds old versions, and no treeleak.
"""

from __future__ import annotations

import collections.abc
import importlib
import json
import pickle
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROWS = 120

# A setting: its name, the table it is trained on, and parameters. What starts with "_" is for the
# functions below: how the model is made and saved, and which table's rows have weights or groups.
XGBOOST: list[tuple[str, str, dict[str, Any]]] = [
    ("default", "two", {}),
    ("stump", "two", {"max_depth": 1}),
    ("deep", "two", {"max_depth": 14, "min_child_weight": 0}),
    ("one_leaf", "two", {"gamma": 1e9}),
    ("subsample", "two", {"subsample": 0.5, "seed": 3}),
    ("columns", "two", {"colsample_bytree": 0.5, "colsample_bylevel": 0.5}),
    ("random_forest", "two", {"num_parallel_tree": 5, "subsample": 0.8, "_rounds": 1, "eta": 1.0}),
    ("boosted_forest", "two", {"num_parallel_tree": 3, "subsample": 0.8}),
    ("dart", "two", {"booster": "dart", "rate_drop": 0.3}),
    ("dart_forest", "two", {"booster": "dart", "normalize_type": "forest", "rate_drop": 0.3}),
    ("linear", "two", {"booster": "gblinear"}),
    ("logitraw", "two", {"objective": "binary:logitraw"}),
    ("hinge", "two", {"objective": "binary:hinge"}),
    ("scaled", "two", {"scale_pos_weight": 3.0}),
    ("weights", "two", {"_weights": True}),
    ("missing", "missing", {}),
    ("categories", "categories", {"tree_method": "hist", "max_cat_to_onehot": 2}),
    ("one_hot_categories", "categories", {"tree_method": "hist", "max_cat_to_onehot": 50}),
    ("softmax", "three", {"objective": "multi:softmax", "num_class": 3}),
    ("softprob", "three", {"objective": "multi:softprob", "num_class": 3}),
    ("squares", "number", {"objective": "reg:linear"}),
    ("squarederror", "number", {"objective": "reg:squarederror"}),
    ("absolute", "number", {"objective": "reg:absoluteerror"}),
    ("quantiles", "number", {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]}),
    ("huber", "number", {"objective": "reg:pseudohubererror"}),
    ("squaredlog", "positive", {"objective": "reg:squaredlogerror"}),
    ("poisson", "counts", {"objective": "count:poisson"}),
    ("gamma", "positive", {"objective": "reg:gamma"}),
    ("tweedie", "counts", {"objective": "reg:tweedie", "tweedie_variance_power": 1.3}),
    ("cox", "positive", {"objective": "survival:cox"}),
    ("aft", "positive", {"objective": "survival:aft", "_bounds": True}),
    ("rank", "ranks", {"objective": "rank:pairwise"}),
    ("ndcg", "ranks", {"objective": "rank:ndcg"}),
    ("several_outputs", "outputs", {"objective": "reg:squarederror"}),
    ("vector_leaves", "outputs", {"objective": "reg:squarederror", "tree_method": "hist",
                                  "multi_strategy": "multi_output_tree"}),
    ("monotone", "two", {"monotone_constraints": "(1,0,-1,0)"}),
    ("interactions", "two", {"interaction_constraints": "[[0,1],[2,3]]"}),
    ("lossguide", "two", {"grow_policy": "lossguide", "max_leaves": 9, "tree_method": "hist"}),
    ("bins", "two", {"tree_method": "hist", "max_bin": 8, "reg_alpha": 0.5, "reg_lambda": 0.0}),
    ("approximate", "two", {"tree_method": "approx", "max_delta_step": 0.5, "base_score": 0.3}),
    ("early", "two", {"_early": True}),
    ("binary", "two", {"_save": "bin"}),
    ("ubjson", "two", {"_save": "ubj"}),
    ("booster_pickle", "two", {"_save": "pkl"}),
    ("wrapper", "two", {"_wrapper": "XGBClassifier", "_save": "joblib"}),
    ("wrapper_dart", "number", {"_wrapper": "XGBRegressor", "booster": "dart", "_save": "pkl"}),
    ("wrapper_forest", "two", {"_wrapper": "XGBRFClassifier", "_save": "pkl"}),
    ("wrapper_lists", "two", {"_wrapper": "XGBClassifier", "monotone_constraints": (1, 0, -1, 0),
                              "interaction_constraints": "[[0,1],[2,3]]", "missing": -1,
                              "eval_metric": ["auc", "error"], "importance_type": "gain",
                              "colsample_bynode": 0.5, "random_state": 77, "_save": "pkl"}),
    ("exact", "two", {"tree_method": "exact", "alpha": 0.5}),
]  # fmt: skip

LIGHTGBM: list[tuple[str, str, dict[str, Any]]] = [
    ("default", "two", {"objective": "binary"}),
    ("stump", "two", {"objective": "binary", "num_leaves": 2}),
    ("deep", "two", {"objective": "binary", "num_leaves": 200, "min_data_in_leaf": 1}),
    ("one_leaf", "two", {"objective": "binary", "min_data_in_leaf": 10**6}),
    ("bagging", "two", {"objective": "binary", "bagging_freq": 1, "bagging_fraction": 0.6}),
    ("columns", "two", {"objective": "binary", "feature_fraction": 0.5}),
    ("dart", "two", {"objective": "binary", "boosting": "dart"}),
    ("goss", "two", {"objective": "binary", "boosting": "goss", "learning_rate": 0.5}),
    ("forest", "two", {"objective": "binary", "boosting": "rf", "bagging_freq": 1,
                       "bagging_fraction": 0.6}),
    ("unbalanced", "two", {"objective": "binary", "is_unbalance": True}),
    ("scaled", "two", {"objective": "binary", "scale_pos_weight": 3.0}),
    ("weights", "two", {"objective": "binary", "_weights": True}),
    ("cross_entropy", "two", {"objective": "xentropy"}),
    ("cross_entropy_lambda", "two", {"objective": "xentlambda"}),
    ("missing", "missing", {"objective": "binary"}),
    ("zero_missing", "missing", {"objective": "binary", "zero_as_missing": True}),
    ("no_missing", "missing", {"objective": "binary", "use_missing": False}),
    ("category", "categories", {"objective": "binary", "_categories": [3]}),
    ("categories", "many", {"objective": "binary", "_categories": [0, 1, 3, 5, 6]}),
    ("codes", "codes", {"objective": "binary", "_categories": [0], "min_data_per_group": 1,
                        "cat_smooth": 1.0}),
    ("frame", "categories", {"objective": "binary"}),
    ("classes", "three", {"objective": "multiclass", "num_class": 3}),
    ("classes_ova", "three", {"objective": "multiclassova", "num_class": 3}),
    ("regression", "number", {"objective": "regression"}),
    ("l1", "number", {"objective": "regression_l1"}),
    ("huber", "number", {"objective": "huber"}),
    ("fair", "number", {"objective": "fair"}),
    ("quantile", "number", {"objective": "quantile", "alpha": 0.3}),
    ("mape", "positive", {"objective": "mape"}),
    ("poisson", "counts", {"objective": "poisson"}),
    ("gamma", "positive", {"objective": "gamma"}),
    ("tweedie", "counts", {"objective": "tweedie"}),
    ("lambdarank", "ranks", {"objective": "lambdarank", "eval_at": [1, 3, 5], "metric": "ndcg"}),
    ("xendcg", "ranks", {"objective": "rank_xendcg"}),
    ("monotone", "two", {"objective": "binary", "monotone_constraints": [1, 0, -1, 0]}),
    ("interactions", "two", {"objective": "binary", "interaction_constraints": [[0, 1], [2, 3]]}),
    ("linear_trees", "number", {"objective": "regression", "linear_tree": True}),
    ("extra_trees", "two", {"objective": "binary", "extra_trees": True}),
    ("smooth", "two", {"objective": "binary", "path_smooth": 2.0, "lambda_l1": 0.2,
                       "max_bin": 15, "max_delta_step": 0.4}),
    ("rounded", "two", {"objective": "binary", "use_quantized_grad": True}),
    ("early", "two", {"objective": "binary", "_early": True, "metric": ["auc", "binary_logloss"]}),
    ("booster_pickle", "two", {"objective": "binary", "_save": "pkl"}),
    ("wrapper", "two", {"_wrapper": "LGBMClassifier", "_save": "joblib"}),
    ("wrapper_dart", "number", {"_wrapper": "LGBMRegressor", "boosting_type": "dart",
                                "_save": "pkl"}),
    ("wrapper_balanced", "two", {"_wrapper": "LGBMClassifier", "class_weight": "balanced",
                                 "random_state": 7, "_save": "pkl"}),
    ("lists", "two", {"objective": "binary", "label_gain": [0, 1, 3, 7], "learning_rate": 1 / 3,
                      "max_bin_by_feature": [9, 9, 9, 9], "feature_contri": [1, 1, 0.5, 1],
                      "cegb_penalty_feature_coupled": [1, 1, 1, 2],
                      "saved_feature_importance_type": 1}),
]  # fmt: skip

CATBOOST: list[tuple[str, str, dict[str, Any]]] = [
    ("default", "two", {"loss_function": "Logloss"}),
    ("json", "two", {"loss_function": "Logloss", "_save": "json"}),
    ("pickle", "two", {"loss_function": "Logloss", "_save": "pkl"}),
    ("joblib", "two", {"loss_function": "Logloss", "_save": "joblib"}),
    ("stump", "two", {"loss_function": "Logloss", "depth": 1}),
    ("deep", "two", {"loss_function": "Logloss", "depth": 10}),
    ("one_leaf", "number", {"loss_function": "RMSE", "grow_policy": "Depthwise",
                            "min_data_in_leaf": 1000}),
    ("cross_entropy", "two", {"loss_function": "CrossEntropy"}),
    ("focal", "two", {"loss_function": "Focal:focal_alpha=0.25;focal_gamma=2"}),
    ("classes", "three", {"loss_function": "MultiClass"}),
    ("classes_ova", "three", {"loss_function": "MultiClassOneVsAll", "_save": "json"}),
    ("squares", "number", {"loss_function": "RMSE"}),
    ("uncertain", "number", {"loss_function": "RMSEWithUncertainty"}),
    ("l1", "number", {"loss_function": "MAE"}),
    ("quantile", "number", {"loss_function": "Quantile:alpha=0.3"}),
    ("quantiles", "number", {"loss_function": "MultiQuantile:alpha=0.2,0.8"}),
    ("expectile", "number", {"loss_function": "Expectile:alpha=0.3"}),
    ("huber", "number", {"loss_function": "Huber:delta=1.0"}),
    ("logcosh", "number", {"loss_function": "LogCosh"}),
    ("lq", "number", {"loss_function": "Lq:q=1.5"}),
    ("mape", "positive", {"loss_function": "MAPE"}),
    ("poisson", "counts", {"loss_function": "Poisson"}),
    ("tweedie", "counts", {"loss_function": "Tweedie:variance_power=1.5"}),
    ("outputs", "outputs", {"loss_function": "MultiRMSE"}),
    ("rank", "ranks", {"loss_function": "YetiRank"}),
    ("query", "ranks", {"loss_function": "QueryRMSE"}),
    ("pairs", "ranks", {"loss_function": "PairLogit"}),
    ("one_hot", "categories", {"loss_function": "Logloss", "one_hot_max_size": 20,
                               "_categories": [3]}),
    ("counters", "categories", {"loss_function": "Logloss", "one_hot_max_size": 1,
                                "_categories": [3]}),
    ("counters_json", "categories", {"loss_function": "Logloss", "one_hot_max_size": 1,
                                     "_categories": [3], "_save": "json"}),
    ("depthwise", "two", {"loss_function": "Logloss", "grow_policy": "Depthwise"}),
    ("lossguide", "two", {"loss_function": "Logloss", "grow_policy": "Lossguide",
                          "max_leaves": 9, "_save": "json"}),
    ("bayesian", "two", {"loss_function": "Logloss", "bootstrap_type": "Bayesian"}),
    ("bernoulli", "two", {"loss_function": "Logloss", "bootstrap_type": "Bernoulli",
                          "subsample": 0.6}),
    ("mvs", "two", {"loss_function": "Logloss", "bootstrap_type": "MVS", "subsample": 0.6}),
    ("no_bootstrap", "two", {"loss_function": "Logloss", "bootstrap_type": "No"}),
    ("ordered", "two", {"loss_function": "Logloss", "boosting_type": "Ordered"}),
    ("missing", "missing", {"loss_function": "Logloss", "nan_mode": "Max"}),
    ("weights", "two", {"loss_function": "Logloss", "_weights": True}),
    ("balanced", "two", {"loss_function": "Logloss", "auto_class_weights": "Balanced"}),
    ("monotone", "two", {"loss_function": "Logloss", "monotone_constraints": [1, 0, -1, 0]}),
    ("bins", "two", {"loss_function": "Logloss", "border_count": 8, "l2_leaf_reg": 0.5,
                     "leaf_estimation_method": "Gradient", "leaf_estimation_iterations": 3}),
    ("early", "two", {"loss_function": "Logloss", "_early": True, "od_wait": 3}),
    ("langevin", "two", {"loss_function": "Logloss", "langevin": True}),
    ("lists", "two", {"loss_function": "Logloss", "feature_weights": [1, 0.5, 1, 2],
                      "ignored_features": [2], "custom_metric": ["AUC"], "rsm": 0.5,
                      "per_float_feature_quantization": ["0:border_count=9"],
                      "random_strength": 3, "model_shrink_rate": 0.1}),
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
    ("tree_one_leaf", "two", {"_class": _DTC, "max_depth": 1, "min_samples_leaf": 100}),
    ("tree_weights", "two", {"_class": _DTC, "_weights": True}),
    ("tree_missing", "missing", {"_class": _DTC}),
    ("tree_monotone", "two", {"_class": _DTC, "monotonic_cst": [1, 0, -1, 0]}),
    ("tree_outputs", "labels", {"_class": _DTC}),
    ("regression_tree", "number", {"_class": _TREE + "DecisionTreeRegressor", "max_depth": 5}),
    ("absolute_tree", "number", {"_class": _TREE + "DecisionTreeRegressor",
                                 "criterion": "absolute_error"}),
    ("poisson_tree", "counts", {"_class": _TREE + "DecisionTreeRegressor",
                                "criterion": "poisson", "max_depth": 4}),
    ("extra_tree", "two", {"_class": _TREE + "ExtraTreeClassifier", "random_state": 0}),
    ("forest", "two", {"_class": _RFC, **_FEW}),
    ("forest_all_rows", "three", {"_class": _RFC, **_FEW, "bootstrap": False}),
    ("forest_share", "two", {"_class": _RFC, **_FEW, "max_samples": 0.5}),
    ("forest_balanced", "two", {"_class": _RFC, **_FEW, "class_weight": "balanced"}),
    ("forest_balanced_draws", "two", {"_class": _RFC, **_FEW,
                                      "class_weight": "balanced_subsample"}),
    ("forest_class_weight", "two", {"_class": _RFC, **_FEW, "class_weight": {0: 1.0, 1: 2.5}}),
    ("forest_weights", "two", {"_class": _RFC, **_FEW, "_weights": True}),
    ("forest_oob", "two", {"_class": _RFC, "n_estimators": 40, "oob_score": True}),
    ("forest_missing", "missing", {"_class": _RFC, **_FEW}),
    ("forest_missing_classes", "missing3", {"_class": _RFC, **_FEW}),
    ("regression_forest", "number", {"_class": _ENSEMBLE + "RandomForestRegressor", **_FEW}),
    ("extra_trees", "two", {"_class": _ENSEMBLE + "ExtraTreesClassifier", **_FEW}),
    ("bagging", "two", {"_class": _ENSEMBLE + "BaggingClassifier", **_FEW}),
    ("bagging_share", "two", {"_class": _ENSEMBLE + "BaggingClassifier", **_FEW,
                              "max_samples": 0.5, "bootstrap": False, "max_features": 0.5}),
    ("embedding", "two", {"_class": _ENSEMBLE + "RandomTreesEmbedding", **_FEW}),
    ("isolation", "two", {"_class": _ENSEMBLE + "IsolationForest", **_FEW}),
    ("isolation_wide", "wide", {"_class": _ENSEMBLE + "IsolationForest", "n_estimators": 100}),
    ("ada", "two", {"_class": _ENSEMBLE + "AdaBoostClassifier", **_FEW}),
    ("ada_regression", "number", {"_class": _ENSEMBLE + "AdaBoostRegressor", **_FEW}),
    ("boosting", "two", {"_class": _GBC, **_FEW}),
    ("boosting_classes", "three", {"_class": _GBC, **_FEW}),
    ("boosting_exponential", "two", {"_class": _GBC, **_FEW, "loss": "exponential"}),
    ("boosting_subsample", "two", {"_class": _GBC, **_FEW, "subsample": 0.5}),
    ("boosting_early", "two", {"_class": _GBC, "n_iter_no_change": 3}),
    ("boosting_start", "two", {"_class": _GBC, **_FEW, "init": (_RFC, _FEW)}),
    ("boosting_missing", "missing", {"_class": _HGC, "max_iter": 5}),
    ("boosting_squares", "number", {"_class": _GBR, **_FEW}),
    ("boosting_absolute", "number", {"_class": _GBR, **_FEW, "loss": "absolute_error"}),
    ("boosting_quantile", "number", {"_class": _GBR, **_FEW, "loss": "quantile"}),
    ("hist", "two", {"_class": _HGC, "max_iter": 5}),
    ("hist_classes", "three", {"_class": _HGC, "max_iter": 5, "min_samples_leaf": 3}),
    ("hist_categories", "categories", {"_class": _HGC, "max_iter": 5,
                                       "categorical_features": [3]}),
    ("hist_frame", "categories", {"_class": _HGC, "max_iter": 5,
                                  "categorical_features": "from_dtype"}),
    ("hist_early", "two", {"_class": _HGC, "early_stopping": True}),
    ("hist_constraints", "two", {"_class": _HGC, "max_iter": 5, "monotonic_cst": [1, 0, -1, 0],
                                 "interaction_cst": [[0, 1], [2, 3]]}),
    ("hist_poisson", "counts", {"_class": _HGR, "max_iter": 5, "loss": "poisson"}),
    ("hist_gamma", "positive", {"_class": _HGR, "max_iter": 5, "loss": "gamma"}),
    ("hist_quantile", "number", {"_class": _HGR, "max_iter": 5, "loss": "quantile",
                                 "quantile": 0.3}),
    ("pipeline", "two", {"_class": _RFC, **_FEW, "_before": "preprocessing.StandardScaler"}),
    ("search", "two", {"_class": "model_selection.GridSearchCV", "cv": 3,
                       "_of": (_DTC, {}), "param_grid": {"max_depth": [2, 3]}}),
    ("calibrated", "two", {"_class": "calibration.CalibratedClassifierCV", "_of": (_RFC, _FEW)}),
    ("one_vs_rest", "three", {"_class": "multiclass.OneVsRestClassifier", "_of": (_DTC, {})}),
    ("several_outputs", "labels", {"_class": "multioutput.MultiOutputClassifier",
                                   "_of": (_DTC, {})}),
    ("voting", "two", {"_class": _ENSEMBLE + "VotingClassifier",
                       "_named": [("a", (_DTC, {})), ("b", (_RFC, _FEW))]}),
    ("stacking", "two", {"_class": _ENSEMBLE + "StackingClassifier",
                         "_named": [("a", (_DTC, {})), ("b", (_RFC, _FEW))]}),
]  # fmt: skip

SETTINGS = {
    "scikit-learn": SKLEARN, "xgboost": XGBOOST, "lightgbm": LIGHTGBM, "catboost": CATBOOST,
}  # fmt: skip


def table(name: str) -> dict[str, Any]:
    """Make rows and targets; numpy and pandas are imported late, the settings need none."""
    import numpy as np
    import pandas as pd

    rng = np.random.RandomState(1)
    columns = {"wide": 100, "many": 7}.get(name, 4)
    rows = np.round(rng.normal(size=(ROWS * (5 if name == "wide" else 1), columns)), 1)
    score = rows[:, 0] + rows[:, 1] * rows[:, 2] + rng.normal(scale=0.5, size=len(rows))
    y: Any = (score > 0).astype(int)
    extra: dict[str, Any] = {"weight": rng.choice([0.5, 1.0, 2.5], len(rows))}
    if name in ("missing", "missing3"):
        rows[rng.rand(*rows.shape) < 0.15] = np.nan
    if name in ("three", "missing3"):
        y = np.digitize(score, [-0.7, 0.7])
    elif name == "number":
        y = np.round(score, 2)
    elif name in ("positive", "counts"):
        y = np.round(np.exp(score / 2), 2) + 0.01
        y = np.floor(y) if name == "counts" else y
    elif name == "outputs":
        y = np.round(np.column_stack([score, rows[:, 3] - score]), 2)
    elif name == "labels":
        y = np.column_stack([y, (rows[:, 3] > 0).astype(int)])
    elif name == "ranks":
        y = np.digitize(score, [-0.7, 0.7])
        extra["group"] = np.full(len(rows) // 12, 12)
    if name == "categories":
        frame = pd.DataFrame(rows[:, :3], columns=["a", "b", "c"])
        frame["kind"] = pd.Categorical(np.array(list("qrstuvw"))[rng.randint(0, 7, len(rows))])
        return {"X": frame, "y": y, **extra}
    if name == "many":
        for k in (0, 1, 3, 5, 6):
            rows[:, k] = rng.randint(0, 6, len(rows))
    if name == "codes":
        rows[:, 0] = rng.choice([3, 700, 40_000, 100_000, 1_000_000], len(rows))
    return {"X": rows, "y": y, **extra}


def coded(X: Any) -> Any:
    """Give categories by their codes, for what knows no pandas categories."""
    if hasattr(X, "columns"):
        words = X.select_dtypes("category").columns
        X = X.assign(**{name: X[name].cat.codes.astype(float) for name in words})
    return X


def own(params: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in params.items() if not k.startswith("_")}


def dump(model: Any, path: Path, form: str) -> Path:
    path = path.with_name(f"{path.name}.{form}")
    if form == "joblib":
        import joblib

        joblib.dump(model, path, compress=3)
    else:
        path.write_bytes(pickle.dumps(model, protocol=4))
    return path


def make_xgboost(params: dict[str, Any], data: dict[str, Any], path: Path) -> Path:
    import numpy as np
    import xgboost as xgb

    form = params.get("_save", "json")
    weight = data["weight"] if params.get("_weights") else None
    if kind := params.get("_wrapper"):
        model = getattr(xgb, kind)(n_estimators=6, **own(params))
        return dump(model.fit(data["X"], data["y"]), path, form)
    new = tuple(map(int, xgb.__version__.split(".")[:2])) >= (1, 5)
    more = {"enable_categorical": True} if new and hasattr(data["X"], "columns") else {}
    X = data["X"] if more else coded(data["X"])
    matrix = xgb.DMatrix(X, data["y"], weight=weight, **more)
    if "group" in data:
        matrix.set_group(data["group"])
    if params.get("_bounds"):
        matrix.set_float_info("label_lower_bound", data["y"])
        matrix.set_float_info("label_upper_bound", np.where(data["y"] > 1, np.inf, data["y"]))
    given = {"max_depth": 3, "objective": "binary:logistic", "verbosity": 0, **own(params)}
    early = {"evals": [(matrix, "e")], "early_stopping_rounds": 2, "verbose_eval": False}
    model = xgb.train(
        given, matrix, params.get("_rounds", 6), **(early if params.get("_early") else {})
    )
    if form in ("pkl", "joblib"):
        return dump(model, path, form)
    if not hasattr(model, "save_config"):  # before 1.0 there is one format
        form = "bin"
    elif form == "bin" and tuple(map(int, xgb.__version__.split(".")[:2])) >= (2, 1):
        form = "deprecated"
    path = path.with_name(f"{path.name}.{form}")
    model.save_model(str(path))
    return path


def make_lightgbm(params: dict[str, Any], data: dict[str, Any], path: Path) -> Path:
    import lightgbm as lgb

    form = params.get("_save", "txt")
    weight = data["weight"] if params.get("_weights") else None
    if kind := params.get("_wrapper"):
        model = getattr(lgb, kind)(n_estimators=6, **own(params))
        return dump(model.fit(data["X"], data["y"]), path, form)
    categories = params.get("_categories")
    X = data["X"] if categories is None else coded(data["X"])
    if categories and hasattr(X, "columns"):
        X = X.values
    given = {"num_leaves": 7, "min_data_in_leaf": 3, "verbose": -1, "seed": 1, **own(params)}
    made = lgb.Dataset(
        X, data["y"], weight=weight, group=data.get("group"),
        categorical_feature="auto" if categories is None else categories,
        # Settings of the table are read when it is made.
        params={k: given[k] for k in ("zero_as_missing", "use_missing", "linear_tree", "max_bin",
                                      "min_data_in_leaf", "verbose") if k in given},
        free_raw_data=False,
    )  # fmt: skip
    more: dict[str, Any] = {"valid_sets": [made]} if params.get("_early") else {}
    if more:
        calls = hasattr(lgb, "early_stopping")
        more |= {"callbacks": [lgb.early_stopping(2)]} if calls else {"early_stopping_rounds": 2}
    model = lgb.train(given, made, 6, **more)
    if form in ("pkl", "joblib"):
        return dump(model, path, form)
    path = path.with_name(f"{path.name}.{form}")
    model.save_model(str(path))
    return path


def make_catboost(params: dict[str, Any], data: dict[str, Any], path: Path) -> Path:
    import catboost

    form = params.get("_save", "cbm")
    pool = catboost.Pool(
        data["X"], data["y"], cat_features=params.get("_categories"),
        weight=data["weight"] if params.get("_weights") else None,
        group_id=[i for i, n in enumerate(data.get("group", [])) for _ in range(n)] or None,
    )  # fmt: skip
    given = {"depth": 3, "random_seed": 1, "logging_level": "Silent", **own(params)}
    model = catboost.CatBoost(
        {"iterations": 6, "allow_writing_files": False, "thread_count": 1, **given}
    )
    model.fit(pool, **({"eval_set": pool} if params.get("_early") else {}))
    if form in ("pkl", "joblib"):
        return dump(model, path, form)
    path = path.with_name(f"{path.name}.{form}")
    model.save_model(str(path), format=form)
    return path


def built(kind: str, params: dict[str, Any]) -> Any:
    """Make an estimator of scikit-learn, and those within it."""
    module, _, name = kind.rpartition(".")
    found = getattr(importlib.import_module(f"sklearn.{module}"), name)
    within = {k: built(*v) if isinstance(v, tuple) else v for k, v in own(params).items()}
    positional = [built(*params["_of"])] if "_of" in params else []
    if "_named" in params:
        positional = [[(label, built(*inner)) for label, inner in params["_named"]]]
    return found(*positional, **within)


def make_sklearn(params: dict[str, Any], data: dict[str, Any], path: Path) -> Path:
    model = built(params["_class"], params)
    if "_before" in params:
        from sklearn.pipeline import make_pipeline

        model = make_pipeline(built(params["_before"], {}), model)
    weight = {"sample_weight": data["weight"]} if params.get("_weights") else {}
    keeps = params.get("categorical_features") == "from_dtype"
    model.fit(data["X"] if keeps else coded(data["X"]), data["y"], **weight)
    try:
        import skops.io
    except ImportError:
        # One setting in two is written by joblib, the others by pickle.
        return dump(model, path, "joblib" if len(path.name) % 2 else "pkl")
    path = path.with_name(f"{path.name}.skops")
    skops.io.dump(model, path)
    return path


MAKERS = {
    "scikit-learn": make_sklearn, "xgboost": make_xgboost,
    "lightgbm": make_lightgbm, "catboost": make_catboost,
}  # fmt: skip


def write_models(library: str, folder: str) -> None:
    """Write what this version makes of each setting, and list it."""
    warnings.simplefilter("ignore")
    for name in ("Mapping", "Sequence", "Iterable"):
        # Where versions of 2018 look for them.
        setattr(collections, name, getattr(collections.abc, name))
    made: dict[str, Any] = {"version": version(library), "models": {}, "refused": {}}
    for name, rows, params in SETTINGS[library]:
        try:
            path = MAKERS[library](params, table(rows), Path(folder) / name)
            made["models"][name] = path.name
        except Exception as error:
            # Old versions lack settings of new ones, and the other way round.
            made["refused"][name] = f"{type(error).__name__}: {str(error).strip()[:200]}"
    (Path(folder) / "made.json").write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    write_models(*sys.argv[1:])
