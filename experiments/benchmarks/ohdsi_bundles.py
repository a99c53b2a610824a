"""Bundles of OHDSI PatientLevelPrediction on simulated patients: a random forest of 100 trees for
each depth that is tried by default. Rows that come back in order, and patients in leaves of fewer
patients than the bundle itself lets be shown.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from experiments.benchmarks.frame import options, show
from treeleak.metrics import exact_row_share
from treeleak.schema import Binary, Schema


def patients(n_rows: int = 1000, n_columns: int = 60, seed: int = 0):
    """Simulate patients: columns of 0/1, and an outcome that goes with some."""
    rng = np.random.default_rng(seed)
    share = rng.beta(1, 6, n_columns)
    common = rng.normal(size=n_rows)
    loading = rng.normal(0, 0.5, n_columns)
    odds = np.log(share / (1 - share)) + np.outer(common, loading)
    X = (rng.random((n_rows, n_columns)) < 1 / (1 + np.exp(-odds))).astype(int)
    risk = X[:, :5] @ np.array([1.0, 0.8, -0.7, 0.5, 0.9]) + 0.5 * common - 1.5
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-risk))).astype(int)
    names = [f"condition_era group during day -365 through 0: {k}" for k in range(n_columns)]
    return pd.DataFrame(X, columns=names), y


def tree_document(tree: DecisionTreeClassifier) -> dict:
    """Write a tree as the package's script for Python does."""
    state = tree.tree_.__getstate__()
    dtype = state["nodes"].dtype
    return {
        "meta": "decision-tree",
        "feature_importances_": tree.feature_importances_.tolist(),
        "max_features_": int(tree.max_features_),
        "n_classes_": int(tree.n_classes_),
        "n_features_in_": int(tree.n_features_in_),
        "n_outputs_": int(tree.n_outputs_),
        "tree_": {
            "max_depth": int(state["max_depth"]),
            "node_count": int(state["node_count"]),
            "nodes": [list(node) for node in state["nodes"].tolist()],
            "values": state["values"].tolist(),
            "nodes_dtype": [dtype[k].str for k in range(len(dtype))],
        },
        "classes_": tree.classes_.tolist(),
        "params": tree.get_params(),
    }


def document(model) -> dict:
    """Write a model as the package does."""
    if isinstance(model, DecisionTreeClassifier):
        return tree_document(model)
    params = {k: v for k, v in model.get_params(deep=False).items() if k != "estimator"}
    out = {
        "estimators_": [tree_document(tree) for tree in model.estimators_],
        "classes_": model.classes_.tolist(),
        "n_classes_": int(model.n_classes_),
        "params": params,
    }
    if isinstance(model, RandomForestClassifier):
        out |= {
            "meta": "rf",
            "max_depth": model.max_depth,
            "min_samples_split": model.min_samples_split,
            "min_samples_leaf": model.min_samples_leaf,
            "max_features": model.max_features,
            "oob_score": bool(model.oob_score),
            "n_features_in_": int(model.n_features_in_),
            "n_outputs_": int(model.n_outputs_),
        }
        if model.oob_score:
            out["oob_score_"] = float(model.oob_score_)
            out["oob_decision_function_"] = model.oob_decision_function_.tolist()
    elif isinstance(model, AdaBoostClassifier):
        out |= {
            "meta": "adaboost",
            "estimator_weights_": model.estimator_weights_.tolist(),
            "estimator_errors_": model.estimator_errors_.tolist(),
        }
    return out


def write_bundle(folder: Path, model, X: pd.DataFrame, *, min_cell_count: int | None = 10) -> Path:
    """Write a bundle; ``min_cell_count`` as its own documents state it."""
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "model.json").write_text(json.dumps(document(model)))
    attributes = {"modelType": "binary", "saveLocation": "model", "saveToJson": True}
    design = {"modelSettings": {"fitFunction": "fitSklearn"}}
    if min_cell_count is not None:
        attributes["minCellCount"] = min_cell_count
    (folder / "attributes.json").write_text(json.dumps(attributes))
    (folder / "modelDesign.json").write_text(json.dumps(design))
    (folder / "preprocessing.json").write_text(json.dumps({"tidyCovariates": {}}))
    (folder / "trainDetails.json").write_text(json.dumps({"trainingTime": "1.2 mins"}))
    columns = pd.DataFrame(
        {
            "columnId": np.arange(1, X.shape[1] + 1),
            "covariateId": 1000 * np.arange(X.shape[1]) + 210,
            "covariateName": list(X.columns),
            "covariateValue": 0.0,
        }
    )
    columns.to_csv(folder / "covariateImportance.csv", index=False)
    return folder


LEAST = 10


def in_small_leaves(model: RandomForestClassifier, X: pd.DataFrame, least: int) -> float:
    """Share of patients who are, in some tree, in a leaf of fewer patients than ``least``.

    A leaf counts the patients whom its tree drew; those whom it did not draw are in none.
    """
    small = np.zeros(len(X), dtype=bool)
    leaves = model.apply(X.to_numpy())
    for t, drawn in enumerate(model.estimators_samples_):
        rows = np.unique(drawn)
        _, at, sizes = np.unique(leaves[rows, t], return_inverse=True, return_counts=True)
        small[rows[sizes[at] < least]] = True
    return float(small.mean())


def main(arguments: Sequence[str] = ()) -> int:
    """Print a line for each depth."""
    given = options(
        "ohdsi_bundles", __doc__, arguments, rows=1000, columns=60, depths=[4, 17], time_limit=300.0
    )
    X, y = patients(given.rows, given.columns)
    schema, lines = Schema([Binary(name) for name in X.columns]), []
    for depth in given.depths:
        model = RandomForestClassifier(100, max_depth=depth, random_state=12345).fit(X, y)
        with tempfile.TemporaryDirectory() as scratch:
            bundle = write_bundle(Path(scratch) / "plp", model, X, min_cell_count=LEAST)
            start = time.perf_counter()
            found = treeleak.reconstruct(bundle, schema, time_limit=given.time_limit)
            seconds = time.perf_counter() - start
        wrong = np.ones(X.shape) if found.X is None else found.X.to_numpy() != X.to_numpy()
        lines.append({
            "depth": depth, "rows in order": (~wrong.any(axis=1)).mean(),
            "rows exact": 0.0 if found.X is None else exact_row_share(found.X, X),
            "error": wrong.mean(), "status": found.status, "seconds": seconds,
            "patients in small leaves": in_small_leaves(model, X, LEAST),
        })  # fmt: skip
    title = f"{given.rows:,} patients, {given.columns} columns, time limit {given.time_limit:g} s"
    return int(not show(title, lines))
