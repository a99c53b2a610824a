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
from experiments.benchmarks.floor_lines import runs_of
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records
from experiments.benchmarks.tables import CONSOLE, new_table, number, verdict
from experiments.data import DATASETS, draft
from experiments.draft_tables import draft_sample
from experiments.results_version import say_versions
from treeleak.core.errors import TimeUp

_FLOOR = 0.85
_ROWS = 200
_FIGURES = ("first", "second", "joined", "seconds")


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


def warm(case: Case) -> Case:
    """A short case that compiles what the case will use."""
    return replace(case, table=DATASETS[0], seed=0, trees=(10, 10), depths=(3, 3))


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
    out: Record = dict.fromkeys(_FIGURES)
    models = (*both.estimators_, both)
    for name, model in zip(("first", "second", "joined"), models, strict=True):
        try:
            found = treeleak.reconstruct(model, data.schema, time_limit=case.time_limit)
        except TimeUp:
            found = None
        if found is None or found.X is None:
            return out | {"status": "no answer in time"}
        out[name] = treeleak.metrics.reconstruction_error(found.X[list(X)], X, data.schema)
        out |= {"status": found.status, "seconds": found.seconds}
    return out


def main(args: Sequence[str]) -> int:
    """Print a line for each pair, and the means beside the floor."""
    parser = Options("joined", __doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--time-limit", type=float, default=30.0, help="of each attack")
    parser.add_argument("--no-bootstrap", action="store_true", help="every tree saw every row")
    given = parser.parse_args(args)
    todo = cases(given.pairs, given.time_limit, not given.no_bootstrap)
    store = Records("joined", given.fresh, given.out)
    runs = runs_of(store.collect(todo, run, warm, apart=lambda _: False), _FIGURES)
    table = new_table(
        f"two forests of {_ROWS} rows; {say_versions(runs.results_version)}",
        "table, seed, depths, trees, first, second, joined, status, s",
        left="table, depths, trees, status",
    )
    for r in runs.itertuples():
        table.add_row(
            r.table, str(r.seed), str(r.depths), str(r.trees), number(r.first), number(r.second),
            number(r.joined), r.status, number(r.seconds, 1),
        )  # fmt: skip
    CONSOLE.print(table)
    whole = runs[runs.joined.notna()]
    better, joined = whole[["first", "second"]].min(axis=1).mean(), whole.joined.mean()
    # A pair without an answer is no pair that meets it.
    met = len(whole) == len(runs) and joined <= _FLOOR * better
    CONSOLE.print(
        f"{len(whole)} of {len(runs)} pairs have answers: mean error {joined:.4f} joined, "
        f"{better:.4f} of the better one alone: ratio {joined / better:.3f}, floor {_FLOOR}: "
        f"{verdict(bool(met))}"
    )
    return int(not met)
