"""The page that says how treeleak compares with the papers, made from what a store holds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from experiments.overview import overview, with_reasons
from experiments.results_version import say_versions
from experiments.runner import as_frame
from experiments.shown import as_markdown, write_figures
from experiments.standing import Standing, runs_of, standing
from experiments.store import Store
from experiments.study import AGREES, AHEAD, BEHIND, DIFFERS, Study, Table
from treeleak.core.errors import BadInput
from treeleak.core.output import write_file

_INTRODUCTION = """\
# The papers' experiments

`python -m experiments page` makes this page from stored runs; no figure is typed by hand. It counts
the lines of the tables below. *Ahead* and *BEHIND* compare with the figures that a paper prints;
*agrees* and *DIFFERS* say whether what a paper reports is so here, too. Studies that are *only
drawn* have nothing to compare: their papers print no figures, or there is no paper. treeleak's own
studies, of boosted models and of default forests, come first. Studies *not run* lack half of their
runs or more.
"""
_ALL_STUDIES = """\
## All studies

Each study is one table or figure of a paper, or treeleak's own: `python -m experiments run NAME`
runs what is missing, with `--quick` a part that takes two minutes. A study has its part below once
more than half of its runs are done. Published figures are the means printed in the papers. Runs
that the papers count as unanswered are in no mean of theirs. Runs have a results version, which is
raised when answers change.
"""


def write_page(studies: Iterable[Study], store: Store, page: Path) -> list[Path]:
    """Write the page, and the figures into a folder beside it; say where.

    A study of which not more than half is done is counted, and not shown: others may have made its
    runs for a part of what it draws.

    Raises
    ------
    BadInput
        If there is no study to show.
    """
    folder = page.parent / page.stem
    parts: list[str] = []
    written: list[Path] = []
    stand: list[Standing] = []
    for study in studies:
        runs = runs_of(study, store, quick=False, any_version=True)
        own = standing(study, runs)
        stand.append(own)
        if not own.shown:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        figures = write_figures(study.figures(as_frame(runs)), folder, endings=("svg",))
        written += figures
        parts.append(_section(own, [os.path.relpath(p, page.parent) for p in figures]))
    if not parts:
        raise BadInput(f"{store.path}: holds not more than half of the runs of any study")
    text = "\n".join([_INTRODUCTION, overview(stand), _ALL_STUDIES, _summary(stand), *parts])
    write_file(page, text)
    return [page, *written]


def _summary(stand: Sequence[Standing]) -> str:
    lines = [
        {
            "study": f"[`{s.study.name}`](#{s.study.name})" if s.shown else f"`{s.study.name}`",
            "paper": s.study.paper,
            "what": s.study.what,
            "runs": f"{s.done:,} of {s.total:,}",
            **{v: s.lines(v) if s.shown else None for v in (AHEAD, BEHIND, AGREES, DIFFERS)},
        }
        for s in stand
    ]
    return as_markdown(Table("summary", "", pd.DataFrame(lines, dtype=object)))


def _section(own: Standing, figures: Sequence[str]) -> str:
    out = [f"## {own.study.name}\n", f"{own.study.paper}, {own.study.what}. "]
    out.append(f"{own.done:,} of {own.total:,} runs, {say_versions(own.versions)}.\n")
    out += [f"### {table.title}\n\n{as_markdown(with_reasons(table))}" for table in own.tables]
    told = f"{own.study.paper}, {own.study.what}; tables above have most of its points as numbers"
    out += [f"![{told}]({path})\n" for path in figures]
    return "\n".join(out)
