"""The search for a stripped forest seed: how often it is found, and how fast.

Floor: each forest seed below 10,000 is found in under 10 s at N = 100. Beside the seeds that can be
repeated, others are searched for that nobody has seen. ``--whole`` also searches the whole range.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from experiments.benchmarks.frame import Record, collect, flat, options, show
from experiments.data import DATASETS, draft
from experiments.draft_tables import draft_sample
from treeleak.core.errors import NotCovered
from treeleak.release import to_release
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
BELOW = 10_000
RANGE = 1_000_000
FLOOR = 10.0


@dataclass(frozen=True)
class Case:
    """One forest whose seeds were taken out; ``drawn_by`` names the seed that drew its own."""

    kind: str
    dataset: str
    sample: int
    seed: int
    drawn_by: int = -1
    n_rows: int = 100
    n_seeds: int = RANGE


def run(case: Case) -> Record:
    """Train, strip, search: whether every draw came out right, and the seconds it took."""
    X, y = draft_sample(draft(case.dataset), case.n_rows, case.sample)
    model = MODELS[case.kind]().set_params(random_state=case.seed).fit(X, y)
    truth = np.array([np.bincount(i, minlength=len(X)) for i in model.estimators_samples_])
    start = time.perf_counter()
    release = to_release(model)
    without = replace(release.sampling, tree_seeds=(), forest_seed=None)
    draws: Any = None
    with suppress(NotCovered):
        draws = known_draws(replace(release, sampling=without), seed_search=case.n_seeds)
    right = draws is not None and draws.forest_seed == case.seed
    return {
        "seconds": time.perf_counter() - start,
        "found": right and bool(np.array_equal(draws.counts, truth)),
    }


def main(args: Sequence[str]) -> int:
    given = options("seeds", __doc__, args, kept=True, seed=0, runs=20, whole=False)
    cases = [
        Case(kind, dataset, i, int(seed), first)
        for first in (given.seed, int(np.random.default_rng().integers(2**32)))
        for kind, dataset in (*(("forest", d) for d in DATASETS), ("bagging of 10", "compas"))
        for i, seed in enumerate(np.random.default_rng(first).integers(0, BELOW, given.runs))
    ]
    if given.whole:
        last = RANGE - 1
        cases += [Case(kind, "compas", 0, last) for kind in MODELS]
        cases += [Case("forest", "adult", 0, last, n_rows=n) for n in (1000, 10_000)]
    warm = Case("forest", "compas", 0, 0, n_seeds=1)
    runs = flat(collect("seeds", cases, run, lambda _: warm, given))
    lines = []
    for (kind, dataset, n, first), own in runs.groupby(
        ["kind", "dataset", "n_rows", "drawn_by"], sort=False
    ):
        met = own.found.all() and own.seconds.max() < FLOOR
        lines.append({
            "model": kind, "dataset": dataset, "N": n,
            "seeds": f"the last of {RANGE:,}" if first < 0 else f"< {BELOW:,} (from {first})",
            "found": f"{own.found.sum()} of {len(own)}", "s": own.seconds.median(),
            "most s": own.seconds.max(), "met": None if first < 0 else met,
        })  # fmt: skip
    what = f"stripped seeds, searched among the first {RANGE:,}; floor: all in under {FLOOR:.0f} s"
    return int(not show(what, lines))
