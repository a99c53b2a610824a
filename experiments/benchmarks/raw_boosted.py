"""Boosted models with default parameters on raw tables: numbers and categories as they are.

A line for each run. "near" is TimberStrike's measure: the share of values that are right after rows
are matched one to one at its best, categories exactly and numbers within 0.319 standard deviations.
By the same measure, "shuffled" is what the training rows give whose columns are shuffled one by
one, and "others" what as many other rows of the same table give: who says less than these says
nothing of the people in the training set. "beyond" is "near" less "others".

"exact" is the share of values that are right to the last digit, "between" that of values on the
right side of every threshold of their column, each after a matching at its own best, and beside
them what the other rows reach. "ceiling" is the share right to the last digit where it is known of
each row between which thresholds each value lies, and of each such interval which value is the most
frequent there: nothing that a tree counts or sums up tells two rows of an interval apart. Only that
each split is the best one says a little more. "rows" is the share of training rows that stand in
the answer with every value on the right side of every threshold.

"held" is the share of true values that lie between the ends which the answer gives for them (rows
matched as for "near"), "sure" the share that it says. "expected" is how far off the answer says
that it is, "error" how far it is, by DRAFT's measure. Below, all runs together: the sum of expected
errors over that of true ones, and of values said to be .85 to .95 sure the share held. Seconds are
those of ``treeleak.reconstruct``, after a smaller run.

Floors stand in ``raw_boosted_floors.csv``; other numbers of rows (``--rows``) have none. XGBoost
and LightGBM are needed for their lines, the shared tables for all but Adult and breast cancer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import pandas as pd

from experiments.attempt import Case
from experiments.benchmarks.frame import (
    Floor,
    collect,
    expected_over_true,
    flat,
    floor,
    floors_of,
    lines_of,
    options,
    present,
    show_judged,
)
from experiments.benchmarks.known_raw_tables import TABLES
from experiments.raw_boosted_models import FIGURES, MODELS, run
from treeleak.core.errors import BadInput

_LIMIT, _MARGIN = 60.0, 0.95
"""Seconds of a run without a floor; share of those of a floor, which count all that follows."""
_QUICK = 300
"""Most rows of a line of the quick part."""
_HELD = (0.87, 0.93)
"""Floor of all runs together: the share held of nine in ten."""


def cases(chosen: Iterable[Any], seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    """All runs of some lines."""
    for line in chosen:
        own = _MARGIN * line.seconds if line.seconds > 0 else _LIMIT
        for seed in seeds:
            yield Case(line.model, line.table, int(line.rows), seed, limit or own)


def check(line: Any) -> None:
    """Raise an error if the library or the table is not there, or has too few rows."""
    import_module(MODELS[line.model][0])
    if (total := len(TABLES[line.table]().X)) < line.rows:
        raise BadInput(f"the table has {total:,} rows")


def asked(line: Any) -> Floor:
    """Say what a line asks for."""
    return Floor(
        most={"seconds": line.seconds} if line.seconds > 0 else {},
        least={line.figure: line.share} if isinstance(line.figure, str) else {},
    )


def floor_table(chosen: Iterable[Any], runs: pd.DataFrame) -> bool:
    """Print a line for each run; say whether none misses its floor."""
    runs = runs.assign(beyond=runs.near - runs.others)
    columns = ("beyond", *FIGURES)
    title, keys = "boosted models, defaults, raw tables", ("model", "table")
    met = show_judged(title, runs, chosen, asked, columns, keys)
    as_stated(runs)
    return met


def as_stated(runs: pd.DataFrame) -> bool:
    """Say how far all runs together are as sure and as wrong as they state."""
    told = runs[runs.ninety.notna()]
    n = told.n_ninety.sum()
    share = (told.ninety * told.n_ninety).sum() / n if n else float("nan")
    low, high = _HELD
    return expected_over_true(runs) & floor(
        f"held of {n:,.0f} values said to be about .9 sure: {share:.3f}, floor {low} to {high}",
        low <= share <= high,
    )


def main(args: Sequence[str]) -> int:
    given = options(
        "raw_boosted", __doc__, args, kept=True, seeds=range(3), model=list(MODELS),
        table=list(TABLES), rows=[int], quick=False, time_limit=float,
    )  # fmt: skip
    every = given.table == list(TABLES)
    tables = floors_of("raw_boosted").table.unique() if every else given.table
    keys = {"model": given.model, "table": tables}
    wanted = lines_of("raw_boosted", keys, given.rows, _QUICK if given.quick else None)
    chosen = present(wanted.itertuples(index=False), check)
    records = collect(
        "raw_boosted", cases(chosen, given.seeds, given.time_limit), run,
        lambda c: replace(c, n_rows=min(c.n_rows, 100), seed=0, time_limit=5.0), given, apart=True,
    )  # fmt: skip
    return int(bool(records) and not floor_table(chosen, flat(records, FIGURES)))
