"""Known bootstrap draws: scikit-learn's default forests, whose file says what each tree drew.

Each run has a process of its own, and its kernels are compiled before the clock runs. "In order"
compares row k with row k, the label included; "error" is DRAFT's, after matching.

``--part all`` takes about an hour per five seeds on 2 idle cores, and three if every run needs its
whole time: small 1 minute, thousand 5 to 60, two_thousand 10 to 40, shallow 5 to 60, reference 7
(one seed; see ``--reference-seeds``), verdicts 3, seeds 1. five_thousand takes 5 minutes per run:
``all`` does it for the first seed only, ``--part five_thousand`` for each.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.benchmarks import seeds as stripped_seeds
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records, flat
from experiments.benchmarks.tables import CONSOLE, depth_name, new_table, statuses, verdict
from experiments.data import DATASETS, draft
from experiments.draft_tables import draft_sample
from experiments.results_version import say_versions
from treeleak.release import to_release

N_SMALL = 200
BINS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Where the bins of confidence begin, after the first at 0; the last holds what is proved."""


@dataclass(frozen=True)
class Case:
    """One forest."""

    dataset: str
    n_rows: int
    depth: int | None
    seed: int
    distinct: bool = True
    time_limit: float = 60.0
    n_trees: int = 100
    bootstrap: bool = True
    method: str = "auto"


@dataclass(frozen=True)
class Small:
    """One of many small forests, every second one with a count or two moved to other leaves."""

    forest: int
    bootstrap: bool
    method: str = "auto"
    time_limit: float = 60.0


@dataclass(frozen=True)
class Floor:
    """What the runs of a line must reach.

    ``rows`` is the least share of rows right in order; None where only an answer is asked for,
    which must be right if it is called the only one; 1 where the error in order must be 0.000.
    """

    rows: float | None
    median: float = np.inf
    slowest: float = np.inf

    def __str__(self) -> str:
        rows = "answered" if self.rows is None else f">= {self.rows:.0%}"
        limit = f"{min(self.median, self.slowest):g} s"
        return f"{'0.000' if self.rows == 1 else rows}, {limit}"

    def judge(self, runs: pd.DataFrame) -> str:
        """Say "met", "NOT met", or "on average" where the seeds' mean reaches the share only."""
        fast = runs.seconds.median() <= self.median and runs.seconds.max() <= self.slowest
        if self.rows is None:
            only = runs[runs.status == "unique"]
            good = (runs.status != "unknown").all() and (only.order_error < 0.0005).all()
        elif self.rows == 1:
            good = (runs.order_error < 0.0005).all()
        else:
            good = (runs.in_order >= self.rows).all()
            if fast and not good and runs.in_order.mean() >= self.rows:
                return "on average"
        return verdict(bool(fast and good))


FLOORS = {
    "small": dict(zip(DATASETS, (Floor(1, 0.3), Floor(1, 3), Floor(1, 6)), strict=True)),
    "thousand": dict(zip(DATASETS, (Floor(1, 10), Floor(1, 30), Floor(1, 40)), strict=True)),
    "two_thousand": {"compas": Floor(0.95, slowest=120), "adult": Floor(0.98, slowest=120)},
    "five_thousand": {"adult": Floor(0.75, slowest=300)},
    "shallow": dict.fromkeys(DATASETS, Floor(None, slowest=60)),
}
SHAPES: dict[str, tuple[int, tuple[int | None, ...], float]] = {
    "small": (100, (None,), 60),
    "thousand": (1000, (None,), 120),
    # Less than the floor's time, which counts all steps, also those after the attack.
    "two_thousand": (2000, (None,), 115),
    "five_thousand": (5000, (None,), 290),
    "shallow": (100, (3, 5), 58),
}
"""Rows, depths and time limit of each part."""
PARTS = (*SHAPES, "reference", "seeds", "verdicts")


def cases(
    part: str, seeds: Iterable[int], distinct: Iterable[bool], time_limit: float | None
) -> Iterator[Case]:
    """All runs of a part, as its lines are printed."""
    n_rows, depths, limit = SHAPES[part]
    for dataset, depth, used, seed in itertools.product(FLOORS[part], depths, distinct, seeds):
        yield Case(dataset, n_rows, depth, seed, used, time_limit or limit)


def side_by_side(seeds: Iterable[int], time_limit: float | None) -> Iterator[Case]:
    """Treeleak and the reference in turn; neither uses distinct counts, which one does not know."""
    for dataset, bootstrap in (("compas", True), ("compas", False), ("adult", True)):
        for seed in seeds:
            case = Case(dataset, 100, None, seed, False, time_limit or 300, bootstrap=bootstrap)
            yield from (case, replace(case, method="reference-cp"))


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = draft(case.dataset)
    X, y = draft_sample(data, case.n_rows, case.seed)
    forest = RandomForestClassifier(
        case.n_trees, max_depth=case.depth, bootstrap=case.bootstrap, random_state=case.seed
    ).fit(X, y)
    start = time.perf_counter()
    result = treeleak.reconstruct(
        forest, data.schema, time_limit=case.time_limit, seed=case.seed, method=case.method,
        use_distinct=case.distinct,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    outcome = {
        "status": result.status,
        "seconds": seconds,
        "misfit": result.misfit,
        "proved_rows": result.share_proved_rows,
        "proved_values": result.share_proved_values,
        "numbers": dict(result.numbers),
    }
    if result.X is None:
        # No row is right; the error is that of a guess at best.
        return outcome | {"error": None, "order_error": 1.0, "in_order": 0.0, "wrong_proved": 0,
                          "calibration": {}}  # fmt: skip
    outcome["error"] = treeleak.metrics.reconstruction_error(result.X, X, data.schema)
    right = np.column_stack([result.X[X.columns].to_numpy() == X.to_numpy(), result.y == y.array])
    sure = np.column_stack([result.confidence[X.columns], result.label_confidence])
    if not result.ordered:
        return outcome
    return outcome | {
        "order_error": float(1 - right.mean()),
        "in_order": float(right.all(axis=1).mean()),
        "wrong_proved": int((~right & (sure == 1)).sum()),
        "calibration": {
            "rows": calibration(sure.min(axis=1), right.all(axis=1)),
            "values": calibration(sure.ravel(), right.ravel()),
        },
    }


def calibration(sure: np.ndarray, right: np.ndarray) -> list[list[float]]:
    """How many there are, their summed confidence and how many are right, in each bin."""
    at = np.digitize(sure, BINS)
    sums = [np.bincount(at, w, minlength=len(BINS) + 1) for w in (np.ones(len(at)), sure, right)]
    return np.column_stack(sums).tolist()


def run_small(case: Small) -> Record:
    """Ask whether the counts of a small forest can be met."""
    # The tests' way of making counts that may have no rows behind them.
    from tests.helpers.releases import tampered

    rng = np.random.default_rng(case.forest)
    data = draft(DATASETS[rng.integers(len(DATASETS))])
    X, y = draft_sample(data, int(rng.integers(4, 25)), case.forest)
    forest = RandomForestClassifier(
        int(rng.integers(2, 11)), max_depth=int(rng.integers(1, 6)), bootstrap=case.bootstrap,
        random_state=case.forest,
    )  # fmt: skip
    release = to_release(forest.fit(X, y))
    if case.forest % 2:
        release = tampered(release, rng)
    start = time.perf_counter()
    result = treeleak.reconstruct(
        release, data.schema, time_limit=case.time_limit, method=case.method, use_distinct=False
    )
    return {"status": result.status, "seconds": time.perf_counter() - start}


def warm(case: Case) -> Case:
    """A small case that goes the same way."""
    return replace(case, n_rows=30, n_trees=10, depth=2, time_limit=2.0)


def table(part: str, records: list[Record]) -> None:
    """Print one line per point, over all seeds."""
    all_runs = flat(records)
    out = new_table(
        f"known draws, {part}: seeds {all_runs.seed.min()} to {all_runs.seed.max()}, "
        f"time limit {all_runs.time_limit.max():g} s; {say_versions(all_runs.results_version)}",
        "dataset, N, depth, distinct, in order, worst, order error, error, status, proved rows, "
        "proved values, s median, s max, MB, floor, met",
        left="dataset, status, floor",
    )
    shape = ["dataset", "n_rows", "depth", "distinct"]
    for (dataset, n, depth, used), runs in all_runs.groupby(shape, sort=False, dropna=False):
        floor = FLOORS[part][dataset]
        out.add_row(
            dataset, str(n), depth_name(depth), "yes" if used else "no",
            f"{runs.in_order.mean():.1%}", f"{runs.in_order.min():.1%}",
            f"{runs.order_error.mean():.4f}", f"{runs.error.astype(float).mean():.4f}",
            statuses(runs), f"{runs.proved_rows.mean():.1%}", f"{runs.proved_values.mean():.1%}",
            f"{runs.seconds.median():.2f}", f"{runs.seconds.max():.2f}",
            f"{runs.peak_mb.max():.0f}", str(floor), floor.judge(runs),
        )  # fmt: skip
    CONSOLE.print(out)
    if wrong := all_runs.wrong_proved.sum():
        CONSOLE.print(f"{part}: {wrong} values called proved are WRONG")


def calibration_table(records: list[Record]) -> None:
    """Print how often rows and values are right that are said to be right with some probability.

    A row is as certain as the least certain of its values: more cannot be read from a
    reconstruction, and it is at least the probability that all are right.
    """
    starts = (0.0, *BINS)
    for used, what in itertools.product((True, False), ("rows", "values")):
        given = [r["calibration"] for r in records if r["case"]["distinct"] == used]
        found = [g[what] for g in given if g]
        if not found:
            continue
        n, sure, right = np.sum(found, axis=0).T
        out = new_table(
            f"{what} by their confidence, distinct counts {'used' if used else 'not used'}",
            f"confidence, {what}, mean confidence, right", left="confidence",
        )  # fmt: skip
        for i in np.flatnonzero(n):
            bin_ = "proved" if starts[i] == 1 else f"{starts[i]:g} to {starts[i + 1]:g}"
            out.add_row(bin_, f"{n[i]:.0f}", f"{sure[i] / n[i]:.3f}", f"{right[i] / n[i]:.3f}")
        CONSOLE.print(out)
        error = np.abs(sure - right).sum() / n.sum()
        CONSOLE.print(f"{what}: expected calibration error {error:.4f}")


def reference_table(records: list[Record]) -> None:
    """Print treeleak and the reference, line under line."""
    all_runs = flat(records)
    out = new_table(
        f"treeleak and the published constraint program, N = 100, seeds {all_runs.seed.min()} to "
        f"{all_runs.seed.max()}, time limit {all_runs.time_limit.max():g} s; "
        f"{say_versions(all_runs.results_version)}",
        "dataset, draws, method, status, error, in order, s median, s max, ratio, MB",
        left="dataset, draws, method, status",
    )
    for (dataset, bootstrap), both in all_runs.groupby(["dataset", "bootstrap"], sort=False):
        own = both.seconds[both.method == "auto"].median()
        for method, runs in both.groupby("method", sort=False):
            out.add_row(
                dataset, "known" if bootstrap else "none",
                "treeleak" if method == "auto" else method, statuses(runs),
                f"{runs.error.astype(float).mean():.4f}",
                f"{runs.in_order.mean():.1%}" if bootstrap else "",
                f"{runs.seconds.median():.2f}", f"{runs.seconds.max():.2f}",
                f"{runs.seconds.median() / own:.0f}", f"{runs.peak_mb.max():.0f}",
            )  # fmt: skip
    CONSOLE.print(out)


def verdict_table(records: list[Record]) -> None:
    """Print how often treeleak and the reference agree on whether counts can be met."""
    runs = flat(records).replace({"status": {"unique": "feasible"}})
    pairs = runs.pivot(index=["bootstrap", "forest"], columns="method")
    out = new_table(
        f"feasible or not: small random forests, every second one tampered with; "
        f"{say_versions(runs.results_version)}",
        "draws, same verdict, feasible, infeasible, opposite, treeleak open, reference open, "
        "treeleak s, reference s, ratio",
        left="draws",
    )
    for name, kind in (("none", [False]), ("known", [True]), ("both", [False, True])):
        lines = pairs[pairs.index.get_level_values("bootstrap").isin(kind)]
        own, other = lines["status", "auto"], lines["status", "reference-cp"]
        seconds = lines["seconds"].sum()
        same = own.where(own == other).value_counts().reindex(["feasible", "infeasible"]).fillna(0)
        opened = [own == "unknown", other == "unknown"]
        opposite = (own != other) & ~opened[0] & ~opened[1]
        out.add_row(
            name, f"{same.sum():.0f} of {len(lines)}", *(f"{n:.0f}" for n in same),
            *(str(n.sum()) for n in (opposite, *opened)),
            f"{seconds['auto']:.2f}", f"{seconds['reference-cp']:.2f}",
            f"{seconds['reference-cp'] / seconds['auto']:.2f}",
        )  # fmt: skip
    CONSOLE.print(out)


def verdicts(first: int, time_limit: float | None) -> Iterator[Small]:
    """Cases of both methods, without and with draws, on forests that no other seed has."""
    for i in range(N_SMALL):
        bootstrap = i >= N_SMALL // 2
        case = Small(first * N_SMALL + i, bootstrap, time_limit=time_limit or 60.0)
        yield from (case, replace(case, method="reference-cp"))


def main(args: Sequence[str]) -> None:
    parser = Options("known", __doc__, PARTS, "0-4")
    parser.add_argument(
        "--reference-seeds", type=int, default=1, help="run the reference on so many (default 1)"
    )
    parser.add_argument(
        "--distinct", choices=["with", "without", "both"], default="both",
        help="use the numbers of distinct rows (default both)",
    )  # fmt: skip
    parser.add_argument("--time-limit", type=float, help="instead of each part's own")
    given = parser.parse_args(args)
    distinct = {"with": (True,), "without": (False,), "both": (True, False)}[given.distinct]
    store = Records("known", given.fresh, given.out)
    for part in PARTS if given.part == "all" else [given.part]:
        if part == "reference":
            todo = side_by_side(given.seeds[: given.reference_seeds], given.time_limit)
            reference_table(store.collect(todo, run, warm))
        elif part == "seeds":
            of_seeds = Records("seeds", given.fresh, given.out)
            stripped_seeds.report(of_seeds, given.seeds[:1])
        elif part == "verdicts":
            small = store.collect(
                verdicts(given.seeds[0], given.time_limit), run_small,
                warm=lambda case: replace(case, forest=0, time_limit=2.0), apart=lambda _: False,
            )  # fmt: skip
            verdict_table(small)
        else:
            few = part == "five_thousand" and given.part == "all"
            seeds = given.seeds[:1] if few else given.seeds
            records = store.collect(cases(part, seeds, distinct, given.time_limit), run, warm)
            table(part, records)
            if part == "five_thousand":
                calibration_table(records)
