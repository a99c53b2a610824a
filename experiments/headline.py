"""Tables of other documents that ``python -m experiments page`` makes of stored runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from experiments.boosted_models import LEFT, VALUES_ALONE, holds, in_numbers
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

_BOOSTED_ROWS = 1000
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


def known_forests(runs: pd.DataFrame) -> pd.DataFrame:
    """Default forests whose draws are known: rows in their place, and seconds."""
    own = _of_method(runs[(runs.bootstrap == "known") & runs.distinct])
    lines = []
    for n, some in own.groupby("n_rows"):
        by_dataset = some.set_index("dataset").reindex(list(DATASETS))
        shown = by_dataset[["in_order", "seconds"]].to_numpy()
        lines.append([f"{n:,}", *(_share_and_time(*point) for point in shown)])
    return pd.DataFrame(lines, columns=["rows", *DATASETS], dtype=object)


def large_forests(runs: pd.DataFrame) -> pd.DataFrame:
    """Forests of thousands of rows whose draws are hidden, or that draw nothing."""
    means = _of_method(runs[runs.bootstrap != "known"])
    lines = [
        [
            own["bootstrap"], own["dataset"], f"{own['n_rows']:,}",
            _percent(own["right"]), _seconds(own["seconds"]), own["runs"],
        ]
        for own in means.to_dict("records")
    ]  # fmt: skip
    names = ["draws", "table", "rows", "right", "seconds", "forests"]
    return pd.DataFrame(lines, columns=names, dtype=object)


def boosted_models(runs: pd.DataFrame) -> pd.DataFrame:
    """Default boosted models of 1,000 rows: rows right and seconds, by table."""
    means = _of_defaults(runs)
    lines = []
    for model, some in means.groupby("model"):
        own = some.set_index("table").reindex(list(DATASETS))
        said = [_share_and_time(*point) for point in own[["right", "seconds"]].to_numpy()]
        lines.append([_called(str(model)), *said])
    others = [means.others[means.table == d] for d in DATASETS]
    ends = [dict.fromkeys((_percent(own.min()), _percent(own.max()))) for own in others]
    lines.append(["other rows of the table", *(" to ".join(e) for e in ends)])
    return pd.DataFrame(lines, columns=["", *DATASETS], dtype=object)


def boosted_results(runs: pd.DataFrame) -> pd.DataFrame:
    """Default boosted models of 1,000 rows: a line for each library and table."""
    lines = [
        [
            _called(own["model"]), own["table"], _percent(own["right"]), _percent(own["proved"]),
            _percent(own["others"]), _seconds(own["seconds"]), own["runs"],
        ]
        for own in _of_defaults(runs).to_dict("records")
    ]  # fmt: skip
    names = ["model", "table", "right", "proved", "others", "seconds", "seeds"]
    return pd.DataFrame(lines, columns=names, dtype=object)


def boosted_values(runs: pd.DataFrame) -> pd.DataFrame:
    """Boosted models of which the values of leaves alone are left, seed by seed."""
    own = in_numbers(runs[runs.setting == VALUES_ALONE]).sort_values("seed")
    lines = []
    for (table, n, model), some in own.groupby(["table", "n_rows", "model"], sort=False):
        right = [_percent(v) for v in some.right]
        seconds = [_seconds(v) for v in some.seconds]
        lines.append([_called(str(model)), table, f"{n:,}", ", ".join(right), ", ".join(seconds)])
    names = ["model", "table", "rows", "right, seed by seed", "seconds"]
    return pd.DataFrame(lines, columns=names, dtype=object)


def boosted_states(runs: pd.DataFrame) -> pd.DataFrame:
    """Boosted models of which one statistic is left: means over seeds, and how many say nothing."""
    own = in_numbers(runs[runs.setting.isin(LEFT)])
    lines = []
    for (table, n, model), some in own.groupby(["table", "n_rows", "model"]):
        said = []
        for left in LEFT:
            right = some.right[some.setting == left]
            refused = int(right.isna().sum())
            if not len(right):
                said.append("not run" if holds(str(model), left) else "not in the file")
            elif refused == len(right):
                said.append("not assessed")
            else:
                some_refused = f", {refused} of {len(right)} not assessed" if refused else ""
                said.append(_percent(right.mean()) + some_refused)
        others = _percent(some.others.mean())
        lines.append([_called(str(model)), table, f"{n:,}", *said, others])
    names = ["model", "table", "rows", *LEFT, "other rows"]
    return pd.DataFrame(lines, columns=names, dtype=object)


def results(
    forests: pd.DataFrame, of_table_2: pd.DataFrame, boosted: pd.DataFrame, private: pd.DataFrame
) -> pd.DataFrame:
    """One line for each kind of model, on adult: what came back, and what else there is."""
    known = _of_method(forests[(forests.bootstrap == "known") & forests.distinct])
    seeds = known[(known.dataset == "adult") & (known.n_rows == _BOOSTED_ROWS)].iloc[0]
    every = _of_method(forests[forests.bootstrap == "none"]).iloc[0]
    hidden, of_paper = (side["adult", "None"] for side in _of_table_2(of_table_2, "hidden"))
    boosters = _of_defaults(boosted)
    xgb = boosters[(boosters.model == "XGBClassifier") & (boosters.table == "adult")].iloc[0]
    noisy = private_forests(private).set_index("ε")["1"]
    lines = [
        ["forest, seeds in the file", f"{_BOOSTED_ROWS:,}",
         f"{_share_and_time(seeds.in_order, seeds.seconds)}, in order", "",
         "known"],
        ["forest without bootstrap", f"{every.n_rows:,}",
         _share_and_time(every.right, every.seconds), "", "exact"],
        ["forest, seeds gone", "100", f"error {hidden['error']:.3f}",
         f"published attack: {of_paper['error_bootstrap']:.3f}", "draft-table-2"],
        ["XGBoost", f"{_BOOSTED_ROWS:,}", _share_and_time(xgb.right, xgb.seconds),
         f"other rows of the table: {_percent(xgb.others)}", "boosted"],
        ["private forests, ε = 1", "100", f"error {noisy['treeleak']}",
         f"published attack: {noisy['paper']}", "draft-dp-table-1"],
    ]  # fmt: skip
    names = ["default model", "rows", "came back", "comparison", "python -m experiments run"]
    return pd.DataFrame(lines, columns=names, dtype=object)


STORED = ("default-forests", "boosted-models")
"""Experiments whose runs are stored, and not made anew: benchmarks measure the same."""
TABLES: Mapping[str, tuple[tuple[str, ...], Callable[..., pd.DataFrame]]] = MappingProxyType(
    {
        "results": (
            ("default-forests", "draft-table-2", "boosted-models", "draft-dp-table-1"),
            results,
        ),
        "private-forests": (("draft-dp-table-1",), private_forests),
        "known-forests": (("default-forests",), known_forests),
        "large-forests": (("default-forests",), large_forests),
        "unlimited-forests": (("draft-table-2",), unlimited_forests),
        "hidden-forests": (("draft-table-2",), hidden_forests),
        "boosted-models": (("boosted-models",), boosted_models),
        "boosted-results": (("boosted-models",), boosted_results),
        "boosted-values": (("boosted-models",), boosted_values),
        "boosted-states": (("boosted-models",), boosted_states),
    }
)
"""By the name in its mark: the studies or experiments of a table's runs, and what makes it."""


def made_of(studies: Mapping[str, Study], store: Store) -> Mapping[str, Callable[[], pd.DataFrame]]:
    """Say how to make each marked table, see :func:`~experiments.shown.with_tables`.

    Raises
    ------
    BadInput
        When one is made of a study without runs.
    """

    def table(names: Sequence[str], make: Callable[..., pd.DataFrame]) -> pd.DataFrame:
        frames = []
        for name in names:
            runs = (
                runs_of(studies[name], store, quick=False, any_version=True)
                if name in studies
                else store.runs(name)
            )
            if not runs:
                raise BadInput(f"{store.path}: holds no runs of {name}")
            frames.append(as_frame(runs))
        return make(*frames)

    return {mark: partial(table, *own) for mark, own in TABLES.items()}


def _of_table_2(runs: pd.DataFrame, bootstrap: str = "none") -> tuple[_Means, _Means]:
    """Means over seeds, ours and the paper's, by dataset and depth."""
    own = runs[runs.bootstrap == bootstrap]
    depth = ["None" if pd.isna(d) else f"{d:g}" for d in own.depth]
    ours = own.assign(depth=depth).groupby(["dataset", "depth"])[["seconds", "error"]].mean()
    theirs = read_published("draft_table_2").set_index(["dataset", "depth"])
    return _by_point(ours), _by_point(theirs)


def _of_method(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean shares and median seconds over seeds, by forest and method."""
    numbers = runs.assign(in_order=pd.to_numeric(runs.in_order))
    shape = ["bootstrap", "dataset", "n_rows", "distinct", "method"]
    grouped = numbers.groupby(shape, sort=False)
    means = grouped.agg(
        in_order=("in_order", "mean"), right=("right", "mean"), seconds=("seconds", "median"),
        runs=("seed", "size"),
    )  # fmt: skip
    return means.reset_index()


def _answered(unanswered: int) -> str:
    """Say how many of the paper's runs answered, if not all did."""
    return f" ({_PAPER_RUNS - unanswered} of {_PAPER_RUNS})" if unanswered else ""


def _share_and_time(share: float, seconds: float) -> str:
    return "not run" if pd.isna(seconds) else f"{_percent(share)}, {_seconds(seconds)} s"


def _of_defaults(runs: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds of default boosted models of 1,000 rows, by model and table."""
    own = in_numbers(runs[(runs.setting == "default") & (runs.n_rows == _BOOSTED_ROWS)])
    grouped = own.groupby(["model", "table"], sort=False)
    means = grouped[["right", "proved", "others", "seconds"]].mean()
    return means.assign(runs=grouped.size()).sort_index().reset_index()


def _called(model: str) -> str:
    """Name a model without what scikit-learn's and others' classes have in common."""
    return {"XGBClassifier": "XGBoost", "LGBMClassifier": "LightGBM"}.get(model, model)


def _percent(share: float) -> str:
    """Write a share in percent; 100 stands for all rows, and 0 for none."""
    if pd.isna(share):
        return "no answer"
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"


def _by_point(means: pd.DataFrame) -> _Means:
    points = means.index.to_list()
    return dict(zip(points, means.to_dict("records"), strict=True))


def _seconds(value: float) -> str:
    """Write seconds with two digits, large ones in full."""
    digits = max(0, 1 - int(np.floor(np.log10(value))))
    return f"{value:,.{digits}f}"
