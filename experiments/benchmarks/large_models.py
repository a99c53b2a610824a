"""Large models of the usual libraries, with the rows that they learnt from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import joblib
import numpy as np
import pandas as pd
from sklearn import ensemble

_COLUMNS = 30


def _lightgbm(name: str, n_trees: int) -> Any:
    import lightgbm

    return getattr(lightgbm, name)(
        n_estimators=n_trees, num_leaves=255, max_bin=63, n_jobs=1, verbose=-1
    )


def _xgboost(n_trees: int) -> Any:
    import xgboost

    return xgboost.XGBRegressor(n_estimators=n_trees, n_jobs=1)


def _catboost(n_trees: int, depth: int) -> Any:
    import catboost

    return catboost.CatBoostClassifier(
        iterations=n_trees, depth=depth, border_count=32, thread_count=1, verbose=False,
        allow_writing_files=False,
    )  # fmt: skip


LARGE: Mapping[str, tuple[int, bool, Callable[[], Any]]] = MappingProxyType(
    {
        "RandomForest 200 x 10 000": (
            10_000, True, lambda: ensemble.RandomForestClassifier(200, random_state=0)
        ),
        "RandomForest 50 x 40 000": (
            40_000, True, lambda: ensemble.RandomForestClassifier(50, max_depth=12, random_state=0)
        ),
        "RandomForest 100 x 5 000": (
            5_000, True, lambda: ensemble.RandomForestClassifier(100, random_state=0)
        ),
        "ExtraTrees 200 x 1 000": (
            1_000, True, lambda: ensemble.ExtraTreesClassifier(200, random_state=0)
        ),
        "IsolationForest 300 x 10 000": (
            10_000, True, lambda: ensemble.IsolationForest(n_estimators=300, random_state=0)
        ),
        "XGBoost regression 1 000 x 4 000": (4_000, False, lambda: _xgboost(1_000)),
        "CatBoost depth 10": (5_000, True, lambda: _catboost(100, 10)),
        "GradientBoosting 300": (
            5_000, True,
            lambda: ensemble.GradientBoostingClassifier(n_estimators=300, max_depth=6),
        ),
        "HistGradientBoosting 500": (
            20_000, True,
            lambda: ensemble.HistGradientBoostingClassifier(max_iter=500, early_stopping=False),
        ),
        "LightGBM regression 500 x 255": (20_000, False, lambda: _lightgbm("LGBMRegressor", 500)),
        "LightGBM 1 000 x 255": (20_000, True, lambda: _lightgbm("LGBMClassifier", 1_000)),
    }
)  # fmt: skip
"""Names: number of rows, whether they have classes, and the model."""


def write_large(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Train them, where that is not done; gives the file of each, and of its training rows."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (n_rows, classes, model) in LARGE.items():
        path, rows = folder / f"{name}.joblib", folder / f"{name}.csv"
        if not path.exists():
            rng = np.random.default_rng(0)
            X = pd.DataFrame(rng.normal(size=(n_rows, _COLUMNS)).round(2)).add_prefix("v")
            score = X["v0"] * X["v1"] + X["v2"] + rng.normal(size=n_rows)
            y = (score > 0).astype(int) if classes else score.round(3)
            X.assign(label=y).to_csv(rows, index=False)
            joblib.dump(model().fit(X, y), path)
        yield name, path, rows
