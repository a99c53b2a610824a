"""What a paper says of a figure, held against the points that are drawn here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.study import AGREES, DIFFERS, Table, verdict
from treeleak.core.arrays import BoolArray

_ROUNDED = 1e-6
"""What published means are rounded by, at most."""


def beside_runs(
    points: pd.DataFrame, published: pd.DataFrame, keys: Sequence[str], judged: str = "error"
) -> pd.DataFrame:
    """Lay mean errors beside the published ones, with a verdict where their authors have runs.

    ``published``: keys, and ``error``, which is missing where no run of theirs has an answer.
    ``judged``: column of ``points`` that is held against theirs. No greater is ahead, and so is any
    error where theirs is missing.
    """
    keys = list(keys)
    theirs = published.rename(columns={"error": "published"})
    both = points.merge(theirs, "left", keys, indicator="told")
    ours = both[judged].where(both.published.notna(), both.error)
    told = (both.pop("told") == "both") & (ours.notna() | both.error.isna())
    ahead = ours.notna() & ~(ours > both.published + _ROUNDED)
    both.insert(len(keys), "published", both.pop("published"))
    return both.assign(verdict=ahead.map(verdict).where(told, None))


def on_their_seeds(
    runs: pd.DataFrame, published: pd.DataFrame, keys: Sequence[str]
) -> pd.DataFrame:
    """Mean errors of runs over the seeds with which their authors' runs have an answer.

    ``published``: keys, and ``seeds``, a text. Returns keys and ``same_seeds``.
    """
    keys = list(keys)
    answered = published.assign(seed=published.seeds.str.split()).explode("seed").dropna()
    same = runs.merge(answered[[*keys, "seed"]].astype({"seed": int}), "inner", [*keys, "seed"])
    return same.groupby(keys).error.mean().rename("same_seeds").reset_index()


_HALF, _ALWAYS = 0.5, 0.9
"""Share of points of which more must be as the paper says: mostly, or always."""
_NOTE = (
    "Where the paper says that something is so, the points of which it is, out of those at which "
    "the two differ. It agrees if that is so of more than half, or of more than nine in ten where "
    "the paper says always."
)


def claim(says: str, dataset: Any, so: Any, always: bool = False) -> dict[str, Any]:
    """Hold a claim against points: of each, whether it is so. No line where there are none."""
    so = np.asarray(so, dtype=bool).ravel()
    if not len(so):
        return {}
    return {
        "the paper says": says, "dataset": dataset, "treeleak": f"{so.sum()} of {len(so)}",
        "verdict": AGREES if so.mean() > (_ALWAYS if always else _HALF) else DIFFERS,
    }  # fmt: skip


def claims_table(
    name: str, title: str, lines: Iterable[Mapping[str, Any]], note: str = ""
) -> Table:
    """Lay out claims, and the numbers that a paper prints beside them."""
    columns = ["the paper says", "dataset", "published", "treeleak", "verdict"]
    frame = pd.DataFrame([line for line in lines if line], columns=columns)
    if frame.published.isna().all():
        frame = frame.drop(columns="published")
    told = f"{_NOTE} {note}".rstrip()
    return Table(f"{name}-claims", f"{title}: what the paper says of it", frame, told)


def falls(means: Any) -> BoolArray:
    """Say of all pairs of points that differ whether the later one is lower.

    ``means``, shape (n_points, ...): in the order of what is said to lower them.
    """
    values = np.asarray(means, dtype=float)
    earlier, later = np.triu_indices(len(values), 1)
    change = values[later] - values[earlier]
    return np.asarray(change[np.abs(change) > 1e-9] < 0)
