"""Exact counts: treeleak on DRAFT's forests without bootstrap, beside the published figures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records, flat
from experiments.benchmarks.tables import (
    CONSOLE,
    TOLERANCE,
    beside,
    depth_name,
    new_table,
    published,
    statuses,
    verdict,
)
from experiments.data import DATASETS, draft
from experiments.draft_tables import draft_sample

DEPTHS = (2, 3, 4, 5, 10, None)


@dataclass(frozen=True)
class Case:
    """One forest."""

    dataset: str
    n_trees: int
    depth: int | None
    seed: int
    n_rows: int = 100
    time_limit: float = 60.0


@dataclass(frozen=True)
class Drawn(Case):
    """The same forest, but each tree drew its rows, and nobody knows which."""

    bootstrap: str = "hidden"


@dataclass(frozen=True)
class Counted(Drawn):
    """The trees of that forest, in which all rows are counted once."""

    bootstrap: str = "none"


def part_deep(seeds: range) -> Iterator[Case]:
    yield from (Case(dataset, 100, None, s) for dataset, s in product(DATASETS, seeds))


def part_shallow(seeds: range) -> Iterator[Case]:
    for dataset, depth, s in product(DATASETS, (2, 3, 4, 5), seeds):
        yield Case(dataset, 100, depth, s)


def part_beside(seeds: range) -> Iterator[Case]:
    for dataset, depth, kind, s in product(DATASETS, (2, 3), (Case, Counted, Drawn), seeds):
        yield kind(dataset, 100, depth, s)


def part_grid(seeds: range) -> Iterator[Case]:
    for n_trees, depth, dataset, s in product((1, 5, 10, 20, 50), DEPTHS, DATASETS, seeds):
        yield Case(dataset, n_trees, depth, s)


def part_large(seeds: range) -> Iterator[Case]:
    yield from (Case("adult", 100, None, s, n_rows=40_000) for s in seeds)


PARTS = {
    "deep": part_deep, "shallow": part_shallow, "beside": part_beside, "grid": part_grid,
    "large": part_large,
}  # fmt: skip


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = draft(case.dataset)
    X, y = draft_sample(data, case.n_rows, case.seed)
    forest = RandomForestClassifier(
        case.n_trees, max_depth=case.depth, bootstrap=isinstance(case, Drawn),
        random_state=case.seed,
    ).fit(X, y)  # fmt: skip
    if isinstance(case, Counted):
        count_all(forest, X, y)
    start = time.perf_counter()
    result = treeleak.reconstruct(
        forest, data.schema, time_limit=case.time_limit, seed=case.seed,
        bootstrap=case.bootstrap if isinstance(case, Drawn) else "auto",
    )  # fmt: skip
    seconds = time.perf_counter() - start
    error = treeleak.metrics.reconstruction_error(result.X, X, data.schema)
    return {
        "status": result.status,
        "error": error,
        "expected_error": result.expected_error,
        "exact_rows": treeleak.metrics.exact_row_share(result.X, X),
        "proved_rows": result.share_proved_rows,
        "misfit": result.misfit,
        "seconds": seconds,
    }


def count_all(forest: RandomForestClassifier, X: pd.DataFrame, y: pd.Series[Any]) -> None:
    """Let the trees count all rows once, instead of those that each drew."""
    numbers = np.searchsorted(forest.classes_, y)
    forest.set_params(bootstrap=False)
    for tree in forest.estimators_:
        reached = tree.decision_path(X.to_numpy()).toarray().astype(float)
        counts = reached.T @ np.eye(len(forest.classes_))[numbers]
        total = counts.sum(axis=1)
        tree.tree_.n_node_samples[:] = tree.tree_.weighted_n_node_samples[:] = total
        shares = tree.tree_.value[:, 0] = counts / np.maximum(total, 1.0)[:, None]
        tree.tree_.impurity[:] = 1.0 - (shares**2).sum(axis=1)


def _small(_: Case) -> Case:
    return Case("compas", 3, 3, 0)


def table(part: str, records: list[Record]) -> None:
    """Print one line per point: means over seeds, beside the published ones.

    "answered" is the mean over the seeds for which the paper has an answer, where these seeds are
    among ours: like against like.
    """
    ours = flat(records)
    ours["depth"] = [depth_name(d) for d in ours.depth]
    runs = published("draft_2024.csv")
    if runs is not None:
        runs = runs[(runs.method == "cp-sat") & (runs.bootstrap.astype(str) == "False")]
    out = new_table(
        f"exact counts, {part}: seeds {ours.seed.min()} to {ours.seed.max()}",
        "dataset, trees, depth, N, error, answered, published, held, exact, proved, status, "
        "s median, s max, paper s, MB",
        left="dataset, status",
    )
    ratios, held = [], []
    for (dataset, n_trees, depth, n), group in ours.groupby(
        ["dataset", "n_trees", "depth", "n_rows"], sort=False
    ):
        theirs, seconds, _, error = beside(
            runs, group, dataset=dataset, n_trees=n_trees, depth=depth, n_rows=n
        )
        if not np.isnan(theirs):
            held.append(error <= theirs + TOLERANCE)
            if theirs >= 0.01:
                ratios.append(max(error, 1e-4) / theirs)
        out.add_row(
            str(dataset), str(n_trees), str(depth), str(n), f"{group.error.mean():.4f}",
            f"{error:.4f}", "" if np.isnan(theirs) else f"{theirs:.4f}",
            "" if np.isnan(theirs) else ("yes" if held[-1] else "NO"),
            f"{group.exact_rows.mean():.1%}", f"{group.proved_rows.mean():.1%}", statuses(group),
            f"{group.seconds.median():.2f}", f"{group.seconds.max():.2f}",
            "" if np.isnan(seconds) else f"{seconds:.0f}", f"{group.peak_mb.max():.0f}",
        )  # fmt: skip
    CONSOLE.print(out)
    if held:
        CONSOLE.print(
            f"{part}: {sum(held)} of {len(held)} points at most published + {TOLERANCE}"
            f" ({np.mean(held):.0%}); geometric mean ratio over the {len(ratios)} points with "
            f"published error >= 0.01: {np.exp(np.mean(np.log(ratios))) if ratios else 1:.3f}; "
            f"unanswered: {(ours.status == 'unknown').sum()} of {len(ours)}; "
            f"slowest {ours.seconds.max():.1f} s"
        )


def beside_table(records: list[Record]) -> None:
    """Print errors behind exact counts beside those behind hidden draws, which say less.

    "same trees": exact counts of the trees that were grown on draws. Forests without bootstrap have
    other trees, which repeat each other more.
    """
    runs = flat(records)
    kind = runs.get("bootstrap", pd.Series(np.nan, runs.index)).fillna("all")
    place = ["dataset", "depth", "seed"]
    errors = runs.assign(kind=kind).pivot(index=place, columns="kind", values=["error", "seconds"])
    out = new_table(
        f"exact counts beside hidden draws, 100 trees: seeds {runs.seed.min()} to "
        f"{runs.seed.max()}",
        "dataset, depth, trees, error, with hidden draws, forests that err more, s median, "
        "hidden, met",
        left="dataset, trees, met",
    )
    for (dataset, depth), own in errors.groupby(level=["dataset", "depth"], sort=False):
        other = own.error.hidden
        for name, trees in (("all", "own"), ("none", "same trees")):
            error = own.error[name]
            out.add_row(
                str(dataset), str(depth), trees, f"{error.mean():.4f}", f"{other.mean():.4f}",
                f"{(error > other).sum()} of {len(own)}", f"{own.seconds[name].median():.1f}",
                f"{own.seconds.hidden.median():.1f}", verdict(error.mean() <= other.mean()),
            )  # fmt: skip
    CONSOLE.print(out)


def main(args: Sequence[str]) -> None:
    parser = Options("exact", __doc__, PARTS, "0-4", at_once=1)
    given = parser.parse_args(args)
    store = Records("exact", given.fresh, given.out)
    for part in PARTS if given.part == "all" else [given.part]:
        seeds = given.seeds if part != "large" else given.seeds[:1]
        records = store.collect(
            PARTS[part](seeds), run,
            warm=_small, apart=lambda case: case.n_rows > 1000, at_once=given.at_once,
        )  # fmt: skip
        if part == "beside":
            beside_table(records)
        else:
            table(part, records)
