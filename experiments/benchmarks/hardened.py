"""What hardened files predict: 10,000 random rows per library and format, beside the original file.

A line for each model and format. Both files are loaded by the library itself. "differ" counts the
rows of which a raw score, a prediction or a probability has any other bit. The rows take values of
the training, numbers beside them, and missing ones where the model takes these. Nothing is attacked
here. Lines of libraries that are not installed are left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from experiments.benchmarks.frame import options, present, show
from treeleak.core.arrays import FloatArray
from treeleak.hardening.formats import format_of

N_ROWS = 10_000
_TRAINED, _COLUMNS = 1000, 6
_ALONE = {"n_jobs": 1}
_CATBOOST = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}

Predicts = Callable[[FloatArray], Iterable[Any]]


@dataclass(frozen=True)
class Library:
    """How models of a library are made, written and loaded."""

    module: str
    settings: Mapping[str, Any]
    names: str
    endings: str
    save: Callable[[Any, Path], Any]
    load: Callable[[Path], Predicts]

    def __str__(self) -> str:
        return self.module


def _xgboost(path: Path) -> Predicts:
    xgboost = import_module("xgboost")
    model = xgboost.Booster({"nthread": 1}, model_file=str(path))
    return lambda X: (model.predict(xgboost.DMatrix(X), output_margin=raw) for raw in (True, False))


def _lightgbm(path: Path) -> Predicts:
    model = import_module("lightgbm").Booster(model_file=path)
    return lambda X: (model.predict(X, raw_score=raw) for raw in (True, False))


def _catboost(path: Path) -> Predicts:
    model = import_module("catboost").CatBoost().load_model(str(path), format=path.suffix[1:])
    return lambda X: (model.predict(X, kind) for kind in ("RawFormulaVal", "Exponent"))


def _sklearn(path: Path) -> Predicts:
    skops = import_module("skops.io")
    model = skops.load(path, trusted=skops.get_untrusted_types(file=path))
    names = ("predict", "predict_proba", "decision_function")
    return lambda X: (getattr(model, name)(X) for name in names if hasattr(model, name))


def _save(model: Any, path: Path) -> None:
    model.save_model(path)


LIBRARIES: Sequence[Library] = (
    Library("xgboost", _ALONE, "XGBClassifier XGBRegressor", "json ubj", _save, _xgboost),
    Library("lightgbm", _ALONE | {"verbose": -1}, "LGBMClassifier LGBMRegressor", "txt",
            lambda model, path: model.booster_.save_model(path), _lightgbm),
    Library("catboost", _CATBOOST, "CatBoostClassifier CatBoostRegressor", "json cbm",
            lambda model, path: model.save_model(str(path), format=path.suffix[1:]), _catboost),
    Library("sklearn.ensemble", MappingProxyType({}),
            "HistGradientBoostingClassifier HistGradientBoostingRegressor "
            "GradientBoostingClassifier GradientBoostingRegressor RandomForestRegressor "
            "ExtraTreesRegressor IsolationForest", "skops",
            lambda model, path: import_module("skops.io").dump(model, path), _sklearn),
)  # fmt: skip


def hardened(path: Path) -> Path:
    """Write a file after all steps of its format beside it."""
    kind = format_of(path)
    content = kind.read(path)
    for step in kind.steps:
        content = step.apply(content)
    out = path.with_stem("hardened")
    out.write_bytes(content.to_bytes())
    return out


def differing(old: Predicts, new: Predicts, X: FloatArray) -> int:
    """Count the rows of which any bit of a prediction is another."""
    differ = np.zeros(len(X), dtype=bool)
    for before, after in zip(old(X), new(X), strict=True):
        bits = (np.ascontiguousarray(own).reshape(len(X), -1).view("u1") for own in (before, after))
        differ |= np.not_equal(*bits).any(axis=1)
    return int(differ.sum())


def drawn(seed: int, missing: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw rows to train on, their targets, and rows to predict."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(_TRAINED, _COLUMNS)).round(2)
    y = X @ rng.normal(size=_COLUMNS) + rng.normal(size=_TRAINED)
    rows = rng.choice(X.ravel(), (N_ROWS, _COLUMNS))
    rows += rng.choice([0, 0, 0.005, -0.005, 1e-9], rows.shape)
    if missing:
        X[rng.random(X.shape) < 0.05] = rows[rng.random(rows.shape) < 0.1] = np.nan
    return X, y, rows


def main(args: Sequence[str]) -> int:
    given, lines = options("hardened", __doc__, args, seeds=range(1)), []
    for library in present(LIBRARIES, lambda library: import_module(library.module)):
        for name in library.names.split():
            make = getattr(import_module(library.module), name)
            for seed in given.seeds:
                X, y, rows = drawn(seed, missing="GradientBoosting" not in name or "Hist" in name)
                model = make(**library.settings).fit(X, y > 0 if "Classifier" in name else y)
                for ending in library.endings.split():
                    with tempfile.TemporaryDirectory() as folder:
                        path = Path(folder) / f"model.{ending}"
                        library.save(model, path)
                        n = differing(library.load(path), library.load(hardened(path)), rows)
                    lines.append({"model": name, "format": ending, "seed": seed, "differ": n,
                                  "met": not n})  # fmt: skip
    return int(not show(f"predictions of hardened files, {N_ROWS:,} rows", lines))
