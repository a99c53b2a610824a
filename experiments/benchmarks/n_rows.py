"""The number of rows inferred from noisy counts, on DRAFT-DP's forests with fresh noise.

All cells of the paper's grid (trees, depths, epsilons), each with its own tables and seeds: the
true counts of these forests, trained on 100 rows, plus int(Lap(trees / epsilon)). "held" is the
share of 95 % intervals that hold the true number; "likeliest" and "median" are mean absolute log
errors of the two guesses. With "reachable leaves", counts of leaves that no row can reach are left
out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import pandas as pd

from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records, flat
from experiments.benchmarks.tables import CONSOLE, new_table, verdict
from experiments.data import DATASETS
from experiments.dp_forests import load_dp_forest
from experiments.draft_tables import draft_schema
from experiments.studies.dp_cells import DEPTHS, EPSILONS, TREES
from experiments.studies.dp_runs import TREE_SEEDS, forest_path, with_noise
from treeleak.partition import Geometry, reachable_leaves
from treeleak.release.n_rows import count_rows, rows_behind_noise
from treeleak.release.release import Release

FLOOR = (0.92, 0.98)


@dataclass(frozen=True)
class Case:
    """One forest, one noise, and which leaves count."""

    dataset: str
    n_trees: int
    depth: int
    epsilon: float
    seed: int
    noise_seed: int
    reachable: bool


def cases(runs: int) -> Iterator[Case]:
    """Run over the grid again and again, each time with another seed and table."""
    grid = list(product(TREES, DEPTHS, EPSILONS))
    for k in range(runs):
        turn = k // len(grid)
        dataset = DATASETS[(k + turn) % len(DATASETS)]
        for reachable in (False, True):
            yield Case(dataset, *grid[k % len(grid)], turn % TREE_SEEDS, k, reachable)


def run(case: Case) -> Record:
    """Infer the number of rows of one forest: where it lies, and how far off the guesses are."""
    exact = _forest(case.dataset, case.n_trees, case.depth, case.seed)
    rng = np.random.default_rng(case.noise_seed)
    release = with_noise(exact, case.epsilon, rng)
    leaves = None
    if case.reachable:
        leaves = reachable_leaves(Geometry.of(release, draft_schema(case.dataset)))
    true = sum(float(t.counts[t.leaves].sum()) for t in exact.trees if t.counts is not None)
    true = round(true / case.n_trees)
    found = count_rows(release, reachable=leaves)
    rows, share = rows_behind_noise(release, leaves)
    low, high = found.between
    return {
        "held": low <= true <= high,
        "width": high - low,
        "median": abs(math.log(found.n / true)),
        "likeliest": abs(math.log(rows[share.argmax()] / true)),
    }


def judge(runs: pd.DataFrame) -> str:
    low, high = FLOOR
    return verdict(low <= runs.held.mean() <= high)


def report(found: list[Record]) -> None:
    low, high = FLOOR
    title = f"Rows behind noise: share of 95 % intervals that hold them ({low:.0%} to {high:.0%})"
    names = "leaves, epsilon, runs, held, met, median width, likeliest, median"
    out = new_table(title, names, "leaves")
    for reachable, runs in flat(found).groupby("reachable"):
        leaves = "reachable leaves" if reachable else "all leaves"
        for epsilon, some in runs.groupby("epsilon"):
            out.add_row(leaves, f"{epsilon:g}", *_figures(some, ""))
        out.add_row(leaves, "all", *_figures(runs, judge(runs)), end_section=True)
    CONSOLE.print(out)


def _figures(runs: pd.DataFrame, met: str) -> list[str]:
    return [
        str(len(runs)), f"{runs.held.mean():.1%}", met, f"{runs.width.median():,.0f}",
        f"{runs.likeliest.mean():.3f}", f"{runs['median'].mean():.3f}",
    ]  # fmt: skip


@cache
def _forest(dataset: str, n_trees: int, depth: int, seed: int) -> Release:
    return load_dp_forest(forest_path(dataset), n_trees, depth, seed, None)


def main(args: Sequence[str]) -> None:
    parser = Options("n_rows", __doc__)
    parser.add_argument("--runs", type=int, default=450, help="450: five times the grid")
    given = parser.parse_args(args)
    store = Records("n_rows", given.fresh, given.out)
    todo = list(cases(given.runs))
    report(store.collect(todo, run, warm=lambda _: todo[0], apart=lambda _: False))
