"""Boosted models on binary tables: how they are trained, attacked and measured."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris, load_wine

import treeleak
from experiments import attempt
from experiments.attempt import Record
from experiments.data import draft_sample, load_draft
from treeleak.core.arrays import IntArray
from treeleak.datasets.bundled import Dataset
from treeleak.metrics import random_baseline, reconstruction_error
from treeleak.partition import Geometry, GridTooLarge, Partition, enumerate_cells
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release, to_release
from treeleak.release.readers.xgboost_json import booster_from_bytes
from treeleak.release.statistics import GAIN, HESSIAN, ROWS, VALUE, Quantity, Statistics
from treeleak.schema import Binary, Schema

BINNED = {"iris": load_iris, "wine": load_wine}


def table(name: str) -> Dataset:
    """One of these tables, or one of the DRAFT papers.

    Raises BadInput if that table is not there.
    """
    if name not in BINNED:
        return load_draft(name)
    # Such names as iris has, with brackets, not every library takes.
    X, y = BINNED[name](return_X_y=True, as_frame=True)
    X.columns = [f"column_{k}" for k in range(X.shape[1])]
    above = X.gt(X.median()).astype(int)
    schema = Schema([Binary(c) for c in above.columns])
    return Dataset(name, above, y, schema, "scikit-learn", "CC BY 4.0")


_NOISE = 0.1
"""Noise on the targets of regression, in their standard deviations."""
_NEAR = 1e-3
"""Share of their range by which targets may be off."""
_QUIET = {
    "xgboost": {"n_jobs": 2},
    "lightgbm": {"verbose": -1, "n_jobs": 2},
    "catboost": {"verbose": 0, "thread_count": 2, "allow_writing_files": False},
    "sklearn": {},
}
_SUBSAMPLE: dict[str, Any] = {"n_estimators": 100, "subsample": 0.8, "random_state": 0}
_TUNED: dict[str, Any] = {
    **_SUBSAMPLE, "n_estimators": 300, "colsample_bytree": 0.8, "learning_rate": 0.05,
    "max_depth": 6,
}  # fmt: skip
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "XGBClassifier": ("xgboost", "XGBClassifier", {}),
    "LGBMClassifier": ("lightgbm", "LGBMClassifier", {}),
    "HistGradientBoosting": ("sklearn", "HistGradientBoostingClassifier", {}),
    "GradientBoosting": ("sklearn", "GradientBoostingClassifier", {"random_state": 0}),
    "CatBoost 100": ("catboost", "CatBoostClassifier", {"iterations": 100}),
    "CatBoost": ("catboost", "CatBoostClassifier", {}),
    "XGBRegressor": ("xgboost", "XGBRegressor", {}),
    "LGBMRegressor": ("lightgbm", "LGBMRegressor", {}),
    "HistGradientBoostingRegressor": ("sklearn", "HistGradientBoostingRegressor", {}),
    "CatBoostRegressor 100": ("catboost", "CatBoostRegressor", {"iterations": 100}),
    "RandomForestRegressor": ("sklearn", "RandomForestRegressor", {"random_state": 0}),
    "XGBRegressor, drawn": ("xgboost", "XGBRegressor", {"subsample": 0.8}),
    "GradientBoostingRegressor, drawn": (
        "sklearn", "GradientBoostingRegressor", {"subsample": 0.8, "random_state": 0},
    ),
    "LGBMClassifier, drawn": (
        "lightgbm", "LGBMClassifier", {"bagging_fraction": 0.8, "bagging_freq": 1},
    ),
    "XGBClassifier, subsample": ("xgboost", "XGBClassifier", _SUBSAMPLE),
    "XGBClassifier, tuned": ("xgboost", "XGBClassifier", _TUNED),
    "XGBClassifier, subsample, file": ("xgboost", "XGBClassifier", _SUBSAMPLE),
    "XGBClassifier, tuned, file": ("xgboost", "XGBClassifier", _TUNED),
    "LGBMClassifier, subsample": (
        "lightgbm", "LGBMClassifier", {**_SUBSAMPLE, "subsample_freq": 1},
    ),
    "LGBMClassifier, tuned": ("lightgbm", "LGBMClassifier", {**_TUNED, "subsample_freq": 1}),
    "GradientBoosting, subsample": ("sklearn", "GradientBoostingClassifier", _SUBSAMPLE),
    "XGBClassifier, reg_alpha": ("xgboost", "XGBClassifier", {"reg_alpha": 0.1}),
    "XGBClassifier, scale_pos_weight": ("xgboost", "XGBClassifier", {"scale_pos_weight": 3}),
    "XGBClassifier, max_delta_step": ("xgboost", "XGBClassifier", {"max_delta_step": 0.5}),
    "XGBClassifier, parallel": ("xgboost", "XGBClassifier", {"num_parallel_tree": 3}),
    "XGBClassifier, dart": ("xgboost", "XGBClassifier", {"booster": "dart"}),
    "XGBClassifier, masked": ("xgboost", "XGBClassifier", {}),
    "CatBoost, class_weights": (
        "catboost", "CatBoostClassifier", {"iterations": 100, "auto_class_weights": "Balanced"},
    ),
    "CatBoost, scale_pos_weight": (
        "catboost", "CatBoostClassifier", {"iterations": 100, "scale_pos_weight": 3},
    ),
    "HistGradientBoosting, class_weight": (
        "sklearn", "HistGradientBoostingClassifier", {"class_weight": "balanced"},
    ),
    "LGBMClassifier, reg_alpha": ("lightgbm", "LGBMClassifier", {"reg_alpha": 0.1}),
    "LGBMClassifier, scale_pos_weight": ("lightgbm", "LGBMClassifier", {"scale_pos_weight": 3}),
    "LGBMClassifier, class_weight": ("lightgbm", "LGBMClassifier", {"class_weight": "balanced"}),
    "LGBMClassifier, is_unbalance": ("lightgbm", "LGBMClassifier", {"is_unbalance": True}),
    "LGBMClassifier, dart": ("lightgbm", "LGBMClassifier", {"boosting_type": "dart"}),
}  # fmt: skip
"""By name: library, class, and parameters that are no defaults."""
DRAWN = frozenset(name for name in MODELS if name.endswith(", drawn"))
"""Whose trees drew some of the rows; the attack is told how many rows there were, and no seed."""
SUBSAMPLED = frozenset(name for name in MODELS if name.endswith((", subsample", ", tuned")))
"""The same, with a seed: the attack is told how many rows there were."""
Rows = tuple[pd.DataFrame, "pd.Series[Any]"]
FIGURES = (
    "cells", "right", "exact", "told", "proved", "wrong", "others", "targets", "alone", "single",
    "most", "error", "expected_error", "guess", "placed", "off",
)  # fmt: skip
ALL, VALUES_ALONE = "all", "leaf values alone"
LEFT: Mapping[str, tuple[Quantity, ...]] = MappingProxyType(
    {
        "counts alone": (ROWS,),
        "counts and leaf values": (ROWS, VALUE),
        "hessians and leaf values": (HESSIAN, VALUE),
        "gains and leaf values": (GAIN, VALUE),
        VALUES_ALONE: (VALUE,),
    }
)
"""What may be left of the statistics of nodes. Without leaf values a model does not predict."""
_HELD: Mapping[str, frozenset[Quantity]] = MappingProxyType(
    {
        "XGBClassifier": frozenset((HESSIAN, GAIN, VALUE)),
        "LGBMClassifier": frozenset((ROWS, HESSIAN, GAIN, VALUE)),
        "HistGradientBoosting": frozenset((ROWS, GAIN, VALUE)),
    }
)
"""What files hold of nodes; those of other models, numbers of rows and leaf values."""
_MEASURED = 1000
"""Most rows of which errors are measured: rows are matched one to one."""
_GUESSES = 5
"""Tables of random rows that are held against the training set."""


@dataclass(frozen=True)
class Case(attempt.Case):
    """One model, with all that its file holds or with some of it, a name in ``LEFT``."""

    left: str = ALL


def trained(
    case: Case,
) -> tuple[Release, pd.DataFrame, pd.Series[Any], pd.DataFrame, pd.Series[Any]]:
    """Train a model; its release, its rows and their labels or targets, and as many others."""
    library, name, given = MODELS[case.model]
    data = table(case.table)
    both = min(2 * case.n_rows, len(data.X))
    X, y = draft_sample(data, both, case.seed)
    if name.endswith("Regressor"):
        rng = np.random.default_rng(case.seed)
        sums = X.to_numpy(float) @ rng.normal(size=X.shape[1])
        y = pd.Series(sums + _NOISE * sums.std() * rng.normal(size=len(sums)))
    module = import_module("sklearn.ensemble" if library == "sklearn" else library)
    model = getattr(module, name)(**_QUIET[library], **given)
    own = X.iloc[: case.n_rows].reset_index(drop=True), y.iloc[: case.n_rows]
    # Some libraries take no names with brackets.
    model.fit(own[0].to_numpy(), own[1].to_numpy())
    if case.model.endswith((", masked", ", file")):
        model = stored_alone(model, masked=case.model.endswith(", masked"))
    release = replace(to_release(model), feature_names=tuple(X.columns), ranges={}, borders={})
    return release, *own, X.iloc[case.n_rows :], y.iloc[case.n_rows :]


def stored_alone(model: Any, *, masked: bool) -> Any:
    """What XGBoost saves of a model: no settings; from NVFlare, every sum of hessians is 1."""
    file = json.loads(model.get_booster().save_raw("json"))
    for tree in file["learner"]["gradient_booster"]["model"]["trees"] if masked else ():
        tree["sum_hessian"] = [1.0] * len(tree["sum_hessian"])
    return booster_from_bytes(json.dumps(file).encode())


def holds(model: str, left: str) -> bool:
    """Whether the files of a model hold what is to be left of them."""
    return left == ALL or set(LEFT[left]) <= _HELD.get(model, {ROWS, VALUE})


def stripped(release: Release, library: str, left: str) -> Release:
    """Take out all statistics of nodes but those of a name in ``LEFT``."""
    kept = LEFT[left]
    trees = []
    for t, tree in enumerate(release.trees):
        # Hessians count the rows of the first tree, which have one prediction before it.
        first = (ROWS,) if HESSIAN in kept and t == 0 else ()
        entries = (entry for entry in tree.statistics if entry.quantity in (*kept, *first))
        trees.append(replace(tree, statistics=Statistics(tuple(entries))))
    ensemble = release.ensemble
    if ensemble is not None and (fitting := ensemble.fitting) is not None:
        own = replace(fitting, assumed=library == "xgboost")
        if HESSIAN not in kept:
            # What first leaves hold beside their steps follows from nothing else.
            own = replace(own, start=None, started=fitting.start is None)
        ensemble = replace(ensemble, fitting=own)
    n_rows = release.n_rows if HESSIAN in kept else None
    return replace(release, trees=tuple(trees), n_rows=n_rows, ensemble=ensemble)


def run(case: Case) -> Record:
    """Train, attack, measure."""
    release, X, y, other, other_y = trained(case)
    if case.left != ALL:
        release = stripped(release, MODELS[case.model][0], case.left)
    record, found = attempt.attempt(
        lambda: treeleak.reconstruct(
            release, table(case.table).schema, bootstrap=_sampling(case, release),
            time_limit=case.time_limit, seed=case.seed,
            n_rows=len(X) if case.model in DRAWN | SUBSAMPLED else None,
        )
    )  # fmt: skip
    outcome = dict.fromkeys(FIGURES) | record
    if len(X) <= _MEASURED:
        outcome["guess"] = random_baseline(X, table(case.table).schema, _GUESSES, case.seed).mean
    if found is None or found.X is None:
        return outcome
    if len(found.X) == len(X) <= _MEASURED:
        error = reconstruction_error(found.X, X, table(case.table).schema)
        outcome |= {"error": error, "expected_error": found.expected_error}
    outcome["told"] = _told(release, table(case.table).schema, X)
    return outcome | _measured(release, found, (X, y), (other, other_y))


def in_numbers(runs: pd.DataFrame) -> pd.DataFrame:
    """Make figures numbers, which are missing where a run has no answer."""
    return runs.assign(**{name: pd.to_numeric(runs[name]) for name in FIGURES if name in runs})


def calibrated(runs: pd.DataFrame) -> tuple[float, float, int]:
    """Sum of expected and of true errors over the runs of which not all is proved; how many."""
    own = runs[(runs.proved < 1) & runs.error.notna() & runs.expected_error.notna()]
    return float(own.expected_error.sum()), float(own.error.sum()), len(own)


def _measured(release: Release, found: Reconstruction, own: Rows, others: Rows) -> Record:
    """Hold an answer, and as many other rows, against the training set."""
    rows: Any = found.X
    X, y = own
    classes = bool(release.classes) and found.y is not None
    names = list(release.feature_names)
    tested = [c for c, cuts in zip(names, release.thresholds, strict=True) if len(cuts)]
    cells, true_cells = (_cells(release, values[names]) for values in (rows, X))
    said: Any = found.y
    labels, true_labels = (list(v) if classes else [0] * len(X) for v in (said, y))
    proved = np.zeros(len(X), dtype=bool) if found.proved is None else found.proved.to_numpy()
    pairs, true_pairs = (
        list(zip(cells, labels, strict=True)),
        list(zip(true_cells, true_labels, strict=True)),
    )
    exact = [
        list(map(tuple, np.column_stack([values[tested], classed]).tolist()))
        for values, classed in ((rows, labels), (X, true_labels))
    ]
    other, other_y = others
    beside = list(
        zip(_cells(release, other), list(other_y) if classes else [0] * len(other), strict=True)
    )
    held = [pair for pair, sure in zip(pairs, proved, strict=True) if sure]
    in_place = [a == b for a, b in zip(pairs, true_pairs, strict=False)] if found.ordered else []
    return {
        "cells": _share(cells, true_cells),
        "right": _share(pairs, true_pairs),
        "exact": _share(*exact),
        "placed": sum(in_place) / len(X) if found.ordered else None,
        "proved": float(proved.mean()),
        "wrong": len(held) - round(_share(held, true_pairs) * len(true_pairs)),
        "others": _share(beside[: len(X)], true_pairs) if len(beside) >= len(X) else None,
        **(_targets(found, y, cells, true_cells) if not release.classes else {}),
    }


def _told(release: Release, schema: Schema, X: pd.DataFrame) -> float | None:
    """Share of rows whose cell leaves one value in every column that a tree tests.

    The others may stand anywhere in their cells: every prediction and every sum of a node stays the
    same. Only which tests the trees chose may say more. None if the schema has too many points.
    """
    try:
        partition, cell = cells_of(release, schema, X)
    except GridTooLarge:
        return None
    n_points = Counter(partition.cell.tolist())
    return float(np.mean([n_points[c] == 1 for c in cell.tolist()]))


def cells_of(release: Release, schema: Schema, X: pd.DataFrame) -> tuple[Partition, IntArray]:
    """List the cells of a model, and say in which of them rows lie.

    Raises
    ------
    GridTooLarge
        If the schema has too many points.
    """
    geometry = Geometry.of(release, schema)
    anywhere = np.ones((sum(len(tree.leaves) for tree in release.trees), 1), dtype=bool)
    partition = enumerate_cells(geometry, anywhere)
    own = [
        part.holding(X[list(part.attribute.columns)].to_numpy(), release).argmax(axis=1)
        for part in geometry.parts
    ]
    point = np.column_stack(own) @ geometry.stride
    return partition, partition.cell[np.searchsorted(partition.points, point)]


def _sampling(case: Case, release: Release) -> str:
    """Say that all trees saw all rows where a file leaves that open."""
    if case.model in DRAWN:
        return "hidden"
    return "none" if release.sampling.kind == "unknown" else "auto"


def _cells(release: Release, X: pd.DataFrame) -> list[bytes]:
    rows = X.to_numpy().astype(release.float_type)
    leaf = np.column_stack([tree.apply(rows) for tree in release.trees]).astype(np.int32)
    return [row.tobytes() for row in leaf]


def _share(found: Sequence[Any], true: Sequence[Any]) -> float:
    """Share of the true ones that stand among those found, each as often."""
    return (Counter(found) & Counter(true)).total() / max(len(true), 1)


def _targets(
    found: Any, y: pd.Series[Any], cells: Sequence[Any], true_cells: Sequence[Any]
) -> dict[str, float | None]:
    """Shares of rows whose target is nearly right: of all, and of those alone in their cell.

    "single" is the share of rows that are alone, and "most" that of rows that are, or whose target
    is as near to the mean of their cell: a model that tells the rows of a cell apart nowhere holds
    no more.
    """
    true, size = y.to_numpy(float), Counter(true_cells)
    said = np.full(len(true), np.nan) if found.y is None else found.y.to_numpy(float)
    if not found.ordered:
        # Of rows in one cell, the targets are compared in order of size.
        own = defaultdict(list)
        for cell, value in sorted(zip(cells, said, strict=True), key=lambda pair: -pair[1]):
            own[cell].append(value)
        said = np.full(len(true), np.nan)
        for k in np.argsort(true):
            if own[true_cells[k]]:
                said[k] = own[true_cells[k]].pop()
    within, off = _NEAR * (true.max() - true.min()), np.abs(said - true)
    near = off <= within
    means = pd.Series(true).groupby(list(true_cells)).transform("mean").to_numpy()
    alone = np.array([size[cell] == 1 for cell in true_cells])
    told = found.label_confidence is not None and found.label_confidence.to_numpy() > 0
    sure = np.broadcast_to(told, off.shape) & (found.ordered and ~np.isnan(off))
    return {
        "off": float(off[sure].max()) if sure.any() else None,
        "targets": float(near.mean()),
        "alone": float(near[alone].mean()) if alone.any() else None,
        "single": float(alone.mean()),
        "most": float((np.abs(means - true) <= within).mean()),
    }
