"""The search for a stripped forest seed: how often it is found, and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records
from experiments.benchmarks.tables import CONSOLE, new_table, verdict
from experiments.data import DATASETS, draft
from experiments.draft_tables import draft_sample
from treeleak.core.errors import NotCovered
from treeleak.release import Release, to_release
from treeleak.release.draws.seeds import known_draws

MODELS: dict[str, Callable[[], ClassifierMixin]] = {
    "forest": lambda: RandomForestClassifier(100),
    "extra trees": lambda: ExtraTreesClassifier(100, bootstrap=True),
    "bagging": lambda: BaggingClassifier(DecisionTreeClassifier(), n_estimators=100),
    "bagging, half the columns": lambda: BaggingClassifier(
        DecisionTreeClassifier(), n_estimators=100, max_features=0.5
    ),
    "bagging of 10": lambda: BaggingClassifier(DecisionTreeClassifier()),
}
RUNS = 20
BELOW = 10_000
RANGE = 1_000_000
FLOOR = 10.0
"""Seconds in which each forest seed below BELOW is to be found, at N = 100."""


@dataclass(frozen=True)
class Case:
    """One forest whose seeds were taken out."""

    kind: str
    dataset: str
    sample: int
    seed: int
    n_rows: int = 100
    n_seeds: int = RANGE


WARM = Case("forest", "compas", 0, 0, n_seeds=1)


def stripped(model: ClassifierMixin) -> Release:
    """The release of a model whose publisher took out every seed."""
    release = to_release(model)
    return replace(release, sampling=replace(release.sampling, tree_seeds=(), forest_seed=None))


def run(case: Case) -> Record:
    """Train, strip, search: whether every draw came out right, and the seconds it took."""
    X, y = draft_sample(draft(case.dataset), case.n_rows, case.sample)
    model = MODELS[case.kind]().set_params(random_state=case.seed).fit(X, y)
    truth = np.array([np.bincount(i, minlength=len(X)) for i in model.estimators_samples_])
    start = time.perf_counter()
    try:
        draws = known_draws(stripped(model), seed_search=case.n_seeds)
    except NotCovered:
        draws = None
    return {
        "seconds": time.perf_counter() - start,
        "found": draws is not None
        and draws.forest_seed == case.seed
        and bool(np.array_equal(draws.counts, truth)),
    }


def table(name: str, lines: Iterable[tuple[str, list[Record]]], floor: float | None) -> None:
    """Print one line per set of runs."""
    columns = "model, dataset, N, forest seeds, found, s median, s max, met"
    out = new_table(name, columns, "model, dataset")
    for seeds, records in lines:
        case = records[0]["case"]
        seconds = [r["seconds"] for r in records]
        found = sum(r["found"] for r in records)
        met = found == len(records) and max(seconds) < (floor or 0.0)
        out.add_row(
            case["kind"], case["dataset"], str(case["n_rows"]), seeds,
            f"{found} of {len(records)}", f"{np.median(seconds):.2f}", f"{max(seconds):.2f}",
            verdict(met) if floor else "",
        )  # fmt: skip
    CONSOLE.print(out)


def collect(store: Records, cases: Iterable[Case]) -> list[Record]:
    return store.collect(cases, run, warm=lambda _: WARM, apart=lambda _: False)


def hidden_seeds(store: Records, first: int, runs: int) -> list[tuple[str, list[Record]]]:
    """Search for seeds below BELOW, drawn from ``first``."""
    hidden = np.random.default_rng(first).integers(0, BELOW, runs)
    return [
        (
            f"< {BELOW:,} (from {first})",
            collect(store, [Case(kind, dataset, i, int(s)) for i, s in enumerate(hidden)]),
        )
        for kind, dataset in (*(("forest", d) for d in DATASETS), ("bagging of 10", "compas"))
    ]


def report(store: Records, firsts: Iterable[int], runs: int = RUNS) -> None:
    """Search for hidden seeds, and print how often and how fast they were found."""
    lines = [line for first in firsts for line in hidden_seeds(store, first, runs)]
    name = f"stripped seeds, searched among the first {RANGE:,}; floor: all in under {FLOOR:.0f} s"
    table(name, lines, FLOOR)


def report_whole(store: Records) -> None:
    """Search the whole range."""
    last = RANGE - 1
    cases = [
        *(Case(kind, "compas", 0, last) for kind in MODELS),
        Case("forest", "adult", 0, last, 1000),
        Case("forest", "adult", 0, last, 10_000),
    ]
    lines = [(f"{last:,}", [record]) for record in collect(store, cases)]
    table("the last seed of the range", lines, None)


def main(args: Sequence[str]) -> None:
    parser = Options("seeds", __doc__)
    parser.add_argument("--seed", type=int, default=0, help="draws the hidden seeds (default 0)")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--whole", action="store_true", help="also search the whole range")
    given = parser.parse_args(args)
    store = Records("seeds", given.fresh, given.out)
    # Beside the seeds that can be repeated, others that nobody has seen.
    report(store, (given.seed, int(np.random.default_rng().integers(2**32))), given.runs)
    if given.whole:
        report_whole(store)
