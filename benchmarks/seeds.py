"""The search for a stripped forest seed: how often it is found, and how fast."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.base import ClassifierMixin
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.exact import DATASETS, _data
from treeleak.datasets import draft_sample
from treeleak.errors import NotCovered
from treeleak.release import Release, to_release
from treeleak.release.draws import known_draws

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


def stripped(model: ClassifierMixin) -> Release:
    """The release of a model whose publisher took out every seed."""
    release = to_release(model)
    return replace(release, sampling=replace(release.sampling, tree_seeds=(), forest_seed=None))


def search(
    kind: str, dataset: str, n_rows: int, sample: int, seed: int, n_seeds: int = RANGE
) -> tuple[bool, float]:
    """Train, strip, search: whether every draw came out right, and the seconds it took."""
    X, y = draft_sample(_data(dataset), n_rows, sample)
    model = MODELS[kind]().set_params(random_state=seed).fit(X, y)
    truth = np.array([np.bincount(i, minlength=len(X)) for i in model.estimators_samples_])
    start = time.perf_counter()
    try:
        found = known_draws(stripped(model), seed_search=n_seeds)
    except NotCovered:
        return False, time.perf_counter() - start
    seconds = time.perf_counter() - start
    return bool(found.forest_seed == seed and np.array_equal(found.counts, truth)), seconds


def table(name: str, lines: list[tuple[str, str, int, str, list[tuple[bool, float]]]]) -> None:
    """Print one line per set of runs."""
    out = Table(title=name)
    for column in ("model", "dataset", "N", "forest seeds", "found", "s median", "s max"):
        out.add_column(column, justify="left" if column in ("model", "dataset") else "right")
    for model, dataset, n_rows, seeds, runs in lines:
        seconds = [s for _, s in runs]
        out.add_row(
            model, dataset, str(n_rows), seeds, f"{sum(ok for ok, _ in runs)} of {len(runs)}",
            f"{np.median(seconds):.2f}", f"{max(seconds):.2f}",
        )  # fmt: skip
    Console(width=120).print(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="draws the hidden seeds (default 0)")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--whole", action="store_true", help="also search the whole range")
    given = parser.parse_args()
    search("forest", "compas", 100, 0, 0)  # compile before the clock runs
    lines = []
    fresh = int(np.random.default_rng().integers(2**32))
    for first in (given.seed, fresh):
        for kind, dataset in (*(("forest", d) for d in DATASETS), ("bagging of 10", "compas")):
            hidden = np.random.default_rng(first).integers(0, BELOW, given.runs)
            runs = [search(kind, dataset, 100, i, int(s)) for i, s in enumerate(hidden)]
            lines.append((kind, dataset, 100, f"< {BELOW:,} (from {first})", runs))
    table(f"stripped seeds, searched among the first {RANGE:,}", lines)
    if given.whole:
        lines = [
            (kind, dataset, n, f"{RANGE - 1:,}", [search(kind, dataset, n, 0, RANGE - 1)])
            for kind, dataset, n in (
                *((kind, "compas", 100) for kind in MODELS),
                ("forest", "adult", 1000),
                ("forest", "adult", 10_000),
            )
        ]
        table("the last seed of the range", lines)


if __name__ == "__main__":
    main()
