"""Write small boosted models and the truth about them, with whatever library is installed.

    python -m venv v && v/bin/pip install xgboost==1.7.6 "scikit-learn<1.6" pandas
    v/bin/python tools/make_boosted_models.py xgboost tests/models/boosted

and the same with lightgbm, catboost, or sklearn, which needs skops as well.
Each model is a file in the library's own format; beside it stands what the library says of rows:
the leaf of each in every tree, the sums, and how many training rows lie in each leaf.
"""

from __future__ import annotations

import importlib
import json
import pickle
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np

N, TRIED = 60, 25


def table(seed, missing=0.0, n=N):
    """Rows of a few whole numbers, one column of them codes of categories."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.integers(0, 5, n), rng.integers(0, 2, n), rng.integers(0, 4, n), rng.integers(0, 9, n)]
    ).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X, rng


def target(X, kind, rng):
    """A target that the rows explain in part."""
    sums = np.nan_to_num(X) @ [1.0, 2.0, -1.0, 0.5] + rng.normal(size=len(X))
    if kind == "sets":
        return np.where(np.isin(X[:, 2], (0, 3)), X[:, 0] > 0, X[:, 0] > 3).astype(int)
    if kind == "number":
        return sums.round(2)
    return np.digitize(sums, np.quantile(sums, [0.5] if kind == "binary" else [0.3, 0.7]))


def told(leaves, margin, counts, tried):
    """What a library says of a model, for JSON."""
    rows = [[None if np.isnan(x) else x for x in row] for row in np.asarray(tried).tolist()]
    leaves, margin = np.asarray(leaves), np.asarray(margin, dtype=float)
    return {
        "rows": rows,
        "leaves": leaves.reshape(len(rows), -1).astype(int).tolist(),
        "margin": margin.reshape(len(rows), -1).tolist(),
        "counts": [np.bincount(own).tolist() for own in np.asarray(counts).astype(int).T],
    }


def xgboost(folder, library):
    """Every kind that the reader tells apart."""
    cases = {
        "regression.json": ("number", {"objective": "reg:squarederror"}, 3, 0.0),
        "logistic.ubj": ("binary", {"objective": "binary:logistic"}, 3, 0.1),
        "softprob.json": ("classes", {"objective": "multi:softprob", "num_class": 3}, 2, 0.0),
        "forest.json": ("binary", {"num_parallel_tree": 3, "objective": "binary:logistic"}, 2, 0.0),
        "dart.json": ("number", {"booster": "dart", "rate_drop": 0.5}, 4, 0.0),
        "categories.json": ("sets", {"tree_method": "hist", "max_cat_to_onehot": 1}, 2, 0.1),
        "subsample.ubj": ("number", {"subsample": 0.5}, 4, 0.0),
        "pickled.pkl": ("number", {"subsample": 1.0}, 2, 0.0),
    }
    for i, (name, (kind, params, rounds, missing)) in enumerate(cases.items()):
        X, rng = table(i, missing)
        tried, _ = table(100 + i, missing, TRIED)
        types = ["q", "q", "c" if name == "categories.json" else "q", "q"]

        def data(rows, labels=None, types=types):
            return library.DMatrix(rows, labels, feature_types=types, enable_categorical=True)

        own = {"max_depth": 3, "seed": 1, "nthread": 1, "base_score": 0.4} | params
        if kind == "sets":
            own["objective"] = "binary:logistic"
        if name in ("regression.json", "softprob.json"):
            del own["base_score"]
        booster = library.train(own, data(X, target(X, kind, rng)), rounds)
        if name.endswith("pkl"):
            folder.joinpath(name).write_bytes(pickle.dumps(booster, protocol=4))
        else:
            booster.save_model(folder / name)
        leaves, counts = (booster.predict(data(rows), pred_leaf=True) for rows in (tried, X))
        margin = booster.predict(data(tried), output_margin=True)
        counts = np.reshape(counts, (N, -1))
        yield name, told(leaves, margin, counts, tried)


def lightgbm(folder, library):
    """Every kind that the reader tells apart."""
    small = {"num_leaves": 6, "min_data_in_leaf": 3, "min_data_in_bin": 1, "verbose": -1, "seed": 1}
    small |= {"num_threads": 1}
    sharp = {"cat_smooth": 1, "cat_l2": 0, "min_data_per_group": 1, "max_cat_to_onehot": 1}
    cases = {
        "binary.txt": ("binary", {"objective": "binary"}, 3, 0.0),
        "multiclass.txt": ("classes", {"objective": "multiclass", "num_class": 3}, 2, 0.0),
        "regression.txt": ("number", {"objective": "regression"}, 3, 0.15),
        "categories.txt": ("sets", {"objective": "binary"} | sharp, 2, 0.1),
        "bagged.txt": ("number", {"bagging_freq": 1, "bagging_fraction": 0.5}, 2, 0.0),
        "pickled.pkl": ("binary", {"objective": "binary"}, 2, 0.0),
    }
    for i, (name, (kind, params, rounds, missing)) in enumerate(cases.items()):
        X, rng = table(i, missing)
        tried, _ = table(100 + i, missing, TRIED)
        columns = [2] if name == "categories.txt" else "auto"
        data = library.Dataset(X, target(X, kind, rng), categorical_feature=columns)
        booster = library.train(small | params, data, rounds)
        if name.endswith("pkl"):
            folder.joinpath(name).write_bytes(pickle.dumps(booster, protocol=4))
        else:
            booster.save_model(str(folder / name))
        leaves, counts = (booster.predict(rows, pred_leaf=True) for rows in (tried, X))
        margin = booster.predict(tried, raw_score=True)
        yield name, told(leaves, margin, counts.reshape(N, -1), tried)


def catboost(folder, library):
    """Every kind that the reader tells apart; of binary models, one."""
    cases = {
        "logloss.json": ("binary", {"loss_function": "Logloss"}, 3, 0.0),
        "multiclass.json": ("classes", {"loss_function": "MultiClass"}, 2, 0.0),
        "rmse.json": ("number", {"loss_function": "RMSE", "nan_mode": "Max"}, 3, 0.15),
        "lossguide.json": (
            "binary",
            {"grow_policy": "Lossguide", "loss_function": "Logloss"},
            2,
            0,
        ),
        "logloss.cbm": ("binary", {"loss_function": "Logloss"}, 3, 0.0),
    }
    for i, (name, (kind, params, rounds, missing)) in enumerate(cases.items()):
        X, rng = table(i, missing)
        tried, _ = table(100 + i, missing, TRIED)
        own = {"iterations": rounds, "depth": 3, "verbose": 0, "allow_writing_files": False}
        own |= {"learning_rate": 0.5, "random_seed": 1, "thread_count": 1}
        model = library.CatBoost(own | params).fit(X, target(X, kind, rng))
        model.save_model(str(folder / name), format=name.rpartition(".")[2])
        leaves, counts = (model.calc_leaf_indexes(rows) for rows in (tried, X))
        margin = model.predict(tried, prediction_type="RawFormulaVal")
        yield name, told(leaves, margin, np.reshape(counts, (N, -1)), tried)


def apply_histogram(nodes, rows):
    """Go down a tree of HistGradientBoosting, as the rows would."""
    at = np.zeros(len(rows), dtype=int)
    while (inner := nodes["is_leaf"][at] == 0).any():
        own = nodes[at]
        value = rows[np.arange(len(rows)), own["feature_idx"]]
        missing = np.isnan(value)
        left = np.where(missing, own["missing_go_to_left"] == 1, value <= own["num_threshold"])
        at = np.where(inner, np.where(left, own["left"], own["right"]), at)
    return at


def scikit_learn(folder, library):
    """Boosting, and forests of regression; only of boosting is it said what the library says."""
    import skops.io

    ensemble, tree = (
        importlib.import_module(f"{library.__name__}.{part}") for part in ("ensemble", "tree")
    )
    few = {"n_estimators": 3, "random_state": 0}
    hist = {"max_iter": 3, "max_leaf_nodes": 5, "min_samples_leaf": 5, "random_state": 0}
    cases = {
        "histogram.skops": ("binary", ensemble.HistGradientBoostingClassifier(**hist), 0.1),
        "histogram_classes.pkl": ("classes", ensemble.HistGradientBoostingClassifier(**hist), 0.0),
        "histogram_number.skops": ("number", ensemble.HistGradientBoostingRegressor(**hist), 0.1),
        "boosting.skops": ("binary", ensemble.GradientBoostingClassifier(**few), 0.0),
        "boosting_number.pkl": ("number", ensemble.GradientBoostingRegressor(**few), 0.0),
        "ada.pkl": ("binary", ensemble.AdaBoostClassifier(**few), 0.0),
        "forest_number.skops": ("number", ensemble.RandomForestRegressor(**few), 0.0),
        "extra_number.pkl": ("number", ensemble.ExtraTreesRegressor(**few), 0.0),
        "tree_number.skops": ("number", tree.DecisionTreeRegressor(random_state=0), 0.0),
        "isolation.skops": ("number", ensemble.IsolationForest(**few), 0.0),
    }
    for i, (name, (kind, model, missing)) in enumerate(cases.items()):
        X, rng = table(i, missing)
        tried, _ = table(100 + i, missing, TRIED)
        model.fit(X, target(X, kind, rng))
        if name.endswith("pkl"):
            folder.joinpath(name).write_bytes(pickle.dumps(model, protocol=4))
        else:
            skops.io.dump(model, folder / name, compression=zipfile.ZIP_DEFLATED)
        if name.startswith("histogram"):
            trees = [own.nodes for grown in model._predictors for own in grown]
            leaves, counts = (
                np.column_stack([apply_histogram(own, rows) for own in trees])
                for rows in (tried, X)
            )
            margin = model._raw_predict(tried)
        elif name.startswith("boosting"):
            leaves, counts = (model.apply(rows).reshape(len(rows), -1) for rows in (tried, X))
            margin = getattr(model, "decision_function", model.predict)(tried)
        else:
            yield name, {}
            continue
        yield name, told(leaves, margin, counts, tried)


def main(name, folder):
    """Write the models of one library, and one file of what it says of them."""
    library = importlib.import_module(name)
    own = Path(folder) / f"{name}-{library.__version__}"
    own.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = dict(
            {
                "catboost": catboost,
                "lightgbm": lightgbm,
                "sklearn": scikit_learn,
                "xgboost": xgboost,
            }[name](own, library)
        )
    (own / "truth.json").write_text(json.dumps(truth) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
