"""Default forests with their seeds on tables with raw numbers, whose draws are therefore known.

A line for each run. Row k of the answer is held against row k of the training set. "settled" are
rows for which one leaf is left in every tree that drew them, "open" those with several candidates
after that; "proved" is the share of rows whose cell is proved, in the trees that did not draw them,
too, and "left open" counts rows of which the opposite is shown: another table meets every count,
and has the row in another cell. A line asks for "decided" where each row is to be one or the other.
Such a line asks for no share "placed": the training set and a verified answer both meet every
count, so that rows which they put in different leaves are ties, which no attack can part.
"placed" is the share of rows in their true leaf of every tree that drew them, label included;
"near" and "near 5 %" are the shares of numbers within 1 % and 5 % of their range (the latter, of
the mixed table, of incomes), "kinds" that of categories that are right. "error" is DRAFT's,
after matching, on the columns of the answer, left out beyond 5,000 rows; "expected" is what the
answer says of it. Below, all runs together. Seconds are those of ``treeleak.reconstruct`` after a
smaller run that compiles what is used.

Floors stand in ``known_raw_floors.csv``; other numbers of rows (``--rows``) have none. Stroke,
diabetes, credit and binary need the shared tables; the others travel with packages or are made up.
The mixed table, behind a ColumnTransformer, is rebuilt in the columns that enter it. Binary is
adult in columns of 0 and 1: it holds grids that can be listed to their time.

``--no-schema`` gives the attack the model and nothing else: no column then has an end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import treeleak
from experiments.benchmarks.floor_lines import expected_over_true, print_missed, runs_of
from experiments.benchmarks.known_raw_tables import BINARY, TABLES, Sample, sample
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records
from experiments.benchmarks.tables import CONSOLE, new_table, number, verdict
from experiments.results_version import say_versions
from treeleak.attacks.known_draws import run as attack_module
from treeleak.core.errors import BadInput, NotCovered, TimeUp
from treeleak.metrics.matching import paired_distances, right_values
from treeleak.partition import GridTooLarge
from treeleak.reconstruction import Reconstruction
from treeleak.schema import Numeric, Ordinal

SMALL = 200
"""Most rows of a line of the quick part."""
_MATCHED = 5_000
_LIMIT, _UNJUDGED, _MARGIN = 300.0, 60.0, 0.95
"""Seconds where a floor says none, and where there is no floor; share of those that a floor says,
which count what follows the attack, too."""
_SHARES = {
    "in_order": ("placed", "placed"),
    "near": ("near", "near"),
    "near_5": ("near_5", "near 5 %"),
    "categories": ("categories", "kinds"),
}
"""Columns of the floors that are least shares: the figures that they speak of, and what these are
called in the table."""

_FIGURES = (
    "settled", "open_rows", "left_open", "labels", "placed", "expected", "error", "near",
    "near_5", "categories", "wrong",
)  # fmt: skip
"""Figures that a run may lack."""


@dataclass(frozen=True)
class Case:
    """One forest of 100 trees."""

    table: str
    n_rows: int
    seed: int
    time_limit: float
    n_trees: int = 100
    warm: bool = False
    told: bool = True


def floors() -> pd.DataFrame:
    """Read what is asked of each table and number of rows; NaN where nothing is."""
    return pd.read_csv(Path(__file__).with_name("known_raw_floors.csv"))


def lines(tables: Iterable[str], rows: Iterable[int] | None, quick: bool) -> pd.DataFrame:
    """The floors of some tables, or lines of so many rows each, whose floor may be empty."""
    every = floors()
    every = every[every.table.isin(list(tables))]
    if rows is not None:
        asked = [(t, n) for t in every.table.unique() for n in rows]
        every = pd.DataFrame(asked, columns=["table", "rows"]).merge(every, "left")
    return every[every.rows <= SMALL] if quick else every


def cases(
    chosen: pd.DataFrame, seeds: Iterable[int], limit: float | None, told: bool = True
) -> Iterator[Case]:
    """All runs of some lines."""
    for line in chosen.itertuples():
        own = _LIMIT if isinstance(line.claim, str) else _UNJUDGED
        own = _MARGIN * line.seconds if line.seconds > 0 else own
        for seed in seeds:
            yield Case(line.table, int(line.rows), seed, limit or own, told=told)


def present(chosen: pd.DataFrame) -> pd.DataFrame:
    """Lines whose table is there and has so many rows; says of the others why they are not run."""
    kept = []
    for line in chosen.itertuples():
        try:
            total = len(TABLES[line.table]().X) if line.table in TABLES else np.inf
            why = f"the table has {total:,} rows"
        except BadInput as error:
            total, why = 0, str(error)
        kept.append(line.rows <= total)
        if not kept[-1]:
            CONSOLE.print(f"{line.table} {line.rows} skipped: {why}", soft_wrap=True)
    return chosen[kept]


def warm(case: Case) -> Case:
    """A case that compiles what the case will use: on a smaller grid, cells would be listed."""
    return replace(case, n_rows=min(case.n_rows, 60), seed=0, time_limit=5.0, warm=True)


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


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = sample(case.table, case.n_rows, case.seed, case.n_trees)
    schema = data.told if case.told else None
    outcome: Record = dict.fromkeys(_FIGURES) | {
        "status": "refused", "misfit": None, "proved": 0.0, "listed": 0.0, "numbers": {},
        "cells": "not looked for", "notes": [],
    }  # fmt: skip
    with off_the_grid(case.warm and case.table != BINARY):
        start = time.perf_counter()
        try:
            found = treeleak.reconstruct(
                data.model, schema, time_limit=case.time_limit, seed=case.seed, space=data.space
            )
        except (NotCovered, TimeUp) as why:
            found = None
            outcome |= {"notes": [str(why)]}
        seconds = time.perf_counter() - start
    if found is None:
        return outcome | {"seconds": seconds}
    numbers = {k: float(v) for k, v in found.numbers.items()}
    outcome |= {
        "status": found.status,
        "seconds": seconds,
        "misfit": float(found.misfit),
        "proved": float(found.share_proved_rows),
        "settled": numbers.get("settled_rows"),
        "listed": numbers.get("listed_rows", 0.0) + numbers.get("rows_never_drawn", 0.0),
        "open_rows": numbers.get("open_rows"),
        "left_open": numbers.get("rows_left_open"),
        "numbers": numbers,
        "cells": found.cells,
        "notes": list(found.notes),
    }
    return outcome | ({} if found.X is None else measured(data, found))


def measured(data: Sample, found: Reconstruction) -> dict[str, float | int | None]:
    """Hold row k of an answer against row k of the training set."""
    own, true, schema = found.X[list(data.X.columns)], data.filled(), data.schema
    label = found.y.to_numpy() == data.y.to_numpy()
    own_leaf, true_leaf = (data.forest.apply(data.entering(X)) for X in (own, data.X))
    drawn = np.array([np.bincount(i, minlength=len(own)) for i in data.forest.estimators_samples_])
    placed = ((own_leaf == true_leaf) | (drawn.T == 0)).all(axis=1) & label
    same_cell = (own_leaf == true_leaf).all(axis=1) & label
    off = paired_distances(own, true, schema)
    right = right_values(off, list(true.columns), schema.attributes)
    numeric = np.array([isinstance(a, (Numeric, Ordinal)) for a in schema.attributes])
    wide = (
        ["income"] if "income" in true else [a.name for a in np.array(schema.attributes)[numeric]]
    )
    proved = found.proved.to_numpy()
    return {
        "labels": float(label.mean()),
        "placed": float(placed.mean()),
        "expected": found.expected_error,
        "wrong": int((proved & ~same_cell).sum()),
        "near": _share(right[:, numeric]),
        "near_5": _share(off[:, true.columns.isin(wide)] <= 0.05),
        "categories": _share(right[:, ~numeric]),
        "error": None
        if len(own) > _MATCHED
        else treeleak.metrics.reconstruction_error(own, true, schema),
    }


def _share(right: np.ndarray) -> float | None:
    return float(right.mean()) if right.size else None


def missed(floor: Any, run: Any) -> list[str]:
    """Name what a run misses of its floor; a claim that is proved and false always is."""
    verified = run.status in ("unique", "feasible") and run.misfit == 0
    claims = {
        "answered": pd.notna(run.labels),
        "verified": verified,
        "listed": verified and (run.status == "unique" or run.listed == run.n_rows),
        "decided": verified and run.proved * run.n_rows + run.left_open > run.n_rows - 0.5,
    }
    out = ["proved what is false"] if pd.notna(run.wrong) and run.wrong else []
    if isinstance(floor.claim, str) and not claims[floor.claim]:
        out.append(floor.claim)
    if floor.seconds > 0 and run.seconds > floor.seconds:
        out.append(f"{floor.seconds:g} s")
    if floor.error > 0 and not run.error <= floor.error:
        out.append(f"error {floor.error:g}")
    for name, (figure, called) in _SHARES.items():
        least = getattr(floor, name)
        if least > 0 and not getattr(run, figure) >= least:
            out.append(f"{called} {least:g}")
    return out


def said(floor: Any) -> str:
    """Say what a line asks for."""
    if not isinstance(floor.claim, str):
        return ""
    parts = [floor.claim] + [f"{floor.seconds:g} s"] * (floor.seconds > 0)
    parts += [f"error {floor.error:g}"] * (floor.error > 0)
    shares = ((called, getattr(floor, name)) for name, (_, called) in _SHARES.items())
    return ", ".join([*parts, *(f"{called} {least:g}" for called, least in shares if least > 0)])


def floor_table(chosen: pd.DataFrame, records: list[Record]) -> int:
    """Print a line for each run; say how many miss their floor."""
    runs = runs_of(records, _FIGURES)
    out = new_table(
        f"raw numbers, known draws; {say_versions(runs.results_version)}",
        "table, rows, seed, status, verified, s, settled, open, proved, left open, labels, placed, "
        "expected / error, near, near 5 %, kinds, MB, floor, met",
        left="table, status, verified, floor, met",
    )
    out.columns[-2].no_wrap = False  # The longest.
    misses = []
    for line in chosen.itertuples():
        for r in runs[(runs.table == line.table) & (runs.n_rows == line.rows)].itertuples():
            if lacks := missed(line, r):
                misses.append(f"{r.table} {r.n_rows}, seed {r.seed} misses: {', '.join(lacks)}")
            met = verdict(not lacks) if lacks or said(line) else ""
            verified = r.status in ("unique", "feasible") and r.misfit == 0
            out.add_row(
                r.table, str(r.n_rows), str(r.seed), r.status, "yes" if verified else "no",
                f"{r.seconds:.1f}", number(r.settled, 0), number(r.open_rows, 0),
                f"{r.proved:.3f}", number(r.left_open, 0), number(r.labels, 3), number(r.placed, 3),
                f"{number(r.expected)} / {number(r.error)}", number(r.near, 3),
                number(r.near_5, 3), number(r.categories, 3), f"{r.peak_mb:.0f}", said(line), met,
            )  # fmt: skip
    CONSOLE.print(out)
    CONSOLE.print(expected_over_true(runs))
    for miss in misses:
        CONSOLE.print(miss, soft_wrap=True)
    for r in runs[runs.status == "refused"].itertuples():
        CONSOLE.print(f"{r.table} {r.n_rows}, seed {r.seed}: {r.notes[0]}", soft_wrap=True)
    return len(misses)


def main(args: Sequence[str]) -> None:
    parser = Options("known_raw", __doc__, seeds="0-2")
    names = list(floors().table.unique())
    parser.add_argument("--table", nargs="+", choices=names, default=names, help="only these")
    parser.add_argument("--rows", type=int, nargs="+", help="so many rows, with a floor or without")
    parser.add_argument("--quick", action="store_true", help=f"lines of up to {SMALL} rows only")
    parser.add_argument("--time-limit", type=float, help="instead of each line's own")
    parser.add_argument("--no-schema", action="store_true", help="infer it from the model alone")
    given = parser.parse_args(args)
    chosen = present(lines(given.table, given.rows, given.quick))
    if len(chosen):
        todo = cases(chosen, given.seeds, given.time_limit, not given.no_schema)
        store = Records("known_raw", given.fresh, given.out)
        print_missed(floor_table(chosen, store.collect(todo, run, warm)))
