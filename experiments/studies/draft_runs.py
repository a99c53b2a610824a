"""DRAFT's experiments: attacks on forests without noise, the grid, and what all studies share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import pandas as pd

from experiments import forests
from experiments.data import DATASETS, have_tables
from experiments.forests import Forest
from experiments.study import Parameters, Record, Study

PAPER = "DRAFT 2024"
DEPTHS = (2, 3, 4, 5, 10, None)
TREES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
SEEDS = range(5)
UNANSWERED = "unknown"
LIMIT = 30.0
"""Seconds of a run."""
EXPERIMENT = "draft"
"""All studies of :func:`attack`: a run is made once, whichever of them shows it."""


def attack(parameters: Parameters) -> Record:
    """Train a forest as the paper does, attack it, measure: parameters are those of Forest."""
    found = forests.attack(Forest(**parameters))
    kept = ("seconds", "expected_error", "guess", "misfit")
    status = UNANSWERED if found["status"] == "refused" else found["status"]
    error = math.nan if found["error"] is None else found["error"]
    return {name: found[name] for name in kept} | {"status": status, "error": error}


def point(**changed: Any) -> dict[str, Any]:
    """Parameters of an attack, with what is changed."""
    return {
        "dataset": "compas", "n_trees": 100, "depth": None, "bootstrap": "none", "seed": 0,
        "n_rows": 100, "method": "auto", "time_limit": LIMIT, **changed,
    }  # fmt: skip


def small(p: Parameters) -> Parameters:
    """Say what compiles the same kernels: other draws, another method, or one tree have others."""
    small = {"dataset": "compas", "depth": 3, "seed": 0, "time_limit": 20.0, "n_rows": 40}
    return {**p, **small, "n_trees": min(p["n_trees"], 3)}


draft_study = partial(
    Study,
    paper=PAPER,
    run=attack,
    experiment=EXPERIMENT,
    warm=small,
    check=have_tables,
)


def cross(
    seeds: Sequence[int],
    trees: Sequence[int],
    depths: Sequence[int | None],
    draws: Sequence[str],
    datasets: Sequence[str] = DATASETS,
    **fixed: Any,
) -> Iterator[dict[str, Any]]:
    """Cross the parameters of the paper's grid."""
    for dataset, n_trees, depth, bootstrap, seed in product(datasets, trees, depths, draws, seeds):
        yield point(
            dataset=dataset, n_trees=n_trees, depth=depth, bootstrap=bootstrap, seed=seed, **fixed
        )


def depth_name(depth: Any) -> str:
    """Name a depth: "None" where trees may have any."""
    return "None" if depth is None or pd.isna(depth) else f"{depth:g}"


def count_open(runs: pd.DataFrame) -> int:
    """Count runs without an answer."""
    return int((runs.status == UNANSWERED).sum())


def means_of(runs: pd.DataFrame, keys: list[str], **more: tuple[str, str]) -> pd.DataFrame:
    """Mean error and time of each point, with more columns between them."""
    grouped = runs.groupby(keys, sort=False)
    return grouped.agg(
        error=("error", "mean"), **more, seconds=("seconds", "mean"), runs=("seed", "size"),
        unanswered=("status", lambda s: int((s == UNANSWERED).sum())),
    ).reset_index()  # fmt: skip
