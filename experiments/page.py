"""The page that says how treeleak compares with the papers, made from what a store holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from experiments.overview import headed, in_order, overview
from experiments.results_version import say_versions
from experiments.standing import Standing, runs_of, standing
from experiments.store import Store
from experiments.studies.reasons import reason_for, worse_lines
from experiments.study import AGREES, AHEAD, BEHIND, DIFFERS, Study, Table
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file

_INTRODUCTION = """\
# The papers' experiments

`python -m experiments page` makes this page from stored runs. It counts lines of tables, which
are CSV files beside it. *Ahead* and *BEHIND* compare with the figures that a paper prints (means;
its unanswered runs are in none); *agrees* and *DIFFERS* say whether what a paper reports is so
here, too. Studies that are *only drawn* have nothing to compare. Studies *not run* lack half of
their runs or more. `python -m experiments run NAME` runs what is missing. In the tables, the
column *why* has the reason of a line that is behind or differs; [tables.csv]({folder}/tables.csv)
has the title of each table, and what a reader should know of it.
"""


def write_page(studies: Iterable[Study], store: Store, page: Path) -> list[Path]:
    """Write the page, and its tables into a folder beside it; say where.

    A study of which not more than half is done is counted, and not shown: others may have made its
    runs for a part of what it draws.

    Raises
    ------
    BadInput
        If there is no study to show.
    """
    folder = page.parent / page.stem
    stand: list[Standing] = []
    files: dict[str, list[Path]] = {}
    for study in studies:
        runs = runs_of(study, store, quick=False, any_version=True)
        own = standing(study, runs)
        stand.append(own)
        if not own.shown:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        files[study.name] = [_write_table(table, folder) for table in own.tables]
    if not files:
        raise BadInput(f"{store.path}: holds not more than half of the runs of any study")
    index = folder / "tables.csv"
    every = [(t.name, t.title, t.note) for s in stand if s.shown for t in s.tables]
    write_file(index, pd.DataFrame(every, columns=["table", "title", "note"]).to_csv(index=False))
    parts = [_INTRODUCTION.format(folder=page.stem), overview(stand)]
    for paper in in_order(stand):
        parts.append(f"## {headed(paper)}\n")
        parts += [_section(s, page, files[s.study.name]) for s in stand
                  if s.shown and s.study.paper == paper]  # fmt: skip
    write_file(page, "\n".join(parts))
    return [page, index, *(path for own in files.values() for path in own)]


def _write_table(table: Table, folder: Path) -> Path:
    """Write a table as CSV, with the reasons of lines that are worse."""
    path, frame = folder / f"{table.name}.csv", table.frame
    if worse := worse_lines(frame):
        why = {place: reason_for(table.name, line) for place, line in worse.items()}
        frame = frame.assign(why=[why.get(place, "") for place in range(len(frame))])
    write_file(path, frame.to_csv(index=False, float_format="%.4g"))
    return path


def _section(own: Standing, page: Path, files: Sequence[Path]) -> str:
    counts = [f"{n} {v}" for v in (AGREES, AHEAD, BEHIND, DIFFERS) if (n := own.lines(v))]
    links = [f"[{p.name}]({os.path.relpath(p, page.parent)})" for p in files]
    return (
        f"### {own.study.name}\n\n{own.study.what}. {own.done:,} of {own.total:,} runs, "
        f"{say_versions(own.versions)}. {', '.join([*counts, *links])}\n"
    )
