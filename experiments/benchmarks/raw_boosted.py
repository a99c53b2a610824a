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
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.attempt import Case
from experiments.benchmarks.floor_lines import (
    expected_over_true,
    judged,
    print_missed,
    print_refused,
    runs_of,
    within,
)
from experiments.benchmarks.known_raw_tables import TABLES
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records
from experiments.benchmarks.tables import CONSOLE, new_table, number, verdict
from experiments.raw_boosted_models import FIGURES, MODELS, run
from experiments.results_version import say_versions
from treeleak.core.errors import BadInput

_LIMIT, _MARGIN = 60.0, 0.95
"""Seconds of a run without a floor; share of those of a floor, which count all that follows."""
_QUICK = 300
"""Most rows of a line of the quick part."""
_HELD = (0.87, 0.93)
"""Floor of all runs together: the share held of nine in ten."""
_OTHERS = 200
"""Rows of a table without floors, where none are asked for."""


def floors() -> pd.DataFrame:
    """Read what is asked of each model, table and number of rows."""
    return pd.read_csv(Path(__file__).with_name("raw_boosted_floors.csv"))


def lines(
    models: Iterable[str], tables: Iterable[str] | None, rows: Iterable[int] | None, quick: bool
) -> pd.DataFrame:
    """The floors of some models and tables, or lines of so many rows, whose floor may be empty."""
    every = floors()
    if rows is not None or tables is not None:
        names = list(every.table.unique()) if tables is None else list(tables)
        asked = [
            (m, t, n)
            for m in models
            for t in names
            for n in rows or sorted(set(every.rows[every.table == t])) or [_OTHERS]
        ]
        every = pd.DataFrame(asked, columns=["model", "table", "rows"]).merge(every, "left")
    every = every[every.model.isin(list(models))]
    return every[every.rows <= _QUICK] if quick else every


def cases(chosen: pd.DataFrame, seeds: Iterable[int], limit: float | None) -> Iterator[Case]:
    """All runs of some lines."""
    for line in chosen.itertuples():
        own = _MARGIN * line.seconds if line.seconds > 0 else _LIMIT
        for seed in seeds:
            yield Case(line.model, line.table, int(line.rows), seed, limit or own)


def present(chosen: pd.DataFrame) -> pd.DataFrame:
    """Lines whose library and table are there; says of the others why they are not run."""
    kept = []
    for line in chosen.itertuples():
        library = MODELS[line.model][0].split(".")[0]
        try:
            total = len(TABLES[line.table]().X)
            why = "" if total >= line.rows else f"the table has {total:,} rows"
        except BadInput as error:
            why = str(error)
        if find_spec(library) is None:
            why = f"pip install 'treeleak[{library}]'"
        kept.append(not why)
        if why:
            CONSOLE.print(f"{line.model}, {line.table} {line.rows} skipped: {why}", soft_wrap=True)
    return chosen[kept]


def warm(case: Case) -> Case:
    """A case that compiles what the case will use."""
    return replace(case, n_rows=min(case.n_rows, 100), seed=0, time_limit=5.0)


def missed(floor: Any, run: Any) -> list[str]:
    """Name what a run misses of its floor."""
    out = []
    if isinstance(floor.figure, str) and not getattr(run, floor.figure) >= floor.share:
        out.append(f"{floor.figure} {floor.share:g}")
    if floor.seconds > 0 and run.seconds > floor.seconds:
        out.append(f"{floor.seconds:g} s")
    return out


def floor_table(chosen: pd.DataFrame, records: list[Record]) -> int:
    """Print a line for each run; say how many miss their floor."""
    runs = runs_of(records, FIGURES)
    out = new_table(
        f"boosted models, defaults, raw tables; {say_versions(runs.results_version)}",
        "case, seed, status, s, near, shuffled, others, beyond, exact / others / ceiling, "
        "between / others, rows, sure / held, expected / error, labels, misfit, floor",
        left="case, status, floor",
    )
    misses = 0
    for line, r, lacks in judged(chosen, runs, missed):
        misses += bool(lacks)
        asked = f"{line.figure} {line.share:g}" if isinstance(line.figure, str) else ""
        out.add_row(
            f"{r.model} {r.table} {r.n_rows}", str(r.seed), r.status, f"{r.seconds:.0f}",
            *(number(x, 3) for x in (r.near, r.shuffled, r.others, r.near - r.others)),
            _both(r.exact, r.other_exact, r.ceiling), _both(r.between, r.other_between),
            number(r.rows, 3), _both(r.sure, r.held), _both(r.expected, r.error),
            number(r.labels, 3), number(r.misfit, 0),
            f"{asked} {verdict(not lacks)}" if asked else "",
        )  # fmt: skip
    CONSOLE.print(out)
    CONSOLE.print(as_stated(runs), soft_wrap=True)
    print_refused(runs)
    return misses


def as_stated(runs: pd.DataFrame) -> str:
    """Say how far all runs together are as sure and as wrong as they state."""
    told = runs[runs.ninety.notna()]
    n = told.n_ninety.sum()
    share = (told.ninety * told.n_ninety).sum() / n if n else float("nan")
    return (
        f"{expected_over_true(runs)}\n"
        f"held of {n:,.0f} values said to be about .9 sure: {number(share, 3) or '-'} "
        f"{within(share, *_HELD)}"
    )


def _both(*figures: float) -> str:
    return " / ".join(number(x, 3) or "-" for x in figures)


def main(args: Sequence[str]) -> None:
    parser = Options("raw_boosted", __doc__, seeds="0-2")
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--table", nargs="+", choices=list(TABLES), help="only these")
    parser.add_argument("--rows", type=int, nargs="+", help="so many rows, with a floor or without")
    parser.add_argument("--quick", action="store_true", help=f"lines of up to {_QUICK} rows only")
    parser.add_argument("--time-limit", type=float, help="instead of each line's own")
    given = parser.parse_args(args)
    chosen = present(lines(given.model, given.table, given.rows, given.quick))
    if len(chosen):
        store = Records("raw_boosted", given.fresh, given.out)
        found = store.collect(cases(chosen, given.seeds, given.time_limit), run, warm)
        print_missed(floor_table(chosen, found))
