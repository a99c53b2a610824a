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
matched as for "near"). "expected" is how far off the answer says that it is, "error" how far it is,
by DRAFT's measure. Seconds are those of ``treeleak.reconstruct``, after a smaller run.

Floors stand in ``raw_boosted_floors.csv``; other numbers of rows (``--rows``) have none. XGBoost
and LightGBM are needed for their lines, the shared tables for all but Adult and breast cancer.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

import treeleak
from experiments.benchmarks.floor_lines import judged, print_refused, runs_of
from experiments.benchmarks.known_raw_tables import TABLES, one_hot
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records
from experiments.benchmarks.tables import CONSOLE, new_table, number, verdict
from experiments.results_version import say_versions
from treeleak.core.errors import BadInput, NotCovered, TimeUp
from treeleak.datasets import draft_sample
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release, to_release
from treeleak.schema import Numeric, Ordinal, Schema

NEAR = 0.319
"""Standard deviations by which a number may be off in TimberStrike's measure."""
_LIMIT, _MARGIN = 60.0, 0.95
"""Seconds of a run without a floor; share of those of a floor, which count all that follows."""
_QUICK = 300
"""Most rows of a line of the quick part."""
_OTHERS = 200
"""Rows of a table without floors, where none are asked for."""
MODELS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = MappingProxyType(
    {
        "HistGB": ("sklearn.ensemble", "HistGradientBoostingClassifier", {"random_state": 0}),
        "XGB": ("xgboost", "XGBClassifier", {"n_jobs": 1}),
        "LGBM": ("lightgbm", "LGBMClassifier", {"n_jobs": 1, "verbose": -1}),
    }
)
"""By name: module, class, and parameters that change no rows."""
_FIGURES = (
    "near", "shuffled", "others", "exact", "other_exact", "ceiling", "between", "other_between",
    "rows", "held", "expected", "error", "labels", "misfit",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One model."""

    model: str
    table: str
    n_rows: int
    seed: int
    time_limit: float


@dataclass(frozen=True, eq=False)
class Sample:
    """A training set, as many other rows of its table (or all that are left), and a model."""

    X: pd.DataFrame
    y: pd.Series
    others: pd.DataFrame
    schema: Schema
    release: Release
    spread: pd.Series
    """Standard deviations of the columns of numbers in the training set."""


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


def sample(case: Case) -> Sample:
    """Draw rows of a table, and train a model on the first half of them.

    Raises
    ------
    BadInput
        If the table is not there.
    """
    data = TABLES[case.table]()
    X, y = draft_sample(data, min(2 * case.n_rows, len(data.X)), case.seed)
    schema = data.schema
    if case.table == "adult":
        X, schema = one_hot(X, schema)
    own, y = X.iloc[: case.n_rows].reset_index(drop=True), y.iloc[: case.n_rows]
    module, name, given = MODELS[case.model]
    model = getattr(import_module(module), name)(**given).fit(own, y)
    numbers = [a.name for a in schema.attributes if isinstance(a, (Numeric, Ordinal))]
    return Sample(
        own, y.reset_index(drop=True), X.iloc[case.n_rows :].reset_index(drop=True), schema,
        to_release(model), own[numbers].std(ddof=0),
    )  # fmt: skip


def run(case: Case) -> Record:
    """Train, attack, measure."""
    data = sample(case)
    outcome: Record = dict.fromkeys(_FIGURES) | {"status": "refused", "notes": []}
    outcome |= baselines(data, case.seed)
    sampling = "none" if data.release.sampling.kind == "unknown" else "auto"
    start = time.perf_counter()
    try:
        found = treeleak.reconstruct(
            data.release, data.schema, sampling, case.time_limit, case.seed
        )
    except (NotCovered, TimeUp) as why:
        return outcome | {"notes": [str(why)], "seconds": time.perf_counter() - start}
    outcome |= {
        "status": found.status,
        "seconds": time.perf_counter() - start,
        "misfit": None if found.misfit is None else float(found.misfit),
        "evidence": found.evidence,
        "cells": found.cells,
        "numbers": {k: float(v) for k, v in found.numbers.items()},
        "notes": list(found.notes),
    }
    return outcome | ({} if found.X is None else measured(data, found))


def baselines(data: Sample, seed: int) -> dict[str, float | None]:
    """Measure what needs no attack: shuffled columns, and other rows of the same table."""
    rng = np.random.default_rng(seed)
    shuffled = data.X.apply(lambda column: rng.permutation(column.to_numpy()))
    out: dict[str, float | None] = {"shuffled": _best(near, shuffled, data)}
    out["ceiling"] = ceiling(data)
    if len(data.others) == len(data.X):
        out["others"] = _best(near, data.others, data)
        out["other_exact"] = _best(exact, data.others, data)
        out["other_between"] = _best(between, data.others, data)
    return out


def measured(data: Sample, found: Reconstruction) -> dict[str, float | None]:
    """Hold an answer against the training set."""
    names = list(data.X.columns)
    X = found.X[names]
    right = near(X, data)
    i, j = _matching(right)
    sides = [_sides(rows, data) for rows in (X, data.X)]
    tested = np.array([len(cuts) > 0 for cuts in data.release.thresholds])
    cells = [Counter(map(bytes, np.ascontiguousarray(side[:, tested]))) for side in sides]
    held = None
    if found.lower is not None and found.upper is not None:
        low, high = (ends[names].to_numpy(float)[i] for ends in (found.lower, found.upper))
        true = data.X.to_numpy(float)[j]
        held = float(((true >= low) & (true <= high)).mean())
    labels = None
    if found.labelled and found.y is not None:
        labels = float((found.y.to_numpy()[i] == data.y.to_numpy()[j]).mean())
    return {
        "near": _share(right, i, j),
        "exact": _best(exact, X, data),
        "between": _best(between, X, data),
        "rows": (cells[0] & cells[1]).total() / len(X),
        "held": held,
        "labels": labels,
        "expected": found.expected_error,
        "error": treeleak.metrics.reconstruction_error(X, data.X, data.schema),
    }


Right = Callable[[pd.DataFrame, Sample], np.ndarray]
"""How many values of each row of a table are right if it is held against each training row, shape
(n_rows, n_training_rows), as a share of all columns."""


def near(X: pd.DataFrame, data: Sample) -> np.ndarray:
    """By TimberStrike's measure."""
    allowed = {c: NEAR * s for c, s in data.spread.items()}
    return _right(X.to_numpy(float), data.X.to_numpy(float), [allowed.get(c, 0.0) for c in X])


def exact(X: pd.DataFrame, data: Sample) -> np.ndarray:
    """To the last digit that data have: up to a billionth of what a column spans."""
    true = data.X.to_numpy(float)
    return _right(X.to_numpy(float), true, 1e-9 * np.ptp(true, axis=0))


def between(X: pd.DataFrame, data: Sample) -> np.ndarray:
    """On the right side of every threshold."""
    return _right(_sides(X, data), _sides(data.X, data), [0.0] * X.shape[1])


def _right(a: np.ndarray, b: np.ndarray, allowed: Iterable[float]) -> np.ndarray:
    out = np.zeros((len(a), len(b)))
    for own, true, most in zip(a.T, b.T, allowed, strict=True):
        out += np.abs(own[:, None] - true[None]) <= most
    return out / a.shape[1]


def ceiling(data: Sample) -> float:
    """Share of values that are the most frequent ones of their column between two thresholds."""
    right = [
        column.groupby(side).agg(lambda own: own.value_counts(dropna=False).iloc[0]).sum()
        for (_, column), side in zip(data.X.items(), _sides(data.X, data).T, strict=True)
    ]
    return float(np.sum(right) / data.X.size)


def _sides(X: pd.DataFrame, data: Sample) -> np.ndarray:
    """How many thresholds of its column lie below each value."""
    rows = X.to_numpy(data.release.float_type)
    strict = any(tree.strict is not None for tree in data.release.trees)
    out = [
        np.searchsorted(cuts.astype(rows.dtype), x, "right" if strict else "left")
        for cuts, x in zip(data.release.thresholds, rows.T, strict=True)
    ]
    return np.column_stack(out)


def _matching(right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return linear_sum_assignment(right, maximize=True)


def _share(right: np.ndarray, i: np.ndarray, j: np.ndarray) -> float:
    return float(right[i, j].sum() / right.shape[1])


def _best(measure: Right, X: pd.DataFrame, data: Sample) -> float:
    right = measure(X[list(data.X.columns)], data)
    return _share(right, *_matching(right))


def missed(floor: Any, run: Any) -> list[str]:
    """Name what a run misses of its floor.

    Parameters
    ----------
    floor, run : named tuples
        Lines of :func:`floors` and of the runs.
    """
    out = []
    if isinstance(floor.figure, str) and not getattr(run, floor.figure) >= floor.share:
        out.append(f"{floor.figure} {floor.share:g}")
    if floor.seconds > 0 and run.seconds > floor.seconds:
        out.append(f"{floor.seconds:g} s")
    return out


def floor_table(chosen: pd.DataFrame, records: list[Record]) -> int:
    """Print a line for each run; say how many miss their floor."""
    runs = runs_of(records, _FIGURES)
    out = new_table(
        f"boosted models, defaults, raw tables; {say_versions(runs.results_version)}",
        "case, seed, status, s, near, shuffled, others, beyond, exact / others / ceiling, "
        "between / others, rows, held, expected / error, labels, misfit, floor",
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
            number(r.rows, 3), number(r.held, 3), _both(r.expected, r.error),
            number(r.labels, 3), number(r.misfit, 0),
            f"{asked} {verdict(not lacks)}" if asked else "",
        )  # fmt: skip
    CONSOLE.print(out)
    print_refused(runs)
    return misses


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
        n_missed = floor_table(chosen, found)
        CONSOLE.print(
            f"{n_missed} runs miss their floor" if n_missed else "no run misses its floor"
        )
