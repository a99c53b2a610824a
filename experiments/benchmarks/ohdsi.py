"""Bundles of OHDSI PatientLevelPrediction on simulated patients: a random forest of 100 trees for
each depth that is tried by default. Rows that come back in order, and patients in leaves of fewer
patients than the bundle itself lets be shown.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.benchmarks.frame import options, show
from experiments.benchmarks.ohdsi_bundles import patients, write_bundle
from treeleak.metrics import exact_row_share
from treeleak.schema import Binary, Schema

LEAST = 10


def in_small_leaves(model: RandomForestClassifier, X: pd.DataFrame, least: int) -> float:
    """Share of patients who are, in some tree, in a leaf of fewer patients than ``least``.

    A leaf counts the patients whom its tree drew; those whom it did not draw are in none.
    """
    small = np.zeros(len(X), dtype=bool)
    leaves = model.apply(X.to_numpy())
    for t, drawn in enumerate(model.estimators_samples_):
        rows = np.unique(drawn)
        _, at, sizes = np.unique(leaves[rows, t], return_inverse=True, return_counts=True)
        small[rows[sizes[at] < least]] = True
    return float(small.mean())


def main(arguments: Sequence[str] = ()) -> int:
    """Print a line for each depth."""
    given = options(
        "ohdsi", __doc__, arguments, rows=1000, columns=60, depths=[4, 17], time_limit=300.0
    )
    X, y = patients(given.rows, given.columns)
    schema, lines = Schema([Binary(name) for name in X.columns]), []
    for depth in given.depths:
        model = RandomForestClassifier(100, max_depth=depth, random_state=12345).fit(X, y)
        with tempfile.TemporaryDirectory() as scratch:
            bundle = write_bundle(Path(scratch) / "plp", model, X, min_cell_count=LEAST)
            start = time.perf_counter()
            found = treeleak.reconstruct(bundle, schema, time_limit=given.time_limit)
            seconds = time.perf_counter() - start
        wrong = np.ones(X.shape) if found.X is None else found.X.to_numpy() != X.to_numpy()
        lines.append({
            "depth": depth, "rows in order": (~wrong.any(axis=1)).mean(),
            "rows exact": 0.0 if found.X is None else exact_row_share(found.X, X),
            "error": wrong.mean(), "status": found.status, "seconds": seconds,
            "patients in small leaves": in_small_leaves(model, X, LEAST),
        })  # fmt: skip
    title = f"{given.rows:,} patients, {given.columns} columns, time limit {given.time_limit:g} s"
    return int(not show(title, lines))
