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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.attempt import attempt
from experiments.benchmarks.frame import (
    CONSOLE,
    Floor,
    Record,
    collect,
    expected_over_true,
    flat,
    options,
    present,
    said_of,
    show,
    statuses,
)
from experiments.data import draft
from experiments.draft_tables import draft_sample
from experiments.forests import drawn_counts_alone
from experiments.studies.gambs import raw_adult
from treeleak.core.errors import Mismatch
from treeleak.datasets import Dataset
from treeleak.metrics.encoding import table_columns
from treeleak.metrics.matching import Matching, best_matching
from treeleak.reconstruction.result import Reconstruction
from treeleak.release import to_release
from treeleak.schema import Numeric, Ordinal, Schema
from treeleak.verification.training_rows import match_training

NEAR = 0.01
GUESSES = 20
_FIGURES = ("misfit", "error", "expected", "near", "labels", "verified")


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


def goal(
    seconds: float | None = None, error: float = 1.0, ratio: float | None = None,
    verified: bool = True,
) -> Floor:  # fmt: skip
    """What the runs of a line must reach; those without rows have no error, and meet no goal."""
    return Floor(
        {"error": error}, most={} if seconds is None else {"seconds": seconds},
        least={"verified": 1} if verified else {}, of_guess=ratio,
    )  # fmt: skip


@dataclass(frozen=True)
class Line:
    """What is run for each seed, and what it must reach."""

    dataset: str
    draws: str
    n_rows: int
    floor: Floor
    aim: Floor
    schema: bool = True

    def __str__(self) -> str:
        name = SHORT.get(self.dataset, self.dataset)
        return f"{name} {self.n_rows}, {self.draws}{'' if self.schema else ', no schema'}"

    @property
    def time_limit(self) -> float:
        # Less than the floor's time, which counts all steps, also those after the attack.
        return 0.95 * self.floor.most.get("seconds", 300.0)


CREDIT, CANCER = "default_credit_numerical", "breast cancer"
SHORT = {CREDIT: "credit", CANCER: "cancer"}
_GUESS = goal(ratio=0.7, verified=False), goal(ratio=0.4, verified=False)
_LONG = goal(300, 0.06, verified=False)
PARTS = {
    "exact": [
        Line(CREDIT, "none", 40, goal(10, 0.10), goal(3, 0.08)),
        Line(CREDIT, "none", 100, goal(120), goal(20)),
        Line("adult", "none", 200, _LONG, goal(30, 0.04, verified=False)),
        Line("adult", "none", 1000, goal(300, verified=False), _LONG),
    ],
    "known": [
        Line(CREDIT, "known", 40, goal(5, 0.10), goal(2, 0.10)),
        Line(CREDIT, "known", 100, goal(60, 0.035), goal(10, 0.035)),
        Line(CREDIT, "known", 200, goal(600), goal(60)),
        Line("adult", "known", 200, goal(600), goal(30)),
        Line(CANCER, "known", 100, goal(300), goal(60)),
        Line(CANCER, "known", 569, goal(600, verified=False), goal(60)),
    ],
    "hidden": [Line(CREDIT, "hidden", 100, *_GUESS), Line("adult", "hidden", 100, *_GUESS)],
    "schemaless": [
        Line(CREDIT, draws, 40, goal(10), goal(10), schema=False) for draws in ("none", "known")
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
        # LightGBM writes names without spaces.
        X = X.rename(columns=lambda name: name.replace(" ", "_"))
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
    record, result = attempt(
        lambda: treeleak.reconstruct(
            forest if case.method == "auto" else drawn_counts_alone(forest),
            data.schema if case.schema else None, case.draws, case.time_limit, case.seed,
            method=case.method,
        )
    )  # fmt: skip
    record |= dict.fromkeys(_FIGURES) | {
        "misfit": record["misfit"],
        "guess": guess,
        "verified": 0.0,
    }
    record["cells"] = "not looked for" if result is None else result.cells
    if result is None or result.X is None:
        return record
    matched = best_matching(result.X, X, data.schema)
    return record | {
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


def floor_table(part: str, lines: Iterable[Line], runs: pd.DataFrame) -> bool:
    """Print one line per point, and under it the reference if it was run."""
    out: list[dict[str, Any]] = []
    for line in lines:
        here = runs[
            (runs.dataset == line.dataset) & (runs.draws == line.draws)
            & (runs.n_rows == line.n_rows) & (runs.schema == line.schema)
        ]  # fmt: skip
        for method, own in here.groupby("method", sort=False):
            out.append({
                "case": str(line), "method": method, "status": statuses(own.status),
                "verified": f"{int(own.verified.sum())} of {len(own)}", "misfit": own.misfit.max(),
                "error": own.error.mean(), "expected": own.expected.mean(),
                "worst": own.error.max(), "guess": own.guess.mean(), "near": own.near.mean(),
                "labels": own.labels.mean(), "s": own.seconds.median(),
                "most s": own.seconds.max(), "MB": own.peak_mb.max(), "floor": "", "met": None,
                "aim": "", "reached": "",
            })  # fmt: skip
            if method == "auto":
                out[-1] |= {
                    "floor": str(line.floor), "met": line.floor.judge(own), "aim": str(line.aim),
                    "reached": "yes" if line.aim.judge(own) else "no",
                }  # fmt: skip
    met = show(f"raw columns, {part}: {said_of(runs)}", out)
    own = runs[runs.method == "auto"]
    for cells in own.cells.unique():
        CONSOLE.print(f"cells {cells}", soft_wrap=True)
    refused = runs[runs.status == "refused"].drop_duplicates("method")
    for method, notes in refused[["method", "notes"]].to_numpy():
        CONSOLE.print(f"{method} refused: {'; '.join(notes)}", soft_wrap=True)
    return met & expected_over_true(own)


def main(args: Sequence[str]) -> int:
    given = options(
        "raw", __doc__, args, parts=PARTS, kept=True, seeds=range(5), rows=[int], reference=False,
        reference_limit=120.0, time_limit=float,
    )  # fmt: skip
    limit, met = given.reference_limit if given.reference else None, True
    for part in given.parts:
        some = [line for line in PARTS[part] if given.rows is None or line.n_rows in given.rows]
        if lines := present(some, lambda line: table(line.dataset)):
            todo = cases(lines, given.seeds, given.time_limit, limit)
            # On a smaller grid, cells would be listed.
            records = collect(
                "raw", todo, run, lambda c: replace(c, n_rows=40, seed=0, time_limit=5.0), given,
                apart=True,
            )  # fmt: skip
            met &= floor_table(part, lines, flat(records, _FIGURES))
    return int(not met)
