"""Small boosted classifiers of two classes, and every table that meets the sums in their leaves."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

from treeleak.evidence import evidence_for
from treeleak.partition import Geometry, Partition, enumerate_cells
from treeleak.release import Release, to_release
from treeleak.release.readers.xgboost_json import booster_from_bytes
from treeleak.schema import Binary, Schema

LIBRARIES = ("boosting", "histogram", "xgboost", "lightgbm", "catboost")


def needs(library: str) -> None:
    """Skip a test where a library is missing."""
    if library in ("xgboost", "lightgbm", "catboost") and find_spec(library) is None:
        pytest.skip(f"needs {library}: pip install 'treeleak[{library}]'")


def table(rng: np.random.Generator, n: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of zeros and ones, some of them twice, of two classes."""
    X = rng.integers(0, 2, (n, n_columns))
    if rng.random() < 0.3:
        X = X[rng.integers(1 + n // 2, size=n)]
    y = ((X[:, 0] + X[:, 1] * rng.integers(2) + rng.random(n)) > 1).astype(int)
    y[:2] = 0, 1
    return X, y


def bent(seed: int) -> dict[str, Any]:
    """Penalties and weights that two libraries have in common, in every second model."""
    rng = np.random.default_rng(1000 + seed)
    if rng.random() < 0.5:
        return {}
    return {
        "reg_alpha": float(rng.choice([0.0, 0.1, 1.0])),
        "max_delta_step": float(rng.choice([0.0, 0.0, 0.3])),
        "scale_pos_weight": float(rng.choice([1.0, 0.5, 3.0])),
    }


def trained(library: str, rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> Any:
    """A model of random parameters."""
    needs(library)
    rate, rounds = float(rng.choice([0.1, 0.3, 1.0])), int(rng.integers(1, 5))
    depth, l2 = int(rng.integers(1, 5)), float(rng.choice([0.0, 0.0, 1.0, 3.5]))
    least, leaves = int(rng.integers(1, 4)), int(rng.integers(2, 9))
    seed = int(rng.integers(99))
    if library == "boosting":
        criterion = str(rng.choice(["friedman_mse", "squared_error"]))
        model: Any = GradientBoostingClassifier(
            n_estimators=rounds, learning_rate=rate, max_depth=depth, min_samples_leaf=least,
            criterion=criterion, random_state=seed,
        )  # fmt: skip
    elif library == "histogram":
        model = HistGradientBoostingClassifier(
            max_iter=rounds, learning_rate=rate, max_depth=depth, max_leaf_nodes=leaves,
            min_samples_leaf=least, l2_regularization=l2, early_stopping=False, random_state=seed,
        )  # fmt: skip
    elif library == "xgboost":
        from xgboost import XGBClassifier

        model = XGBClassifier(
            n_estimators=rounds + 2, learning_rate=rate, max_depth=depth, reg_lambda=l2,
            min_child_weight=0.1 * least, n_jobs=1, random_state=seed,
            num_parallel_tree=1 + (seed % 5 == 0), **bent(seed),
        )  # fmt: skip
    elif library == "lightgbm":
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(
            n_estimators=rounds, learning_rate=rate, max_depth=depth, num_leaves=leaves,
            reg_lambda=l2, min_child_samples=least, min_child_weight=0.0, verbose=-1, n_jobs=1,
            random_state=seed, class_weight={0: 1.0, 1: 2.5} if seed % 7 == 0 else None,
            boosting_type="dart" if seed % 4 == 0 else "gbdt", drop_rate=0.5, skip_drop=0.2,
            **bent(seed),
        )  # fmt: skip
    else:
        from catboost import CatBoostClassifier

        model = CatBoostClassifier(
            iterations=rounds, learning_rate=rate, depth=min(depth, 3), l2_leaf_reg=l2 + 0.5,
            leaf_estimation_iterations=int(rng.choice([1, 3, 10])), verbose=False, thread_count=1,
            bootstrap_type="No", boosting_type="Plain", allow_writing_files=False,
            random_seed=seed, random_strength=0.0,
            scale_pos_weight=bent(seed).get("scale_pos_weight", 1.0),
        )  # fmt: skip
    return model.fit(X, y)


def masked(model: Any) -> Any:
    """What NVFlare would send of a model of XGBoost: every sum of hessians is 1."""
    file = json.loads(model.get_booster().save_raw("json"))
    for tree in file["learner"]["gradient_booster"]["model"]["trees"]:
        tree["sum_hessian"] = [1.0] * len(tree["sum_hessian"])
    return booster_from_bytes(json.dumps(file).encode())


def bits(release: Release) -> Schema:
    """Each column is 0 or 1."""
    return Schema([Binary(name) for name in release.feature_names])


def evidence_of(release: Release) -> Any:
    return evidence_for(release)(Geometry.of(release, bits(release)))


def rows_of_A(release: Release, X: np.ndarray) -> np.ndarray:
    """Leaves (rows of A) of each row in each tree."""
    start = np.cumsum([0, *(len(tree.leaves) for tree in release.trees)])
    rows = np.asarray(X, dtype=release.float_type)
    return np.column_stack(
        [start[t] + np.searchsorted(tree.leaves, tree.apply(rows))
         for t, tree in enumerate(release.trees)]
    )  # fmt: skip


def some_release(library: str, seed: int, most_rows: int = 30, most_columns: int = 4) -> Any:
    """A model, as what it releases, with the rows it was trained on; None if it has no test."""
    rng = np.random.default_rng(seed)
    X, y = table(rng, int(rng.integers(4, most_rows + 1)), int(rng.integers(2, most_columns + 1)))
    if len(np.unique(X, axis=0)) < 2:
        return None
    try:
        release = to_release(trained(library, rng, X, y))
    except Exception as why:
        if "catboost" in type(why).__module__ or "_catboost" in type(why).__module__:
            return None  # it refuses constant columns
        raise
    return release, X, y


@cache
def compositions(n: int, parts: int) -> np.ndarray:
    """Every way to share n rows out, shape (n_ways, parts)."""
    ways = []
    for bars in itertools.combinations(range(n + parts - 1), parts - 1):
        ends = np.array([-1, *bars, n + parts - 1])
        ways.append(np.diff(ends) - 1)
    return np.array(ways)


def worlds(evidence: Any, partition: Partition, most: int = 5000) -> np.ndarray | None:
    """Every histogram, shape (n_worlds, n_cells, 2), that meets all statements.

    None if there are too many to look at.
    """
    leaf, n = partition.signature.astype(np.int64), partition.n_cells
    if np.prod([(evidence.n_rows + k) / k for k in range(1, n)]) > 4e5:
        return None
    told = evidence.statements()
    m = compositions(evidence.n_rows, n)
    for own in (s for s in told if not s.by_label):
        m = m[_meet(own, m, leaf, np.zeros(n, dtype=int))]
    if np.prod(m + 1.0, axis=1).sum() > 4e5:
        return None
    both = np.array([way for own in m for way in _splits(own)]).reshape(-1, 2 * n)
    leaf, label = np.tile(leaf, (2, 1)), np.repeat([0, 1], n)
    for own in (s for s in told if s.by_label):
        both = both[_meet(own, both, leaf, label)]
        both = both[_digits_meet(evidence, own, both, leaf, label)]
    found = both.reshape(-1, 2, n).transpose(0, 2, 1)
    return None if len(found) > most else found


def _splits(m: np.ndarray) -> Iterator[np.ndarray]:
    for second in itertools.product(*(range(k + 1) for k in m.tolist())):
        yield np.append(m - second, second)


def _meet(told: Any, m: np.ndarray, leaf: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Say of each histogram whether it meets some statements: one item at a time adds up."""
    A = np.array([told.left(leaf[[j]], label[[j]]) for j in range(len(leaf))])
    off = np.abs(m @ A - told.right)
    return np.asarray((off <= np.asarray(told.law.tolerance) + 1e-9).all(axis=1))


def _digits_meet(
    evidence: Any, told: Any, m: np.ndarray, leaf: np.ndarray, label: np.ndarray
) -> np.ndarray:
    """The same, to the last digits, where rows in single precision are added up in double.

    Not of the first tree: where predictions start is not known so well.
    """
    fitting = evidence.geometry.release.ensemble.fitting
    if (fitting.margins, fitting.derivatives) != ("float64", "float32") or not fitting.plain:
        return np.ones(len(m), dtype=bool)
    A = np.array([told.left(leaf[[j]], label[[j]]) for j in range(len(leaf))])
    place = np.arange(len(evidence.n)) if told.place is None else told.place
    late = place[evidence.geometry.leaf_start[1] :]
    late = late[late >= 0]
    return np.asarray((np.abs(m @ A - told.right)[:, late] <= 1e-12).all(axis=1))


def cells_of(release: Release, schema: Schema) -> tuple[Any, Partition]:
    """The evidence of a release, and its cells."""
    evidence = evidence_for(release)(Geometry.of(release, schema))
    return evidence, enumerate_cells(evidence.geometry, evidence.open_leaves())


def histogram(partition: Partition, leaf: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many rows of each class there are in each cell, shape (n_cells, 2)."""
    at = (leaf[:, None, :] == partition.signature[None]).all(axis=2)
    assert at.any(axis=1).all()
    out = np.zeros((partition.n_cells, 2), dtype=int)
    np.add.at(out, (at.argmax(axis=1), y), 1)
    return out
