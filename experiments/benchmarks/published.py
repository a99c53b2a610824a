"""The authors' published runs, beside ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments.benchmarks.frame import CONSOLE

TOLERANCE = 0.002
"""By how much an error may exceed the published one and count as no worse."""
LEAST = 1e-3
"""What an error counts as that is smaller, in the geometric mean of ratios."""


class Beside(NamedTuple):
    """The published figures of a point, NaN where there are none, and ours for the same seeds."""

    error: float
    seconds: float
    answered: int
    ours: float


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
    # "None" is a depth; some runs stand twice in their files.
    runs = pd.read_csv(path, keep_default_na=False).drop_duplicates()
    error = pd.to_numeric(runs.error, errors="coerce")
    if "status" in runs:
        error = error.where(runs.status != "UNKNOWN")
    return runs.assign(error=error, seconds=pd.to_numeric(runs.seconds), depth=runs.max_depth)


def beside(runs: pd.DataFrame | None, ours: pd.DataFrame, **point: Any) -> Beside:
    """Find the published figures of a point: columns of ``runs``, and their values.

    Where some of our seeds have a published answer, only these enter our mean: like against like.
    """
    if runs is None:
        return Beside(np.nan, np.nan, 0, ours.error.mean(skipna=False))
    theirs = runs[np.logical_and.reduce([runs[k] == v for k, v in point.items()])]
    answered = theirs[theirs.error.notna()]
    same = ours[ours.seed.isin(answered.seed)]
    error = (ours if same.empty else same).error.mean(skipna=False)
    return Beside(theirs.error.mean(), theirs.seconds.median(), len(answered), error)


def grid_score(ours: Any, theirs: Any, tolerance: float = TOLERANCE) -> tuple[int, float]:
    """Count the points at most so much above the published; the geometric mean of the ratios.

    Errors below LEAST, in which a zero would be worth any number of other points, are taken as
    LEAST on both sides.
    """
    own, other = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    ratio = np.log(np.maximum(own, LEAST) / np.maximum(other, LEAST))
    return int((own <= other + tolerance).sum()), float(np.exp(ratio.mean()))
