"""What one tree or one rule list allows, at scale; and how long the best rule list takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

from experiments.benchmarks.options import Options
from experiments.benchmarks.tables import CONSOLE, verdict
from experiments.data import data_file
from experiments.learners import optimal_lists
from treeleak.core.errors import BadInput
from treeleak.release import Release, to_release
from treeleak.schema import Numeric, Schema
from treeleak.uncertainty import from_tree

N_LEAVES, N_COLUMNS, N_ROWS = 10_000, 100, 1_000_000
SECONDS, SECONDS_LIST = 2.0, 600.0
REPEATS = 5


def big_tree(seed: int) -> Release:
    """A tree on noise, whose counts are scaled to a million rows."""
    rng = np.random.default_rng(seed)
    n = 50_000
    X = pd.DataFrame(rng.random((n, N_COLUMNS)), columns=[f"x{i}" for i in range(N_COLUMNS)])
    y = rng.integers(2, size=n)
    tree = DecisionTreeClassifier(
        splitter="random", max_features=1, max_leaf_nodes=N_LEAVES, random_state=seed
    )
    release = to_release(tree.fit(X, y))
    (own,) = release.trees
    assert own.counts is not None
    times = N_ROWS // n
    scaled = own.with_counts(counts=own.counts * times, totals=None, distinct=None)
    return replace(release, trees=(scaled,), n_rows=N_ROWS)


def trees(seeds: range) -> None:
    for seed in seeds:
        release = big_tree(seed)
        schema = Schema([Numeric(c, 0, 1) for c in release.feature_names])
        data = from_tree(release, schema)
        took = _seconds(lambda r=release, s=schema: from_tree(r, s).dist_g())  # type: ignore[misc]
        CONSOLE.print(
            f"tree, seed {seed}: {len(data.names):,} leaves, {data.n_attributes} columns, "
            f"{data.n_rows:,} rows: Dist_G {data.dist_g():.4f} in {took:.3f} s "
            f"(floor {SECONDS:g}): {verdict(took < SECONDS)}"
        )


def rule_list() -> None:
    try:
        table = pd.read_csv(data_file("corels_compas.csv"))
    except BadInput as why:
        CONSOLE.print(f"no rule list: {why}")
        return
    X, y = table.iloc[:, :-1], table.iloc[:, -1]
    start = time.perf_counter()
    best = optimal_lists(X, y, 10, 0.01)[-1]
    took = time.perf_counter() - start
    CONSOLE.print(
        f"rule list on {len(table):,} rows of corels_compas, up to 10 rules, support 0.01: "
        f"accuracy {(best.predict(X) == y).mean():.4f}, {took:.1f} s "
        f"(floor {SECONDS_LIST:g}): {verdict(took < SECONDS_LIST)}"
    )


def _seconds(do: Callable[[], object]) -> float:
    """Median of some repeats."""
    took = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        do()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def main(args: Sequence[str]) -> None:
    Options("worlds", __doc__, kept=False).parse_args(args)
    trees(range(5))
    rule_list()
