"""The page that says how treeleak compares with the papers, made from what a store holds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.results_version import say_versions
from experiments.runner import as_frame, runs_of
from experiments.shown import as_markdown
from experiments.store import Run, Store
from experiments.studies.reasons import reason_for, worse_lines
from experiments.study import AGREES, AHEAD, BEHIND, DIFFERS, Study, Table
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file
from treeleak.core.private import dataclass

_VERDICTS = (AGREES, AHEAD, BEHIND, DIFFERS)
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


_SHOWN = 0.5
"""Share of a study's runs of which more must be done for it to be shown: half may be another's."""


@dataclass(frozen=True)
class Standing:
    """How a study stands: runs of its full grid, and what its tables say of them."""

    study: Study
    done: int
    total: int
    tables: tuple[Table, ...]
    versions: tuple[int, ...]
    """Results versions of these runs."""

    @property
    def shown(self) -> bool:
        """Whether enough of it is done."""
        return self.done > _SHOWN * self.total

    def lines(self, verdict: str) -> int:
        """Lines of the tables with a verdict."""
        frames = (t.frame for t in self.tables if "verdict" in t.frame)
        return sum(int((frame["verdict"] == verdict).sum()) for frame in frames)


def standing(study: Study, runs: Sequence[Run]) -> Standing:
    """See how a study stands, from runs of its full grid."""
    total = len(study.whole)
    tables = tuple(study.tables(as_frame(runs))) if runs else ()
    return Standing(study, len(runs), total, tables, tuple(sorted({r.version for r in runs})))


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
        parts.append(f"## {paper}\n")
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
    counts = [f"{n} {v}" for v in _VERDICTS if (n := own.lines(v))]
    links = [f"[{p.name}]({os.path.relpath(p, page.parent)})" for p in files]
    return (
        f"### {own.study.name}\n\n{own.study.what}. {own.done:,} of {own.total:,} runs, "
        f"{say_versions(own.versions)}. {', '.join([*counts, *links])}\n"
    )


def overview(stand: Sequence[Standing]) -> str:
    """Write what a reader should see first."""
    parts = [as_markdown(_papers(stand)), _not_run(stand), _worse(stand)]
    return "\n".join(part for part in parts if part)


def _papers(stand: Sequence[Standing]) -> Table:
    """Count the lines of each paper's tables, by verdict."""
    groups = {paper: [s for s in stand if s.study.paper == paper] for paper in in_order(stand)}
    lines = [_counted(paper, own) for paper, own in groups.items()]
    if len(lines) > 1:
        lines.append(_counted("all", stand))
    return Table("papers", "", pd.DataFrame(lines, dtype=object))


def _counted(name: str, own: Sequence[Standing]) -> dict[str, Any]:
    shown = [s for s in own if s.shown]
    compared = [s for s in shown if any(s.lines(v) for v in _VERDICTS)]
    return {
        "paper": name,
        "studies": len(own),
        **{v: sum(s.lines(v) for s in shown) for v in _VERDICTS},
        "only drawn": len(shown) - len(compared),
        "not run": len(own) - len(shown),
    }


def in_order(stand: Sequence[Standing]) -> list[str]:
    """Name the papers, the oldest first."""
    papers = {s.study.paper for s in stand}
    return sorted(papers, key=lambda paper: (paper.split()[-1], paper))


def _not_run(stand: Sequence[Standing]) -> str:
    names = [f"`{s.study.name}` ({s.done:,} of {s.total:,} runs)" for s in stand if not s.shown]
    return f"Not run: {', '.join(names)}.\n" if names else ""


def _worse(stand: Sequence[Standing]) -> str:
    """Count the lines that are behind or differ, those of one reason together."""
    found: dict[tuple[str, str, str], Counter[str]] = {}
    for own in stand:
        for table in own.tables if own.shown else ():
            for line in worse_lines(table.frame).values():
                key = (own.study.paper, line["verdict"], reason_for(table.name, line))
                found.setdefault(key, Counter())[own.study.name] += 1
    lines = [
        f"- {paper}, {verdict}: "
        + ", ".join(f"[`{study}`](#{study}) ({n})" for study, n in where.items())
        + f". *Why:* {why}\n"
        for (paper, verdict, why), where in found.items()
    ]
    return f"Lines that are {BEHIND} or that differ, and why:\n\n{''.join(lines)}" if lines else ""
