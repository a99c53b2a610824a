"""How often values of raw tables are right that are said to be right with some probability.

Exact counts, known and hidden draws, and boosted models, with and without a schema, each with
little time and with more: in each ten-point bin of confidence, the share of values that are right
must be within seven points of the mean confidence. A number is right if it lies in its interval,
any other value if it is the true one; rows are matched one to one where their order is not known.
Proved values and answers without confidence do not count.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

import treeleak
from experiments.benchmarks.frame import Record, collect, options, show
from treeleak.core.arrays import FloatArray
from treeleak.core.errors import NotCovered
from treeleak.datasets import load_adult, load_german_credit
from treeleak.metrics.matching import best_matching
from treeleak.reconstruction import Reconstruction
from treeleak.release import to_release
from treeleak.release.infer_schema import infer_schema
from treeleak.schema import Numeric, Schema

WITHIN = 0.07
"""How far a bin's share may be from its mean confidence."""
FEWEST = 100
"""Values that a bin needs to be judged."""
_ALL_ROWS = {"bootstrap": False, "random_state": 0, "n_estimators": 30}
MODELS: Mapping[str, tuple[str, str, Mapping[str, Any], str]] = MappingProxyType(
    {
        "exact": ("sklearn.ensemble", "RandomForestClassifier", _ALL_ROWS, "auto"),
        "shallow": (
            "sklearn.ensemble", "RandomForestClassifier", {**_ALL_ROWS, "max_depth": 4}, "auto",
        ),
        "known": (
            "sklearn.ensemble", "RandomForestClassifier",
            {"random_state": 0, "n_estimators": 50}, "auto",
        ),
        "hidden": (
            "sklearn.ensemble", "RandomForestClassifier",
            {"random_state": 0, "n_estimators": 30, "max_depth": 6}, "hidden",
        ),
        "XGBoost": ("xgboost", "XGBClassifier", {"n_estimators": 30, "n_jobs": 1}, "none"),
        "LightGBM": (
            "lightgbm", "LGBMClassifier", {"n_estimators": 50, "n_jobs": 1, "verbose": -1}, "auto",
        ),
        "HistGradientBoosting": (
            "sklearn.ensemble", "HistGradientBoostingClassifier", {"max_iter": 50}, "auto",
        ),
    }
)  # fmt: skip
"""By name: module, class, settings, and what is said of draws."""
_SHIPPED = {"iris": "load_iris", "wine": "load_wine", "cancer": "load_breast_cancer"}
TABLES = (*_SHIPPED, "people", "adult", "german")
_FITTED_ON: Mapping[str, str] = MappingProxyType(
    {"anes96": "vote", "fair": "affairs", "randhie": "mdvis", "modechoice": "choice",
     "star98": "NABOVE"}
)  # fmt: skip
"""Tables of statsmodels, by the column that becomes the class, from its median: for the slope of
:mod:`treeleak.attacks.consensus`, which must not be set on tables that it is judged on."""
PARTS = {"judged": TABLES, "fitted": tuple(_FITTED_ON)}


@dataclass(frozen=True)
class Case:
    """One attack."""

    table: str
    model: str
    with_schema: bool
    time_limit: float
    n_rows: int = 150
    seed: int = 0


def raw_table(name: str, n_rows: int, seed: int) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Draw rows of a table with its numbers as they are, and categories as codes."""
    if name in _SHIPPED:
        load: Callable[..., Any] = getattr(import_module("sklearn.datasets"), _SHIPPED[name])
        X, y = load(return_X_y=True, as_frame=True)
        X = X.iloc[:, :8]
    elif name in _FITTED_ON:
        table = getattr(import_module("statsmodels.datasets"), name).load_pandas().data
        y = table.pop(_FITTED_ON[name])
        X, y = table.drop(columns=["NBELOW", "individual"], errors="ignore"), (y > y.median()) * 1
        X = X.iloc[:, :8]
    elif name == "people":
        from experiments.benchmarks.known_raw_tables import people

        X, y = people(n_rows, seed)
        X["age"] = X["age"].fillna(50.0)
    else:
        data = {"adult": load_adult, "german": load_german_credit}[name]()
        X, y = data.raw, data.y
    X = X.sample(n=min(n_rows, len(X)), random_state=seed)
    y = y.loc[X.index].reset_index(drop=True)
    X = X.reset_index(drop=True)
    for column in X:
        if not pd.api.types.is_numeric_dtype(X[column]):
            X[column] = pd.factorize(X[column], sort=True)[0]
    return X.set_axis([f"c{j}" for j in range(X.shape[1])], axis=1), y


def run(case: Case) -> Record:
    """Train, attack, and count in each bin the values, their confidence and those right."""
    warnings.simplefilter("ignore")
    X, y = raw_table(case.table, case.n_rows, case.seed)
    module, name, settings, draws = MODELS[case.model]
    model = getattr(import_module(module), name)(**settings).fit(X, y)
    schema = infer_schema(to_release(model), X) if case.with_schema else None
    try:
        found = treeleak.reconstruct(
            model, schema, draws, case.time_limit, n_rows=len(X) if draws == "hidden" else None
        )
    except NotCovered as why:
        return {"status": "refused", "why": str(why), "bins": []}
    return {
        "status": found.status, "misfit": float(found.misfit),
        "expected": found.expected_error, "bins": bins(found, X).tolist(),
    }  # fmt: skip


def bins(found: Reconstruction, X: pd.DataFrame) -> FloatArray:
    """Number of values, their summed confidence, and how many are right, in each hundredth."""
    if found.X is None or found.confidence is None or len(found.X) != len(X):
        return np.zeros((0, 3))
    truth = X
    if not found.ordered:
        ranges = [Numeric(c, float(X[c].min()), float(X[c].max()) + 1e-9) for c in X]
        truth = X.iloc[best_matching(found.X, X, Schema(ranges)).true_row]
    low, high, true = (
        np.asarray(t[found.X.columns], dtype=float) for t in (found.lower, found.upper, truth)
    )
    # A confidence is that of the value; of a number that splits bound, of its interval.
    value = np.asarray(found.X, dtype=float)
    in_interval = found.X.columns.isin(found.interval_columns)
    low, high = np.where(in_interval, low, value), np.where(in_interval, high, value)
    slack = 1e-6 * np.abs(true)
    right = (low <= true + slack) & (true - slack <= high)
    sure = found.confidence.to_numpy(dtype=float)
    counted = ~found.given & (sure < 1.0) & ~np.isnan(sure)
    place = np.minimum((sure[counted] * 100).astype(int), 99)
    weights = np.ones(counted.sum()), sure[counted], right[counted]
    return np.column_stack([np.bincount(place, w, 100) for w in weights])


def cases(
    tables: Sequence[str], limits: Sequence[float], n_rows: int, seeds: Sequence[int]
) -> list[Case]:
    """Every table with every model, with a schema and without."""
    return [
        Case(table, model, with_schema, limit, n_rows, seed)
        for seed in seeds
        for table in tables
        for model in MODELS
        for with_schema in (True, False)
        for limit in limits
    ]


def shown(records: Sequence[Record], by: str) -> bool:
    """Print the bins of all runs of a kind; whether each is near enough."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault((record["case"] | record)[by], []).append(record)
    lines = []
    for key, own in groups.items():
        counts = [np.asarray(r["bins"], dtype=float) for r in own if len(r["bins"])]
        tenths = np.sum(counts, axis=0).reshape(10, -1, 3).sum(axis=1) if counts else ()
        for tenth, (n, sure, right) in enumerate(tenths):
            if n >= FEWEST:
                share = right / n
                lines.append({
                    by: str(key), "runs": len(own), "confidence from": tenth / 10, "values": int(n),
                    "mean confidence": sure / n, "right": share,
                    "standard error": np.sqrt(share * (1 - share) / n),
                    "met": abs(sure - right) / n <= WITHIN,
                })  # fmt: skip
    return show(f"values by their confidence, by {by}; floor: within {WITHIN:g}", lines)


def main(args: Sequence[str]) -> int:
    """Run what the command line asks for; 1 if a bin is off."""
    given = options(
        "calibration", __doc__, args, parts=PARTS, kept=True,
        tables=[*TABLES, *_FITTED_ON], models=list(MODELS), seeds=[0],
        limits=[4.0, 20.0], rows=150,
    )  # fmt: skip
    tables = [t for part in given.parts for t in PARTS[part] if t in given.tables]
    chosen = [
        c for c in cases(tables, given.limits, given.rows, given.seeds) if c.model in given.models
    ]
    records = collect(
        "calibration", chosen, run, lambda c: replace(c, n_rows=40, time_limit=2.0), given
    )
    for by in ("status", "model", "with_schema", "table"):
        shown(records, by)
    return int(not shown([{**r, "all": "all"} for r in records], "all"))
