"""Boosted models with default parameters on binary tables: rows and classes from sums in leaves.

A line for each run. "cells" is the share of rows in a cell that the training set has as often,
"right" that of rows with their class as well: what cells do not tell apart cannot be asked for.
"exact" is the share of rows that are right in every column that a tree tests, class included, and
"told" that of the rows whose cell leaves one value in each of these columns. The other rows may
stand elsewhere in their cells, and all sums stay the same: beyond "told", values are guessed from
what the rows are like.
"proved" is the share of rows that are proved, "wrong" how many of these are in no such cell with
their class. "others" is what as many other rows of the same table would have right: no figure says
anything below it. Seconds are those of ``treeleak.reconstruct``, after a smaller run.

``--groups`` states all three one-hot groups of adult, which the names of its columns show; the
papers' schema states one.

``--left`` names what is left of the statistics of nodes, as in hardened files: "leaf values alone",
or another name in ``LEFT``.

"guess" is the share of values that are wrong in random rows, "error" the share in the answer, and
"expected" the share that the answer says of itself, both after rows are matched; up to 1,000 rows.
Below the table, the last two are added up over the runs of which not all is proved.

Regressors have a weighted sum of the columns and noise as their target; "right" says of them what
"cells" says, "targets" is the share of rows beside whose cell (or in whose place, where rows are in
order) stands their target, within a thousandth of its range, and "alone" the same of the rows that
share their cell with no other; "single" is how many of all rows do that, and "most" the share of
rows that do, or whose target is as near to the mean of their cell: all that a model holds that
never tells these rows apart. Where rows are in order, "placed" is the share that stands in its own
place, and "off" how far any target is off that the answer says is determined.

Of models called "drawn", each tree drew 80 % of the rows, and nobody knows which: rows follow from
numbers of rows alone. Floors stand in
``boosted_floors.csv``. XGBoost, LightGBM and CatBoost are needed for their lines, and the shared
tables for all but iris and wine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.benchmarks.floor_lines import judged, print_missed, print_refused, runs_of
from experiments.benchmarks.options import Options
from experiments.benchmarks.records import Record, Records
from experiments.benchmarks.tables import CONSOLE, new_table, number, verdict
from experiments.binned import table
from experiments.boosted_models import ALL, FIGURES, LEFT, MODELS, Case, calibrated, holds, run
from experiments.results_version import say_versions
from treeleak.core.errors import BadInput

_LIMIT = 60.0
"""Seconds of a run without a floor."""


def floors() -> pd.DataFrame:
    """Read what is asked of each model, table and number of rows."""
    return pd.read_csv(Path(__file__).with_name("boosted_floors.csv"))


def present(lines: pd.DataFrame) -> pd.DataFrame:
    """Lines whose library and table are there; says of the others why they are not run."""
    missing = {lib for lib, *_ in MODELS.values() if find_spec(lib) is None}
    for library in sorted(missing):
        CONSOLE.print(f"lines of {library} skipped: pip install 'treeleak[{library}]'")
    lines = lines[[MODELS[m][0] not in missing for m in lines.model]]
    gone = set()
    for name in lines.table.unique():
        try:
            table(name)
        except BadInput as why:
            CONSOLE.print(f"{name} skipped: {why}", soft_wrap=True)
            gone.add(name)
    return lines[~lines.table.isin(gone)]


def missed(floor: Any, run: Any) -> list[str]:
    """Name what a run misses of its floor; a false proof always is."""
    out = ["proved what is false"] if pd.notna(run.wrong) and run.wrong else []
    figure = getattr(run, floor.figure) if isinstance(floor.figure, str) else None
    if floor.share > 0 and not (figure is not None and figure >= floor.share):
        out.append(f"{floor.figure} {floor.share:g}")
    if floor.exact > 0 and not run.exact >= floor.exact:
        out.append(f"exact {floor.exact:g}")
    if floor.targets > 0 and not run.targets >= floor.targets:
        out.append(f"targets {floor.targets:g}")
    if floor.seconds > 0 and run.seconds > floor.seconds:
        out.append(f"{floor.seconds:g} s")
    return out


def cases(
    lines: pd.DataFrame, seeds: Iterable[int], limit: float | None, left: Sequence[str] = (ALL,)
) -> Iterator[Case]:
    """All runs of some lines; the clock leaves a tenth of the floor's seconds for the rest."""
    for line in lines.itertuples():
        own = limit or (0.9 * line.seconds if line.seconds > 0 else _LIMIT)
        for kept, seed in product(left, seeds):
            if holds(line.model, kept):
                yield Case(line.model, line.table, int(line.rows), seed, own, kept)


def warm(case: Case) -> Case:
    """A case that compiles what the case will use."""
    return replace(case, n_rows=60, seed=0, time_limit=10.0)


def floor_table(lines: pd.DataFrame, records: list[Record]) -> int:
    """Print a line for each run; say how many miss their floor."""
    runs = runs_of(records, FIGURES)
    out = new_table(
        f"boosted models, defaults; {say_versions(runs.results_version)}",
        "model, table, rows, seed, left, status, s, cells, right, exact, told, proved, wrong, "
        "others, targets, alone, single, most, error, expected, guess, placed, off, MB, floor, met",
        left="model, table, left, status, floor, met",
    )
    misses = 0
    for line, r, lacks in judged(lines, runs, missed):
        misses += bool(lacks)
        said = f"{line.figure} {line.share:g}, {line.seconds:g} s" if line.share > 0 else ""
        said += "".join(
            f", {name} {getattr(line, name):g}"
            for name in ("exact", "targets")
            if getattr(line, name) > 0
        )
        out.add_row(
            r.model, r.table, str(r.n_rows), str(r.seed), r.left, r.status, f"{r.seconds:.1f}",
            *(number(getattr(r, name), 3) for name in FIGURES[:5]), number(r.wrong, 0),
            *(number(getattr(r, name), 3) for name in FIGURES[6:-1]),
            "" if np.isnan(r.off) else f"{r.off:.0e}", f"{r.peak_mb:.0f}", said,
            verdict(not lacks) if said or lacks else "",
        )  # fmt: skip
    CONSOLE.print(out)
    said, true, n = calibrated(runs)
    if n:
        CONSOLE.print(
            f"expected over true error, summed over {n} runs not proved: {said:.4f} / {true:.4f}"
            + (f" = {said / true:.2f}" if true else "")
        )
    print_refused(runs)
    return misses


def main(args: Sequence[str]) -> None:
    parser = Options("boosted", __doc__, seeds="0-4")
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--table", nargs="+", default=list(floors().table.unique()))
    parser.add_argument("--rows", type=int, nargs="+", help="lines of these numbers of rows")
    parser.add_argument("--time-limit", type=float, help="instead of each line's own")
    parser.add_argument(
        "--left", nargs="+", choices=list(LEFT),
        help="from files of which only these statistics are left; there are no floors",
    )  # fmt: skip
    parser.add_argument("--groups", action="store_true", help="state all one-hot groups of adult")
    given = parser.parse_args(args)
    lines = floors()
    lines = lines[lines.model.isin(given.model) & lines.table.isin(given.table)]
    if given.rows:
        lines = lines[lines.rows.isin(given.rows)]
    lines = present(lines)
    if given.left:
        lines = lines.assign(
            figure=None, share=np.nan, seconds=np.nan, targets=np.nan, exact=np.nan
        )
    if len(lines):
        store = Records("boosted", given.fresh, given.out)
        own = cases(lines, given.seeds, given.time_limit, given.left or (ALL,))
        found = store.collect((replace(case, groups=given.groups) for case in own), run, warm)
        print_missed(floor_table(lines, found))
