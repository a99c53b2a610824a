"""Runs beside the lines of floors that they are held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from experiments.benchmarks.records import Record, flat
from experiments.benchmarks.tables import CONSOLE, number, verdict

_ERROR = (0.8, 1.2)
"""Floor of all runs together: expected over true error."""


def runs_of(records: Iterable[Record], figures: Sequence[str]) -> pd.DataFrame:
    """Put runs in a table, with figures as numbers: NaN where there is none."""
    runs = flat(records)
    # Runs that were kept before a figure was measured lack it.
    runs = runs.reindex(columns=[*runs.columns, *(f for f in figures if f not in runs)])
    runs[list(figures)] = runs[list(figures)].astype(float)
    return runs


def judged(
    lines: pd.DataFrame, runs: pd.DataFrame, missed: Callable[[Any, Any], list[str]]
) -> Iterator[tuple[Any, Any, list[str]]]:
    """Go through the runs of each line; gives the line, the run, and what it misses."""
    for line in lines.itertuples():
        own = runs[(runs.model == line.model) & (runs.table == line.table)]
        for run in own[own.n_rows == line.rows].itertuples():
            yield line, run, missed(line, run)


def expected_over_true(runs: pd.DataFrame) -> str:
    """Say how far all runs together are as wrong as they state."""
    both = runs[runs.expected.notna() & runs.error.notna()]
    if len(both) and not both.error.sum():
        return f"expected over true error, in sums: no errors in {len(both)} runs"
    ratio = both.expected.sum() / both.error.sum() if len(both) else float("nan")
    said = f"expected over true error, in sums: {number(ratio, 3) or '-'}"
    return f"{said} {within(ratio, *_ERROR)}, {len(both)} runs"


def within(x: float, low: float, high: float) -> str:
    """Say whether a figure is where its floor wants it."""
    return f"(floor {low:g} to {high:g}: {verdict(low <= x <= high)})"


def print_missed(n: int) -> None:
    """Print how many runs miss their floor."""
    CONSOLE.print(f"{n} runs miss their floor" if n else "no run misses its floor")


def print_refused(runs: pd.DataFrame) -> None:
    """Print why runs were refused."""
    for r in runs[runs.status == "refused"].itertuples():
        CONSOLE.print(f"{r.model}, {r.table} {r.n_rows}: {r.notes[0]}", soft_wrap=True)
