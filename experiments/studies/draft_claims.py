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
_MANY, _FEW_KNOWN = 70, 0.9
"""Trees that are many; a greater share of known rows leaves few others."""
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


def of_known_draws(runs: pd.DataFrame) -> Claims:
    """Figure 4: no bootstrap, and draws known."""
    for dataset, means in _means(runs):
        without, known = _both(means, "none", "known")
        deep = [d for d in known.index if d != depth_name(2)]
        needed = np.reshape(
            [_trees_for(own.loc[d]) for d in deep for own in (without, known)], (-1, 2)
        )
        so = needed[needed.min(axis=1, initial=np.inf) < np.inf]
        yield claim("but for very shallow trees, no more are needed unbagged", dataset,
                    so[:, 0] <= so[:, 1])  # fmt: skip
        flat = known.loc[known.index == depth_name(2), known.columns >= _MANY]
        same = without.loc[flat.index, flat.columns].to_numpy()
        yield claim("of many trees of depth 2, those with known draws leave less", dataset,
                    flat.to_numpy() < same)  # fmt: skip
        yield claim("with known draws, 100 trees of depth 2 leave an error close to 0", dataset,
                    flat.to_numpy()[:, -1:] < 3 * _NEAR)  # fmt: skip


def of_methods(runs: pd.DataFrame) -> Claims:
    """Figure 3: the two published formulations on the same forests."""
    names = [m for m in runs.method.unique() if m != "auto"]
    own = runs.pivot_table("error", ["depth", "n_trees", "seed"], "method")
    both = own.reindex(columns=names).dropna()
    yield claim("CP and MILP leave similar errors (0.05)", "compas",
                np.abs(both.diff(axis=1).iloc[:, 1:]) < 5 * _NEAR)  # fmt: skip


def of_known_columns(runs: pd.DataFrame) -> Claims:
    """Figure 5: some attributes are known."""
    for dataset, own in _in_order(runs):
        means = own.groupby("known").error.mean()
        yield claim("the more attributes are known, the lower the error of the rest", dataset,
                    falls(means))  # fmt: skip


def of_known_rows(runs: pd.DataFrame) -> Claims:
    """Appendix D: some rows are known."""
    for dataset, own in _in_order(runs):
        means = own.groupby("known").error.mean()
        some = means[(means.index > 0) & (means.index <= _FEW_KNOWN)]
        yield claim("known rows hardly help with the others (0.01)", dataset,
                    np.abs(some - means.iloc[0]) < _NEAR)  # fmt: skip


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


def _trees_for(errors: Any) -> float:
    """Fewest trees that leave next to no error; infinite if none do."""
    return float(min(errors.index[errors < _NEAR], default=np.inf))
