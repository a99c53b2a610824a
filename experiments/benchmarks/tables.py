"""What the benchmarks print, and the published figures they print beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from experiments.results_version import say_versions

CONSOLE = Console(width=360)
"""Wide enough for the widest table: no figure is cut short."""


class Beside(NamedTuple):
    """The published figures of a point, NaN where there are none, and ours for the same seeds."""

    error: float
    seconds: float
    answered: int
    ours: float


def new_table(title: str, names: str, left: str) -> Table:
    out = Table(title=title)
    for name in names.split(", "):
        justify = "left" if name in left.split(", ") else "right"
        out.add_column(name, justify=justify, no_wrap=True)
    return out


def title(what: str, runs: pd.DataFrame) -> str:
    """Say what was run: seeds, time limits, results versions."""
    limits = " / ".join(f"{t:g}" for t in runs.time_limit.unique())
    return (
        f"{what}: seeds {runs.seed.min()} to {runs.seed.max()}, time limit {limits} s; "
        f"{say_versions(runs.results_version)}"
    )


def statuses(runs: pd.DataFrame) -> str:
    return " ".join(f"{n} {status}" for status, n in runs.status.value_counts().items())


def number(value: float, digits: int = 4) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}f}"


def verdict(met: bool) -> str:
    """Say whether a floor is met."""
    return "met" if met else "NOT met"


def depth_name(depth: float | None) -> str:
    """Name a depth as the published tables do."""
    return "None" if depth is None or np.isnan(depth) else f"{depth:g}"


def published(name: str) -> pd.DataFrame | None:
    """The authors' runs; ``error`` is missing for those without an answer.

    None, with the reason on the terminal, if the file is not there.
    """
    path = Path(os.environ.get("TREELEAK_PUBLISHED", "")) / name
    if not path.exists():
        CONSOLE.print(f"no published figures: {path} does not exist; set TREELEAK_PUBLISHED")
        return None
    # "None" is a depth.
    runs = pd.read_csv(path, keep_default_na=False)
    error = pd.to_numeric(runs.error, errors="coerce")
    if "status" in runs:
        error = error.where(runs.status != "UNKNOWN")
    return runs.assign(error=error, seconds=pd.to_numeric(runs.seconds), depth=runs.max_depth)


def beside(runs: pd.DataFrame | None, ours: pd.DataFrame, **point: Any) -> Beside:
    """Find the published figures of a point.

    Parameters
    ----------
    runs : DataFrame or None
        From :func:`published`.
    ours : DataFrame
        Our runs of the point. Where some of their seeds have a published answer, only these enter
        the mean: like against like.
    **point
        Columns of ``runs`` and their values.
    """
    if runs is None:
        return Beside(np.nan, np.nan, 0, ours.error.mean(skipna=False))
    theirs = runs[np.logical_and.reduce([runs[k] == v for k, v in point.items()])]
    answered = theirs[theirs.error.notna()]
    same = ours[ours.seed.isin(answered.seed)]
    error = (ours if same.empty else same).error.mean(skipna=False)
    return Beside(theirs.error.mean(), theirs.seconds.median(), len(answered), error)
