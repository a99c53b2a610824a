"""Write small boosted models in old and printed forms, and what their library predicts.

    python -m venv v && v/bin/pip install xgboost==1.7.6 "numpy<2" scipy
    v/bin/python tools/make_printed_models.py xgboost tests/models/printed

and the same with xgboost 0.90, 1.2.1 (the old binary form) and 3.2.0 (printed trees). With
lightgbm, the models that lie in tests/models/boosted are printed (dump_model).
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np

N = 40
OLD_UNTIL = (2, 0)
BOOSTED = Path(__file__).parents[1] / "tests" / "models" / "boosted"


def table(seed):
    """Rows of a few whole numbers, some missing, and one column of many values."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, k, N) for k in (5, 2, 4, 9)]).astype(float)
    X[:, 3] += rng.integers(0, 4, N) / 4
    X[rng.random(X.shape) < 0.05] = np.nan
    sums = np.nan_to_num(X) @ [1.0, 2.0, -1.0, 0.5] + rng.normal(size=N)
    return X, sums


def xgboost(folder, library):
    """The old binary form where the library writes it, printed trees, and JSON of the same."""
    version = tuple(int(part) for part in library.__version__.split(".")[:2])
    old, cases = version < OLD_UNTIL, {
        "logistic": {"objective": "binary:logistic"},
        "share": {"objective": "binary:logistic", "base_score": 0.3, "eta": 0.1, "lambda": 2},
        "softprob": {"objective": "multi:softprob", "num_class": 3},
        "poisson": {"objective": "count:poisson"},
        "squared": {"objective": "reg:squarederror", "max_depth": 4},
        "dart": {"booster": "dart", "rate_drop": 0.5, "objective": "reg:squarederror"},
    }  # fmt: skip
    truth = {}
    for k, (name, params) in enumerate(cases.items()):
        if name in ("poisson", "dart") and not old:
            continue
        X, sums = table(k)
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
            booster.dump_model(str(folder / f"{name}.printed.json"), with_stats=True,
                               dump_format="json")  # fmt: skip
        if version >= (1, 0):
            booster.save_model(str(folder / f"{name}.json"))
        # Before 1.4, dart drops trees in predictions unless it is told how many there are.
        limit = {"ntree_limit": 4} if version < (1, 4) else {}
        margin = booster.predict(data, output_margin=True, **limit)
        rows = [[None if np.isnan(x) else x for x in row] for row in X.tolist()]
        truth[name] = {"rows": rows, "margin": np.reshape(margin, (N, -1)).tolist()}
    (folder / "truth.json").write_text(json.dumps(truth) + "\n")


def lightgbm(folder, library):
    """Print the models of the same version."""
    for text in sorted((BOOSTED / f"lightgbm-{library.__version__}").glob("*.txt")):
        booster = library.Booster(model_file=text)
        (folder / f"{text.stem}.json").write_text(json.dumps(booster.dump_model()) + "\n")


if __name__ == "__main__":
    name, target = sys.argv[1:]
    module = importlib.import_module(name)
    place = Path(target) / f"{name}-{module.__version__}"
    place.mkdir(parents=True, exist_ok=True)
    {"xgboost": xgboost, "lightgbm": lightgbm}[name](place, module)
