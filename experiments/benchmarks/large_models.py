"""Large models of the usual libraries, with the rows that they learnt from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import joblib
import numpy as np
import pandas as pd

from experiments.libraries import unfitted

_COLUMNS = 30
_LEAVES = {"num_leaves": 255, "max_bin": 63}


LARGE: Mapping[str, tuple[int, bool, str, Mapping[str, Any]]] = MappingProxyType(
    {
        "RandomForest 200 x 10 000": (
            10_000, True, "RandomForestClassifier", {"n_estimators": 200}
        ),
        "RandomForest 50 x 40 000": (
            40_000, True, "RandomForestClassifier", {"n_estimators": 50, "max_depth": 12}
        ),
        "RandomForest 100 x 5 000": (5_000, True, "RandomForestClassifier", {}),
        "ExtraTrees 200 x 1 000": (1_000, True, "ExtraTreesClassifier", {"n_estimators": 200}),
        "IsolationForest 300 x 10 000": (10_000, True, "IsolationForest", {"n_estimators": 300}),
        "XGBoost regression 1 000 x 4 000": (4_000, False, "XGBRegressor", {"n_estimators": 1_000}),
        "CatBoost depth 10": (
            5_000, True, "CatBoostClassifier", {"iterations": 100, "depth": 10, "border_count": 32}
        ),
        "GradientBoosting 300": (
            5_000, True, "GradientBoostingClassifier", {"n_estimators": 300, "max_depth": 6}
        ),
        "HistGradientBoosting 500": (
            20_000, True, "HistGradientBoostingClassifier",
            {"max_iter": 500, "early_stopping": False},
        ),
        "LightGBM regression 500 x 255": (
            20_000, False, "LGBMRegressor", {"n_estimators": 500, **_LEAVES}
        ),
        "LightGBM 1 000 x 255": (
            20_000, True, "LGBMClassifier", {"n_estimators": 1_000, **_LEAVES}
        ),
    }
)  # fmt: skip
"""Names: number of rows, whether they have classes, the class of the model and its settings."""


def write_large(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Train them, where that is not done; gives the file of each, and of its training rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (n_rows, classes, kind, settings) in LARGE.items():
        path, rows = folder / f"{name}.joblib", folder / f"{name}.csv"
        if not path.exists():
            rng = np.random.default_rng(0)
            X = pd.DataFrame(rng.normal(size=(n_rows, _COLUMNS)).round(2)).add_prefix("v")
            score = X["v0"] * X["v1"] + X["v2"] + rng.normal(size=n_rows)
            y = (score > 0).astype(int) if classes else score.round(3)
            X.assign(label=y).to_csv(rows, index=False)
            joblib.dump(unfitted(kind, **settings).fit(X, y), path)
        yield name, path, rows
