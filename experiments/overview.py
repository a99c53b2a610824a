"""What stands on top of the page: a line for each paper, and all that is worse, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from experiments.shown import as_markdown, said
from experiments.standing import Standing
from experiments.studies.reasons import reason_for, worse_lines
from experiments.study import AGREES, AHEAD, BEHIND, DIFFERS, OWN, Table

_VERDICTS = (AGREES, AHEAD, BEHIND, DIFFERS)


def overview(stand: Sequence[Standing]) -> str:
    """Write what a reader should see first."""
    parts = [as_markdown(_papers(stand)), _not_run(stand), _worse(stand)]
    return "\n".join(part for part in parts if part)


def with_reasons(table: Table) -> Table:
    """Number the verdicts of lines that are worse, and say the reasons below the table."""
    worse = worse_lines(table.frame)
    if not worse:
        return table
    reasons = [reason_for(table.name, line) for line in worse.values()]
    numbers = {why: k for k, why in enumerate(dict.fromkeys(reasons), 1)}
    verdicts = table.frame["verdict"].tolist()
    for place, why in zip(worse, reasons, strict=True):
        verdicts[place] += f" ({numbers[why]})"
    frame = table.frame.assign(verdict=verdicts)
    below = "\n".join(f"- ({k}) {why}" for why, k in numbers.items())
    note = f"Why lines are {BEHIND}, or differ:\n\n{below}"
    return replace(table, frame=frame, note="\n\n".join(filter(None, [note, table.note])))


def _papers(stand: Sequence[Standing]) -> Table:
    """Count the lines of each paper's tables, by verdict."""
    groups = {paper: [s for s in stand if s.study.paper == paper] for paper in _in_order(stand)}
    lines = [_counted(_headed(paper), own) for paper, own in groups.items()]
    if len(lines) > 1:
        lines.append(_counted("all", stand))
    return Table("papers", "", pd.DataFrame(lines, dtype=object))


def _headed(paper: str) -> str:
    return f"{OWN}, no paper" if paper == OWN else paper


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


def _in_order(stand: Sequence[Standing]) -> list[str]:
    """Name the papers, the oldest first; before them what has none."""
    papers = {s.study.paper for s in stand}
    return sorted(papers, key=lambda paper: (paper != OWN, paper.split()[-1], paper))


def _not_run(stand: Sequence[Standing]) -> str:
    names = [f"`{s.study.name}` ({s.done:,} of {s.total:,} runs)" for s in stand if not s.shown]
    return f"Not run: {', '.join(names)}.\n" if names else ""


def _worse(stand: Sequence[Standing]) -> str:
    """All lines that are behind or differ, those of one reason together."""
    found: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for own in stand:
        for table, line in _worse_of(own) if own.shown else ():
            key = (own.study.paper, line["verdict"], reason_for(table.name, line))
            found.setdefault(key, {}).setdefault(own.study.name, []).append(_named(line))
    lines = [
        f"- {paper}, {verdict}: "
        + "; ".join(f"[`{study}`](#{study}): {', '.join(names)}" for study, names in where.items())
        + f". *Why:* {why}\n"
        for (paper, verdict, why), where in found.items()
    ]
    return (
        f"All lines that are {BEHIND} or that differ, and why:\n\n{''.join(lines)}" if lines else ""
    )


def _worse_of(own: Standing) -> Iterator[tuple[Table, Mapping[Any, Any]]]:
    for table in own.tables:
        for line in worse_lines(table.frame).values():
            yield table, line


def _named(line: Mapping[Any, Any]) -> str:
    """Name a line by what stands before its figures."""
    names = []
    for column, value in line.items():
        if column == "verdict" or str(column).startswith(("published", "treeleak", "cells")):
            break
        text = isinstance(value, str)
        names.append(said(value) if text else f"{column} {said(value)}")
    return f"({', '.join(names)})" if len(names) > 1 else "".join(names)
