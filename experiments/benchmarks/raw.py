"""Raw columns: numbers and categories as they are, on grids that are too large to list.

Every line has a floor and an aim: how far the rows may be off in the mean over the seeds
("error" is DRAFT's, after matching, numbers divided by their range in the whole table; "guess" is
that of rows guessed at random within the schema), in how many seconds the slowest run must end, and
whether every run must meet every count ("verified"). "expected" is what answers say of their error,
"near" the share of numbers, of rows matched, that are off by 1 % of the range at most, "verified"
in how many runs `X` meets every count, or the likeliest dataset where `X` lies between several.
Nothing is told of a table but ranges and categories: columns of Adult and of breast cancer that
hold whole numbers are not said to.

``--reference`` runs the published constraint program on the same forest after each run, in its own
time (``--reference-limit``). It knows no distinct counts, treeleak uses them where there are any.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.benchmarks.floor_lines import expected_over_true, runs_of
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records
from experiments.benchmarks.tables import CONSOLE, new_table, number, statuses, verdict
from experiments.data import draft
from experiments.draft_tables import draft_sample
from experiments.results_version import say_versions
from experiments.studies.gambs import raw_adult
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.datasets import Dataset
from treeleak.metrics.encoding import table_columns
from treeleak.metrics.matching import Matching, best_matching
from treeleak.reconstruction.result import Reconstruction
from treeleak.release import to_release
from treeleak.schema import Numeric, Ordinal, Schema
from treeleak.verification.training_rows import match_training

NEAR = 0.01
GUESSES = 20


@dataclass(frozen=True)
class Case:
    """One forest of 100 trees."""

    dataset: str
    draws: str
    n_rows: int
    seed: int
    time_limit: float
    schema: bool = True
    method: str = "auto"
    n_trees: int = 100


@dataclass(frozen=True)
class Goal:
    """What the runs of a line must reach: the error and its ratio in the mean, the rest in each."""

    seconds: float = np.inf
    error: float = np.inf
    ratio: float = np.inf
    verified: bool = True

    def __str__(self) -> str:
        said = [f"{self.error:g}"] if self.error < np.inf else []
        said += [f"{self.ratio:g} of a guess"] if self.ratio < np.inf else []
        said += ["verified"] if self.verified else [] if said else ["rows"]
        return ", ".join([*said, f"{self.seconds:g} s"] if self.seconds < np.inf else said)

    def judge(self, runs: pd.DataFrame) -> str:
        """Say "met" or "NOT met"; runs without rows meet no goal."""
        good = (
            runs.error.notna().all()
            and runs.error.mean() <= self.error
            and runs.error.mean() <= self.ratio * runs.guess.mean()
            and (runs.seconds <= self.seconds).all()
        )
        if self.verified:
            good &= (runs.verified == 1).all()
        return verdict(bool(good))


@dataclass(frozen=True)
class Line:
    """What is run for each seed, and what it must reach."""

    dataset: str
    draws: str
    n_rows: int
    floor: Goal
    aim: Goal
    schema: bool = True

    def __str__(self) -> str:
        name = SHORT.get(self.dataset, self.dataset)
        return f"{name} {self.n_rows}, {self.draws}{'' if self.schema else ', no schema'}"

    @property
    def time_limit(self) -> float:
        # Less than the floor's time, which counts all steps, also those after the attack.
        return 0.95 * min(self.floor.seconds, 300.0 if self.floor.ratio < np.inf else 600.0)


CREDIT, CANCER = "default_credit_numerical", "breast cancer"
SHORT = {CREDIT: "credit", CANCER: "cancer"}
_GUESS = Goal(ratio=0.7, verified=False), Goal(ratio=0.4, verified=False)
PARTS = {
    "exact": [
        Line(CREDIT, "none", 40, Goal(10, 0.10), Goal(3, 0.08)),
        Line(CREDIT, "none", 100, Goal(120), Goal(20)),
        Line("adult", "none", 200, Goal(300, 0.06, verified=False), Goal(30, 0.04, verified=False)),
        Line("adult", "none", 1000, Goal(300, verified=False), Goal(300, 0.06, verified=False)),
    ],
    "known": [
        Line(CREDIT, "known", 40, Goal(5, 0.10), Goal(2, 0.10)),
        Line(CREDIT, "known", 100, Goal(60, 0.035), Goal(10, 0.035)),
        Line(CREDIT, "known", 200, Goal(600), Goal(60)),
        Line("adult", "known", 200, Goal(600), Goal(30)),
        Line(CANCER, "known", 100, Goal(300), Goal(60)),
        Line(CANCER, "known", 569, Goal(600, verified=False), Goal(60)),
    ],
    "hidden": [Line(CREDIT, "hidden", 100, *_GUESS), Line("adult", "hidden", 100, *_GUESS)],
    "schemaless": [
        Line(CREDIT, draws, 40, Goal(10), Goal(10), schema=False) for draws in ("none", "known")
    ],
}


@cache
def table(name: str) -> Dataset:
    """A table with its columns as they are; its schema tells ranges and categories only.

    Raises
    ------
    BadInput
        If it is not there.
    """
    if name == "adult":
        schema, X, y = raw_adult()
        loose = [Numeric(a.name, *a.bounds) if isinstance(a, Ordinal) else a
                 for a in schema.attributes]  # fmt: skip
        return Dataset(name, X, y, Schema(loose), "UCI Adult", "CC BY 4.0")
    if name == CANCER:
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        ranges = [Numeric(str(c), float(x.min()), float(x.max())) for c, x in X.items()]
        return Dataset(name, X, y, Schema(ranges), "scikit-learn", "CC BY 4.0")
    return draft(name)


def cases(
    lines: Iterable[Line], seeds: Iterable[int], limit: float | None, reference: float | None
) -> Iterator[Case]:
    """All runs of some lines; with ``reference`` seconds for the published program after each."""
    for line in lines:
        for seed in seeds:
            own = Case(line.dataset, line.draws, line.n_rows, seed, limit or line.time_limit,
                       line.schema)  # fmt: skip
            yield own
            if reference is not None:
                yield replace(own, method="reference-cp", time_limit=reference)


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = table(case.dataset)
    X, y = draft_sample(data, case.n_rows, case.seed)
    forest = RandomForestClassifier(
        case.n_trees, bootstrap=case.draws != "none", random_state=case.seed
    ).fit(X, y)
    guess = treeleak.metrics.random_baseline(X, data.schema, GUESSES, case.seed).mean
    outcome = {
        "status": "refused", "cells": "not looked for", "misfit": None, "error": None,
        "expected": None, "guess": guess, "near": None, "labels": None, "verified": 0.0,
        "numbers": {}, "notes": [],
    }  # fmt: skip
    start = time.perf_counter()
    try:
        result = treeleak.reconstruct(
            forest, data.schema if case.schema else None, case.draws, case.time_limit, case.seed,
            method=case.method, use_distinct=case.method == "auto",
        )  # fmt: skip
    except NotCovered as why:
        return outcome | {"seconds": time.perf_counter() - start, "notes": [str(why)]}
    outcome |= {
        "seconds": time.perf_counter() - start,
        "status": result.status,
        "cells": result.cells,
        "numbers": {k: float(v) for k, v in result.numbers.items()},
        "notes": list(result.notes),
    }
    if result.X is None:
        return outcome
    matched = best_matching(result.X, X, data.schema)
    return outcome | {
        "misfit": float(result.misfit),
        "verified": float(verified(forest, result)),
        "error": float(matched.distance.mean()),
        "expected": result.expected_error,
        "near": near(matched, table_columns(result.X, X, data.schema), data.schema),
        "labels": float((result.y.to_numpy() == y.to_numpy()).mean()) if result.ordered else None,
    }


def verified(forest: RandomForestClassifier, result: Reconstruction) -> bool:
    """Whether rows are handed over that meet every count: the likeliest, where `X` lies between."""
    if not result.between_datasets or result.most_likely is None:
        # Status and misfit come apart if one of them is wrong.
        return result.status in ("unique", "feasible") and not result.misfit
    try:
        match_training(to_release(forest), *result.most_likely)
    except Mismatch:
        return False
    return True


def near(matched: Matching, columns: list[str], schema: Schema) -> float:
    """Share of numbers that are off by 1 % of the range at most."""
    numbers = {a.name for a in schema.attributes if isinstance(a, (Numeric, Ordinal))}
    return float((matched.distance[:, [c in numbers for c in columns]] <= NEAR).mean())


def warm(case: Case) -> Case:
    """A case that goes the same way: on a smaller grid, cells would be listed."""
    return replace(case, n_rows=40, seed=0, time_limit=5.0)


def floor_table(part: str, lines: Iterable[Line], records: list[Record]) -> None:
    """Print one line per point, and under it the reference if it was run."""
    all_runs = runs_of(records, ["misfit", "error", "expected", "near", "labels", "verified"])
    out = new_table(
        f"raw columns, {part}: seeds {all_runs.seed.min()} to {all_runs.seed.max()}; "
        f"{say_versions(all_runs.results_version)}",
        "case, method, status, verified, misfit, error, expected, worst, guess, near, labels, "
        "s median, s max, MB, floor, met, aim, reached",
        left="case, method, status, floor, aim",
    )
    for line in lines:
        here = all_runs[
            (all_runs.dataset == line.dataset) & (all_runs.draws == line.draws)
            & (all_runs.n_rows == line.n_rows) & (all_runs.schema == line.schema)
        ]  # fmt: skip
        for method, runs in here.groupby("method", sort=False):
            own = method == "auto"
            goals = (line.floor, line.aim) if own else ()
            out.add_row(
                str(line) if own else "", "treeleak" if own else str(method), statuses(runs),
                f"{int(runs.verified.sum())} of {len(runs)}", number(runs.misfit.max(), 0),
                number(runs.error.mean()), number(runs.expected.mean()), number(runs.error.max()),
                number(runs.guess.mean()), number(runs.near.mean(), 3),
                number(runs.labels.mean(), 3), f"{runs.seconds.median():.2f}",
                f"{runs.seconds.max():.2f}", f"{runs.peak_mb.max():.0f}",
                *(said for goal in goals for said in (str(goal), goal.judge(runs))),
            )  # fmt: skip
    CONSOLE.print(out)
    CONSOLE.print(expected_over_true(all_runs[all_runs.method == "auto"]))
    for cells in all_runs.cells[all_runs.method == "auto"].unique():
        CONSOLE.print(f"cells {cells}", soft_wrap=True)
    refused = all_runs[all_runs.status == "refused"]
    for method, notes in refused.drop_duplicates("method")[["method", "notes"]].to_numpy():
        CONSOLE.print(f"{method} refused: {'; '.join(notes)}", soft_wrap=True)


def present(lines: Iterable[Line]) -> list[Line]:
    """Those whose table is there; says of the others why it is not."""
    out = []
    for line in lines:
        try:
            table(line.dataset)
        except BadInput as why:
            CONSOLE.print(f"{line} skipped: {why}", soft_wrap=True)
        else:
            out.append(line)
    return out


def main(args: Sequence[str]) -> None:
    parser = Options("raw", __doc__, PARTS, "0-4")
    parser.add_argument("--rows", type=int, nargs="+", help="only lines of so many rows")
    parser.add_argument("--reference", action="store_true", help="run the published program too")
    parser.add_argument("--reference-limit", type=float, default=120.0, help="its seconds (120)")
    parser.add_argument("--time-limit", type=float, help="instead of each line's own")
    given = parser.parse_args(args)
    store = Records("raw", given.fresh, given.out)
    limit = given.reference_limit if given.reference else None
    for part in PARTS if given.part == "all" else [given.part]:
        lines = present(p for p in PARTS[part] if not given.rows or p.n_rows in given.rows)
        if lines:
            todo = cases(lines, given.seeds, given.time_limit, limit)
            floor_table(part, lines, store.collect(todo, run, warm))
