"""What DRAFT-DP's experiments do: attack forests with noise on their counts, and measure.

"shared" forests are the paper's own, which all carry one vector of noise, rescaled; "fresh" ones
are the same trees with noise of their own; "trained" ones are new, on rows drawn by the seed.
"""

from __future__ import annotations

import time
import warnings
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import treeleak
from experiments.data import data_file, draft, draft_sample
from experiments.dp_forests import load_dp_forest
from experiments.study import Parameters, Record
from treeleak.core.arrays import IntArray
from treeleak.core.errors import BadInput, NotCovered, PrivacyWarning
from treeleak.core.private import dataclass
from treeleak.datasets import Dataset
from treeleak.learn import DPForestClassifier
from treeleak.metrics.matching import MATCH_LIMIT
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release
from treeleak.release.noise.laws import Laplace

TREE_SEEDS = 5
"""Seeds of the paper's forests, from 0."""
INFORMED_ROWS = {"adult": 20_000, "compas": 2_000, "default_credit": 10_000}
"""Training rows of the informed adversary's forests."""
_MEASURED = ("error", "expected_error", "n", "between")

ROW_BY_ROW = (
    "tail", "others", "perfect", "worst", "inliers", "perfect_inliers", "outliers",
    "perfect_outliers",
)  # fmt: skip
"""What :func:`attack_closely` adds to a record."""


@dataclass(frozen=True, eq=False)
class _Attacked:
    """A forest, its training rows, and what came of the attack."""

    data: Dataset
    chosen: IntArray
    model: Release | DPForestClassifier
    result: Reconstruction | None
    record: Record

    @property
    def X(self) -> pd.DataFrame:
        return _rows(self.data, self.chosen)[0]


def attack(parameters: Parameters) -> Record:
    """Attack one forest with noise on its counts; without, if its epsilon is None.

    ``forest``: "shared", "fresh" or "trained". ``told_n``: whether the number of rows is known.
    ``known`` and ``population`` are 0: nothing else is.
    """
    return _attacked(parameters).record


def attack_and_score(parameters: Parameters) -> Record:
    """Do as :func:`attack`, and add the forest's accuracy and the error of a random guess."""
    return _scored(_attacked(parameters), parameters["seed"])


def attack_closely(parameters: Parameters) -> Record:
    """Attack, score, and measure row by row and against other draws of the population."""
    own = _attacked(parameters)
    record = _scored(own, parameters["seed"]) | dict.fromkeys(ROW_BY_ROW)
    if own.result is None or own.result.X is None:
        return record
    X, schema, seed = own.X, own.data.schema, parameters["seed"]
    rows = treeleak.metrics.same_size(own.result.X, len(X), seed)
    others = own.data.X.drop(index=own.data.X.index[own.chosen])
    tested = treeleak.metrics.significance(rows, X, others, schema, seed=seed)
    single = treeleak.metrics.individual_errors(rows, X, schema, seed=seed)
    return record | {
        "tail": tested.tail,
        "others": [round(float(e), 5) for e in tested.errors],
        "perfect": single.all.perfect,
        "worst": single.all.worst,
        "inliers": single.inliers.error,
        "perfect_inliers": single.inliers.perfect,
        "outliers": single.outliers.error,
        "perfect_outliers": single.outliers.perfect,
    }


def informed_attack(parameters: Parameters) -> Record:
    """Train a forest, take some of its rows in turn as the missing one, and measure."""
    p = parameters
    data, chosen, forest = informed_forest(p)
    X, y = _rows(data, chosen)
    audit = treeleak.informed_audit(
        forest, X, y, data.schema, n_targets=p["n_targets"], seed=p["seed"]
    )
    groups = audit.individual
    return {
        **audit.means,
        "perfect": groups.all.perfect,
        "inliers": groups.inliers.error,
        "outliers": groups.outliers.error,
        "perfect_inliers": groups.inliers.perfect,
        "perfect_outliers": groups.outliers.perfect,
        "seconds": audit.seconds,
    }


def informed_forest(parameters: Parameters) -> tuple[Dataset, IntArray, DPForestClassifier]:
    """Train the forest that the informed adversary has: its table, its rows, and itself."""
    p, data = parameters, draft(parameters["dataset"])
    rng = np.random.default_rng(p["seed"])
    chosen = rng.choice(len(data.X), INFORMED_ROWS[p["dataset"]], replace=False)
    return data, chosen, _trained(p, data, p["mechanism"], *_rows(data, chosen))


def accuracy(parameters: Parameters) -> Record:
    """Train one forest on the first rows of a table: its accuracy on them and on all others.

    ``learner``: "sklearn", or the mechanism of a private forest, which has a ``cost``: the epsilon
    that the noise really costs.
    """
    from sklearn.ensemble import RandomForestClassifier

    p, data = parameters, draft(parameters["dataset"])
    chosen = np.arange(p["n_rows"])
    X, y = _rows(data, chosen)
    if p["learner"] == "sklearn":
        forest: Any = RandomForestClassifier(
            p["n_trees"], max_depth=p["depth"], random_state=p["seed"]
        ).fit(X, y)
    else:
        forest = _trained(p, data, p["learner"], X, y)
    return _accuracy(forest, data, chosen) | {"cost": getattr(forest, "epsilon_spent_", None)}


def paper_forest(parameters: Parameters) -> Release:
    """Load one of the paper's forests, with its noise or with noise that only this run has."""
    p = parameters
    n_trees, depth, epsilon, seed = p["n_trees"], p["depth"], p["epsilon"], p["seed"]
    path = forest_path(p["dataset"])
    if p["forest"] == "shared":
        return load_dp_forest(path, n_trees, depth, seed, epsilon)
    cell = f"{p['dataset']} {n_trees} {depth} {epsilon:g}"
    rng = np.random.default_rng([seed, zlib.crc32(cell.encode())])
    true = load_dp_forest(path, n_trees, depth, seed % TREE_SEEDS, None)
    return with_noise(true, epsilon, rng)


def forest_path(dataset: str) -> Path:
    """Say where the paper's forests lie.

    Raises
    ------
    BadInput
        If TREELEAK_DATA names no folder with them.
    """
    return data_file(f"dp_forests_{dataset}.npz")


def with_noise(release: Release, epsilon: float, rng: np.random.Generator) -> Release:
    """Add the paper's noise, int(Lap(n_trees / epsilon)), to exact counts of the leaves."""
    law = Laplace(epsilon / len(release.trees), "towards zero")
    trees = []
    for tree in release.trees:
        assert tree.counts is not None  # noqa: S101
        noise = np.trunc(rng.laplace(scale=1 / law.epsilon, size=tree.counts.shape))
        counts = np.where(tree.is_leaf[:, None], tree.counts + noise, 0.0)
        trees.append(tree.with_counts(counts=counts))
    return replace(release, trees=tuple(trees), noise=law)


def not_answered(status: str, seconds: float) -> Record:
    """Record a run whose answer is not there."""
    return {"status": status, "seconds": seconds, **dict.fromkeys(_MEASURED)}


def _attacked(p: Parameters) -> _Attacked:
    data = draft(p["dataset"])
    chosen = np.arange(p["n_rows"])
    if p["forest"] == "trained":
        numbered = replace(data, X=pd.DataFrame({"row": range(len(data.X))}))
        chosen = draft_sample(numbered, p["n_rows"], p["seed"])[0]["row"].to_numpy()
    X, y = _rows(data, chosen)
    told: dict[str, Any] = {"n_rows": p["n_rows"]} if p["told_n"] else {}
    trained = p["forest"] == "trained"
    model: Any = _trained(p, data, "draft-dp", X, y) if trained else paper_forest(p)
    start = time.perf_counter()
    try:
        result = treeleak.reconstruct(
            model, data.schema, time_limit=p["time_limit"], seed=p["seed"], method=p["method"],
            **told,
        )  # fmt: skip
    except NotCovered as why:
        record = not_answered("refused", time.perf_counter() - start) | {"why": str(why)}
        return _Attacked(data, chosen, model, None, record)
    record = not_answered(result.status, time.perf_counter() - start)
    record |= _measured(p, result, data, X)
    return _Attacked(data, chosen, model, result, record)


def _measured(p: Parameters, result: Reconstruction, data: Dataset, X: pd.DataFrame) -> Record:
    found: Record = {}
    if result.row_count is not None:
        found |= {"n": result.row_count.n, "between": list(result.row_count.between)}
    if result.X is None or result.y is None:
        return found
    rows = treeleak.metrics.same_size(result.X, len(X), p["seed"])
    found |= {
        "numbers": dict(result.numbers),
        "error": _error(rows, X, data.schema),
        "expected_error": result.expected_error,
    }
    return found


def _error(rows: pd.DataFrame, X: pd.DataFrame, schema: treeleak.Schema) -> float | None:
    """None if there are too many different rows to match them."""
    try:
        return treeleak.metrics.reconstruction_error(rows, X, schema)
    except BadInput:
        if len(X) <= MATCH_LIMIT:
            raise
        return None


def _scored(own: _Attacked, seed: int) -> Record:
    X, y = _rows(own.data, own.chosen)
    return {
        **own.record,
        **_accuracy(_as_forest(own.model, own.data), own.data, own.chosen),
        "majority": float(y.value_counts(normalize=True).max()),
        "guess": treeleak.metrics.random_baseline(X, own.data.schema, 20, seed).mean,
    }


def _accuracy(forest: Any, data: Dataset, chosen: IntArray) -> dict[str, float]:
    others = np.setdiff1d(np.arange(len(data.X)), chosen)
    parts = {"train": chosen, "test": others}
    return {name: float(forest.score(*_rows(data, part))) for name, part in parts.items()}


def _rows(data: Dataset, chosen: IntArray) -> tuple[pd.DataFrame, pd.Series[Any]]:
    X, y = data.X.iloc[chosen], data.y.iloc[chosen]
    return X.reset_index(drop=True), y.reset_index(drop=True)


def _as_forest(model: Release | DPForestClassifier, data: Dataset) -> DPForestClassifier:
    """Let a release predict as the paper's forests do: by the mean of its leaves' shares."""
    if isinstance(model, DPForestClassifier):
        return model
    forest = DPForestClassifier(schema=data.schema, classes=model.classes)
    forest.trees_, forest.classes_ = list(model.trees), np.array(model.classes)
    return forest


def _trained(
    p: Parameters, data: Dataset, mechanism: Any, X: pd.DataFrame, y: pd.Series[Any]
) -> DPForestClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return DPForestClassifier(
            p["n_trees"], p["depth"], p["epsilon"], schema=data.schema, classes=(0, 1),
            mechanism=mechanism, random_state=p["seed"],
        ).fit(X, y)  # fmt: skip
