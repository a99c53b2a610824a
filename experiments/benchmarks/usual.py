"""Usual settings on raw tables: does an audit with the training rows come to a decided answer?

``python -m experiments run usual --table adult --rows 300 --limit 60`` trains 22 models as people
train them (defaults, tuned, in pipelines, searched, calibrated, stacked), audits each in a process
of its own, and prints the verdict, how long it took, the most memory, and what was left open.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from sklearn import ensemble as E
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak
from experiments.benchmarks.claims import coded
from experiments.benchmarks.frame import (
    Lost,
    floor,
    in_processes,
    options,
    peak_mb,
    progress,
    show,
)
from experiments.libraries import unfitted
from treeleak.auditing.findings.finding import OPEN

TABLES = ("adult", "german_credit", "compas")
GRACE = 5.0
"""Seconds beyond the limit that an audit may take."""
MEMORY = 4.0
"""Gigabytes."""

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
    "one against the rest": lambda: OneVsRestClassifier(
        E.GradientBoostingClassifier(n_estimators=30)
    ),
    "HistGradientBoosting": E.HistGradientBoostingClassifier,
    "GradientBoosting subsample": lambda: E.GradientBoostingClassifier(
        subsample=0.8, random_state=0
    ),
    "AdaBoost": E.AdaBoostClassifier,
    "bagging": lambda: E.BaggingClassifier(n_estimators=50),
    "forest of regressions": lambda: E.RandomForestRegressor(random_state=0),
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


@dataclass(frozen=True)
class Case:
    """One audit."""

    model: str
    table: str
    rows: int
    limit: float
    seed: int


def audited(case: Case) -> dict[str, Any]:
    """Train a model, and audit it with its rows."""
    warnings.simplefilter("ignore")
    X, y = table(case.table, case.rows, case.seed)
    if case.model in RAW:
        model, rows = make_pipeline(encoder(X), RAW[case.model]()).fit(X, y), X
    else:
        kind, settings = BOOSTED.get(case.model, ("", {}))
        model = unfitted(kind, **settings) if kind else CODED[case.model]()
        rows = coded(X)
        model.fit(rows, y)
    started = time.perf_counter()
    found = treeleak.audit(model, rows, y, time_limit=case.limit, seed=case.seed)
    seconds, gb = time.perf_counter() - started, peak_mb() / 1000
    alarms = sum(e.unknown or bool(e.rows) for e in found.inventory) + len(found.others)
    decided = [f.part for f in found.findings if f.verdict == found.verdict]
    return {
        "verdict": found.verdict.partition(" by")[0], "by": ", ".join(dict.fromkeys(decided)),
        "seconds": seconds, "GB": gb,
        "AUC": None if found.shadows is None else found.shadows.sizes[-1].auc.value,
        "open": ", ".join(sorted({part for part, _ in found.not_assessed} - {"population"})),
        "decided": found.verdict != OPEN, "alarms": alarms,
        "met": found.verdict != OPEN and not alarms and seconds <= case.limit + GRACE
        and gb <= MEMORY,
    }  # fmt: skip


def main(args: Sequence[str]) -> int:
    """Print a line per model, and how many were decided in time."""
    names = [*RAW, *CODED, *BOOSTED]
    given = options(
        "usual", __doc__, args, table=TABLES, rows=300, limit=60.0, seed=3, models=names
    )
    todo = [Case(m, given.table, given.rows, given.limit, given.seed) for m in given.models]
    lines = []
    for case, found in in_processes(audited, todo, apart=True):
        if isinstance(found, Lost):
            found = {"verdict": found.why, "decided": False, "met": False}
        lines.append({"model": case.model} | found)
        progress(case.model)
    met = show(f"{given.table}, {given.rows} rows", lines)
    decided = sum(line["decided"] for line in lines)
    floor(f"{decided} of {len(lines)} decided, {sum(not o['met'] for o in lines)} missed", met)
    return int(not met)
