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
numbers of rows alone. Of those called "subsample" and "tuned", the draws follow from the seed, and
"placed" is what is asked. Floors stand in
``boosted_floors.csv``. XGBoost, LightGBM and CatBoost are needed for their lines, and the shared
tables for all but iris and wine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from experiments.benchmarks.frame import (
    CONSOLE,
    Floor,
    collect,
    flat,
    floors_of,
    options,
    present,
    show_judged,
)
from experiments.boosted_models import ALL, FIGURES, MODELS, Case, calibrated, holds, run, table

_LIMIT = 60.0
"""Seconds of a run without a floor."""


def check(line: Any) -> None:
    """Raise an error if the library or the table is not there."""
    import_module(MODELS[line.model][0])
    table(line.table)


def asked(line: Any) -> Floor:
    """Say what a line asks for; a false proof always misses it."""
    least = {"exact": line.exact, "targets": line.targets}
    if isinstance(line.figure, str):
        least[line.figure] = line.share
    return Floor(
        most={"wrong": 0} | ({"seconds": line.seconds} if line.seconds > 0 else {}),
        least={k: v for k, v in least.items() if v > 0},
    )


def cases(
    lines: Iterable[Any], seeds: Iterable[int], limit: float | None, left: str
) -> Iterator[Case]:  # fmt: skip
    """All runs of some lines; the clock leaves a tenth of the floor's seconds for the rest."""
    for line in lines:
        own = limit or (0.9 * line.seconds if line.seconds > 0 else _LIMIT)
        for seed in seeds if holds(line.model, left) else ():
            yield Case(line.model, line.table, int(line.rows), seed, own, left)


def main(args: Sequence[str]) -> int:
    given = options(
        "boosted", __doc__, args, kept=True, seeds=range(5), model=list(MODELS),
        table=list(floors_of("boosted").table.unique()), rows=[int], left=str, time_limit=float,
    )  # fmt: skip
    lines = floors_of("boosted")
    lines = lines[lines.model.isin(given.model) & lines.table.isin(given.table)]
    if given.rows is not None:
        lines = lines[lines.rows.isin(given.rows)]
    if given.left is not None:
        # There are no floors for files of which something is taken out.
        lines = lines.assign(figure=None, share=0.0, seconds=0.0, targets=0.0, exact=0.0)
    chosen = present(lines.itertuples(index=False), check)
    records = collect(
        "boosted",
        cases(chosen, given.seeds, given.time_limit, given.left or ALL), run,
        lambda c: replace(c, n_rows=60, seed=0, time_limit=10.0), given, apart=True,
    )  # fmt: skip
    runs = flat(records, FIGURES)
    if runs.empty:
        return 0
    runs["wrong"] = runs.wrong.fillna(0)
    columns = ("left", *FIGURES, "peak_mb")
    met = show_judged("boosted models, defaults", runs, chosen, asked, columns, ("model", "table"))
    said, true, n = calibrated(runs)
    if true:
        CONSOLE.print(
            f"expected over true error, summed over {n} runs not proved: {said / true:.2f}"
        )
    return int(not met)
