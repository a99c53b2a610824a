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
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.benchmarks.ohdsi_bundles import patients, write_bundle
from experiments.benchmarks.options import Options
from experiments.benchmarks.tables import CONSOLE, new_table
from treeleak.schema import Binary, Schema

LEAST = 10


def in_small_leaves(model: RandomForestClassifier, X: np.ndarray, least: int) -> float:
    """Share of patients who are, in some tree, in a leaf of fewer patients than ``least``.

    A leaf counts the patients whom its tree drew; those whom it did not draw are in none.
    """
    small = np.zeros(len(X), dtype=bool)
    leaves = model.apply(X)
    for t, drawn in enumerate(model.estimators_samples_):
        rows = np.unique(drawn)
        _, at, sizes = np.unique(leaves[rows, t], return_inverse=True, return_counts=True)
        small[rows[sizes[at] < least]] = True
    return float(small.mean())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each depth."""
    parser = Options("ohdsi", __doc__ or "", kept=False)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--depths", type=int, nargs="+", default=[4, 17])
    parser.add_argument("--time-limit", type=float, default=300.0)
    given = parser.parse_args(arguments)
    X, y = patients(given.rows, given.columns)
    schema = Schema([Binary(name) for name in X.columns])
    table = new_table(
        f"{given.rows:,} patients, {given.columns} columns, time limit {given.time_limit:g} s",
        "depth, rows in order, rows exact, error, status, patients in small leaves, seconds",
        "status",
    )
    for depth in given.depths:
        model = RandomForestClassifier(100, max_depth=depth, random_state=12345).fit(X, y)
        with tempfile.TemporaryDirectory() as scratch:
            bundle = write_bundle(Path(scratch) / "plp", model, X, min_cell_count=LEAST)
            start = time.perf_counter()
            found = treeleak.reconstruct(bundle, schema, time_limit=given.time_limit)
            seconds = time.perf_counter() - start
        wrong = np.ones(X.shape) if found.X is None else found.X.to_numpy() != X.to_numpy()
        exact = 0.0
        if found.X is not None:
            true, counts = np.unique(X.to_numpy(), axis=0, return_counts=True)
            left = {row.tobytes(): n for row, n in zip(true, counts, strict=True)}
            for row in found.X.to_numpy().astype(true.dtype):
                if left.get(row.tobytes(), 0) > 0:
                    left[row.tobytes()] -= 1
                    exact += 1 / len(X)
        small = in_small_leaves(model, X.to_numpy(), LEAST)
        table.add_row(
            str(depth), f"{(~wrong.any(axis=1)).mean():.1%}", f"{exact:.1%}", f"{wrong.mean():.2%}",
            found.status, f"{small:.1%}", f"{seconds:.0f}",
        )  # fmt: skip
    CONSOLE.print(table)
    return 0
