"""What stands on top of the page: a line for each paper, and all that is worse, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from experiments.shown import as_markdown
from experiments.standing import Standing
from experiments.studies.reasons import reason_for, worse_lines
from experiments.study import AGREES, AHEAD, BEHIND, DIFFERS, OWN, Table

_VERDICTS = (AGREES, AHEAD, BEHIND, DIFFERS)


def overview(stand: Sequence[Standing]) -> str:
    """Write what a reader should see first."""
    parts = [as_markdown(_papers(stand)), _not_run(stand), _worse(stand)]
    return "\n".join(part for part in parts if part)


def _papers(stand: Sequence[Standing]) -> Table:
    """Count the lines of each paper's tables, by verdict."""
    groups = {paper: [s for s in stand if s.study.paper == paper] for paper in in_order(stand)}
    lines = [_counted(headed(paper), own) for paper, own in groups.items()]
    if len(lines) > 1:
        lines.append(_counted("all", stand))
    return Table("papers", "", pd.DataFrame(lines, dtype=object))


def headed(paper: str) -> str:
    """Name a paper, or say that there is none."""
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


def in_order(stand: Sequence[Standing]) -> list[str]:
    """Name the papers, the oldest first; before them what has none."""
    papers = {s.study.paper for s in stand}
    return sorted(papers, key=lambda paper: (paper != OWN, paper.split()[-1], paper))


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
