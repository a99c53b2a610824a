"""Attacks on forests of DRAFT's tables: what is varied, and what is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import treeleak
from experiments.attempt import Record, attempt
from experiments.data import draft, draft_sample
from treeleak.metrics import exact_row_share, random_baseline, reconstruction_error
from treeleak.release import Release, to_release

_LACKING: Record = {"error": None, "exact_rows": 0.0, "order_error": None, "in_order": None,
            "wrong_proved": 0}  # fmt: skip


@dataclass(frozen=True)
class Forest:
    """One forest, and what is known beside it.

    Attributes
    ----------
    bootstrap : {"none", "known", "hidden"}
        What the attack knows of the draws; without any, trees see all rows.
    counted : bool
        Whether the trees, grown on draws, count all rows once: exact counts of such trees.
    """

    dataset: str
    n_trees: int
    depth: int | None
    bootstrap: str
    seed: int
    n_rows: int
    method: str
    time_limit: float
    distinct: bool = True
    counted: bool = False


def attack(case: Forest) -> Record:
    """Train, attack, measure."""
    data = draft(case.dataset)
    X, y = draft_sample(data, case.n_rows, case.seed)
    forest = _fitted(case, X, y)
    if case.counted:
        _count_all(forest, X, y)
    model = forest if case.distinct else drawn_counts_alone(forest)

    record, result = attempt(
        lambda: treeleak.reconstruct(
            model, data.schema, "none" if case.counted else case.bootstrap, case.time_limit,
            case.seed, method=case.method,
        )
    )  # fmt: skip
    record |= _LACKING | {
        "guess": random_baseline(X, data.schema, 20, case.seed).mean,
        "expected_error": None if result is None else result.expected_error,
        "proved_rows": 0.0 if result is None else result.share_proved_rows,
    }
    if result is None or result.X is None:
        return record
    rows, true = result.X[X.columns].assign(label=result.y), X.assign(label=y)
    record |= {
        "error": reconstruction_error(result.X, X, data.schema),
        "exact_rows": exact_row_share(rows, true),
    }
    if not result.ordered or result.confidence is None:
        return record
    right = rows.to_numpy() == true.to_numpy()
    labels: Any = result.label_confidence
    sure = np.column_stack([result.confidence[X.columns], labels])
    return record | {
        "order_error": float(1 - right.mean()),
        "in_order": float(right.all(axis=1).mean()),
        "wrong_proved": int((~right & (sure == 1)).sum()),
    }


def drawn_counts_alone(model: Any) -> Release:
    """A model whose leaves count draws alone, and no distinct rows."""
    release = to_release(model)
    return replace(release, trees=tuple(t.with_counts(distinct=None) for t in release.trees))


def _fitted(case: Forest, X: pd.DataFrame, y: pd.Series[Any]) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    drawn = case.counted or case.bootstrap != "none"
    return RandomForestClassifier(
        case.n_trees, max_depth=case.depth, bootstrap=drawn, random_state=case.seed
    ).fit(X, y)


def _count_all(forest: Any, X: pd.DataFrame, y: pd.Series[Any]) -> None:
    """Let the trees count all rows once, instead of those that each drew."""
    numbers = np.searchsorted(forest.classes_, y)
    forest.set_params(bootstrap=False)
    for tree in forest.estimators_:
        reached = tree.decision_path(X.to_numpy()).toarray().astype(float)
        counts = reached.T @ np.eye(len(forest.classes_))[numbers]
        total = counts.sum(axis=1)
        tree.tree_.n_node_samples[:] = tree.tree_.weighted_n_node_samples[:] = total
        shares = tree.tree_.value[:, 0] = counts / np.maximum(total, 1.0)[:, None]
        tree.tree_.impurity[:] = 1.0 - (shares**2).sum(axis=1)
