"""Hidden bootstrap draws: treeleak beside the published figures and the floors it must reach.

"error" is DRAFT's, after matching, and "expected" what the confidences say of it. "drawn" counts
are all that the paper's attack had, "distinct" counts are what scikit-learn stores besides. Each
line that has a floor says "met" or "NOT met".

small, five_thousand and reference run alone, because their seconds count; of the other parts two
runs go side by side (``--at-once``), and their seconds and peak memory are those of a machine that
is shared. For five seeds on 2 idle cores: small 26 minutes, grid 40, columns 20, membership 10,
population 10, growing 18, reference 6, five_thousand 6 per seed (``all`` does the first seed only).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

import treeleak
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records, flat
from experiments.benchmarks.tables import (
    CONSOLE,
    TOLERANCE,
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
from experiments.partial_error import partial_error
from experiments.studies.dp_runs import known_names
from treeleak.datasets import Dataset

GRID_TREES = (1, 5, *range(10, 101, 10))
GRID_DEPTHS = (2, 3, 4, 5, 10, None)
LEAST = 1e-3
"""What an error counts as that is smaller, in the geometric mean of ratios."""
GRID_SHARE, GRID_RATIO = 0.9, 0.65
CALIBRATION_FLOOR = 0.05
OTHERS = 1000
"""Records, or rows of the population, that are not in the training set."""


@dataclass(frozen=True)
class Case:
    """One forest, and what is known beside it.

    ``known`` original attributes are known, ``others`` records not in the training set are asked
    about, ``population`` other rows are told, and a forest on the first ``earlier`` rows.
    """

    dataset: str
    depth: int | None
    seed: int
    distinct: bool
    time_limit: float
    n_rows: int = 100
    n_trees: int = 100
    known: int = 0
    others: int = 0
    population: int = 0
    earlier: int = 0
    method: str = "auto"


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


def grid(seeds: Iterable[int], _: Iterable[bool], limit: float | None) -> Iterator[Case]:
    """Drawn counts only, as the paper; seed by seed, so that the first is a grid of its own."""
    for s, n_trees, depth, dataset in product(seeds, GRID_TREES, GRID_DEPTHS, DATASETS):
        yield Case(dataset, depth, s, False, limit or 4.0, n_trees=n_trees)


def five_thousand(
    seeds: Iterable[int], distinct: Iterable[bool], limit: float | None
) -> Iterator[Case]:
    for used, s in product(distinct, seeds):
        yield Case("adult", None, s, used, limit or 170.0, n_rows=5000)


def columns(seeds: Iterable[int], distinct: Iterable[bool], limit: float | None) -> Iterator[Case]:
    for dataset in DATASETS:
        known = range(len(draft(dataset).schema.attributes))
        for used, n, s in product(distinct, known, seeds):
            yield Case(dataset, None, s, used, limit or 6.0, known=n)


def membership(
    seeds: Iterable[int], distinct: Iterable[bool], limit: float | None
) -> Iterator[Case]:
    for case in small(seeds, distinct, limit):
        if case.depth != 5:
            yield replace(case, others=OTHERS)


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


def reference(seeds: Iterable[int], _: Iterable[bool], limit: float | None) -> Iterator[Case]:
    """Drawn counts only, as the published program."""
    for s in seeds:
        own = Case("compas", 3, s, False, limit or _small_limit("compas"), n_trees=10)
        yield from (own, replace(own, method="reference-cp", time_limit=limit or 60.0))


PARTS = {
    part.__name__: part
    for part in (
        small, grid, five_thousand, columns, membership, population, reference, growing,
    )
}  # fmt: skip
ALONE = ("small", "five_thousand", "reference")
"""Parts whose seconds count."""


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = draft(case.dataset)
    X, y = draft_sample(data, case.n_rows, case.seed)
    known = known_names(data, case.known, case.seed)
    told: dict[str, Any] = {}
    if known:
        told["known_columns"] = X[known]
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
    if case.others:
        own, other = records(data, X, y, case.others, case.seed)
        outcome["members"] = result.membership(own).round(4).tolist()
        outcome["others"] = result.membership(other).round(4).tolist()
    return outcome | {
        "first": result.trace[0].seconds if result.trace else seconds,
        "error": partial_error(result.X, X, known, data.schema),
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
        method=case.method, use_distinct=case.distinct, **told,
    )  # fmt: skip


def records(
    data: Dataset, X: pd.DataFrame, y: pd.Series[Any], others: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Distinct rows with their labels: those of the training set, and others of the table.

    As many others as asked for, or as there are.
    """
    own = X.assign(label=y).drop_duplicates(ignore_index=True)
    table = data.X.assign(label=data.y).drop_duplicates()
    both = table.merge(own, how="left", indicator="where")
    other = both[both["where"] == "left_only"].drop(columns="where")
    return own, other.sample(n=min(others, len(other)), random_state=seed, ignore_index=True)


def calibration_error(said: ArrayLike, true: ArrayLike) -> float:
    """Expected calibration error: over ten bins of equal width, |mean said - share true|.

    Each bin weighs as much as the predictions that it holds.
    """
    said, true = np.asarray(said, dtype=float), np.asarray(true, dtype=float)
    at = np.minimum((said * 10).astype(np.int64), 9)
    return float(np.abs(np.bincount(at, weights=said - true)).sum() / len(said))


def pooled(runs: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """All predictions of membership, and whether they are of members."""
    said = [part for r in runs for part in (r["members"], r["others"])]
    true = [np.full(len(part), i % 2 == 0) for i, part in enumerate(said)]
    return np.concatenate(said), np.concatenate(true)


def grid_score(
    ours: ArrayLike, theirs: ArrayLike, tolerance: float = TOLERANCE
) -> tuple[int, float]:
    """Count the points at most so much above the published; the geometric mean of the ratios.

    Errors below LEAST, in which a zero would be worth any number of other points, are taken as
    LEAST on both sides.
    """
    own, other = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    ratio = np.log(np.maximum(own, LEAST) / np.maximum(other, LEAST))
    return int((own <= other + tolerance).sum()), float(np.exp(ratio.mean()))


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


def grid_table(found: list[Record]) -> None:
    """Print one line per point, and how many are at most the published ones.

    "error" is the mean over the seeds for which the paper has an answer, where these are among
    ours.
    """
    all_runs, theirs = _runs(found), _published_bootstrap()
    out = new_table(
        title("hidden draws, grid, drawn counts", all_runs),
        "dataset, trees, depth, error, all seeds, expected, status, s median, s max, "
        "published, answered, paper s, met",
        left="dataset, status",
    )
    points = []
    for (dataset, n_trees, depth), runs in _by(all_runs, "dataset", "n_trees", "depth"):
        paper = beside(theirs, runs, dataset=dataset, n_trees=n_trees, depth=depth)
        if paper.answered:
            points.append((paper.ours, paper.error))
        out.add_row(
            dataset, str(n_trees), depth, f"{paper.ours:.4f}",
            f"{runs.error.mean(skipna=False):.4f}", f"{runs.expected_error.mean():.4f}",
            statuses(runs), f"{runs.seconds.median():.2f}", f"{runs.seconds.max():.2f}",
            *_of_paper(paper),
            verdict(paper.ours <= paper.error + TOLERANCE) if paper.answered else "",
        )  # fmt: skip
    CONSOLE.print(out)
    if points:
        held, ratio = grid_score(*zip(*points, strict=True))
        share = held / len(points)
        CONSOLE.print(
            f"grid: {held} of {len(points)} points with an answered run at most published + "
            f"{TOLERANCE} ({share:.1%}; floor {GRID_SHARE:.0%}): {verdict(share >= GRID_SHARE)}\n"
            f"grid: geometric mean ratio {ratio:.3f}, errors below {LEAST:g} taken as {LEAST:g} on "
            f"both sides (floor {GRID_RATIO}): {verdict(ratio <= GRID_RATIO)}"
        )


def columns_table(found: list[Record]) -> None:
    """Print one line per number of known attributes; the error is that of the others."""
    all_runs, theirs = _runs(found), published("draft_2024_partial.csv")
    if theirs is not None:
        theirs = theirs[theirs.known == "attributes"]
    out = new_table(
        title("hidden draws, known columns, depth None", all_runs),
        "dataset, counts, known, error, all seeds, expected, status, s median, published, "
        "answered, paper s, met",
        left="dataset, counts, status",
    )
    verdicts = []
    for (dataset, counts, known), runs in _by(all_runs, "dataset", "counts", "known"):
        paper = beside(theirs, runs, dataset=dataset, amount=known)
        if paper.answered:
            verdicts.append(verdict(paper.ours < paper.error))
        out.add_row(
            dataset, counts, str(known), f"{paper.ours:.4f}",
            f"{runs.error.mean(skipna=False):.4f}", f"{runs.expected_error.mean():.4f}",
            statuses(runs), f"{runs.seconds.median():.2f}", *_of_paper(paper),
            verdicts[-1] if paper.answered else "",
        )  # fmt: skip
    CONSOLE.print(out)
    CONSOLE.print(f"columns: below the published curve {verdicts.count('met')} of {len(verdicts)}")


def membership_table(found: list[Record]) -> None:
    """Print how far probabilities of membership, and of values, are from what is true."""
    all_runs = _runs(found)
    out = new_table(
        title("hidden draws, membership", all_runs),
        "depth, counts, dataset, answered, members, others, calibration error, "
        "ROC AUC, error, expected, |difference|, floor, met",
        left="counts, dataset",
    )
    for (depth, counts), both in _by(all_runs, "depth", "counts"):
        by_dataset = list(_by(both, "dataset"))
        for name, runs in [*((key[0], group) for key, group in by_dataset), ("all", both)]:
            of = [found[i] for i in runs.index if "members" in found[i]]
            answered = f"{len(of)} of {len(runs)}"
            if not of:
                out.add_row(depth, counts, name, answered)
                continue
            said, true = pooled(of)
            error = calibration_error(said, true)
            good = error <= CALIBRATION_FLOOR and len(of) == len(runs)
            floor = [f"<= {CALIBRATION_FLOOR}", verdict(good)]
            out.add_row(
                depth, counts, name, answered, str(true.sum()), str((~true).sum()), f"{error:.4f}",
                f"{roc_auc_score(true, said):.4f}",
                f"{runs.error.mean():.4f}",
                f"{runs.expected_error.mean():.4f}",
                f"{(runs.error - runs.expected_error).abs().mean():.4f}",
                *(floor if name == "all" else ("", "")),
            )  # fmt: skip
    CONSOLE.print(out)
    CONSOLE.print(
        "membership: whether a row with these values is there, of distinct records, label "
        "included; each prediction weighs the same, and of each run there are all members and up "
        f"to {OTHERS} others of the table. |difference|: mean over runs between the "
        "values' error and what their confidence expects. A run without an answer meets no floor"
    )  # fmt: skip


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


def reference_table(found: list[Record]) -> None:
    """Print treeleak and the published program, line under line.

    The program goes on to the end of its time for likelier rows: its "first" are those that meet
    the counts. Treeleak has one answer, at the end.
    """
    all_runs = _runs(found)
    theirs = _published_bootstrap()
    own = all_runs[all_runs.method == "auto"]
    out = new_table(
        title("hidden draws, reference, drawn counts", all_runs),
        "dataset, trees, depth, method, status, error, s first, s median, times as long, "
        "published, answered, paper s",
        left="dataset, method, status",
    )
    for (dataset, n_trees, depth, method), runs in _by(
        all_runs, "dataset", "n_trees", "depth", "method"
    ):
        paper = beside(theirs, runs, dataset=dataset, n_trees=n_trees, depth=depth)
        out.add_row(
            dataset, str(n_trees), depth, "treeleak" if method == "auto" else method,
            statuses(runs), number(runs.error.mean()), number(runs["first"].median(), 2),
            f"{runs.seconds.median():.2f}",
            number(runs["first"].median() / own["first"].median(), 1), *_of_paper(paper),
        )  # fmt: skip
    CONSOLE.print(out)


def warm(case: Case) -> Case:
    """A small case that goes the same way, and is the same for all of a kind."""
    return replace(
        case, dataset="compas", seed=0, n_rows=30, n_trees=10, depth=2, time_limit=2.0,
        known=min(case.known, 1), others=0, population=min(case.population, 10),
        earlier=min(case.earlier, 20),
    )  # fmt: skip


def report(part: str, found: list[Record]) -> None:
    match part:
        case "small":
            floor_table(part, found, SMALL)
        case "five_thousand":
            floor_table(part, found, FIVE_THOUSAND)
        case "grid":
            grid_table(found)
        case "columns":
            columns_table(found)
        case "membership":
            membership_table(found)
        case "reference":
            reference_table(found)
        case _:
            told_table(part, found)


def main(args: Sequence[str]) -> None:
    parser = Options("hidden", __doc__, PARTS, "0-4", at_once=2)
    parser.add_argument(
        "--distinct", choices=["with", "without", "both"], default="both",
        help="use the numbers of distinct rows (default both); grid and reference never do",
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
            report(part, found)
