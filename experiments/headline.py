"""Tables of other documents that are made from stored runs, too: those marked as such.

A table stands between two comments, ``<!-- made by python -m experiments page: NAME -->`` and
``<!-- end -->``; what is between them is written anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from experiments.data import DATASETS
from experiments.runner import as_frame
from experiments.shown import as_markdown
from experiments.standing import runs_of
from experiments.store import Store
from experiments.studies.default_forests import PROGRAM, TREELEAK
from experiments.studies.dp_cells import CELL, beside_published, summed
from experiments.studies.published import read_published
from experiments.study import Study, Table
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file

_Means = dict[Any, dict[Any, Any]]
"""By dataset and depth: seconds, error."""

_BY_DEPTH = ["depth", *(name for dataset in DATASETS for name in (dataset, "paper"))]

_PAPER_RUNS = 5

_MARKED = re.compile(
    r"(?P<head><!-- made by python -m experiments page: (?P<name>[a-z-]+) -->\n)"
    r".*?(?P<end><!-- end -->)",
    re.DOTALL,
)


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


def known_program(runs: pd.DataFrame) -> pd.DataFrame:
    """The published program on default forests whose draws are known, beside treeleak."""
    both = _of_method(runs[(runs.bootstrap == "known") & ~runs.distinct])
    lines = []
    for dataset, some in both.groupby("dataset", sort=False):
        own, program = (some[some.method == m].iloc[0] for m in (TREELEAK, PROGRAM))
        said = [_share_and_time(line.in_order, line.seconds) for line in (own, program)]
        lines.append([dataset, *said, f"{float(f'{program.seconds / own.seconds:.2g}'):,.0f}"])
    names = ["", "treeleak", "published program", "times as long"]
    return pd.DataFrame(lines, columns=names, dtype=object)


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


TABLES: Mapping[str, tuple[tuple[str, ...], Callable[..., pd.DataFrame]]] = MappingProxyType(
    {
        "private-forests": (("draft-dp-table-1",), private_forests),
        "known-forests": (("default-forests",), known_forests),
        "known-program": (("default-forests",), known_program),
        "large-forests": (("default-forests",), large_forests),
        "unlimited-forests": (("draft-table-2",), unlimited_forests),
        "hidden-forests": (("draft-table-2",), hidden_forests),
    }
)
"""By the name in its mark: the studies that a table shows, and what makes it of their runs."""


def with_tables(text: str, studies: Mapping[str, Study], store: Store) -> str:
    """Write the marked tables of a text anew.

    Raises
    ------
    BadInput
        If a mark has a name that is not known, or a study has no runs.
    """

    def made(mark: re.Match[str]) -> str:
        if mark["name"] not in TABLES:
            raise BadInput(f"no table is called {mark['name']!r}: {', '.join(TABLES)}")
        shown, make = TABLES[mark["name"]]
        frames = []
        for study in shown:
            runs = runs_of(studies[study], store, quick=False, any_version=True)
            if not runs:
                raise BadInput(f"{store.path}: holds no runs of {study}")
            frames.append(as_frame(runs))
        body = as_markdown(Table(mark["name"], "", make(*frames)))
        return f"{mark['head']}\n{body}\n{mark['end']}"

    return _MARKED.sub(made, text)


def rewrite(path: Path, studies: Mapping[str, Study], store: Store) -> None:
    """Write the marked tables of a file anew.

    Raises
    ------
    BadInput
        If it has none, or one that is not known.
    """
    text = path.read_text(encoding="utf-8")
    if not _MARKED.search(text):
        raise BadInput(f"{path}: no table in it is marked as made from stored runs")
    write_file(path, with_tables(text, studies, store))


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
