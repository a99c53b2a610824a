"""Write small CatBoost models with statistics of the target, and the rows that they count.

    python -m venv v && v/bin/pip install catboost==1.2.10 pandas
    v/bin/python tools/make_catboost_ctr.py tests/models/catboost-ctr

``truth.json`` has the rows, the targets by name, the target of each model, and CatBoost's hashes of
the texts, which it tells where a model is saved with a pool of rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import catboost
import numpy as np
import pandas as pd

CATEGORIES = ["city", "kind", "flag"]
MODELS = {
    "binary": ("class", {"iterations": 25, "depth": 4}),
    "texts": ("class", {"iterations": 6, "depth": 2}),
    "three": ("three", {"iterations": 6, "depth": 2, "loss_function": "MultiClass"}),
    "number": ("number", {"iterations": 10, "depth": 3, "loss_function": "RMSE"}),
    "lossguide": ("class", {"iterations": 6, "depth": 3, "grow_policy": "Lossguide"}),
    "weights": ("class", {"iterations": 6, "depth": 3, "class_weights": [1, 3]}),
}


def table():
    """Rows of a number and of texts, one of which only one row has."""
    rng = np.random.default_rng(0)
    n = 60
    cities = ["oslo", "rome", "lima", "cairo", "quito"]
    X = pd.DataFrame({
        "n": rng.integers(0, 8, n).astype(float), "city": rng.choice(cities, n),
        "kind": rng.choice(["new", "old", "used"], n), "flag": rng.choice(["yes", "no"], n),
    })  # fmt: skip
    X.loc[7, "city"] = "vaduz"
    score = X["n"] / 4 + X["city"].map(len) % 3 + (X["kind"] == "old") + rng.normal(size=n)
    return X, {
        "class": (score > score.median()).astype(int).tolist(),
        "three": np.digitize(score, np.quantile(score, [0.3, 0.7])).tolist(),
        "number": score.round(2).tolist(),
    }


def main(folder):
    """Train, and write everything."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    X, targets = table()
    for name, (target, params) in MODELS.items():
        pool = catboost.Pool(X, targets[target], cat_features=CATEGORIES)
        model = catboost.CatBoost({
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
    truth = {
        "rows": X.to_dict("list"), "targets": targets, "hashes": hashes,
        "kinds": {name: target for name, (target, _) in MODELS.items()},
    }  # fmt: skip
    (folder / "truth.json").write_text(json.dumps(truth) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
