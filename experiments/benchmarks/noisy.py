"""Noisy counts: treeleak beside DRAFT-DP's figures and the floors it must reach.

"error" is DRAFT's, after matching, and "expected" what the answer itself says of it. table1 and
unknown attack the paper's own forests, which all carry one vector of noise, rescaled; fresh the
same trees with noise of their own for each. A cell is
a dataset, a number of trees, a depth and an epsilon; its error is the mean over the seeds. "ours"
is that of the cells that the paper has answers for, "held" how many of these are at most the
published error + 0.003, "ratio" a geometric mean.

Two runs go side by side (``--at-once``). Each part has 270 runs per seed. All cells of a grid are
written to a file beside the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.benchmarks.frame import (
    CONSOLE,
    Given,
    Record,
    collect,
    flat,
    floor,
    mean,
    options,
    said_of,
    show,
)
from experiments.benchmarks.published import LEAST, beside, grid_score, published
from experiments.data import DATASETS
from experiments.studies.dp_cells import CELL, EPSILONS, LIMIT, grid, warm_of
from experiments.studies.dp_runs import TREE_SEEDS, attack

TOLERANCE, SHARE = 0.003, 0.9
RATIOS = {0.1: 0.75, 1.0: 0.85} | dict.fromkeys(EPSILONS[2:], 0.8)
SECONDS = (3.0, 30.0)
"""Median and worst."""
CALIBRATION = 0.1
_FIGURES = ("error", "expected_error", "n")


@dataclass(frozen=True)
class Case:
    """One forest, and what is known beside it: parameters of ``studies.dp_runs.attack``."""

    dataset: str
    n_trees: int
    depth: int
    epsilon: float
    seed: int
    time_limit: float
    forest: str
    n_rows: int
    told_n: bool
    known: int
    population: int
    method: str


Seeds = Iterable[int]


def table1(seeds: Seeds, limit: float, **changed: Any) -> Iterator[Case]:
    """Seed by seed, so that the first is a grid of its own."""
    yield from (Case(**{**p, **changed}) for p in grid(list(seeds), time_limit=limit))


def fresh(seeds: Seeds, limit: float) -> Iterator[Case]:
    yield from table1(seeds, limit, forest="fresh")


def unknown(seeds: Seeds, limit: float) -> Iterator[Case]:
    yield from table1(seeds, limit, told_n=False)


PARTS = {part.__name__: part for part in (table1, fresh, unknown)}


def run(case: Case) -> Record:
    """Attack one forest, and measure."""
    return attack(asdict(case))


def warm(case: Case) -> Case:
    """A small case that goes the same way, and is the same for all of a kind."""
    return Case(**warm_of(asdict(case)))


def cells_of(runs: pd.DataFrame, n_known: bool) -> pd.DataFrame:
    """One line per cell; ``ours`` is the mean over the seeds that the paper has answers for."""
    theirs = published("draft_dp_2026.csv")
    if theirs is not None:
        theirs = theirs[theirs.n_rows_known == n_known]
    out = []
    for key, own in runs.groupby(CELL, sort=False):
        point = dict(zip(CELL, key, strict=True))
        paper = beside(theirs, own, **point)
        out.append(point | {
            "runs": len(own), "answered": int(own.error.notna().sum()), "error": mean(own.error),
            "expected": own.expected_error.mean(),
            "ours": paper.ours, "published": paper.error, "published_answered": paper.answered,
            "seconds": own.seconds.median(), "seconds_max": own.seconds.max(),
        })  # fmt: skip
    return pd.DataFrame(out)


def _by_epsilon(runs: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [*((f"{e:g}", own) for e, own in runs.groupby("epsilon")), ("all", runs)]


def grid_table(part: str, runs: pd.DataFrame, given: Given) -> bool:
    """Print one line per epsilon, and write all cells to a file."""
    cells, lines, met = cells_of(runs, part != "unknown"), [], True
    for name, group in _by_epsilon(cells):
        both = group[group.published_answered > 0]
        held, ratio = grid_score(both.ours, both.published, TOLERANCE) if len(both) else (0, np.nan)
        own = runs[runs.epsilon.isin(group.epsilon)]
        asked = RATIOS[group.epsilon.iloc[0]] if name != "all" and part != "unknown" else None
        lines.append({
            "epsilon": name, "cells": len(group), "error": mean(group.error),
            "published": both.published.mean(), "held": held, "of": len(both), "ratio": ratio,
            "floor": asked, "met": None if asked is None else ratio <= asked,
            "expected / error": own.expected_error.mean() / own.error.mean(),
            "s": own.seconds.median(), "most s": own.seconds.max(),
        })  # fmt: skip
        if name == "all" and len(both):
            said = f"{part}: {held / len(both):.1%} of the cells are held (floor {SHARE:.0%})"
            met &= floor(said, held / len(both) >= SHARE)
    met &= show(f"noisy counts, {part}: {said_of(runs)}", lines)
    lacking = int((cells.answered < cells.runs).sum())
    met &= floor(f"{part}: {lacking} of {len(cells)} cells lack the answer of a run (floor 0)",
                 not lacking)  # fmt: skip
    median, worst = runs.seconds.median(), runs.seconds.max()
    met &= floor(f"{part}: seconds, median {median:.2f}, worst {worst:.2f} (floors {SECONDS})",
                 median <= SECONDS[0] and worst <= SECONDS[1])  # fmt: skip
    path = given.out / f"noisy_{part}.csv"
    cells.to_csv(path, index=False)
    CONSOLE.print(f"{part}: all cells are in {path}")
    return met


def calibration_table(part: str, runs: pd.DataFrame) -> bool:
    """Print how far the stated error is from the real one."""
    lines = []
    for name, own in _by_epsilon(runs):
        ratio = mean(own.expected_error) / mean(own.error)
        ratios = own.expected_error.clip(lower=LEAST) / own.error.clip(lower=LEAST)
        lines.append({
            "epsilon": name, "forests": len(own), "answered": own.error.notna().sum(),
            "expected": own.expected_error.mean(), "error": own.error.mean(),
            "ratio of means": ratio, "mean of ratios": ratios.mean(),
            "|difference|": (own.expected_error - own.error).abs().mean(),
            "met": abs(ratio - 1) <= CALIBRATION if name == "all" else None,
        })  # fmt: skip
    what = f"what the answer says of its error, floor 1 ± {CALIBRATION:g}"
    return show(f"noisy counts, {part}, {what}: {said_of(runs)}", lines)


def rows_table(part: str, runs: pd.DataFrame) -> None:
    """Print how often the true number of rows lies in its interval."""
    low, high = np.array([b or (np.nan, np.nan) for b in runs.between], dtype=float).T
    runs = runs.assign(inside=(low <= runs.n_rows) & (runs.n_rows <= high), wide=high - low)
    runs["away"] = (runs.n - runs.n_rows).abs()
    show(f"noisy counts, {part}, the number of rows", [
        {"epsilon": name, "forests": len(own), "inside 95 %": own.inside.mean(),
         "median width": own.wide.median(), "median |N - true|": own.away.median(),
         "exact": (own.away == 0).mean()}
        for name, own in _by_epsilon(runs)
    ])  # fmt: skip


def report(part: str, runs: pd.DataFrame, given: Given) -> bool:
    """Print the tables of a part."""
    if part == "unknown":
        rows_table(part, runs)
    met = calibration_table(part, runs) if part == "fresh" else True
    return met & grid_table(part, runs, given)


def main(args: Sequence[str]) -> int:
    given = options(
        "noisy", __doc__, args, parts=PARTS, kept=True, at_once=2, seeds=range(TREE_SEEDS),
        datasets=list(DATASETS), epsilons=list(EPSILONS), time_limit=LIMIT,
    )  # fmt: skip
    met = True
    for part in given.parts:
        seeds: Any = given.seeds
        # Noise of its own is drawn by seeds that no other part has.
        if part == "fresh" and seeds == range(TREE_SEEDS):
            seeds = range(TREE_SEEDS, 2 * TREE_SEEDS)
        todo = PARTS[part](seeds, given.time_limit)
        records = collect(
            "noisy",
            [c for c in todo if c.dataset in given.datasets and c.epsilon in given.epsilons],
            run, warm, given, at_once=given.at_once,
        )  # fmt: skip
        if records:
            met &= report(part, flat(records, _FIGURES), given)
    return int(not met)
