"""Boosted models on binary tables: how they are trained, attacked and measured."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

import treeleak
from experiments import attempt
from experiments.attempt import Record
from experiments.binned import table
from treeleak.datasets import draft_sample, load_adult
from treeleak.partition import Geometry, GridTooLarge, enumerate_cells
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release, to_release
from treeleak.release.statistics import VALUE, Statistics
from treeleak.schema import Schema

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
}
"""By name: library, class, and parameters that are no defaults."""
Rows = tuple[pd.DataFrame, "pd.Series[Any]"]
FIGURES = ("cells", "right", "exact", "told", "proved", "wrong", "others", "targets", "alone")


@dataclass(frozen=True)
class Case(attempt.Case):
    """One model, with all that its file holds or with values of leaves alone."""

    values_alone: bool = False
    groups: bool = False
    """Whether the schema states all one-hot groups of adult; the papers' states one of three."""

    @property
    def schema(self) -> Schema:
        """What the attack knows of the columns."""
        if not self.groups or self.table != "adult":
            return table(self.table).schema
        return load_adult().schema


def trained(
    case: Case, settings: Mapping[str, Any] = MappingProxyType({})
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
    model = getattr(module, name)(**_QUIET[library], **given, **settings)
    own = X.iloc[: case.n_rows].reset_index(drop=True), y.iloc[: case.n_rows]
    # Some libraries take no names with brackets.
    model.fit(own[0].to_numpy(), own[1].to_numpy())
    release = replace(to_release(model), feature_names=tuple(X.columns), ranges={}, borders={})
    return release, *own, X.iloc[case.n_rows :], y.iloc[case.n_rows :]


def values_alone(release: Release, library: str) -> Release:
    """Take out all but the values of leaves, as ``treeleak harden`` does."""
    trees = [
        replace(
            tree, statistics=Statistics(tuple(s for s in tree.statistics if s.quantity == VALUE))
        )
        for tree in release.trees
    ]
    ensemble = release.ensemble
    if ensemble is not None and (fitting := ensemble.fitting) is not None:
        own = replace(
            fitting, start=None, started=fitting.start is None, assumed=library == "xgboost"
        )
        ensemble = replace(ensemble, fitting=own)
    return replace(release, trees=tuple(trees), n_rows=None, ensemble=ensemble)


def run(case: Case) -> Record:
    """Train, attack, measure."""
    return attacked(case)[0]


def attacked(
    case: Case, settings: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Record, Reconstruction | None, pd.DataFrame]:
    """Train, attack, measure; the record, the answer, and the training rows.

    Parameters
    ----------
    case : Case
    settings : mapping
        Parameters of the model beside those in ``MODELS``.
    """
    release, X, y, other, other_y = trained(case, settings)
    release = values_alone(release, MODELS[case.model][0]) if case.values_alone else release
    record, found = attempt.attempt(
        lambda: treeleak.reconstruct(
            release, case.schema, bootstrap=_sampling(release, settings),
            time_limit=case.time_limit, seed=case.seed,
        )
    )  # fmt: skip
    outcome = dict.fromkeys(FIGURES) | record
    if found is None or found.X is None:
        return outcome, found, X
    told = {"told": _told(release, case.schema, X)}
    return outcome | told | _measured(release, found, (X, y), (other, other_y)), found, X


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
    return {
        "cells": _share(cells, true_cells),
        "right": _share(pairs, true_pairs),
        "exact": _share(*exact),
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
    geometry = Geometry.of(release, schema)
    anywhere = np.ones((sum(len(tree.leaves) for tree in release.trees), 1), dtype=bool)
    try:
        partition = enumerate_cells(geometry, anywhere)
    except GridTooLarge:
        return None
    n_points = Counter(partition.cell.tolist())
    own = [
        part.holding(X[list(part.attribute.columns)].to_numpy(), release).argmax(axis=1)
        for part in geometry.parts
    ]
    point = np.column_stack(own) @ geometry.stride
    cell = partition.cell[np.searchsorted(partition.points, point)]
    return float(np.mean([n_points[c] == 1 for c in cell.tolist()]))


def _sampling(release: Release, settings: Mapping[str, Any]) -> str:
    """Say that all trees saw all rows where a file leaves that open and no setting drew them."""
    return "none" if release.sampling.kind == "unknown" and "subsample" not in settings else "auto"


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
    """Shares of all rows, and of those alone in their cell, whose target is nearly right."""
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
    near = np.abs(said - true) <= _NEAR * (true.max() - true.min())
    alone = np.array([size[cell] == 1 for cell in true_cells])
    return {
        "targets": float(near.mean()),
        "alone": float(near[alone].mean()) if alone.any() else None,
    }
