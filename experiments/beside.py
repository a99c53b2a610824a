"""Mean errors beside those of the authors' published runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from experiments.study import verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROUNDED = 1e-6
"""What published means are rounded by, at most."""


def beside_runs(points: pd.DataFrame, published: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Lay mean errors beside the published ones, with a verdict where their authors have runs.

    ``published``: keys, and ``error``, which is missing where no run of theirs has an answer.
    No greater is ahead, and so is any error where theirs is missing.
    """
    keys = list(keys)
    theirs = published.rename(columns={"error": "published"})
    both = points.merge(theirs, "left", keys, indicator="told")
    told = both.pop("told") == "both"
    ahead = both.error.notna() & ~(both.error > both.published + _ROUNDED)
    both.insert(len(keys), "published", both.pop("published"))
    return both.assign(verdict=ahead.map(verdict).where(told, None))


def draw_published(ax: Axes, published: pd.DataFrame, x: str) -> None:
    """Draw published errors over a column, where there are any."""
    ax.plot(published[x], published.error, ":", color="black", label="published")
