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

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import treeleak
from experiments.attempt import attempt
from experiments.benchmarks.frame import (
    Floor,
    Record,
    collect,
    expected_over_true,
    flat,
    floors_of,
    lines_of,
    options,
    present,
    show_judged,
)
from experiments.benchmarks.known_raw_tables import BINARY, TABLES, Sample, sample
from treeleak.attacks.known_draws import run as attack_module
from treeleak.core.errors import BadInput
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
_SHARES = {"in_order": "placed", "near": "near", "near_5": "near_5", "categories": "categories"}
"""Columns of the floors that are least shares, and the figures that they speak of."""
_FIGURES = (
    "misfit", "settled", "open_rows", "left_open", "labels", "placed", "expected", "error", "near",
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


def check(line: Any) -> None:
    """Raise BadInput if the table is not there, or has too few rows."""
    if line.table in TABLES and (total := len(TABLES[line.table]().X)) < line.rows:
        raise BadInput(f"the table has {total:,} rows")


def cases(
    chosen: Iterable[Any], seeds: Iterable[int], limit: float | None, told: bool = True
) -> Iterator[Case]:
    """All runs of some lines."""
    for line in chosen:
        own = _LIMIT if isinstance(line.claim, str) else _UNJUDGED
        own = _MARGIN * line.seconds if line.seconds > 0 else own
        for seed in seeds:
            yield Case(line.table, int(line.rows), seed, limit or own, told=told)


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
    with off_the_grid(case.warm and case.table != BINARY):
        record, found = attempt(
            lambda: treeleak.reconstruct(
                data.model, schema, time_limit=case.time_limit, seed=case.seed, space=data.space
            )
        )
    outcome: Record = dict.fromkeys(_FIGURES) | {"proved": 0.0, "listed": 0.0} | record
    if found is None:
        return outcome
    numbers = record["numbers"]
    outcome |= {
        "proved": float(found.share_proved_rows),
        "settled": numbers.get("settled_rows"),
        "listed": numbers.get("listed_rows", 0.0) + numbers.get("rows_never_drawn", 0.0),
        "open_rows": numbers.get("open_rows"),
        "left_open": numbers.get("rows_left_open"),
        "cells": found.cells,
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


def asked(line: Any) -> Floor:
    """Say what a line asks for; a claim that is proved and false always misses it."""
    claim = {line.claim: 1.0} if isinstance(line.claim, str) else {}
    least = {figure: getattr(line, name) for name, figure in _SHARES.items()}
    most = {"seconds": line.seconds, "error": line.error}
    return Floor(
        most={"wrong": 0, **{k: v for k, v in most.items() if v > 0}},
        least=claim | {k: v for k, v in least.items() if v > 0},
    )


def with_claims(runs: pd.DataFrame) -> pd.DataFrame:
    """Add what the floors may claim of runs: 1 where it is so."""
    verified = runs.status.isin(("unique", "feasible")) & (runs.misfit == 0)
    every = runs.proved * runs.n_rows + runs.left_open > runs.n_rows - 0.5
    return runs.assign(
        answered=runs.labels.notna(), verified=verified, decided=verified & every,
        listed=verified & ((runs.status == "unique") | (runs.listed == runs.n_rows)),
        wrong=runs.wrong.fillna(0),
    )  # fmt: skip


def floor_table(chosen: Iterable[Any], runs: pd.DataFrame) -> bool:
    """Print a line for each run; say whether none misses its floor."""
    columns = (
        "verified", "settled", "open_rows", "proved", "left_open", "labels", "placed", "expected",
        "error", "near", "near_5", "categories", "peak_mb",
    )  # fmt: skip
    met = show_judged("raw numbers, known draws", with_claims(runs), chosen, asked, columns)
    expected_over_true(runs)
    return met


def main(args: Sequence[str]) -> int:
    given = options(
        "known_raw", __doc__, args, kept=True, seeds=range(3),
        table=list(floors_of("known_raw").table.unique()), rows=[int], quick=False,
        time_limit=float, no_schema=False,
    )  # fmt: skip
    most = SMALL if given.quick else None
    wanted = lines_of("known_raw", {"table": given.table}, given.rows, most)
    chosen = present(wanted.itertuples(index=False), check)
    todo = cases(chosen, given.seeds, given.time_limit, not given.no_schema)
    records = collect("known_raw", todo, run, warm, given, apart=True)
    return int(bool(records) and not floor_table(chosen, flat(records, _FIGURES)))
