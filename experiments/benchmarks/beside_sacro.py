"""Membership by a model's own predictions, beside SACRO-ML's attacks on the same ten models.

``python -m experiments run beside_sacro`` trains ten classifiers on half of a table's people and
gives the other half as control rows with labels. Each model is audited, and attacked by SACRO-ML's
worst case attack (an attack model trained on the model's predictions, ten times) and by its LiRA
(offline, 100 shadow models), all with their defaults. Needs ``pip install sacroml``.

Floors: an AUC of at most 0.01 below that of either attack, in a tenth of the time that both take.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from sklearn import ensemble as E
from sklearn.tree import DecisionTreeClassifier

import treeleak
from experiments.benchmarks.claims import coded
from experiments.benchmarks.frame import Lost, in_processes, options, progress, show
from experiments.benchmarks.usual import TABLES, table
from experiments.libraries import unfitted
from treeleak.auditing import run as audit_run
from treeleak.auditing.assessors import shadow_models

Forest = E.RandomForestClassifier
MODELS: dict[str, Callable[[], Any]] = {
    "forest default": lambda: Forest(random_state=0),
    "forest tuned": lambda: Forest(300, max_depth=12, min_samples_leaf=5, random_state=0),
    "forest balanced": lambda: Forest(class_weight="balanced", random_state=1),
    "extra trees": lambda: E.ExtraTreesClassifier(200, max_depth=12, random_state=0),
    "one tree": lambda: DecisionTreeClassifier(max_depth=6, min_samples_leaf=5, random_state=0),
    "bagging": lambda: E.BaggingClassifier(n_estimators=50, random_state=0),
    "GradientBoosting": lambda: E.GradientBoostingClassifier(random_state=0),
    "HistGradientBoosting": lambda: E.HistGradientBoostingClassifier(random_state=0),
    "XGBoost": lambda: unfitted("XGBClassifier", n_jobs=1),
    "LightGBM": lambda: unfitted("LGBMClassifier", n_jobs=1),
}
BELOW, SHARE = 0.01, 0.1
"""By how much an AUC may be lower, and the share of the time."""


@dataclass(frozen=True)
class Case:
    """One audit."""

    model: str
    table: str
    rows: int
    limit: float
    seed: int


def attacked(case: Case) -> dict[str, Any]:
    """Train a model, and attack it in three ways."""
    warnings.simplefilter("ignore")
    X, y = table(case.table, 2 * case.rows, case.seed)
    rows, labels = coded(X).to_numpy(dtype=float), np.unique(y, return_inverse=True)[1]
    inside, outside = np.split(np.random.default_rng(case.seed).permutation(len(rows)), 2)
    members, others = (rows[inside], labels[inside]), (rows[outside], labels[outside])
    model = MODELS[case.model]().fit(*members)
    ours, seconds = _ours(model, members, others, case)
    worst, worst_seconds = _theirs("worst_case", "WorstCaseAttack", model, members, others)
    lira, lira_seconds = _theirs("likelihood", "LIRAAttack", model, members, others)
    met = ours >= max(worst, lira) - BELOW and seconds <= SHARE * (worst_seconds + lira_seconds)
    return {
        "AUC": ours, "s": seconds, "worst case": worst, "s ": worst_seconds, "LiRA": lira,
        "s  ": lira_seconds, "met": met,
    }  # fmt: skip


def _ours(model: Any, members: Any, others: Any, case: Case) -> tuple[float, float]:
    """The AUC that an audit reports, and the seconds of this part of it."""
    spent = 0.0

    def timed(given: Any) -> Any:
        nonlocal spent
        started = time.perf_counter()
        try:
            return shadow_models.assess(given)
        finally:
            spent = time.perf_counter() - started

    audit_run.ASSESSORS = tuple(
        replace(a, assess=timed) if a.assess is shadow_models.assess else a
        for a in audit_run.ASSESSORS
    )
    found = treeleak.audit(
        model, *members, control=others[0], control_y=others[1], time_limit=case.limit,
        seed=case.seed,
    )  # fmt: skip
    direct = None if found.shadows is None else found.shadows.direct
    return (float("nan") if direct is None else direct.auc.value), spent


def _theirs(module: str, name: str, model: Any, members: Any, others: Any) -> tuple[float, float]:
    logging.disable(logging.CRITICAL)
    attack = getattr(import_module(f"sacroml.attacks.{module}_attack"), name)
    target = import_module("sacroml.attacks.target").Target(
        model=model, dataset_name="table", X_train=members[0], y_train=members[1],
        X_test=others[0], y_test=others[1],
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        started = time.perf_counter()
        report = attack(output_dir=folder, write_report=False).attack(target)
        seconds = time.perf_counter() - started
    found = report["attack_experiment_logger"]["attack_instance_logger"]
    return float(np.mean([one["AUC"] for one in found.values()])), seconds


def main(args: Sequence[str]) -> int:
    """Print a line per model."""
    given = options(
        "beside_sacro", __doc__, args, table=TABLES, rows=500, limit=60.0, seed=0,
        models=list(MODELS),
    )  # fmt: skip
    import_module("sacroml")
    todo = [Case(m, given.table, given.rows, given.limit, given.seed) for m in given.models]
    lines = []
    for case, found in in_processes(attacked, todo, apart=True):
        line = {"AUC": None, "met": False} if isinstance(found, Lost) else found
        lines.append({"model": case.model} | line)
        progress(f"{case.model}: {found}")
    return int(not show(f"membership, {given.table}, {given.rows} members", lines))
