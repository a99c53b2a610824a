"""Boosted models on raw tables: how they are trained, attacked and measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

import treeleak
from experiments.attempt import Case, Record, attempt
from experiments.benchmarks.known_raw_tables import TABLES, one_hot
from experiments.boosted_models import stored_alone
from experiments.data import draft_sample
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release, to_release
from treeleak.schema import Numeric, Ordinal, Schema

NEAR = 0.319
"""Standard deviations by which a number may be off in TimberStrike's measure."""
DEFAULTS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = MappingProxyType(
    {
        "HistGB": ("sklearn.ensemble", "HistGradientBoostingClassifier", {"random_state": 0}),
        "XGB": ("xgboost", "XGBClassifier", {"n_jobs": 1}),
        "LGBM": ("lightgbm", "LGBMClassifier", {"n_jobs": 1, "verbose": -1}),
    }
)
"""By name: module, class, and parameters that change no rows."""
_TUNED = {
    "subsample": 0.8, "colsample_bytree": 0.8, "learning_rate": 0.05, "n_estimators": 300,
}  # fmt: skip
MODELS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = MappingProxyType(
    {
        **DEFAULTS,
        "XGB, tuned": ("xgboost", "XGBClassifier", {"n_jobs": 1, **_TUNED}),
        "LGBM, tuned": (
            "lightgbm",
            "LGBMClassifier",
            {"n_jobs": 1, "verbose": -1, **_TUNED, "subsample_freq": 1},
        ),
        "XGB, masked": ("xgboost", "XGBClassifier", {"n_jobs": 1}),
        "XGB, subsample": ("xgboost", "XGBClassifier", {"n_jobs": 1, "subsample": 0.8}),
        "LGBM, subsample": (
            "lightgbm",
            "LGBMClassifier",
            {"n_jobs": 1, "verbose": -1, "bagging_fraction": 0.8, "bagging_freq": 1},
        ),
    }
)
"""These and others. "masked" stands for what NVFlare leaves of a file: every sum of hessians reads
1."""
FIGURES = (
    "near", "shuffled", "others", "exact", "other_exact", "ceiling", "between", "other_between",
    "rows", "sure", "held", "ninety", "n_ninety", "expected", "error", "labels", "misfit",
)  # fmt: skip
_DRAWN = (", subsample", ", tuned")
"""Models whose trees drew rows: the attack is told how many rows there were."""
_NINETY = 0.85, 0.95
"""Values that are said to be right with about nine in ten are those in between."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A training set, as many other rows of its table (or all that are left), and a model."""

    X: pd.DataFrame
    y: pd.Series
    others: pd.DataFrame
    schema: Schema
    release: Release
    spread: pd.Series
    """Standard deviations of the columns of numbers in the training set."""


def sample(case: Case) -> Sample:
    """Draw rows of a table, and train a model on the first half of them.

    Raises
    ------
    BadInput
        If the table is not there.
    """
    data = TABLES[case.table]()
    X, y = draft_sample(data, min(2 * case.n_rows, len(data.X)), case.seed)
    schema = data.schema
    if case.table == "adult":
        X, schema = one_hot(X, schema)
    own, y = X.iloc[: case.n_rows].reset_index(drop=True), y.iloc[: case.n_rows]
    module, name, given = MODELS[case.model]
    model = getattr(import_module(module), name)(**given).fit(own, y)
    if case.model.endswith(", masked"):
        model = stored_alone(model, masked=True)
    numbers = [a.name for a in schema.attributes if isinstance(a, (Numeric, Ordinal))]
    return Sample(
        own, y.reset_index(drop=True), X.iloc[case.n_rows :].reset_index(drop=True), schema,
        to_release(model), own[numbers].std(ddof=0),
    )  # fmt: skip


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = sample(case)
    sampling = "none" if data.release.sampling.kind == "unknown" else "auto"
    record, found = attempt(
        lambda: treeleak.reconstruct(
            data.release, data.schema, sampling, case.time_limit, case.seed,
            n_rows=len(data.X) if case.model.endswith(_DRAWN) else None,
        )
    )  # fmt: skip
    outcome = dict.fromkeys(FIGURES) | baselines(data, case.seed) | record
    if found is None:
        return outcome
    shown = {} if found.X is None else measured(data, found)
    return outcome | {"cells": found.cells} | shown


def baselines(data: Sample, seed: int) -> dict[str, float | None]:
    """Measure what needs no attack: shuffled columns, and other rows of the same table."""
    rng = np.random.default_rng(seed)
    shuffled = data.X.apply(lambda column: rng.permutation(column.to_numpy()))
    out: dict[str, float | None] = {"shuffled": best(near, shuffled, data)}
    out["ceiling"] = ceiling(data)
    if len(data.others) == len(data.X):
        out["others"] = best(near, data.others, data)
        out["other_exact"] = best(exact, data.others, data)
        out["other_between"] = best(between, data.others, data)
    return out


def measured(data: Sample, found: Reconstruction) -> dict[str, float | None]:
    """Hold an answer against the training set."""
    names = list(data.X.columns)
    given: Any = found.X
    X = given[names]
    right = near(X, data)
    i, j = _matching(right)
    sides = [sides_of(rows, data) for rows in (X, data.X)]
    tested = np.array([len(cuts) > 0 for cuts in data.release.thresholds])
    cells = [Counter(map(bytes, np.ascontiguousarray(side[:, tested]))) for side in sides]
    labels = None
    if found.labelled and found.y is not None:
        labels = float((found.y.to_numpy()[i] == data.y.to_numpy()[j]).mean())
    return {
        "near": _share(right, i, j),
        "exact": best(exact, X, data),
        "between": best(between, X, data),
        "rows": (cells[0] & cells[1]).total() / len(X),
        "labels": labels,
        **_as_stated(data, found, i, j),
        "expected": found.expected_error,
        "error": treeleak.metrics.reconstruction_error(X, data.X, data.schema),
    }


def _as_stated(
    data: Sample, found: Reconstruction, i: np.ndarray, j: np.ndarray
) -> dict[str, float | None]:
    """How sure an answer is of its values, and how many lie between the ends that it gives."""
    ends: Any = found.lower, found.upper, found.confidence
    if any(table is None for table in ends):
        return {}
    low, high, sure = (table[list(data.X.columns)].to_numpy(float)[i] for table in ends)
    true = data.X.to_numpy(float)[j]
    held = (true >= low) & (true <= high)
    about = (sure >= _NINETY[0]) & (sure < _NINETY[1])
    return {
        "sure": float(sure.mean()),
        "held": float(held.mean()),
        "ninety": float(held[about].mean()) if about.any() else None,
        "n_ninety": float(about.sum()),
    }


Right = Callable[[pd.DataFrame, Sample], np.ndarray]
"""How many values of each row of a table are right if it is held against each training row, shape
(n_rows, n_training_rows), as a share of all columns."""


def near(X: pd.DataFrame, data: Sample) -> np.ndarray:
    """By TimberStrike's measure."""
    allowed = {c: NEAR * s for c, s in data.spread.items()}
    return _right(X.to_numpy(float), data.X.to_numpy(float), [allowed.get(c, 0.0) for c in X])


def exact(X: pd.DataFrame, data: Sample) -> np.ndarray:
    """To the last digit that data have: up to a billionth of what a column spans."""
    true = data.X.to_numpy(float)
    return _right(X.to_numpy(float), true, 1e-9 * np.ptp(true, axis=0))


def between(X: pd.DataFrame, data: Sample) -> np.ndarray:
    """On the right side of every threshold."""
    return _right(sides_of(X, data), sides_of(data.X, data), [0.0] * X.shape[1])


def _right(a: np.ndarray, b: np.ndarray, allowed: Iterable[float]) -> np.ndarray:
    out: np.ndarray = np.zeros((len(a), len(b)))
    for own, true, most in zip(a.T, b.T, allowed, strict=True):
        out += np.abs(own[:, None] - true[None]) <= most
    out /= a.shape[1]
    return out


def ceiling(data: Sample) -> float:
    """Share of values that are the most frequent ones of their column between two thresholds."""
    right = [
        column.groupby(side).agg(lambda own: own.value_counts(dropna=False).iloc[0]).sum()
        for (_, column), side in zip(data.X.items(), sides_of(data.X, data).T, strict=True)
    ]
    return float(np.sum(right) / data.X.size)


def sides_of(X: pd.DataFrame, data: Sample) -> np.ndarray:
    """How many thresholds of its column lie below each value."""
    rows = X.to_numpy(data.release.float_type)
    strict = any(tree.strict is not None for tree in data.release.trees)
    out = [
        np.searchsorted(cuts.astype(rows.dtype), x, "right" if strict else "left")
        for cuts, x in zip(data.release.thresholds, rows.T, strict=True)
    ]
    return np.column_stack(out)


def _matching(right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return linear_sum_assignment(right, maximize=True)


def _share(right: np.ndarray, i: np.ndarray, j: np.ndarray) -> float:
    return float(right[i, j].sum() / right.shape[1])


def best(measure: Right, X: pd.DataFrame, data: Sample) -> float:
    """Share of values that are right after a matching at its best."""
    right = measure(X[list(data.X.columns)], data)
    return _share(right, *_matching(right))
