"""How seconds and memory of each attack grow with rows, trees, columns and depth.

One attack and one size vary at a time; everything else is as in DRAFT's experiments (Adult, 100
rows, 100 trees of any depth). Each run has a process of its own, whose peak memory, training
included, is the one shown. An exponent is the slope of a line through the logarithms: seconds grow
with that power of the size. DRAFT reports 1.4 to 2.4 for its run time against the rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records, flat
from experiments.benchmarks.tables import CONSOLE, new_table, statuses, verdict
from experiments.data import draft
from experiments.draft_tables import draft_sample
from experiments.studies.draft import exponent
from treeleak.schema import Schema

FLOOR = 0.7
"""Greatest exponent of seconds against rows, without bootstrap."""
FLOOR_FROM = 100

SIZES = {
    "none": {
        "n_rows": (25, 100, 400, 1_500, 5_000, 15_000, 40_000),
        "n_trees": (10, 30, 100, 300),
        "n_columns": (5, 10, 20),
        "depth": (2, 5, 10),
    },
    "known": {
        "n_rows": (25, 100, 400, 1_000, 2_000),
        "n_trees": (10, 30, 100, 300),
        "n_columns": (5, 10, 20),
        "depth": (2, 5, 10),
    },
    "hidden": {"n_rows": (25, 50, 100, 200), "n_trees": (10, 30, 100), "depth": (2, 5, 10)},
}


@dataclass(frozen=True)
class Case:
    """One forest."""

    draws: str
    n_rows: int = 100
    n_trees: int = 100
    n_columns: int | None = None
    depth: int | None = None
    seed: int = 0
    time_limit: float = 120.0


def cases(draws: str, size: str, seeds: range) -> Iterator[Case]:
    yield from (Case(draws, **{size: n}, seed=s) for n in SIZES[draws][size] for s in seeds)


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = draft("adult")
    X, y = draft_sample(data, case.n_rows, case.seed)
    schema = data.schema
    if case.n_columns is not None:
        kept, columns = [], 0
        for attribute in schema.attributes:
            if columns + len(attribute.columns) <= case.n_columns:
                kept.append(attribute)
                columns += len(attribute.columns)
        schema = Schema(kept)
        X = X[[c for attribute in kept for c in attribute.columns]]
    forest = RandomForestClassifier(
        case.n_trees, max_depth=case.depth, bootstrap=case.draws != "none", random_state=case.seed
    ).fit(X, y)
    start = time.perf_counter()
    result = treeleak.reconstruct(forest, schema, case.draws, case.time_limit, case.seed)
    return {
        "seconds": time.perf_counter() - start,
        "status": result.status,
        "misfit": result.misfit,
        "error": None
        if case.n_rows > 5_000
        else treeleak.metrics.reconstruction_error(result.X, X, schema),
    }


def table(draws: str, size: str, records: list[Record]) -> None:
    """Print a line for each size, and the exponents."""
    runs = flat(records)
    out = new_table(
        f"{draws} draws, growth with {size}", f"{size}, status, error, s, MB", left="status"
    )
    grouped = runs.groupby(size)
    for n, group in grouped:
        error = group.error.astype(float).mean()
        out.add_row(
            f"{n:,.0f}", statuses(group), "" if np.isnan(error) else f"{error:.4f}",
            f"{group.seconds.median():.2f}", f"{group.peak_mb.max():.0f}",
        )  # fmt: skip
    CONSOLE.print(out)
    median = grouped[["seconds", "peak_mb"]].median().reset_index()
    said = (
        f"{draws}, {size}: seconds grow with the power {exponent(median[size], median.seconds):.2f}"
    )
    said += f", peak memory with {exponent(median[size], median.peak_mb):.2f}"
    if draws == "none" and size == "n_rows":
        large = median[median.n_rows >= FLOOR_FROM]
        found = exponent(large.n_rows, large.seconds)
        said += (
            f"; from {FLOOR_FROM} rows on {found:.2f} (floor {FLOOR}: {verdict(found <= FLOOR)})"
        )
    CONSOLE.print(said)


def main(args: Sequence[str]) -> None:
    parser = Options("growth", __doc__, seeds="0-2")
    parser.add_argument("--draws", choices=[*SIZES, "all"], default="all")
    parser.add_argument(
        "--size", choices=["n_rows", "n_trees", "n_columns", "depth", "all"], default="all"
    )
    given = parser.parse_args(args)
    store = Records("growth", given.fresh, given.out)
    for draws in SIZES if given.draws == "all" else [given.draws]:
        for size in SIZES[draws] if given.size == "all" else [given.size]:
            if size not in SIZES[draws]:
                continue
            records = store.collect(
                cases(draws, size, given.seeds), run,
                warm=lambda case: Case(case.draws, 40, 3, None, 3, time_limit=10.0),
            )  # fmt: skip
            table(draws, size, records)
