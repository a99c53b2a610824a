"""Verdicts on models of which it is known whether they tell of single people.

Clean: forests with large leaves, on tables as they are and on tables whose columns and labels
were shuffled each by itself, in which no leaf counts fewer than five people of a class (but maybe
none); and differentially private forests with epsilon = 0.1. Leaky: default forests with their
draws known, forests without bootstrap, default forests without their seeds, and those without their
numbers of different rows as well (hardened by half; both on binary columns alone: elsewhere attacks
find less than such forests leak). Each on tables of binary columns, of numbers, and of both; half
of the clean ones with control rows.

One line per kind of table and model: how many got which verdict. A floor says whether "leak shown"
is as rare, or as frequent, as it must be.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.benchmarks.frame import CONSOLE, floor, in_processes, options, progress, show
from experiments.forests import drawn_counts_alone
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE
from treeleak.learn import DPForestClassifier
from treeleak.release import to_release

FALSE_ALARMS, FOUND = 0.02, 0.98
"""Most clean models, and least leaky ones, with the verdict "leak shown"."""
FEWEST_OF_CLASS = 5
"""People of a class that a leaf of a clean model counts at least, if it counts any."""
BINARY = ("compas", "german_credit", "adult")
NUMBERS = {"wine": load_wine, "breast_cancer": load_breast_cancer}
TABLES = ("binary", "raw", "mixed")
CLEAN = ("large leaves", "shuffled, large leaves", "private, epsilon 0.1")
LEAKY = ("default", "no bootstrap", "seeds stripped", "hardened by half")
CLEAN_KINDS = tuple((model, table) for table in TABLES for model in CLEAN)
LEAKY_KINDS = tuple(
    (model, table) for table in TABLES for model in (LEAKY if table == "binary" else LEAKY[:2])
)
SHORT = {LEAK: "leak shown", POSSIBLE: "possible leak", NO_LEAK: "no leak", OPEN: "not assessed"}


@dataclass(frozen=True)
class Case:
    """One model; everything about it follows from these."""

    model: str
    table: str
    control: bool
    number: int
    turn: int
    seed: int
    time_limit: float


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a table: those to train on, and others."""

    X: pd.DataFrame
    y: np.ndarray
    others: pd.DataFrame
    schema: treeleak.Schema


def cases(
    kinds: tuple[tuple[str, str], ...], n: int, seed: int, time_limit: float
) -> Iterator[Case]:
    """All kinds of models and tables in turn; clean ones with control rows in every other turn."""
    for k in range(n):
        (model, table), turn = kinds[k % len(kinds)], k // len(kinds)
        control = kinds is CLEAN_KINDS and turn % 2 == 1
        yield Case(model, table, control, k, turn // 2, seed, time_limit)


def sample(case: Case, n_rows: int, n_columns: int, rng: np.random.Generator) -> Sample:
    """Draw rows and columns of a table of this kind."""
    if case.table == "binary":
        data = getattr(treeleak.datasets, f"load_{BINARY[case.turn % len(BINARY)]}")()
        order = rng.permutation(len(data.X))
        X, y = data.X.iloc[order].reset_index(drop=True), np.asarray(data.y)[order]
        return Sample(X[:n_rows], y[:n_rows], X[n_rows : n_rows + 2000], data.schema)
    whole = list(NUMBERS.values())[case.turn % len(NUMBERS)](as_frame=True)
    order = rng.permutation(len(whole.data))
    # Control rows must be twice as many; without them, some are left that were not drawn.
    n_rows = min(n_rows, len(order) // 3 if case.model in CLEAN else 2 * len(order) // 3)
    n_flags = 5 if case.table == "mixed" else 0
    columns = rng.permutation(whole.data.columns)[: n_columns + n_flags]
    X = whole.data[columns].iloc[order].reset_index(drop=True)
    X[columns[:n_flags]] = (X[columns[:n_flags]] > X[columns[:n_flags]].median()).astype(float)
    y = (whole.target.to_numpy()[order] > 0).astype(int)
    attributes = [
        treeleak.Binary(c)
        if c in set(columns[:n_flags])
        else treeleak.Numeric(c, float(X[c].min()), float(X[c].max()))
        for c in columns
    ]
    return Sample(X[:n_rows], y[:n_rows], X[n_rows:], treeleak.Schema(attributes))


def shuffled(s: Sample, rng: np.random.Generator) -> Sample:
    """Shuffle every attribute and the labels, each by itself: nothing hangs together any more."""
    X = pd.concat([s.X, s.others], ignore_index=True)
    for attribute in s.schema.attributes:
        own = list(attribute.columns)
        X[own] = X[own].to_numpy()[rng.permutation(len(X))]
    n = len(s.X)
    return Sample(X[:n], rng.permutation(s.y), X[n:].reset_index(drop=True), s.schema)


def few_of_a_class(model: RandomForestClassifier) -> bool:
    """Whether some leaf counts fewer people of a class than a clean model may."""
    for tree in to_release(model).trees:
        counts = np.rint(tree.counts[tree.leaves])
        if ((counts > 0) & (counts < FEWEST_OF_CLASS)).any():
            return True
    return False


def clean(case: Case, rng: np.random.Generator) -> tuple[Any, Sample]:
    """Train a model that tells of nobody."""
    for attempt in range(200):
        s = sample(case, int(rng.integers(80, 161)), int(rng.integers(4, 9)), rng)
        if case.model == "private, epsilon 0.1":
            forest = DPForestClassifier(
                10,
                4,
                0.1,
                schema=s.schema,
                classes=np.unique(s.y).tolist(),
                random_state=case.number,
            )
            return forest.fit(s.X, s.y), s
        if case.model.startswith("shuffled"):
            s = shuffled(s, rng)
        forest = RandomForestClassifier(
            int(rng.integers(2, 9)),
            min_samples_leaf=len(s.X) // 5,
            max_depth=2 if attempt < 100 else 1,
            bootstrap=bool(rng.integers(2)),
            random_state=int(rng.integers(2**31)),
        ).fit(s.X, s.y)
        if not few_of_a_class(forest):
            return forest, s
    raise RuntimeError("no clean forest in 200 attempts")


def leaky(case: Case, rng: np.random.Generator) -> tuple[Any, Sample]:
    """Train a model that gives its people away."""
    s = sample(case, int(rng.integers(100, 151)), 2, rng)
    forest = RandomForestClassifier(
        100, bootstrap=case.model != "no bootstrap", random_state=int(rng.integers(2**31))
    ).fit(s.X, s.y)
    if case.model in ("seeds stripped", "hardened by half"):
        for part in (forest, *forest.estimators_):
            part.random_state = None
    return forest, s


def audited(case: Case) -> dict[str, Any]:
    """Audit one model, with its training rows."""
    warnings.simplefilter("ignore")
    kinds = (*CLEAN, *LEAKY)
    rng = np.random.default_rng([case.seed, kinds.index(case.model), case.number])
    model, s = (clean if case.model in CLEAN else leaky)(case, rng)
    started = time.perf_counter()
    options: dict[str, Any] = {}
    if case.model in ("seeds stripped", "hardened by half"):
        options = {"bootstrap": "hidden"}
    if case.model == "hardened by half":
        model = drawn_counts_alone(model)
    if case.model == "private, epsilon 0.1":
        options = {"n_rows": len(s.X)}
    found = treeleak.audit(
        model, s.X, s.y, schema=s.schema, time_limit=case.time_limit, seed=case.number,
        control=s.others if case.control else None, **options,
    )  # fmt: skip
    m = found.measurement
    return {
        **asdict(case),
        "verdict": found.verdict,
        "headline": found.headline,
        "error": np.nan if m is None else m.error,
        "seconds": time.perf_counter() - started,
    }


def show_part(part: str, done: list[dict[str, Any]], bound: float) -> bool:
    """Print how many got which verdict; say whether the floor is met."""
    runs, lines = pd.DataFrame(done), []
    for key, own in runs.groupby(["model", "table", "control"]):
        got = own.verdict.map(SHORT).value_counts()
        lines.append(dict(zip(("model", "table", "control"), key, strict=True)) | {
            "audits": len(own), **{name: int(got.get(name, 0)) for name in SHORT.values()},
            "error": own.error.mean(), "s": own.seconds.median(),
        })  # fmt: skip
    show(f"{part} models", lines)
    share, most = (runs.verdict == LEAK).mean(), part == "clean"
    said = f"leak shown: {share:.1%} of {len(done)}, at {'most' if most else 'least'} {bound:.0%}"
    met = floor(said, share <= bound if most else share >= bound)
    for r in runs[(runs.verdict == LEAK) == most].itertuples():
        CONSOLE.print(f"  {r.model}, {r.table}, {r.number}: {r.headline[:160]}", markup=False)
    return met


def main(args: Sequence[str]) -> int:
    given = options(
        "verdicts", __doc__, args, parts=("clean", "leaky"), number=200, seed=0, jobs=2,
        time_limit=10.0,
    )  # fmt: skip
    met = True
    for part, kinds, bound in (
        ("clean", CLEAN_KINDS, FALSE_ALARMS),
        ("leaky", LEAKY_KINDS, FOUND),
    ):
        if part in given.parts:
            todo = cases(kinds, given.number, given.seed, given.time_limit)
            done = []
            for _, found in in_processes(audited, todo, given.jobs):
                done.append(found)
                progress(f"{len(done)} of {given.number}")
            met &= show_part(part, done, bound)
    return int(not met)
