"""Out-of-bag predictions as evidence: rows in the leaves of the trees that did not draw them.

``python -m experiments run oob`` trains forests with their seeds and ``oob_score=True``, and
attacks each with the array and without. "all_trees" is the share of rows that are in the right
leaf of every tree that did not draw them, "leaves" the share of these leaves, "in_bag" that of
rows in the right leaf of every tree that drew them, "lines" that of rows that meet their own line.
Floor: of 1,000 raw rows of Adult and 100 trees, 99 % of the rows in all trees; no wrong proof.
DRAFT's "compas" has columns of 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.benchmarks.frame import Record, collect, flat, floor, options, said_of, show
from experiments.benchmarks.known_raw_tables import TABLES, one_hot
from experiments.data import draft, draft_sample
from treeleak.release import to_release

_FLOOR = 0.99
_FIGURES = ["all_trees", "leaves", "in_bag", "lines", "proved", "wrong", "error", "seconds"]


@dataclass(frozen=True)
class Case:
    """One attack."""

    table: str
    n_rows: int
    n_trees: int
    depth: int | None
    least_leaf: int
    seed: int
    array: bool
    time_limit: float


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = TABLES[case.table]() if case.table in TABLES else draft(case.table)
    X, y = draft_sample(data, case.n_rows, case.seed)
    X, schema = one_hot(X, data.schema) if case.table in TABLES else (X, data.schema)
    forest = RandomForestClassifier(
        case.n_trees, max_depth=case.depth, min_samples_leaf=case.least_leaf, oob_score=True,
        random_state=case.seed,
    ).fit(X, y)  # fmt: skip
    release = to_release(forest)
    if not case.array:
        release = replace(release, out_of_bag=())
    found = treeleak.reconstruct(release, schema, time_limit=case.time_limit)
    rows = found.X[list(X)]
    own, true = (forest.apply(table.to_numpy(np.float32)) for table in (rows, X))
    drawn = np.array([np.bincount(i, minlength=len(X)) for i in forest.estimators_samples_]).T > 0
    right = own == true
    shares = np.array([
        tree.predict_proba(rows.to_numpy(np.float32))[:, 1] for tree in forest.estimators_
    ]).T  # fmt: skip
    line = (shares * ~drawn).sum(axis=1) / np.maximum((~drawn).sum(axis=1), 1)
    proved = found.proved.to_numpy()
    return {
        "all_trees": float((right | drawn).all(axis=1).mean()),
        "leaves": float(right[~drawn].mean()),
        "in_bag": float((right | ~drawn).all(axis=1).mean()),
        "lines": float((np.abs(line - forest.oob_decision_function_[:, 1]) < 1e-9).mean()),
        "proved": float(proved.mean()),
        "wrong": int((proved & ~right.all(axis=1)).sum()),
        "error": treeleak.metrics.reconstruction_error(rows, X, schema),
        "status": found.status,
        "seconds": found.seconds,
    }


def main(args: Sequence[str]) -> int:
    """Print a line for each attack; 1 if a line misses the floor, or a proof is wrong."""
    given = options(
        "oob", __doc__, args, kept=True, seeds=range(1), table="adult", rows=1000, trees=100,
        depth=int, least_leaf=1, time_limit=300.0,
    )  # fmt: skip
    todo = [
        Case(given.table, given.rows, given.trees, given.depth, given.least_leaf, seed, array,
             given.time_limit)
        for seed in given.seeds for array in (True, False)
    ]  # fmt: skip
    records = collect(
        "oob", todo, run, lambda c: replace(c, n_rows=60, n_trees=10, time_limit=60.0), given
    )
    runs = flat(records, _FIGURES)
    title = f"{given.table}, {given.rows:,} rows, {given.trees} trees: {said_of(runs)}"
    show(title, runs[["array", "seed", "status", *_FIGURES]])
    least = float(runs[runs.array].all_trees.min())
    met = floor(f"rows in all trees: {least:.3f}, floor {_FLOOR}", least >= _FLOOR)
    return int(not met or runs.wrong.sum() > 0)
