"""Usual settings: defaults, tuned, in pipelines, searched, calibrated, stacked.

The zoo attacks and audits them (``python -m experiments zoo``); other benchmarks take some.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
from sklearn import ensemble as E
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak

TABLES = ("adult", "german_credit", "compas")
Forest = E.RandomForestClassifier


RAW: dict[str, Callable[[], Any]] = {
    "forest default": lambda: Forest(random_state=0),
    "forest without seed": Forest,
    "forest tuned": lambda: Forest(300, max_depth=12, min_samples_leaf=5),
    "forest balanced": lambda: Forest(class_weight="balanced", random_state=1),
    "extra trees": lambda: E.ExtraTreesClassifier(200, max_depth=12),
    "one tree": lambda: DecisionTreeClassifier(max_depth=6, min_samples_leaf=20),
}
"""At the end of a pipeline that encodes raw columns."""
CODED: dict[str, Callable[[], Any]] = {
    "grid search": lambda: GridSearchCV(
        Forest(random_state=0), {"max_depth": [6, None]}, cv=3
    ),
    "calibrated": lambda: CalibratedClassifierCV(Forest(50, random_state=0), cv=3),
    "voting": lambda: E.VotingClassifier(
        [("rf", Forest(50)), ("lr", LogisticRegression(max_iter=50)),
         ("gb", E.GradientBoostingClassifier())], voting="soft",
    ),
    "stacking": lambda: E.StackingClassifier(
        [("rf", Forest(50)), ("gb", E.GradientBoostingClassifier(n_estimators=50))]
    ),
}  # fmt: skip
"""On columns whose categories are codes."""

BOOSTED: dict[str, tuple[str, dict[str, Any]]] = {
    "XGBoost default": ("XGBClassifier", {}),
    "XGBoost tuned": ("XGBClassifier", {
        "n_estimators": 300, "max_depth": 6, "learning_rate": 0.05, "subsample": 0.8,
        "colsample_bytree": 0.8, "reg_alpha": 0.1,
    }),
    "XGBoost weighted": (
        "XGBClassifier", {"n_estimators": 200, "max_depth": 4, "scale_pos_weight": 3}
    ),
    "LightGBM default": ("LGBMClassifier", {}),
    "LightGBM tuned": ("LGBMClassifier", {
        "n_estimators": 400, "learning_rate": 0.03, "subsample": 0.8, "subsample_freq": 1,
        "colsample_bytree": 0.8, "reg_alpha": 0.1, "min_child_samples": 30,
    }),
    "CatBoost default": ("CatBoostClassifier", {}),
}  # fmt: skip
"""The same, of boosting libraries: class and settings."""


def table(name: str, n: int, seed: int) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Draw rows of a raw table; of one that has none, of its columns of 0 and 1.

    More rows than there are come with repetitions: they show how an audit grows.
    """
    data = getattr(treeleak.datasets, f"load_{name}")()
    X = (data.X if data.raw is None else data.raw).reset_index(drop=True)
    y = pd.Series(data.y).reset_index(drop=True)
    rows = X.sample(n, replace=n > len(X), random_state=seed).index
    return X.loc[rows].reset_index(drop=True), y.loc[rows].reset_index(drop=True)


def encoder(X: pd.DataFrame) -> ColumnTransformer:
    """Scale numbers and encode categories, as pipelines do."""
    numbers = [c for c in X if pd.api.types.is_numeric_dtype(X[c])]
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer(
        [("numbers", scaled, numbers), ("texts", texts, [c for c in X if c not in numbers])]
    )
