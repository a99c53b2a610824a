"""Write small models and the truth about them, with whatever scikit-learn is installed.

Run once per version that the tests should know::

    python -m venv v && v/bin/pip install scikit-learn==1.5.2 skops==0.10.0 pandas joblib
    v/bin/python tools/make_fixture_models.py tests/models

Each model is one file and one JSON beside it. The JSON holds what every node of every tree really
saw: the training rows are pushed through scikit-learn's own trees, with the draws that it made.
``draws.json`` holds these draws: how often each tree of each bootstrapped model drew each row.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import sklearn
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
    _forest,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_sample_weight

N = 30
VERSION = tuple(int(p) for p in sklearn.__version__.split(".")[:2])


def data():
    """Make rows, labels and row weights."""
    rng = np.random.RandomState(7)
    X = rng.randint(0, 5, (N, 4)).astype(float)
    y = np.array(["no", "often", "yes"])[rng.choice(3, N, p=[0.5, 0.15, 0.35])]
    weights = rng.choice([0.5, 1.0, 2.5], N)
    return X, y, weights


def models():
    """Yield name, file ending, model, table, labels and options of fit."""
    X, y, weights = data()
    gaps = X.copy()
    gaps[y == "yes", 1] = np.nan
    table = pd.DataFrame(X[:, :2], columns=["age", "size"])
    table["job"] = np.array(["cook", "judge", "smith"])[X[:, 2].astype(int) % 3]
    few = {"n_estimators": 3, "random_state": 0}
    names = Pipeline(
        [
            (
                "columns",
                ColumnTransformer(
                    [("job", OneHotEncoder(), ["job"]), ("rest", StandardScaler(), ["age", "size"])]
                ),
            ),
            ("forest", RandomForestClassifier(bootstrap=False, **few)),
        ]
    )
    yield "tree", "joblib", DecisionTreeClassifier(random_state=0), X, y, {}
    yield "missing", "skops", DecisionTreeClassifier(random_state=0), gaps, y, {}
    yield "all_rows", "skops", RandomForestClassifier(bootstrap=False, **few), X, y, {}
    yield "extra", "skops", ExtraTreesClassifier(**few), X, y, {}
    yield "drawn", "pkl", RandomForestClassifier(max_samples=0.7, **few), X, y, {}
    for rule in ("balanced", "balanced_subsample"):
        yield rule, "skops", RandomForestClassifier(class_weight=rule, **few), X, y, {}
    by_class = {"no": 1.0, "often": 3.25, "yes": 0.4}
    forest = RandomForestClassifier(bootstrap=False, class_weight=by_class, **few)
    yield "class_weight", "skops", forest, X, y, {}
    fit = {"sample_weight": weights}
    yield "row_weight", "skops", RandomForestClassifier(**few), X, y, fit
    bag = BaggingClassifier(DecisionTreeClassifier(), max_features=3, **few)
    yield "bagging", "skops", bag, X, y, {}
    yield "bagging_row_weight", "skops", bag, X, y, fit
    yield "pipeline", "skops", names, table, y, {}
    extra = ExtraTreesClassifier(bootstrap=True, max_samples=25, **few)
    yield "drawn_extra", "skops", extra, X, y, {}
    bag = BaggingClassifier(DecisionTreeClassifier(), **few)
    yield "bagging_rows", "skops", bag, X, y, {}
    bag = BaggingClassifier(
        DecisionTreeClassifier(), max_features=0.5, bootstrap_features=True, max_samples=20, **few
    )
    yield "bagging_columns", "skops", bag, X, y, {}


def draws(model, n_trees):
    """How often each tree drew each row."""
    if not getattr(model, "bootstrap", False):
        return np.ones((n_trees, N))
    if hasattr(model, "estimators_samples_"):
        drawn = model.estimators_samples_
    else:
        most = _forest._get_n_samples_bootstrap(N, model.max_samples)
        seeds = [t.random_state for t in model.estimators_]
        drawn = [_forest._generate_sample_indices(s, N, most) for s in seeds]
    return np.array([np.bincount(d, minlength=N) for d in drawn], dtype=float)


def weights(model, times, y, sample_weight):
    """The weight that each tree gave to each row."""
    since = (1, 8) if isinstance(model, BaggingClassifier) else (1, 9)
    in_draws = getattr(model, "bootstrap", False) and since <= VERSION
    given = np.ones(N) if sample_weight is None or in_draws else sample_weight
    rule = getattr(model, "class_weight", None)
    per_tree = []
    for t in times:
        by_class = np.ones(N)
        if rule == "balanced_subsample":
            indices = np.repeat(np.arange(N), t.astype(int))
            by_class = compute_sample_weight("balanced", y, indices=indices)
        elif rule is not None and not in_draws:
            by_class = compute_sample_weight(rule, y)
        per_tree.append(t * given * by_class)
    return np.array(per_tree)


def paths(tree, X):
    """Which row passes which node, shape (n_nodes, n_rows); from leaves up."""
    inner = tree.tree_
    # Before 1.8 decision_path sends missing values astray.
    passes = (tree.apply(X)[None, :] == np.arange(inner.node_count)[:, None]).astype(float)
    for node in reversed(range(inner.node_count)):
        if inner.children_left[node] >= 0:
            passes[node] = passes[inner.children_left[node]] + passes[inner.children_right[node]]
    return passes


def truth(model, X, y, sample_weight=None):
    """Describe what every node of every tree really saw."""
    trees = getattr(model, "estimators_", [model])
    columns = getattr(model, "estimators_features_", [slice(None)] * len(trees))
    times = draws(model, len(trees))
    weight = weights(model, times, y, sample_weight)
    labels = y[:, None] == model.classes_[None, :]
    nodes = [
        paths(t, np.asarray(X, dtype=np.float32)[:, c]) for t, c in zip(trees, columns, strict=True)
    ]
    seen = list(zip(nodes, times, weight, strict=True))
    return {
        "sklearn": sklearn.__version__,
        "classes": model.classes_.tolist(),
        "n_rows": N,
        "counts": [(p @ (labels * t[:, None])).tolist() for p, t, _ in seen],
        "weights": [
            (p @ (labels * w[:, None])).tolist() for p, w in zip(nodes, weight, strict=True)
        ],
        "distinct": [(p @ (w > 0)).tolist() for p, _, w in seen],
    }


def main(folder):
    """Write every model and its JSON below ``folder``."""
    out = Path(folder) / sklearn.__version__
    out.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for name, ending, model, X, y, fit in models():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y, **fit)
        last, inputs = model, X
        if isinstance(model, Pipeline):
            last, inputs = model[-1], model[:-1].transform(X)
        known = truth(last, inputs, y, **fit)
        if getattr(last, "bootstrap", False):
            drawn[name] = draws(last, len(last.estimators_)).astype(int).tolist()
        known["columns"] = [f"x{i}" for i in range(inputs.shape[1])]
        if isinstance(model, Pipeline):
            known["columns"] = model[:-1].get_feature_names_out().tolist()
        known["missing"] = ["x1"] if name == "missing" else []
        path = out / f"{name}.{ending}"
        if ending == "skops":
            skops.io.dump(model, path, compression=zipfile.ZIP_DEFLATED, compresslevel=9)
        elif ending == "joblib":
            joblib.dump(model, path, compress=("zlib", 9))
        else:
            path.write_bytes(pickle.dumps(model, protocol=4))
        path.with_suffix(".json").write_text(json.dumps(known, separators=(",", ":")) + "\n")
    (out / "draws.json").write_text(json.dumps(drawn, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
