"""Write small boosted models and what their library says of rows, with the version installed.

    python -m venv v && v/bin/pip install xgboost==1.7.6 "scikit-learn<1.6" pandas
    v/bin/python tools/make_boosted_models.py xgboost tests/models/boosted

and the same with lightgbm, catboost, or sklearn, which needs skops as well. Each model is a file in
the library's own format; ``truth.json`` has the leaf of rows in every tree, the sums, and how many
training rows lie in each leaf. With other names:

    printed-xgboost tests/models/printed     old binary forms (0.90, 1.2.1, 1.7.6), printed trees
    printed-lightgbm tests/models/printed    prints the models in tests/models/boosted
    catboost-ctr tests/models/catboost-ctr   statistics of the target, and the rows that they count
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

N, TRIED, N_PRINTED = 60, 25, 40
OLD_UNTIL = (2, 0)
BOOSTED = Path(__file__).parents[1] / "tests" / "models" / "boosted"
XGBOOST = {
    "regression.json": ("number", {"objective": "reg:squarederror"}, 3, 0.0),
    "logistic.ubj": ("binary", {"objective": "binary:logistic"}, 3, 0.1),
    "softprob.json": ("classes", {"objective": "multi:softprob", "num_class": 3}, 2, 0.0),
    "forest.json": ("binary", {"num_parallel_tree": 3, "objective": "binary:logistic"}, 2, 0.0),
    "dart.json": ("number", {"booster": "dart", "rate_drop": 0.5}, 4, 0.0),
    "categories.json": ("sets", {"tree_method": "hist", "max_cat_to_onehot": 1}, 2, 0.1),
    "subsample.ubj": ("number", {"subsample": 0.5}, 4, 0.0),
    "pickled.pkl": ("number", {"subsample": 1.0}, 2, 0.0),
}
SHARP = {"cat_smooth": 1, "cat_l2": 0, "min_data_per_group": 1, "max_cat_to_onehot": 1}
LIGHTGBM = {
    "binary.txt": ("binary", {"objective": "binary"}, 3, 0.0),
    "multiclass.txt": ("classes", {"objective": "multiclass", "num_class": 3}, 2, 0.0),
    "regression.txt": ("number", {"objective": "regression"}, 3, 0.15),
    "categories.txt": ("sets", {"objective": "binary"} | SHARP, 2, 0.1),
    "bagged.txt": ("number", {"bagging_freq": 1, "bagging_fraction": 0.5}, 2, 0.0),
    "pickled.pkl": ("binary", {"objective": "binary"}, 2, 0.0),
}
LOSSGUIDE = {"grow_policy": "Lossguide", "loss_function": "Logloss"}
CATBOOST = {
    "logloss.json": ("binary", {"loss_function": "Logloss"}, 3, 0.0),
    "multiclass.json": ("classes", {"loss_function": "MultiClass"}, 2, 0.0),
    "rmse.json": ("number", {"loss_function": "RMSE", "nan_mode": "Max"}, 3, 0.15),
    "lossguide.json": ("binary", LOSSGUIDE, 2, 0.0),
    "logloss.cbm": ("binary", {"loss_function": "Logloss"}, 3, 0.0),
}
FEW = {"n_estimators": 3, "random_state": 0}
HIST = {"max_iter": 3, "max_leaf_nodes": 5, "min_samples_leaf": 5, "random_state": 0}
SKLEARN = {
    "histogram.skops": ("binary", ("HistGradientBoostingClassifier", HIST), 0, 0.1),
    "histogram_classes.pkl": ("classes", ("HistGradientBoostingClassifier", HIST), 0, 0.0),
    "histogram_number.skops": ("number", ("HistGradientBoostingRegressor", HIST), 0, 0.1),
    "boosting.skops": ("binary", ("GradientBoostingClassifier", FEW), 0, 0.0),
    "boosting_number.pkl": ("number", ("GradientBoostingRegressor", FEW), 0, 0.0),
    "ada.pkl": ("binary", ("AdaBoostClassifier", FEW), 0, 0.0),
    "forest_number.skops": ("number", ("RandomForestRegressor", FEW), 0, 0.0),
    "extra_number.pkl": ("number", ("ExtraTreesRegressor", FEW), 0, 0.0),
    "tree_number.skops": ("number", ("DecisionTreeRegressor", {"random_state": 0}), 0, 0.0),
    "isolation.skops": ("number", ("IsolationForest", FEW), 0, 0.0),
}


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


def plain(rows):
    """Rows for JSON, in which a missing value is null."""
    return [[None if np.isnan(x) else x for x in row] for row in np.asarray(rows).tolist()]


def save(model, path, write):
    """Write a model as its library does, or as a pickle."""
    if path.suffix == ".pkl":
        path.write_bytes(pickle.dumps(model, protocol=4))
    else:
        write(str(path))


# Each trains one model and saves it, and gives what says the leaves and the sums of rows.


def xgboost(library, path, kind, params, rounds, X, y):
    types = ["q", "q", "c" if kind == "sets" else "q", "q"]

    def data(rows, labels=None):
        return library.DMatrix(rows, labels, feature_types=types, enable_categorical=True)

    own = {"max_depth": 3, "seed": 1, "nthread": 1, "base_score": 0.4} | params
    if kind == "sets":
        own["objective"] = "binary:logistic"
    if path.name in ("regression.json", "softprob.json"):
        del own["base_score"]
    booster = library.train(own, data(X, y), rounds)
    save(booster, path, booster.save_model)
    return (
        lambda rows: booster.predict(data(rows), pred_leaf=True),
        lambda rows: booster.predict(data(rows), output_margin=True),
    )


def lightgbm(library, path, kind, params, rounds, X, y):
    small = {"num_leaves": 6, "min_data_in_leaf": 3, "min_data_in_bin": 1, "verbose": -1, "seed": 1}
    data = library.Dataset(X, y, categorical_feature=[2] if kind == "sets" else "auto")
    booster = library.train(small | {"num_threads": 1} | params, data, rounds)
    save(booster, path, booster.save_model)
    return (
        lambda rows: booster.predict(rows, pred_leaf=True),
        lambda rows: booster.predict(rows, raw_score=True),
    )


def catboost(library, path, _, params, rounds, X, y):
    own = {"iterations": rounds, "depth": 3, "verbose": 0, "allow_writing_files": False}
    own |= {"learning_rate": 0.5, "random_seed": 1, "thread_count": 1}
    model = library.CatBoost(own | params).fit(X, y)
    model.save_model(str(path), format=path.suffix[1:])
    return (
        model.calc_leaf_indexes,
        lambda rows: model.predict(rows, prediction_type="RawFormulaVal"),
    )


def scikit_learn(library, path, _kind, params, _rounds, X, y):
    """Boosting, and forests of regression; only of boosting is it said what the library says."""
    import skops.io

    name, given = params
    module = "tree" if name.startswith("DecisionTree") else "ensemble"
    cls = getattr(importlib.import_module(f"{library.__name__}.{module}"), name)
    model = cls(**given).fit(X, y)
    save(model, path, lambda to: skops.io.dump(model, to, compression=zipfile.ZIP_DEFLATED))
    if name.startswith("HistGradient"):
        trees = [own.nodes for grown in model._predictors for own in grown]
        return (
            lambda rows: np.column_stack([apply_histogram(own, rows) for own in trees]),
            model._raw_predict,
        )
    if name.startswith("GradientBoosting"):
        return model.apply, getattr(model, "decision_function", model.predict)
    return None


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


LIBRARIES = {
    "xgboost": (XGBOOST, xgboost),
    "lightgbm": (LIGHTGBM, lightgbm),
    "catboost": (CATBOOST, catboost),
    "sklearn": (SKLEARN, scikit_learn),
}


def boosted(folder, library):
    """Every kind that the reader tells apart."""
    cases, train = LIBRARIES[library.__name__]
    truth = {}
    for i, (name, (kind, params, rounds, missing)) in enumerate(cases.items()):
        X, rng = table(i, missing)
        tried, _ = table(100 + i, missing, TRIED)
        said = train(library, folder / name, kind, params, rounds, X, target(X, kind, rng))
        truth[name] = {}
        if said is not None:
            leaves, margin = said
            counts = np.reshape(leaves(X), (N, -1)).astype(int)
            truth[name] = {
                "rows": plain(tried),
                "leaves": np.reshape(leaves(tried), (TRIED, -1)).astype(int).tolist(),
                "margin": np.reshape(margin(tried), (TRIED, -1)).astype(float).tolist(),
                "counts": [np.bincount(own).tolist() for own in counts.T],
            }
    return truth


def printed_xgboost(folder, library):
    """The old binary form where the library writes it, printed trees, and JSON of the same."""
    version = tuple(int(part) for part in library.__version__.split(".")[:2])
    old, truth = version < OLD_UNTIL, {}
    cases = {
        "logistic": {"objective": "binary:logistic"},
        "share": {"objective": "binary:logistic", "base_score": 0.3, "eta": 0.1, "lambda": 2},
        "softprob": {"objective": "multi:softprob", "num_class": 3},
        "poisson": {"objective": "count:poisson"},
        "squared": {"objective": "reg:squarederror", "max_depth": 4},
        "dart": {"booster": "dart", "rate_drop": 0.5, "objective": "reg:squarederror"},
    }
    for k, (name, params) in enumerate(cases.items()):
        if name in ("poisson", "dart") and not old:
            continue
        rng = np.random.default_rng(k)
        X = np.column_stack([rng.integers(0, n, N_PRINTED) for n in (5, 2, 4, 9)]).astype(float)
        X[:, 3] += rng.integers(0, 4, N_PRINTED) / 4
        X[rng.random(X.shape) < 0.05] = np.nan
        sums = np.nan_to_num(X) @ [1.0, 2.0, -1.0, 0.5] + rng.normal(size=N_PRINTED)
        classes = np.digitize(sums, np.quantile(sums, [0.3, 0.7]))
        y = {"softprob": classes, "poisson": np.abs(sums).round(), "squared": sums.round(2),
             "dart": sums.round(2)}.get(name, (sums > np.median(sums)).astype(int))  # fmt: skip
        start = {} if name == "share" else {"base_score": 0.5}
        own = {"max_depth": 3, "seed": 1, "nthread": 1, "eval_metric": "rmse"} | start | params
        names = ["age", "sex at birth", "c", "d"] if name in ("share", "squared") else None
        data = library.DMatrix(X, y, feature_names=names)
        booster = library.train(own, data, 4)
        if old:
            booster.save_model(str(folder / f"{name}.model"))
        else:
            printed = str(folder / f"{name}.printed.json")
            booster.dump_model(printed, with_stats=True, dump_format="json")
        if version >= (1, 0):
            booster.save_model(str(folder / f"{name}.json"))
        # Before 1.4, dart drops trees in predictions unless it is told how many there are.
        limit = {"ntree_limit": 4} if version < (1, 4) else {}
        margin = booster.predict(data, output_margin=True, **limit)
        truth[name] = {"rows": plain(X), "margin": np.reshape(margin, (N_PRINTED, -1)).tolist()}
    return truth


def printed_lightgbm(folder, library):
    """Print the models of the same version."""
    for text in sorted((BOOSTED / f"lightgbm-{library.__version__}").glob("*.txt")):
        booster = library.Booster(model_file=text)
        (folder / f"{text.stem}.json").write_text(json.dumps(booster.dump_model()) + "\n")


def catboost_ctr(folder, library):
    """Statistics of the target; hashes of texts are told where a model is saved with its rows."""
    import pandas as pd

    rng, n = np.random.default_rng(0), N
    cities = ["oslo", "rome", "lima", "cairo", "quito"]
    X = pd.DataFrame({
        "n": rng.integers(0, 8, n).astype(float), "city": rng.choice(cities, n),
        "kind": rng.choice(["new", "old", "used"], n), "flag": rng.choice(["yes", "no"], n),
    })  # fmt: skip
    X.loc[7, "city"] = "vaduz"
    score = X["n"] / 4 + X["city"].map(len) % 3 + (X["kind"] == "old") + rng.normal(size=n)
    targets = {
        "class": (score > score.median()).astype(int).tolist(),
        "three": np.digitize(score, np.quantile(score, [0.3, 0.7])).tolist(),
        "number": score.round(2).tolist(),
    }
    kinds = {}
    for name, of, params in (
        ("binary", "class", {"iterations": 25, "depth": 4}),
        ("texts", "class", {"iterations": 6, "depth": 2}),
        ("three", "three", {"iterations": 6, "depth": 2, "loss_function": "MultiClass"}),
        ("number", "number", {"iterations": 10, "depth": 3, "loss_function": "RMSE"}),
        ("lossguide", "class", {"iterations": 6, "depth": 3, "grow_policy": "Lossguide"}),
        ("weights", "class", {"iterations": 6, "depth": 3, "class_weights": [1, 3]}),
    ):
        kinds[name] = of
        pool = library.Pool(X, targets[of], cat_features=["city", "kind", "flag"])
        model = library.CatBoost({
            "loss_function": "Logloss", "verbose": 0, "allow_writing_files": False,
            "thread_count": 1, "random_seed": 1, "model_size_reg": 0, **params,
        }).fit(pool)  # fmt: skip
        path = folder / f"{name}.json"
        model.save_model(str(path), format="json", pool=pool)
        root = json.loads(path.read_text())
        listed = root["features_info"]["cat_features_hash"]
        if name != "texts":
            del root["features_info"]["cat_features_hash"]
        path.write_text(json.dumps(root))
    hashes = {e["value"]: (e["hash"] + 2**31) % 2**32 - 2**31 for e in listed}
    return {"rows": X.to_dict("list"), "targets": targets, "hashes": hashes, "kinds": kinds}


OTHERS = {
    "printed-xgboost": printed_xgboost,
    "printed-lightgbm": printed_lightgbm,
    "catboost-ctr": catboost_ctr,
}


def main(name, folder):
    """Write the models of one library, and one file of what it says of them."""
    library = importlib.import_module(name.removeprefix("printed-").removesuffix("-ctr"))
    own = Path(folder)
    if name != "catboost-ctr":
        own /= f"{library.__name__}-{library.__version__}"
    own.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = OTHERS.get(name, boosted)(own, library)
    if truth is not None:
        (own / "truth.json").write_text(json.dumps(truth) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
