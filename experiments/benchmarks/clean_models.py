"""Ordinary models of all libraries: no part that no rule knows, and no alarm.

``python -m experiments run clean_models`` fits usual settings of scikit-learn, XGBoost, LightGBM
and CatBoost on a table with numbers, categories and text labels, saves each file, and takes its
inventory. Libraries that are not installed are left out: ``pip install 'treeleak[boosted]'``.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import treeleak
from experiments.benchmarks.frame import floor, options

N_ROWS = 300
_TREES = {
    "DecisionTreeClassifier": {"max_depth": (None, 4), "class_weight": (None, "balanced"),
                               "ccp_alpha": (0.0, 0.01)},
    "ExtraTreeRegressor": {"max_leaf_nodes": (None, 8)},
}  # fmt: skip
_ENSEMBLES = {
    "RandomForestClassifier": {"oob_score": (False,), "max_samples": (None, 0.7),
                               "class_weight": (None, "balanced_subsample")},
    "RandomForestRegressor": {"criterion": ("squared_error", "absolute_error")},
    "ExtraTreesClassifier": {"bootstrap": (False, True), "max_depth": (None, 6)},
    "GradientBoostingClassifier": {"subsample": (1.0, 0.8), "max_features": (None, "sqrt")},
    "GradientBoostingRegressor": {"loss": ("squared_error", "huber", "quantile")},
    "HistGradientBoostingClassifier": {"early_stopping": (False, True), "max_bins": (255, 16)},
    "HistGradientBoostingRegressor": {"loss": ("squared_error", "poisson")},
    "AdaBoostClassifier": {"learning_rate": (1.0, 0.3)},
    "BaggingClassifier": {"max_features": (1.0, 0.5), "oob_score": (False,)},
    "IsolationForest": {"contamination": ("auto", 0.1)},
}  # fmt: skip
_BOOSTED = {
    "xgboost.XGBClassifier": {"subsample": (1.0, 0.8), "grow_policy": ("depthwise", "lossguide"),
                              "booster": ("gbtree", "dart")},
    "xgboost.XGBRegressor": {"objective": ("reg:squarederror", "count:poisson"),
                             "monotone_constraints": (None, "(1,0,0,0,0,0)")},
    "lightgbm.LGBMClassifier": {"boosting_type": ("gbdt", "dart"), "bagging_fraction": (1.0, 0.7),
                                "monotone_constraints": (None, [1, 0, 0, 0, 0, 0])},
    "lightgbm.LGBMRegressor": {"objective": ("regression", "quantile", "tweedie")},
    "catboost.CatBoostClassifier": {"grow_policy": ("SymmetricTree", "Lossguide"),
                                    "bootstrap_type": ("Bayesian", "Bernoulli")},
    "catboost.CatBoostRegressor": {"loss_function": ("RMSE", "MAE")},
}  # fmt: skip
_QUIET = {
    "lightgbm": {"verbose": -1, "bagging_freq": 1},
    "catboost": {"verbose": 0, "allow_writing_files": False},
}


def settings() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every class with every combination of these values: module, class, parameters."""
    for module, kinds in (("sklearn.tree", _TREES), ("sklearn.ensemble", _ENSEMBLES)):
        for name, values in kinds.items():
            for chosen in product(*values.values()):
                few = {} if module == "sklearn.tree" or "Hist" in name else {"n_estimators": 10}
                yield module, name, few | dict(zip(values, chosen, strict=True))
    for whole, values in _BOOSTED.items():
        module, _, name = whole.partition(".")
        if find_spec(module) is None:
            continue
        for chosen in product(*values.values()):
            quiet: dict[str, Any] = _QUIET.get(module, {})
            parameters = dict(zip(values, chosen, strict=True))
            yield module, name, {"n_estimators": 10, **quiet, **parameters}


def table() -> tuple[pd.DataFrame, pd.Series[Any], pd.Series[Any]]:
    """Draw rows with numbers and categories; labels, and counts to regress."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 90, N_ROWS), "income": rng.gamma(2.0, 2e4, N_ROWS).round(),
            "score": rng.normal(size=N_ROWS), "smoker": rng.integers(0, 2, N_ROWS),
            "ward": rng.choice(["north", "south", "west"], N_ROWS),
            "drug": rng.choice(list("ABCD"), N_ROWS),
        }
    )  # fmt: skip
    signal = X["score"] + X["smoker"] + rng.normal(size=N_ROWS)
    labels = pd.Series(np.where(signal > 0.5, "ill", "well"))
    return X, labels, pd.Series(rng.poisson(3, N_ROWS).astype(float))


def alarms(module: str, name: str, parameters: dict[str, Any]) -> list[str]:
    """Fit and save one model, and list what its inventory does not know or raises alarm about."""
    X, labels, counts = table()
    codes = X.assign(**{c: pd.factorize(X[c], sort=True)[0] for c in ("ward", "drug")})
    y: Any = labels if name.endswith("Classifier") else counts
    if module == "xgboost" and name.endswith("Classifier"):
        y = (labels == "ill").astype(int)
    model = getattr(import_module(module), name)(**parameters)
    if module.startswith("sklearn"):
        numbers, texts = ["age", "income", "score", "smoker"], ["ward", "drug"]
        steps = ColumnTransformer(
            [("n", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
             ("c", OneHotEncoder(sparse_output=False), texts)]
        )  # fmt: skip
        fitted = make_pipeline(steps, model).fit(X, y)
    else:
        fitted = model.fit(codes, y)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.pkl"
        file.write_bytes(pickle.dumps(fitted))
        found = treeleak.audit(file, trust_pickle=True, time_limit=1.0)
    return [
        *(f"unknown: {e.where} {e.names[:3]}" for e in found.inventory if e.unknown),
        *(f"rows stored: {e.where}" for e in found.inventory if e.rows),
        *(f"values of people: {e.where}" for e in found.inventory if e.held is not None),
        *(f"other model: {o.place}" for o in found.others),
    ]


def main(args: Sequence[str]) -> int:
    """Print the models with an alarm, and how many have none."""
    options("clean_models", __doc__, args)
    tried = loud = 0
    for module, name, parameters in settings():
        found = alarms(module, name, parameters)
        tried, loud = tried + 1, loud + bool(found)
        for alarm in found:
            print(f"{name} {parameters}: {alarm}", flush=True)
    said = f"{tried} clean models: {loud} with an unknown part or an alarm (floor: 0)"
    return int(not floor(said, not loud))
