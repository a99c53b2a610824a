"""Make the small ONNX models of the tests, with what scikit-learn says of them.

Needs skl2onnx; run it from the root of a checkout. Tests read what is kept.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

FOLDER = Path(__file__).parents[1] / "tests/models/exchange"


def main() -> None:
    iris = load_iris(as_frame=True)
    X = iris.data.astype(np.float32).set_axis(["sl", "sw", "pl", "pw"], axis=1)
    species = np.array(["setosa", "versicolor", "virginica"])[iris.target]
    cancer, sick = load_breast_cancer(return_X_y=True)
    tenths, target = load_diabetes(return_X_y=True)
    cancer, tenths = cancer[:, :6].astype(np.float32), tenths.astype(np.float32)
    matrix = X.to_numpy()
    columns = make_pipeline(
        ColumnTransformer([("same", "passthrough", list(X))]),
        DecisionTreeClassifier(max_depth=3, random_state=0),
    )
    boosted = GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0)
    models = {
        "forest": (RandomForestClassifier(5, random_state=0), matrix, iris.target, matrix[:1]),
        "two_classes": (RandomForestClassifier(4, max_depth=4, random_state=0), cancer, sick,
                        cancer[:1]),
        "columns": (columns, X, species, X[:1]),
        "scaled": (make_pipeline(StandardScaler(), boosted), matrix, iris.target, matrix[:1]),
        "regressor": (RandomForestRegressor(3, max_depth=4, random_state=0), tenths, target,
                      tenths[:1]),
    }  # fmt: skip
    truth = {}
    for name, (model, rows, y, example) in models.items():
        model.fit(rows, y)
        made = to_onnx(model, example, target_opset={"": 15, "ai.onnx.ml": 1})
        (FOLDER / f"{name}.onnx").write_bytes(made.SerializeToString())
        last = model[-1] if hasattr(model, "steps") else model
        entered = model[:-1].transform(rows) if hasattr(model, "steps") else rows
        leaves = last.apply(entered).reshape(len(rows), -1)
        answers = (model.predict_proba if hasattr(model, "predict_proba") else model.predict)(rows)
        some = slice(0, None, 4)
        truth[name] = {
            "leaves": leaves[some].astype(int).tolist(),
            "answers": np.round(answers[some], 6).tolist(),
        }
    exact = DecisionTreeClassifier(random_state=0).fit(tenths.astype(float), target > 140)
    made = to_onnx(
        exact,
        initial_types=[("X", DoubleTensorType([None, 10]))],
        target_opset={"": 15, "ai.onnx.ml": 3},
    )
    (FOLDER / "double.onnx").write_bytes(made.SerializeToString())
    (FOLDER / "onnx.json").write_text(json.dumps(truth))


if __name__ == "__main__":
    main()
