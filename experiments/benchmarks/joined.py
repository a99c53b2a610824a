"""Two shallow forests of one table, attacked alone and together in one file.

``python -m experiments run joined`` trains pairs of forests on 200 rows of each of DRAFT's tables:
depths 3 to 5, 10 to 20 trees, each with its seeds. A VotingClassifier holds the pair. Errors are
DRAFT's. Floor: the mean error of the pairs together is at most 0.85 of that of the better forest
of each pair alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.ensemble import RandomForestClassifier, VotingClassifier

import treeleak
from experiments.attempt import attempt
from experiments.benchmarks.frame import Record, collect, flat, floor, options, said_of, show
from experiments.data import DATASETS, draft, draft_sample

_FLOOR = 0.85
_ROWS = 200
_NAMES = ("first", "second", "joined")


@dataclass(frozen=True)
class Case:
    """A pair of forests."""

    table: str
    seed: int
    depths: tuple[int, int]
    trees: tuple[int, int]
    bootstrap: bool
    time_limit: float


def cases(n: int, limit: float, bootstrap: bool) -> Iterator[Case]:
    """Draw pairs, each on rows and with seeds of its own, the tables in turn."""
    rng = np.random.default_rng(0)
    for seed in range(n):
        first, second = rng.integers(3, 6, 2).tolist()
        trees = rng.integers(10, 21, 2).tolist()
        table = DATASETS[seed % len(DATASETS)]
        yield Case(table, seed, (first, second), (trees[0], trees[1]), bootstrap, limit)


def run(case: Case) -> Record:
    """Train, attack three times, measure."""
    data = draft(case.table)
    X, y = draft_sample(data, _ROWS, case.seed)
    forests = [
        RandomForestClassifier(
            trees, max_depth=depth, bootstrap=case.bootstrap, random_state=2 * case.seed + k
        )
        for k, (depth, trees) in enumerate(zip(case.depths, case.trees, strict=True))
    ]
    both = VotingClassifier([(f"forest_{k}", forest) for k, forest in enumerate(forests)])
    both.fit(X, y)
    out: Record = dict.fromkeys((*_NAMES, "seconds"))
    for name, model in zip(_NAMES, (*both.estimators_, both), strict=True):
        record, found = attempt(
            lambda model=model: treeleak.reconstruct(model, data.schema, time_limit=case.time_limit)
        )
        if found is None or found.X is None:
            return out | {"status": "no answer in time"}
        out[name] = treeleak.metrics.reconstruction_error(found.X[list(X)], X, data.schema)
        out |= {"status": found.status, "seconds": record["seconds"]}
    return out


def main(args: Sequence[str]) -> int:
    """Print a line for each pair, and the means beside the floor."""
    given = options(
        "joined", __doc__, args, kept=True, pairs=20, time_limit=30.0, no_bootstrap=False
    )
    todo = cases(given.pairs, given.time_limit, not given.no_bootstrap)
    records = collect(
        "joined", todo, run,
        lambda c: replace(c, table=DATASETS[0], seed=0, trees=(10, 10), depths=(3, 3)), given,
    )  # fmt: skip
    runs = flat(records, _NAMES)
    shown = ["table", "seed", "depths", "trees", *_NAMES, "status", "seconds"]
    show(f"two forests of {_ROWS} rows: {said_of(runs)}", runs[shown])
    whole = runs[runs.joined.notna()]
    better, joined = whole[["first", "second"]].min(axis=1).mean(), whole.joined.mean()
    # A pair without an answer is no pair that meets it.
    met = floor(
        f"{len(whole)} of {len(runs)} pairs have answers: mean error {joined:.4f} joined, "
        f"{better:.4f} of the better one alone: ratio {joined / better:.3f}, floor {_FLOOR}",
        len(whole) == len(runs) and joined <= _FLOOR * better,
    )
    return int(not met)
