"""Hidden bootstrap draws: treeleak beside the published figures and the floors it must reach.

"error" is DRAFT's, after matching, and "expected" what the confidences say of it. "drawn" counts
are all that the paper's attack had, "distinct" counts are what scikit-learn stores besides. Each
line that has a floor says "met" or "NOT met".

small and five_thousand run alone, because their seconds count; of the other parts two runs go side
by side (``--at-once``), and their seconds and peak memory are those of a machine that is shared.
For five seeds on 2 idle cores: small 26 minutes, population 10, growing 18, five_thousand 6 per
seed (``all`` does the first seed only).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    Beside,
    beside,
    depth_name,
    new_table,
    number,
    published,
    statuses,
    title,
    verdict,
)
from experiments.data import DATASETS, draft
from experiments.draft_tables import draft_sample
from treeleak.datasets import Dataset

LEAST = 1e-3
"""What an error counts as that is smaller, in the geometric mean of ratios."""
OTHERS = 1000
"""Rows of the population."""


@dataclass(frozen=True)
class Case:
    """One forest, and what is known beside it.

    ``population`` other rows are told, or a forest on the first ``earlier`` rows.
    """

    dataset: str
    depth: int | None
    seed: int
    distinct: bool
    time_limit: float
    n_rows: int = 100
    n_trees: int = 100
    population: int = 0
    earlier: int = 0


@dataclass(frozen=True)
class Floor:
    """What the runs of a line must reach: in the mean, but for rows and memory, in every run."""

    error: float = np.inf
    seconds: float = np.inf
    rows: float = 0.0
    mb: float = np.inf

    def __str__(self) -> str:
        said = [f"<= {self.error:g}" if self.error < np.inf else f">= {self.rows:.0%}"]
        if self.mb < np.inf:
            said.append(f"{self.mb:g} MB")
        return ", ".join([*said, f"{self.seconds:g} s"])

    def judge(self, runs: pd.DataFrame) -> str:
        """Say "met" or "NOT met"; a run without an answer meets no floor."""
        good = (
            runs.error.mean(skipna=False) <= self.error
            and runs.seconds.median() <= self.seconds
            and (runs.exact_rows >= self.rows).all()
            and (runs.peak_mb <= self.mb).all()
        )
        return verdict(bool(good))


_SECONDS = (5.0, 20.0, 30.0)
_SMALL_ERRORS = {
    (None, True): (0.001, 0.012, 0.008),
    (None, False): (0.003, 0.018, 0.012),
    (5, True): (0.005, 0.032, 0.042),
    (5, False): (0.006, 0.036, 0.045),
    (3, True): (0.012, 0.058, 0.075),
    (3, False): (0.017, 0.064, 0.080),
}
SMALL = {
    (dataset, depth_name(depth), distinct): Floor(error, seconds)
    for (depth, distinct), errors in _SMALL_ERRORS.items()
    for dataset, error, seconds in zip(DATASETS, errors, _SECONDS, strict=True)
}
"""By dataset, depth and whether distinct counts are used: mean error, median seconds."""
FIVE_THOUSAND = {
    ("adult", "None", distinct): Floor(rows=0.9, seconds=180, mb=4096) for distinct in (True, False)
}


def _small_limit(dataset: str) -> float:
    # The floor's seconds count all steps, also those after the attack.
    return 0.95 * _SECONDS[DATASETS.index(dataset)]


def small(seeds: Iterable[int], distinct: Iterable[bool], limit: float | None) -> Iterator[Case]:
    for depth, dataset, used, s in product((None, 5, 3), DATASETS, distinct, seeds):
        yield Case(dataset, depth, s, used, limit or _small_limit(dataset))


def five_thousand(
    seeds: Iterable[int], distinct: Iterable[bool], limit: float | None
) -> Iterator[Case]:
    for used, s in product(distinct, seeds):
        yield Case("adult", None, s, used, limit or 170.0, n_rows=5000)


def population(
    seeds: Iterable[int], distinct: Iterable[bool], limit: float | None
) -> Iterator[Case]:
    """Half of the time goes to the answer without: as much for each as elsewhere."""
    for case in small(seeds, distinct, limit):
        if case.depth == 3:
            yield replace(case, population=OTHERS, time_limit=2 * case.time_limit)


def growing(seeds: Iterable[int], distinct: Iterable[bool], limit: float | None) -> Iterator[Case]:
    for case in small(seeds, distinct, limit):
        if case.depth != 5:
            yield replace(case, earlier=60)


PARTS = {part.__name__: part for part in (small, five_thousand, population, growing)}
ALONE = ("small", "five_thousand")
"""Parts whose seconds count."""


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = draft(case.dataset)
    X, y = draft_sample(data, case.n_rows, case.seed)
    told: dict[str, Any] = {}
    if case.population:
        sample, label = draft_sample(data, case.n_rows + case.population, case.seed)
        told["population"] = sample.assign(label=label)[case.n_rows :]
    if case.earlier:
        told["earlier"] = _forest(case, X[: case.earlier], y[: case.earlier])
    forest = _forest(case, X, y)
    start = time.perf_counter()
    result = _attacked(case, forest, data, **told)
    seconds = time.perf_counter() - start
    outcome = {
        "status": result.status,
        "seconds": seconds,
        "first": None,
        "numbers": dict(result.numbers),
        "error": None,
        "error_without": None,
        "expected_error": result.expected_error,
        "exact_rows": 0.0,
    }
    if result.X is None:
        return outcome
    without = result.without_population
    if case.earlier:
        without = _attacked(case, forest, data)
    if without is not None and without.X is not None:
        outcome["error_without"] = treeleak.metrics.reconstruction_error(without.X, X, data.schema)
    return outcome | {
        "first": result.trace[0].seconds if result.trace else seconds,
        "error": treeleak.metrics.reconstruction_error(result.X, X, data.schema),
        "exact_rows": treeleak.metrics.exact_row_share(
            result.X.assign(label=result.y), X.assign(label=y)
        ),
    }


def _forest(case: Case, X: pd.DataFrame, y: pd.Series[Any]) -> RandomForestClassifier:
    return RandomForestClassifier(
        case.n_trees, max_depth=case.depth, random_state=case.seed
    ).fit(X, y)  # fmt: skip


def _attacked(
    case: Case, forest: RandomForestClassifier, data: Dataset, **told: Any
) -> treeleak.Reconstruction:
    return treeleak.reconstruct(
        forest, data.schema, bootstrap="hidden", time_limit=case.time_limit, seed=case.seed,
        use_distinct=case.distinct, **told,
    )  # fmt: skip


def _by(runs: pd.DataFrame, *names: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    yield from runs.groupby(list(names), sort=False)


def _runs(found: list[Record]) -> pd.DataFrame:
    runs = flat(found)
    return runs.assign(
        depth=[depth_name(d) for d in runs.depth],
        counts=np.where(runs.distinct, "distinct", "drawn"),
        first=runs["first"].astype(float),
        error=runs.error.astype(float),
        error_without=runs.error_without.astype(float),
        expected_error=runs.expected_error.astype(float),
    )


def _published_bootstrap() -> pd.DataFrame | None:
    theirs = published("draft_2024.csv")
    if theirs is None:
        return None
    return theirs[(theirs.method == "cp-sat") & (theirs.bootstrap.astype(str) == "True")]


def _of_paper(point: Beside) -> list[str]:
    said = f"{point.answered} of 5" if not np.isnan(point.seconds) else ""
    return [number(point.error), said, number(point.seconds, 0)]


def floor_table(part: str, found: list[Record], floors: dict[tuple[str, str, bool], Floor]) -> None:
    """Print one line per forest and kind of counts."""
    all_runs, theirs = _runs(found), _published_bootstrap()
    out = new_table(
        title(f"hidden draws, {part}", all_runs),
        "dataset, N, depth, counts, error, worst, expected, exact rows, status, s median, "
        "s max, MB, published, answered, paper s, floor, met",
        left="dataset, counts, status, floor",
    )
    for (dataset, n, depth, used), runs in _by(all_runs, "dataset", "n_rows", "depth", "distinct"):
        floor = floors[dataset, depth, used]
        paper = beside(theirs, runs, dataset=dataset, n_rows=n, n_trees=100, depth=depth)
        out.add_row(
            dataset, str(n), depth, runs.counts.iloc[0], f"{runs.error.mean(skipna=False):.4f}",
            f"{runs.error.max():.4f}", f"{runs.expected_error.mean():.4f}",
            f"{runs.exact_rows.mean():.1%}", statuses(runs), f"{runs.seconds.median():.2f}",
            f"{runs.seconds.max():.2f}", f"{runs.peak_mb.max():.0f}", *_of_paper(paper),
            str(floor), floor.judge(runs),
        )  # fmt: skip
    CONSOLE.print(out)


def told_table(part: str, found: list[Record]) -> None:
    """Print the error with what was told, and without."""
    all_runs = _runs(found)
    out = new_table(
        title(f"hidden draws, {part}", all_runs),
        "dataset, depth, counts, error with, error without, ratio, better, worse, expected, "
        "status, s median",
        left="dataset, counts, status",
    )
    for (dataset, depth, counts), runs in _by(all_runs, "dataset", "depth", "counts"):
        own, other = runs.error.mean(skipna=False), runs.error_without.mean(skipna=False)
        out.add_row(
            dataset, depth, counts, f"{own:.4f}", f"{other:.4f}",
            f"{max(own, LEAST) / max(other, LEAST):.2f}",
            str((runs.error < runs.error_without).sum()),
            str((runs.error > runs.error_without).sum()), f"{runs.expected_error.mean():.4f}",
            statuses(runs), f"{runs.seconds.median():.2f}",
        )  # fmt: skip
    CONSOLE.print(out)


def warm(case: Case) -> Case:
    """A small case that goes the same way, and is the same for all of a kind."""
    return replace(
        case, dataset="compas", seed=0, n_rows=30, n_trees=10, depth=2, time_limit=2.0,
        population=min(case.population, 10), earlier=min(case.earlier, 20),
    )  # fmt: skip


def main(args: Sequence[str]) -> None:
    parser = Options("hidden", __doc__, PARTS, "0-4", at_once=2)
    parser.add_argument(
        "--distinct", choices=["with", "without", "both"], default="both",
        help="use the numbers of distinct rows (default both)",
    )  # fmt: skip
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--time-limit", type=float, help="instead of each part's own")
    given = parser.parse_args(args)
    distinct = {"with": (True,), "without": (False,), "both": (True, False)}[given.distinct]
    store = Records("hidden", given.fresh, given.out)
    for part in PARTS if given.part == "all" else [given.part]:
        few = part == "five_thousand" and given.part == "all"
        seeds = given.seeds[:1] if few else given.seeds
        todo = PARTS[part](seeds, distinct, given.time_limit)
        found = store.collect(
            [case for case in todo if case.dataset in given.datasets], run, warm,
            apart=lambda case: case.n_rows > 1000,
            at_once=1 if part in ALONE else given.at_once,
        )  # fmt: skip
        if found:
            floors = {"small": SMALL, "five_thousand": FIVE_THOUSAND}
            if part in floors:
                floor_table(part, found, floors[part])
            else:
                told_table(part, found)
