"""OHDSI bundles as PatientLevelPrediction writes them, made of fitted scikit-learn models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier


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
