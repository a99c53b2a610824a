"""Containers of models: wherever the model inside leaks by itself, the file must, too.

``python -m experiments run containers --seeds 0-4 --names stacking`` fits each
container around a forest of a few rows, saves it, and audits both the file and the model inside.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import RFE, RFECV, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, KFold
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from experiments.benchmarks.frame import options, progress, show
from treeleak.core.errors import TreeleakError
from treeleak.reconstruction import Reconstruction

LEAK = "leak shown"
N_ROWS, N_TREES = 60, 25

Make = Callable[[ClassifierMixin], Any]


def _before(step: Any) -> Any:
    return make_pipeline(step, DecisionTreeClassifier(max_depth=1, min_samples_leaf=20))


def _voting(forest: Any, *others: Any) -> Any:
    named = [(f"m{k}", model) for k, model in enumerate((forest, *others))]
    return VotingClassifier(named)


@dataclass(frozen=True)
class Container:
    """How to put a forest in, and how to get the fitted one out."""

    make: Make
    inner: Callable[[Any], Any]
    labels: str = "two"
    """{"two", "three", "several", "numbers"}. What is learnt."""


CONTAINERS: Mapping[str, Container] = {
    "voting with a linear model": Container(
        lambda f: _voting(f, LogisticRegression()), lambda m: m.estimators_[0]
    ),
    "voting with boosting": Container(
        lambda f: _voting(f, GradientBoostingClassifier(n_estimators=10)),
        lambda m: m.estimators_[0],
    ),
    "voting of two forests": Container(
        lambda f: _voting(f, RandomForestClassifier(N_TREES, random_state=99)),
        lambda m: m.estimators_[0],
    ),
    "stacking": Container(
        lambda f: StackingClassifier(
            [("f", f), ("e", ExtraTreesClassifier(5))], LogisticRegression()
        ),
        lambda m: m.estimators_[0],
    ),
    "calibrated, five folds": Container(
        CalibratedClassifierCV, lambda m: m.calibrated_classifiers_[0].estimator
    ),
    "calibrated, KFold": Container(
        lambda f: CalibratedClassifierCV(f, cv=KFold(4)),
        lambda m: m.calibrated_classifiers_[0].estimator,
    ),
    "calibrated, one model": Container(
        lambda f: CalibratedClassifierCV(f, ensemble=False),
        lambda m: m.calibrated_classifiers_[0].estimator,
    ),
    "one against the rest": Container(OneVsRestClassifier, lambda m: m.estimators_[0], "three"),
    "one against one": Container(OneVsOneClassifier, lambda m: m.estimators_[0], "three"),
    "several outputs": Container(MultiOutputClassifier, lambda m: m.estimators_[0], "several"),
    "chain": Container(ClassifierChain, lambda m: m.estimators_[0], "several"),
    "selection": Container(lambda f: _before(SelectFromModel(f)), lambda m: m[0].estimator_),
    "elimination": Container(lambda f: _before(RFE(f)), lambda m: m[0].estimator_),
    "elimination by folds": Container(lambda f: _before(RFECV(f, cv=2)), lambda m: m[0].estimator_),
    "a union of steps": Container(
        lambda f: _before(FeatureUnion([("p", "passthrough"), ("s", SelectFromModel(f))])),
        lambda m: m[0].transformer_list[1][1].estimator_,
    ),
    "some columns": Container(
        lambda f: _before(ColumnTransformer([("s", SelectFromModel(f), slice(0, None))])),
        lambda m: m[0].transformers_[0][1].estimator_,
    ),
    "search": Container(
        lambda f: GridSearchCV(f, {"max_depth": [None]}, cv=2), lambda m: m.best_estimator_
    ),
    "threshold": Container(FixedThresholdClassifier, lambda m: m.estimator_),
    "self-training": Container(SelfTrainingClassifier, lambda m: m.estimator_),
    "boosting of forests": Container(
        lambda f: AdaBoostClassifier(f, n_estimators=2), lambda m: m.estimators_[0]
    ),
    "start of boosting": Container(
        lambda f: GradientBoostingClassifier(init=f, n_estimators=2), lambda m: m.init_
    ),
    "pipeline of voting": Container(
        lambda f: make_pipeline("passthrough", _voting(f, LogisticRegression())),
        lambda m: m[-1].estimators_[0],
    ),
    "stacking of pipelines": Container(
        lambda f: StackingClassifier([("p", make_pipeline("passthrough", f))], cv=2),
        lambda m: m.estimators_[0][-1],
    ),
    "regressions": Container(
        lambda _: VotingRegressor([("f", RandomForestRegressor(N_TREES, random_state=0))]),
        lambda m: m.estimators_[0],
        "numbers",
    ),
    "imputation by forests": Container(
        lambda _: _before(IterativeImputer(RandomForestRegressor(10, random_state=0), max_iter=1)),
        lambda m: m[0].imputation_sequence_[0].estimator,
        "two",
    ),
    "a dictionary": Container(lambda f: f, lambda m: m["model"]),
    "frozen": Container(lambda f: f, lambda m: m.estimator),
}


def table(seed: int, labels: str) -> tuple[pd.DataFrame, Any]:
    """Draw rows of zeros and ones, and what is learnt of them."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (N_ROWS, 7)), columns=list("abcdefg"))
    signal = (X["a"] ^ (X["b"] & X["c"])) ^ (rng.random(N_ROWS) < 0.2)
    y = signal.to_numpy().astype(int)
    if labels == "three":
        y = y + (X["d"] & X["e"]).to_numpy()
    elif labels == "several":
        y = np.column_stack([y, X["d"] ^ X["e"]])
    elif labels == "numbers":
        y = y + rng.normal(size=N_ROWS)
    return X, y


def attempt(name: str, seed: int, limit: float) -> dict[str, Any]:
    """Fit, save and audit a container, and the model inside."""
    container = CONTAINERS[name]
    X, y = table(seed, container.labels)
    if name.startswith("imputation"):
        X = X.mask(np.random.default_rng(seed).random(X.shape) < 0.05)
    model = container.make(RandomForestClassifier(N_TREES, random_state=seed)).fit(X, y)
    if name == "a dictionary":
        model = {"model": model, "version": 1}
    elif name == "frozen":
        model = FrozenEstimator(model)
    inside = treeleak.audit(container.inner(model), time_limit=limit)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.pkl"
        file.write_bytes(pickle.dumps(model))
        try:
            found = treeleak.audit(file, time_limit=limit, trust_pickle=True)
            verdict = str(found.verdict)
            rebuilt = found.reconstruction
        except TreeleakError as error:
            verdict, rebuilt = f"refused: {error}", None
    wrong = 0 if rebuilt is None else wrong_proofs(rebuilt, X)
    leaks = inside.verdict == LEAK
    return {
        "container": name, "seed": seed, "leak inside": leaks, "file": verdict.split(" by ")[0],
        "s": time.perf_counter() - begin, "wrong proofs": wrong,
        "met": not wrong and (not leaks or verdict == LEAK),
    }  # fmt: skip


def wrong_proofs(rebuilt: Reconstruction, X: pd.DataFrame) -> int:
    """Count rows that are proved in their place and are others, in what is certain of them.

    On columns of both tables. Of other values, only the likeliest interval is given.
    """
    if not rebuilt.ordered or rebuilt.lower is None or rebuilt.confidence is None:
        return 0
    columns = [c for c in rebuilt.X if c in X]
    if len(rebuilt.X) != len(X):
        return 0
    true, low, high = (frame[columns] for frame in (X, rebuilt.lower, rebuilt.upper))
    certain = rebuilt.confidence[columns] == 1
    differs = (((true < low) | (true > high)) & certain).any(axis=1).to_numpy()
    # What an imputer put in a gap is no value of the table.
    gaps = X[columns].isna().any(axis=1).to_numpy()
    return int((differs & ~gaps).sum())


def main(args: Sequence[str]) -> int:
    """Print a line per container; each file must say what the model inside says."""
    given = options(
        "containers", __doc__, args, names=list(CONTAINERS), seeds=range(1), time_limit=20.0
    )
    lines = []
    for name in given.names:
        lines += [attempt(name, seed, given.time_limit) for seed in given.seeds]
        progress(name)
    return int(not show("containers", lines))
