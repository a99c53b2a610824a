"""Make the files of survival and quantile forests in tests/models/outcomes, with their truth.

Usage: ``python tools/make_outcome_models.py``, with scikit-survival 0.28, quantile-forest 1.4 and
skops installed. The rows are the first of the Veterans' lung cancer trial, which scikit-survival
ships.
"""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

import joblib
import skops.io
from quantile_forest import ExtraTreesQuantileRegressor, RandomForestQuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sksurv.datasets import load_veterans_lung_cancer
from sksurv.ensemble import (
    ComponentwiseGradientBoostingSurvivalAnalysis,
    ExtraSurvivalTrees,
    GradientBoostingSurvivalAnalysis,
    RandomSurvivalForest,
)
from sksurv.tree import SurvivalTree

OUT = Path(__file__).parents[1] / "tests/models/outcomes"
ROWS = 50
COLUMNS = ["Age_in_years", "Karnofsky_score", "Months_from_Diagnosis"]


def main() -> None:
    """Train the models and write them."""
    X, y = load_veterans_lung_cancer()
    X, y = X[COLUMNS][:ROWS], y[:ROWS]
    event, time = y["Status"], y["Survival_in_days"]
    survival = {
        "forest": RandomSurvivalForest(10, random_state=0),
        "unseeded": RandomSurvivalForest(6),
        "all_rows": RandomSurvivalForest(3, bootstrap=False, random_state=0),
        "extra": ExtraSurvivalTrees(6, random_state=1, low_memory=True),
        "tree": SurvivalTree(random_state=0),
        "boosting": GradientBoostingSurvivalAnalysis(n_estimators=5, random_state=0),
        "linear": ComponentwiseGradientBoostingSurvivalAnalysis(n_estimators=5, random_state=0),
    }
    quantile = {
        "quantile": RandomForestQuantileRegressor(6, random_state=0),
        "every_member": RandomForestQuantileRegressor(
            4, max_samples_leaf=None, min_samples_leaf=3, random_state=0
        ),
        "sparse": ExtraTreesQuantileRegressor(4, max_samples_leaf=None, random_state=0),
        "pipeline": make_pipeline(
            StandardScaler(), RandomForestQuantileRegressor(4, random_state=0)
        ),
    }
    OUT.mkdir(parents=True, exist_ok=True)
    truth = {
        "columns": COLUMNS, "X": X.to_numpy().tolist(), "event": event.tolist(),
        "time": time.tolist(), "leaves": {}, "predictions": {},
    }  # fmt: skip
    for name, model in {**survival, **quantile}.items():
        sparse = {"sparse_pickle": True} if name == "sparse" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y if name in survival else time, **sparse)
        if name in ("quantile", "tree", "linear"):
            (OUT / f"{name}.pkl").write_bytes(pickle.dumps(model, protocol=4))
        elif name in ("forest", "sparse"):
            skops.io.dump(model, OUT / f"{name}.skops", compression=8)
        else:
            joblib.dump(model, OUT / f"{name}.joblib", compress=9)
        if name in ("forest", "unseeded", "all_rows", "extra", "quantile", "every_member"):
            truth["leaves"][name] = model.apply(X).tolist()
        truth["predictions"][name] = model.predict(X).tolist()
    (OUT / "truth.json").write_text(json.dumps(truth), encoding="ascii")


if __name__ == "__main__":
    main()
