"""Exact counts: errors behind them beside those behind hidden draws, which say less.

"same trees": exact counts of the trees that were grown on draws. Forests without bootstrap have
other trees, which repeat each other more. The studies of DRAFT's tables hold the published figures.
"large" are forests of 40,000 rows of Adult, without bootstrap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from experiments.benchmarks.frame import collect, flat, options, said_of, show
from experiments.benchmarks.published import depth_name
from experiments.data import DATASETS
from experiments.forests import Forest, attack


def point(dataset: str, depth: int, seed: int) -> Forest:
    return Forest(dataset, 100, depth, "none", seed, 100, "auto", 60.0)


def beside_hidden(seeds: Sequence[int]) -> Iterator[Forest]:
    for dataset, depth, s in product(DATASETS, (2, 3), seeds):
        plain = point(dataset, depth, s)
        yield from (plain, replace(plain, counted=True), replace(plain, bootstrap="hidden"))


def beside_table(runs: pd.DataFrame) -> bool:
    """Print errors behind exact counts beside those behind hidden draws."""
    runs = runs.assign(depth=[depth_name(d) for d in runs.depth])
    kind = np.where(runs.counted, "same trees", np.where(runs.bootstrap == "none", "own", "hidden"))
    errors = runs.assign(kind=kind).pivot(
        index=["dataset", "depth", "seed"], columns="kind", values=["error", "seconds"]
    )
    lines = []
    for (dataset, depth), own in errors.groupby(level=["dataset", "depth"], sort=False):
        other = own.error.hidden
        for trees in ("own", "same trees"):
            error = own.error[trees]
            lines.append({
                "dataset": dataset, "depth": depth, "trees": trees, "error": error.mean(),
                "with hidden draws": other.mean(), "forests that err more": (error > other).sum(),
                "s": own.seconds[trees].median(), "s hidden": own.seconds.hidden.median(),
                "met": error.mean() <= other.mean(),
            })  # fmt: skip
    return show(f"exact counts beside hidden draws, 100 trees: {said_of(runs)}", lines)


def large_table(runs: pd.DataFrame) -> bool:
    """Print how many rows of large forests came back."""
    shown = runs[["seed", "status", "exact_rows", "seconds", "peak_mb"]]
    return show(f"40,000 rows, no bootstrap: {said_of(runs)}", shown)


def main(args: Sequence[str]) -> int:
    given = options("exact", __doc__, args, parts=("beside", "large"), kept=True, seeds=range(5),
                    at_once=1)  # fmt: skip
    large = [Forest("adult", 100, None, "none", s, 40_000, "auto", 120.0) for s in given.seeds]
    todo = {"beside": list(beside_hidden(given.seeds)), "large": large}
    tables, met = {"beside": beside_table, "large": large_table}, True
    for part in given.parts:
        records = collect(
            "exact", todo[part], attack,
            lambda _: replace(point("compas", 3, 0), n_trees=3), given, at_once=given.at_once,
        )  # fmt: skip
        met &= tables[part](flat(records, ["error"]))
    return int(not met)
