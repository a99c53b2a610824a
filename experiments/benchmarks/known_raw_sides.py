"""Two ways to the candidates of rows, on grids small enough for either.

The grid of all points, as the attack goes where the grid can be listed, and domains of leaves, as
it goes elsewhere. "s" is the time until each row's candidates are known and narrowed, "all s"
that of the whole attack; "listed" says in how many runs domains gave the candidates of all rows.
"equal" says in how many runs both give the same rows; where a row is not
proved, several may be as good. "contradict" counts rows that both prove, in different cells: there
may be none.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from experiments.benchmarks.records import Record, Records, flat
from experiments.benchmarks.tables import CONSOLE, new_table, statuses
from experiments.data import DATASETS, draft
from experiments.draft_tables import draft_sample
from experiments.results_version import say_versions
from treeleak.attacks import attack_for
from treeleak.attacks.answer import Answer
from treeleak.attacks.known_draws import run as attack_module
from treeleak.attacks.known_draws.candidates import RowProblem
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.known_draws.listing import listed
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput
from treeleak.evidence import KnownDraws, Pairs
from treeleak.partition import Geometry, GridTooLarge, enumerate_drawable
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws

ROWS = (100, 200, 500, 1000)
_LIMIT = 120.0


@dataclass(frozen=True)
class Side:
    """One forest of 100 trees, attacked in both ways."""

    dataset: str
    n_rows: int
    seed: int
    time_limit: float = _LIMIT
    n_trees: int = 100


@contextmanager
def off_the_grid(asked: bool = True) -> Iterator[None]:
    """Let the attack take every grid for one that is too large to list."""

    def refuse(*_: Any) -> Any:
        raise GridTooLarge("not listed, to compare")

    before = attack_module.enumerate_drawable
    if asked:
        attack_module.enumerate_drawable = refuse
    try:
        yield
    finally:
        attack_module.enumerate_drawable = before


def run(case: Side) -> Record:
    """Train, find candidates in both ways, attack in both ways, compare."""
    data = draft(case.dataset)
    X, y = draft_sample(data, case.n_rows, case.seed)
    release = to_release(RandomForestClassifier(case.n_trees, random_state=case.seed).fit(X, y))
    geometry = Geometry.of(release, data.schema)
    evidence = KnownDraws(geometry, known_draws(release).counts)
    evidence.contradiction()  # Counts are read once for both.

    start = time.perf_counter()
    partition = enumerate_drawable(geometry, evidence.row_sets())
    by_grid = RowProblem.of(evidence, partition, Pairs.of(partition)).narrowed(Clock(_LIMIT))
    out: Record = {
        "grid_seconds": time.perf_counter() - start,
        "grid_points": float(geometry.n_points),
        "grid_open": len(by_grid.column),
    }
    start, clock = time.perf_counter(), Clock(case.time_limit)
    listing = listed(Domains.of(evidence), clock)
    complete = bool(listing.complete.all())
    n_open = len(listing.problem.narrowed(clock).column) if complete else None
    out |= {"domains_seconds": time.perf_counter() - start, "complete": complete,
            "domains_open": n_open}  # fmt: skip
    answers = {}
    for name in ("grid", "domains"):
        with off_the_grid(name == "domains"):
            start = time.perf_counter()
            answers[name] = attack_for(evidence)(
                evidence, geometry, Clock(case.time_limit), case.seed
            )
            out[f"{name}_attack"] = time.perf_counter() - start
            out[f"{name}_status"] = answers[name].status
    return out | compared(answers["grid"], answers["domains"])


def compared(one: Answer, other: Answer) -> dict[str, float]:
    """Say how far two answers agree on rows and proofs."""
    if not (one.rows and other.rows):
        return {"same_rows": 0.0, "grid_proved": 0.0, "domains_proved": 0.0, "contradict": 0.0}
    (a,), (b,) = one.rows, other.rows
    same = (a.values == b.values).all(axis=1)
    sure = (a.confidence == 1) & (b.confidence == 1)
    wrong = ((a.values != b.values) & sure).any(axis=1)
    return {
        "same_rows": float(same.mean()),
        "grid_proved": float(a.proved.mean()),
        "domains_proved": float(b.proved.mean()),
        "contradict": float(wrong.sum()),
    }


def warm(case: Side) -> Side:
    return replace(case, n_rows=30, seed=0, time_limit=10.0, n_trees=20)


def compare(given: Namespace) -> None:
    """Run and print the comparison, of the tables that are there."""
    todo, rows = [], given.rows or ROWS
    for name in DATASETS:
        try:
            draft(name)
        except BadInput as why:
            CONSOLE.print(f"{name} skipped: {why}", soft_wrap=True)
            continue
        sizes = [n for n in rows if n <= 200] if given.quick else rows
        limit = given.time_limit or _LIMIT
        todo += [Side(name, n, seed, limit) for n in sizes for seed in given.seeds]
    if todo:
        store = Records("known_raw_sides", given.fresh, given.out)
        side_table(store.collect(todo, run, warm))


def side_table(records: list[Record]) -> None:
    """Print a line for each table and number of rows."""
    runs = flat(records)
    out = new_table(
        f"columns of 0 and 1, median seconds; {say_versions(runs.results_version)}",
        "table, rows, points, grid s, domains s, faster, listed, grid all s, domains all s, "
        "grid status, domains status, equal, grid proved, domains proved, contradict",
        left="table, faster, grid status, domains status",
    )
    for (name, n), own in runs.groupby(["dataset", "n_rows"], sort=False):
        grid, domains = own.grid_seconds.median(), own.domains_seconds.median()
        out.add_row(
            name, f"{n:,}", f"{own.grid_points.median():.2g}", f"{grid:.2f}", f"{domains:.2f}",
            "grid" if grid <= domains or not own.complete.all() else "domains",
            f"{own.complete.mean():.2f}", f"{own.grid_attack.median():.2f}",
            f"{own.domains_attack.median():.2f}",
            *(statuses(own.rename(columns={f"{s}_status": "status"})) for s in ("grid", "domains")),
            f"{np.mean(own.same_rows == 1):.2f}", f"{own.grid_proved.mean():.3f}",
            f"{own.domains_proved.mean():.3f}", f"{own.contradict.sum():.0f}",
        )  # fmt: skip
    CONSOLE.print(out)
