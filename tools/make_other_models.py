"""Write the tests' small models of libraries beside scikit-learn and boosting, with their truth.

    python -m venv v && v/bin/pip install ydf==0.16.1 pandas
    v/bin/python tools/make_other_models.py ydf tests/models

and the same with

    outcomes      scikit-survival==0.28, quantile-forest==1.4, skops
    ebm           interpret-core==0.6.0 "numpy<2" "pandas<2.3" "scikit-learn<1.4"
    exchange      skl2onnx
    diffprivlib   diffprivlib==0.6.6 "scikit-learn<1.9" skops
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

N = 60


def write_json(path, value):
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")


def outcomes(folder):
    """Survival and quantile forests on the first rows of the Veterans' lung cancer trial."""
    import joblib
    import skops.io
    from quantile_forest import ExtraTreesQuantileRegressor, RandomForestQuantileRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sksurv import ensemble
    from sksurv.datasets import load_veterans_lung_cancer
    from sksurv.tree import SurvivalTree

    columns = ["Age_in_years", "Karnofsky_score", "Months_from_Diagnosis"]
    X, y = load_veterans_lung_cancer()
    X, y = X[columns][:50], y[:50]
    event, time = y["Status"], y["Survival_in_days"]
    few = {"n_estimators": 5, "random_state": 0}
    every = {"max_samples_leaf": None, "random_state": 0}
    survival = {
        "forest": ensemble.RandomSurvivalForest(10, random_state=0),
        "unseeded": ensemble.RandomSurvivalForest(6),
        "all_rows": ensemble.RandomSurvivalForest(3, bootstrap=False, random_state=0),
        "extra": ensemble.ExtraSurvivalTrees(6, random_state=1, low_memory=True),
        "tree": SurvivalTree(random_state=0),
        "boosting": ensemble.GradientBoostingSurvivalAnalysis(**few),
        "linear": ensemble.ComponentwiseGradientBoostingSurvivalAnalysis(**few),
    }
    quantile = {
        "quantile": RandomForestQuantileRegressor(6, random_state=0),
        "every_member": RandomForestQuantileRegressor(4, min_samples_leaf=3, **every),
        "sparse": ExtraTreesQuantileRegressor(4, **every),
        "pipeline": make_pipeline(
            StandardScaler(), RandomForestQuantileRegressor(4, random_state=0)
        ),
    }
    truth = {
        "columns": columns, "X": X.to_numpy().tolist(), "event": event.tolist(),
        "time": time.tolist(), "leaves": {}, "predictions": {},
    }  # fmt: skip
    for name, model in {**survival, **quantile}.items():
        sparse = {"sparse_pickle": True} if name == "sparse" else {}
        model.fit(X, y if name in survival else time, **sparse)
        if name in ("quantile", "tree", "linear"):
            (folder / f"{name}.pkl").write_bytes(pickle.dumps(model, protocol=4))
        elif name in ("forest", "sparse"):
            skops.io.dump(model, folder / f"{name}.skops", compression=8)
        else:
            joblib.dump(model, folder / f"{name}.joblib", compress=9)
        if name in ("forest", "unseeded", "all_rows", "extra", "quantile", "every_member"):
            truth["leaves"][name] = model.apply(X).tolist()
        truth["predictions"][name] = model.predict(X).tolist()
    write_json(folder / "truth.json", truth)


def ydf(folder):
    """Forests of Yggdrasil, and what they predict for rows at thresholds and right below them."""
    import pandas as pd
    import ydf

    ydf.verbose(0)
    hessian = {"num_trees": 2, "use_hessian_gain": True, "l2_regularization": 2.0}
    learners = {
        "forest": (ydf.RandomForestLearner, "class", {"num_trees": 40, "winner_take_all": False}),
        "boosted": (ydf.GradientBoostedTreesLearner, "class", {"num_trees": 5}),
        "several": (ydf.GradientBoostedTreesLearner, "kind", hessian),
        "single": (ydf.CartLearner, "kind", {}),
        "targets": (ydf.RandomForestLearner, "amount", {"num_trees": 3}),
    }
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "size": rng.normal(size=N), "age": rng.integers(0, 9, N),
        "colour": rng.choice(["red", "green", "é blue"], N), "flag": rng.random(N) < 0.4,
    })  # fmt: skip
    inputs, truth = list(X), {}
    X.loc[:4, "size"] = np.nan
    score = X["size"].fillna(0) + X.age / 4 + 2 * (X.colour == "red") + rng.normal(size=N)
    cuts = np.quantile(score, [0.4, 0.7])
    X["class"] = np.where(score > cuts[0], "yes", "no")
    X["kind"] = np.digitize(score, cuts)
    X["amount"] = score.round(2)

    def tests(node):
        if hasattr(node, "condition"):
            yield node.condition
            yield from tests(node.neg_child)
            yield from tests(node.pos_child)

    def plain(rows):
        return json.loads(rows.to_json(orient="split", double_precision=15))

    for name, (learner, target, settings) in learners.items():
        task = ydf.Task.REGRESSION if target == "amount" else ydf.Task.CLASSIFICATION
        model = learner(label=target, task=task, **settings).train(X[[*inputs, target]])
        model.save(str(folder / name), ydf.ModelIOOptions(file_prefix="x_" * (name == "single")))
        # The label comes first among the columns.
        size = model.input_feature_names().index("size") + 1
        found = [
            test.threshold
            for t in range(model.num_trees())
            for test in tests(model.get_tree(t).root)
            if getattr(test, "attribute", None) == size and hasattr(test, "threshold")
        ]
        tried, ends = X[inputs].copy(), np.array(found[: N // 2], dtype=np.float32)
        tried.loc[: len(ends) - 1, "size"] = ends
        below = np.nextafter(ends, np.float32(-np.inf))
        tried.loc[N - len(ends) :, "size"] = below
        predictions = model.predict(tried, use_slow_engine=True).tolist()
        truth[name] = {"tried": plain(tried), "predictions": predictions}
    write_json(folder / "truth.json", {"rows": plain(X), "models": truth})


def ebm(folder):
    """An explainable boosting machine, as a pickle and in the library's JSON; rows are the same."""
    import pandas as pd
    from interpret.glassbox import ExplainableBoostingClassifier

    rng, n = np.random.default_rng(0), 150
    a, b = rng.integers(0, 40, n).astype(float), rng.normal(size=n)
    X = pd.DataFrame({"a": a, "b": b, "c": rng.choice(list("pqr"), n).astype(object)})
    X.loc[::9, "a"] = np.nan
    y = (X.b + rng.normal(size=n) > 0).astype(int).to_numpy()
    model = ExplainableBoostingClassifier(
        interactions=2, outer_bags=2, max_rounds=10, n_jobs=1, max_interaction_bins=8
    ).fit(X, y)
    path = folder / f"{version('interpret-core')}.pkl"
    path.write_bytes(pickle.dumps(model))
    model.to_json(path.with_suffix(".json"))
    document = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(document))
    X.to_csv(folder / "rows.csv", index=False)


def exchange(folder):
    """ONNX models, with what scikit-learn says of them."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DoubleTensorType
    from sklearn import ensemble
    from sklearn.compose import ColumnTransformer
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    iris = load_iris(as_frame=True)
    X = iris.data.astype(np.float32).set_axis(["sl", "sw", "pl", "pw"], axis=1)
    species = np.array(["setosa", "versicolor", "virginica"])[iris.target]
    cancer, sick = load_breast_cancer(return_X_y=True)
    tenths, target = load_diabetes(return_X_y=True)
    cancer, tenths = cancer[:, :6].astype(np.float32), tenths.astype(np.float32)
    columns = make_pipeline(
        ColumnTransformer([("same", "passthrough", list(X))]),
        DecisionTreeClassifier(max_depth=3, random_state=0),
    )
    forest = ensemble.RandomForestClassifier
    boosted = ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)
    models = {
        "forest": (forest(5, random_state=0), X.to_numpy(), iris.target),
        "two_classes": (forest(4, max_depth=4, random_state=0), cancer, sick),
        "columns": (columns, X, species),
        "scaled": (make_pipeline(StandardScaler(), boosted), X.to_numpy(), iris.target),
        "regressor": (
            ensemble.RandomForestRegressor(3, max_depth=4, random_state=0), tenths, target,
        ),
    }  # fmt: skip
    truth = {}
    for name, (model, rows, y) in models.items():
        model.fit(rows, y)
        made = to_onnx(model, rows[:1], target_opset={"": 15, "ai.onnx.ml": 1})
        (folder / f"{name}.onnx").write_bytes(made.SerializeToString())
        last = model[-1] if hasattr(model, "steps") else model
        entered = model[:-1].transform(rows) if hasattr(model, "steps") else rows
        leaves = last.apply(entered).reshape(len(rows), -1)
        answers = (model.predict_proba if hasattr(model, "predict_proba") else model.predict)(rows)
        truth[name] = {
            "leaves": leaves[::4].astype(int).tolist(),
            "answers": np.round(answers[::4], 6).tolist(),
        }
    exact = DecisionTreeClassifier(random_state=0).fit(tenths.astype(float), target > 140)
    types = [("X", DoubleTensorType([None, 10]))]
    made = to_onnx(exact, initial_types=types, target_opset={"": 15, "ai.onnx.ml": 3})
    (folder / "double.onnx").write_bytes(made.SerializeToString())
    write_json(folder / "onnx.json", truth)


def diffprivlib(folder):
    """Private forests. With a budget of a million, leaves name the largest class of their rows."""
    import skops.io
    from diffprivlib.models import RandomForestClassifier

    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 2, (N, 3)).astype(float), rng.integers(0, 3, N)
    name = f"diffprivlib_{version('diffprivlib')}"
    for kind, epsilon in (("certain", 1e6), ("private", 0.75)):
        model = RandomForestClassifier(
            4, epsilon=epsilon, bounds=(0, 1), classes=[0, 1, 2], max_depth=2, random_state=0
        )
        skops.io.dump(model.fit(X, y), folder / f"{name}_{kind}.skops", compression=8)
    write_json(folder / f"{name}.json", {"X": X.tolist(), "y": y.tolist()})


MAKERS = {f.__name__: f for f in (outcomes, ydf, ebm, exchange, diffprivlib)}

if __name__ == "__main__":
    kind, models = sys.argv[1:]
    place = Path(models) / (kind if kind != "diffprivlib" else "")
    place.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    MAKERS[kind](place)
