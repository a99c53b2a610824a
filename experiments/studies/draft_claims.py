"""What DRAFT says of its figures, held against runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from experiments.claims import claim, falls
from experiments.data import DATASETS
from experiments.studies.draft_runs import DEPTHS, depth_name

Claims = Iterator[dict[str, Any]]
_NEAR = 0.01
"""Errors below are next to none, and changes of less than it next to no change."""
_MANY = 70
"""Trees that are many."""
_DEPTHS = [depth_name(d) for d in DEPTHS]
_ANY = depth_name(None)


def of_bootstrap(runs: pd.DataFrame) -> Claims:
    """Figure 2: no bootstrap, and draws hidden."""
    for dataset, means in _means(runs):
        yield claim("more trees lower the error", dataset, falls(means.to_numpy().T), True)
        deeper = [
            falls(own.droplevel("bootstrap").reindex(_DEPTHS).dropna(how="all"))
            for _, own in means.groupby("bootstrap")
        ]
        yield claim("greater depth lowers the error", dataset, np.concatenate(deeper), True)
        without, hidden = _both(means, "none", "hidden")
        yield claim("without bootstrap, the deepest forests leave no error", dataset,
                    without[without.index == _ANY].to_numpy()[:, -1:] < 1e-9, True)  # fmt: skip
        hard = (hidden - without).to_numpy().ravel()
        yield claim("bootstrap makes rows harder to rebuild", dataset, hard[hard != 0] > 0)
        last = hidden.loc[hidden.index == _ANY, hidden.columns >= _MANY].to_numpy()
        yield claim("with bootstrap, the error stops short of zero", dataset, last > _NEAR)


def of_methods(runs: pd.DataFrame) -> Claims:
    """Figure 3: the two published formulations on the same forests."""
    names = [m for m in runs.method.unique() if m != "auto"]
    own = runs.pivot_table("error", ["depth", "n_trees", "seed"], "method")
    both = own.reindex(columns=names).dropna()
    yield claim("CP and MILP leave similar errors (0.05)", "compas",
                np.abs(both.diff(axis=1).iloc[:, 1:]) < 5 * _NEAR)  # fmt: skip


# ------------------------------------------------------------------------------------- points


def _in_order(runs: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for dataset in DATASETS:
        if len(own := runs[runs.dataset == dataset]):
            yield dataset, own


def _means(runs: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """Mean errors of each dataset: lines are draws and depths, columns numbers of trees."""
    for dataset, own in _in_order(runs.assign(depth=[depth_name(d) for d in runs.depth])):
        yield dataset, own.pivot_table("error", ["bootstrap", "depth"], "n_trees")


def _both(means: Any, *draws: str) -> list[Any]:
    """Tables of two kinds of draws, of the points that both have; empty if one is missing."""
    there = means.index.get_level_values("bootstrap")
    if not set(draws) <= set(there):
        return [means.iloc[:0].droplevel("bootstrap")] * 2
    own = [means.loc[d] for d in draws]
    kept = own[0].index.intersection(own[1].index)
    columns = own[0].columns[(own[0].loc[kept] + own[1].loc[kept]).notna().all()]
    return [each.loc[kept, columns] for each in own]
