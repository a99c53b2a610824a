"""Usual settings on raw tables: does an audit with the training rows come to a decided answer?

``python -m experiments run usual --table adult --rows 300 --limit 60`` trains 22 models as people
train them (defaults, tuned, in pipelines, searched, calibrated, stacked), audits each in a process
of its own, and prints the verdict, how long it took, the most memory, and what was left open.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from sklearn import ensemble as E
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak
from treeleak.auditing.findings.finding import OPEN

TABLES = ("adult", "german_credit", "compas")
GRACE = 5.0
"""Seconds beyond the limit that an audit may take."""
MEMORY = 4e9

Forest = E.RandomForestClassifier


def _boosted() -> dict[str, Callable[[], Any]]:
    import catboost
    import lightgbm
    import xgboost

    def xgb(**settings: Any) -> Any:
        return xgboost.XGBClassifier(**settings)

    def lgb(**settings: Any) -> Any:
        return lightgbm.LGBMClassifier(verbose=-1, **settings)

    return {
        "XGBoost default": xgb,
        "XGBoost tuned": lambda: xgb(
            n_estimators=300, max_depth=6, learning_rate=0.05, subsample=0.8,
            colsample_bytree=0.8, reg_alpha=0.1,
        ),
        "XGBoost weighted": lambda: xgb(n_estimators=200, max_depth=4, scale_pos_weight=3),
        "LightGBM default": lgb,
        "LightGBM tuned": lambda: lgb(
            n_estimators=400, learning_rate=0.03, subsample=0.8, subsample_freq=1,
            colsample_bytree=0.8, reg_alpha=0.1, min_child_samples=30,
        ),
        "CatBoost default": lambda: catboost.CatBoostClassifier(
            verbose=0, allow_writing_files=False
        ),
    }  # fmt: skip


RAW: dict[str, Callable[[], Any]] = {
    "forest default": lambda: Forest(random_state=0),
    "forest without seed": Forest,
    "forest tuned": lambda: Forest(300, max_depth=12, min_samples_leaf=5),
    "forest balanced": lambda: Forest(class_weight="balanced", random_state=1),
    "extra trees": lambda: E.ExtraTreesClassifier(200, max_depth=12),
    "one tree": lambda: DecisionTreeClassifier(max_depth=6, min_samples_leaf=20),
}
"""At the end of a pipeline that encodes raw columns."""
CODED: dict[str, Callable[[], Any]] = {
    "grid search": lambda: GridSearchCV(
        Forest(random_state=0), {"max_depth": [6, None]}, cv=3
    ),
    "calibrated": lambda: CalibratedClassifierCV(Forest(50, random_state=0), cv=3),
    "voting": lambda: E.VotingClassifier(
        [("rf", Forest(50)), ("lr", LogisticRegression(max_iter=50)),
         ("gb", E.GradientBoostingClassifier())], voting="soft",
    ),
    "stacking": lambda: E.StackingClassifier(
        [("rf", Forest(50)), ("gb", E.GradientBoostingClassifier(n_estimators=50))]
    ),
    "one against the rest": lambda: OneVsRestClassifier(
        E.GradientBoostingClassifier(n_estimators=30)
    ),
    "HistGradientBoosting": E.HistGradientBoostingClassifier,
    "GradientBoosting subsample": lambda: E.GradientBoostingClassifier(
        subsample=0.8, random_state=0
    ),
    "AdaBoost": E.AdaBoostClassifier,
    "bagging": lambda: E.BaggingClassifier(n_estimators=50),
    "forest of regressions": lambda: E.RandomForestRegressor(random_state=0),
}  # fmt: skip
"""On columns whose categories are codes."""


def table(name: str, n: int, seed: int) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Draw rows of a raw table; of one that has none, of its columns of 0 and 1."""
    data = getattr(treeleak.datasets, f"load_{name}")()
    X = (data.X if data.raw is None else data.raw).reset_index(drop=True)
    y = pd.Series(data.y).reset_index(drop=True)
    rows = X.sample(min(n, len(X)), random_state=seed).index
    return X.loc[rows].reset_index(drop=True), y.loc[rows].reset_index(drop=True)


def coded(X: pd.DataFrame) -> pd.DataFrame:
    """Write categories as codes."""
    texts = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
    return X.assign(**{c: X[c].astype("category").cat.codes for c in texts})


def encoder(X: pd.DataFrame) -> ColumnTransformer:
    """Scale numbers and encode categories, as pipelines do."""
    numbers = [c for c in X if pd.api.types.is_numeric_dtype(X[c])]
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer(
        [("numbers", scaled, numbers), ("texts", texts, [c for c in X if c not in numbers])]
    )


def audited(name: str, args: argparse.Namespace, out: Any) -> None:
    """Train a model, audit it, and send what came of it."""
    warnings.simplefilter("ignore")
    X, y = table(args.table, args.rows, args.seed)
    if name in RAW:
        model, rows = make_pipeline(encoder(X), RAW[name]()).fit(X, y), X
    else:
        model = {**CODED, **_boosted()}[name]()
        rows = coded(X)
        model.fit(rows, y)
    started = time.perf_counter()
    found = treeleak.audit(model, rows, y, time_limit=args.limit, seed=args.seed)
    seconds = time.perf_counter() - started
    decided = [f.part for f in found.findings if f.verdict == found.verdict]
    auc = None if found.shadows is None else found.shadows.sizes[-1].auc.value
    out.send({
        "verdict": found.verdict.partition(" by")[0], "by": ", ".join(dict.fromkeys(decided)),
        "decided": found.verdict != OPEN, "seconds": seconds, "auc": auc,
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "open": sorted({part for part, _ in found.not_assessed} - {"population"}),
    })  # fmt: skip


def main(args: Sequence[str]) -> int:
    """Print a line per model, and how many were decided in time."""
    parser = argparse.ArgumentParser(prog="python -m experiments run usual")
    parser.add_argument("--table", choices=TABLES, default="adult")
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--models", nargs="*", default=None)
    chosen = parser.parse_args(args)
    names = chosen.models or [*RAW, *CODED, *_boosted()]
    context = multiprocessing.get_context("spawn")
    decided = late = 0
    for name in names:
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=audited, args=(name, chosen, send))
        process.start()
        send.close()
        try:
            found = receive.recv()
        except EOFError:
            found = {"verdict": "crashed", "decided": False, "seconds": 0.0, "bytes": 0.0,
                     "auc": None, "by": "", "open": []}  # fmt: skip
        process.join()
        decided += found["decided"]
        over = found["seconds"] > chosen.limit + GRACE or found["bytes"] > MEMORY
        late += over
        auc = "" if found["auc"] is None else f"{found['auc']:.2f}"
        print(
            f"{name:27} {found['verdict']:15} by {found['by']:27} {found['seconds']:6.1f} s "
            f"{found['bytes'] / 1e9:4.1f} GB  AUC {auc:4}  open: {', '.join(found['open'])}"
            f"{'  LATE' * over}",
            flush=True,
        )
    print(f"{chosen.table}, {chosen.rows} rows: {decided} of {len(names)} decided, {late} late")
    return int(decided < len(names))
