"""The cells of DRAFT-DP's experiments: their grid, and errors beside the published ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from experiments.data import have_tables
from experiments.studies.dp_runs import ROW_BY_ROW, TREE_SEEDS, forest_path
from experiments.studies.published import read_published
from experiments.study import AHEAD, Parameters, Study, Table, verdict

PAPER = "DRAFT-DP 2026"
DATASETS = ("adult", "compas", "default_credit")
TREES = (1, 5, 10, 20, 30)
DEPTHS = (3, 5, 7)
EPSILONS = (0.1, 1.0, 5.0, 10.0, 20.0, 30.0)
SEEDS = range(TREE_SEEDS)
LIMIT = 25.0
LEAST = 0.002
"""Errors below are taken as this in ratios."""
UNANSWERED = ("unknown", "refused")
CELL = ["dataset", "n_trees", "depth", "epsilon"]
RATIO = "Ratio: published by treeleak's, so that above 1 is better. "
SHARED = (
    "All forests carry one vector of noise, rescaled, as in the authors' code: means over seeds "
    "are means over trees. The authors took two hours on 16 threads for each. "
)


def point(**changed: Any) -> dict[str, Any]:
    """Parameters of an attack on one of the paper's forests, with what is changed."""
    return {
        "dataset": "compas", "n_trees": 10, "depth": 5, "epsilon": 5.0, "seed": 0,
        "time_limit": LIMIT, "forest": "shared", "n_rows": 100, "told_n": True, "known": 0,
        "population": 0, "method": "auto", **changed,
    }  # fmt: skip


def grid(
    seeds: Sequence[int],
    trees: Sequence[int] = TREES,
    depths: Sequence[int] = DEPTHS,
    epsilons: Sequence[float | None] = EPSILONS,
    datasets: Sequence[str] = DATASETS,
    **fixed: Any,
) -> Iterator[dict[str, Any]]:
    """Cross the parameters of Table I; seed by seed, so that the first is a grid of its own."""
    for seed, n_trees, depth, epsilon, dataset in product(seeds, trees, depths, epsilons, datasets):
        yield point(
            dataset=dataset, n_trees=n_trees, depth=depth, epsilon=epsilon, seed=seed, **fixed
        )


def warm_of(p: Parameters) -> Parameters:
    """Say what compiles the same kernels."""
    return {
        **p, "dataset": "compas", "n_trees": 5, "depth": 3, "epsilon": 5.0, "seed": 0,
        "time_limit": 2.0, "n_rows": 100, "known": min(p["known"], 1),
    }  # fmt: skip


def have_forests() -> None:
    """Raise BadInput if one of the paper's forests, or of DRAFT's tables, is missing."""
    for name in DATASETS:
        forest_path(name)
    have_tables()


dp_study = partial(Study, paper=PAPER, warm=warm_of, check=have_tables)
"""A study of DRAFT-DP, unless it says otherwise."""


def ratio_of(theirs: Any, ours: Any) -> Any:
    """Divide published errors by ours, neither taken as less than LEAST."""
    return np.maximum(theirs, LEAST) / np.maximum(ours, LEAST)


def beside_published(
    runs: pd.DataFrame, published: pd.DataFrame, value: str, digits: int, keys: Sequence[str]
) -> pd.DataFrame:
    """Lay means beside the published ones; no worse is what rounds to no more than is printed."""
    own = (
        typed(runs)
        .groupby(list(keys))
        .agg(treeleak=(value, "mean"), runs=("seed", "size"), open=("status", count_open))
    )
    theirs = published[[*keys, value]].rename(columns={value: "published"})
    both = theirs.merge(own.reset_index(), on=list(keys))
    none, answered = both.published.isna(), both.treeleak.notna()
    ahead = answered & (none | (both.treeleak < both.published + 0.5 * 10.0**-digits))
    both.insert(len(keys) + 2, "ratio", ratio_of(both.published, both.treeleak))
    return both.assign(verdict=ahead.map(verdict))


def typed(runs: pd.DataFrame) -> pd.DataFrame:
    """What was measured are numbers also where no run has an answer."""
    names = [name for name in ("error", *ROW_BY_ROW) if name in runs and name != "others"]
    return runs.astype(dict.fromkeys(names, float))


def count_open(status: pd.Series[Any]) -> int:
    """Count the runs without an answer."""
    return int(status.isin(UNANSWERED).sum())


def summed(cells: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Means over cells that both have, and the geometric mean of their ratios."""
    lines = []
    for key, group in cells.groupby(list(by), sort=False):
        both = group[group.published.notna() & group.treeleak.notna()]
        ratio = float(np.exp(np.log(both.ratio).mean())) if len(both) else np.nan
        lines.append(
            dict(zip(by, key, strict=True))
            | {
                "cells": len(group),
                "published": both.published.mean(),
                "treeleak": both.treeleak.mean(),
                "ratio": ratio,
                "cells ahead": int((group.verdict == AHEAD).sum()),
                "open": int(group.open.sum()),
                "verdict": verdict(ratio > 1),
            }
        )
    return pd.DataFrame(lines)


def error_tables(runs: pd.DataFrame, number: int, roman: str, note: str) -> list[Table]:
    """Table I or IV: by budget, then cell by cell."""
    published = read_published(f"draft_dp_table_{number}")
    cells = beside_published(runs, published, "error", 2, CELL)
    name, title = f"draft-dp-table-{number}", f"DRAFT-DP, table {roman}: mean error"
    by_budget = summed(cells, ["dataset", "epsilon"])
    of_cells = "Means over the cells for which the paper has an answer; the ratio is geometric. "
    of_lines = "The paper prints two digits: a cell is ahead if it rounds to no more. "
    without = "Where the paper has none, its solver found nothing in two hours. "
    note = "Open: runs whose time was over; the rows in hand count. " + note
    return [
        Table(f"{name}-summary", f"{title}, by budget", by_budget, RATIO + of_cells + note),
        Table(name, title, cells, RATIO + of_lines + without + note),
    ]
