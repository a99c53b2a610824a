"""Tables of other documents that ``python -m experiments page`` makes of stored runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from experiments.data import DATASETS
from experiments.runner import as_frame, runs_of
from experiments.store import Store
from experiments.studies.dp_cells import CELL, beside_published, summed
from experiments.studies.published import read_published
from experiments.study import Study
from treeleak.core.errors import BadInput

_Means = dict[Any, dict[Any, Any]]
"""By dataset and depth: seconds, error."""

_BY_DEPTH = ["depth", *(name for dataset in DATASETS for name in (dataset, "paper"))]

_PAPER_RUNS = 5


def private_forests(runs: pd.DataFrame) -> pd.DataFrame:
    """DRAFT-DP's table I, all cells of a budget that the paper answered in one."""
    noisy = runs[runs.epsilon.notna()]
    cells = beside_published(noisy, read_published("draft_dp_table_1"), "error", 2, CELL)
    means = summed(cells, ["epsilon"]).sort_values("epsilon")
    answered = cells[cells.published.notna()]
    lower = (answered.treeleak < answered.published).groupby(answered.epsilon)
    lines = {
        "treeleak": [f"{v:.3f}" for v in means.treeleak],
        "paper": [f"{v:.3f}" for v in means.published],
        "ratio": [f"{v:.2f}" for v in 1 / means.ratio],
        "cells with a lower error": [f"{own.sum()} of {len(own)}" for _, own in lower],
        "median seconds": [_seconds(v) for v in noisy.groupby("epsilon").seconds.median()],
    }
    names = [f"{v:g}" for v in means.epsilon]
    return pd.DataFrame(
        [[name, *line] for name, line in lines.items()], columns=["ε", *names], dtype=object
    )


def unlimited_forests(runs: pd.DataFrame) -> pd.DataFrame:
    """DRAFT's table 2, no bootstrap, trees of any depth."""
    ours, theirs = _of_table_2(runs)
    lines = []
    for dataset in DATASETS:
        own, paper = ours[dataset, "None"], theirs[dataset, "None"]
        sides = [[_seconds(s["seconds"]), f"{s['error']:.4f}"] for s in (own, paper)]
        lines.append([dataset, *sides[0], *sides[1]])
    names = ["", "seconds", "error", "DRAFT, seconds", "DRAFT, error"]
    return pd.DataFrame(lines, columns=names, dtype=object)


def hidden_forests(runs: pd.DataFrame) -> pd.DataFrame:
    """DRAFT's table 2, bootstrap samples that nobody knows, by depth."""
    ours, theirs = _of_table_2(runs, "hidden")
    lines = []
    for depth in ("None", "10", "5", "4", "3", "2"):
        line = ["unlimited" if depth == "None" else depth]
        for dataset in DATASETS:
            own, paper = ours[dataset, depth], theirs[dataset, depth]
            line += [f"{own['error']:.3f}, {_seconds(own['seconds'])} s"]
            printed = paper["error_bootstrap"]
            some = _answered(paper["unanswered_bootstrap"])
            line += [("not printed" if pd.isna(printed) else f"{printed:.3f}") + some]
        lines.append(line)
    return pd.DataFrame(lines, columns=_BY_DEPTH, dtype=object)


TABLES: Mapping[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame]]] = MappingProxyType(
    {
        "private-forests": ("draft-dp-table-1", private_forests),
        "unlimited-forests": ("draft-table-2", unlimited_forests),
        "hidden-forests": ("draft-table-2", hidden_forests),
    }
)
"""By the name in its mark: the study that a table shows, and what makes it of its runs."""


def made_of(studies: Mapping[str, Study], store: Store) -> Mapping[str, Callable[[], pd.DataFrame]]:
    """Say how to make each marked table, see :func:`~experiments.shown.with_tables`.

    Raises
    ------
    BadInput
        When one is made of a study without runs.
    """

    def table(name: str, make: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
        runs = runs_of(studies[name], store, quick=False, any_version=True)
        if not runs:
            raise BadInput(f"{store.path}: holds no runs of {name}")
        return make(as_frame(runs))

    return {mark: partial(table, *own) for mark, own in TABLES.items()}


def _of_table_2(runs: pd.DataFrame, bootstrap: str = "none") -> tuple[_Means, _Means]:
    """Means over seeds, ours and the paper's, by dataset and depth."""
    own = runs[runs.bootstrap == bootstrap]
    depth = ["None" if pd.isna(d) else f"{d:g}" for d in own.depth]
    ours = own.assign(depth=depth).groupby(["dataset", "depth"])[["seconds", "error"]].mean()
    theirs = read_published("draft_table_2").set_index(["dataset", "depth"])
    return _by_point(ours), _by_point(theirs)


def _answered(unanswered: int) -> str:
    """Say how many of the paper's runs answered, if not all did."""
    return f" ({_PAPER_RUNS - unanswered} of {_PAPER_RUNS})" if unanswered else ""


def _by_point(means: pd.DataFrame) -> _Means:
    points = means.index.to_list()
    return dict(zip(points, means.to_dict("records"), strict=True))


def _seconds(value: float) -> str:
    """Write seconds with two digits, large ones in full."""
    digits = max(0, 1 - int(np.floor(np.log10(value))))
    return f"{value:,.{digits}f}"
