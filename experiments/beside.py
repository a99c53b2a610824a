"""Mean errors beside those of the authors' published runs."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from experiments.study import verdict

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
