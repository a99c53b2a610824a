"""A sheet as text for a terminal of 80 columns, for readers who are no programmers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

from treeleak.auditing import Audit
from treeleak.formats.literals import Edition
from treeleak.reconstruction import Reconstruction
from treeleak.report import facts
from treeleak.report.blocks import Bars, Block, Facts, Grid, Items, Prose, Section, Stack
from treeleak.report.page import figures as figures_of_chart
from treeleak.report.safe_console import Text, bullets, escape, figures, part, safe_console
from treeleak.report.sheet import sections_of

STYLE = {"leak shown": "bold red", "possible leak": "bold yellow", "not assessed": "bold dim"}
_TONES: dict[str, str] = {"leak": "red", "open": "yellow", "calm": "green", "grey": "dim"}
_HEAD, _LAST = ("policy", "provenance"), ("rows", "notes", "open", "advice")
_LEFT_OUT = ("verdict", *_HEAD)
"""Sections that stand in the frame or above the others, or only on the page."""
_TABLED = ("guesses", "columns", "groups")
MOST_ROWS = 8
"""Rebuilt rows that are shown, and lines of a table that the page folds."""
_WIDTH, _WIDEST, _NAME = 70, 10, 18
"""Letters that have room: of a figure, what it is and what is said beside it; of a column of
figures; and of a name in a table of five columns."""


def render(audit: Audit, console: Console, include_rows: bool = False) -> None:
    """Print an audit: the sections of its page.

    ``include_rows``: show what the internal edition has: the first rebuilt rows, single leaves,
    small groups. Without it all that is printed is that of the releasable edition.
    """
    edition: Edition = "internal" if include_rows else "releasable"
    document = audit.document(edition)
    sections = {section.key: section for section in sections_of(document, audit.of)}
    style = STYLE.get(audit.verdict, "bold")
    with safe_console(console):
        console.print(Panel(Text(document["headline"]), title=Text("Verdict"), border_style=style))
        if audit.ruling is not None:
            style = ("bold" if facts.severe(document) else "bold green") * audit.ruling.passed
            body = Group(*_drawn(sections["policy"]))
            console.print(Panel(body, title=Text("Policy"), border_style=style or "bold red"))
        provenance = document["provenance"]
        lines = [provenance["origin"] or "model of unknown origin"]
        if provenance["file"] is not None:
            lines.insert(0, f"{provenance['file']} (sha256 {(provenance['sha256'] or '')[:16]})")
        lines += [f"{what}: {value}" for what, value, _ in facts.of_use(provenance)]
        console.print(Group(*(Text(line, overflow="fold") for line in lines)), style="dim")
        for key in (*(k for k in sections if k not in (*_LEFT_OUT, *_LAST)), *_LAST):
            if key == "rows" and include_rows and audit.reconstruction is not None:
                part(console, "Rebuilt rows", [_rows(audit.reconstruction)])
            elif key in sections:
                part(console, sections[key].title, _drawn(sections[key]))


def _drawn(section: Section) -> Iterator[RenderableType]:
    """Draw the blocks of a section, without charts of what a table beside them has."""
    for k, block in enumerate(section.blocks):
        if isinstance(block, Bars) and section.key in _TABLED:
            continue
        if k and not isinstance(block, (Prose, Facts)):
            yield Text()
        yield from _lines(block)


def _lines(block: Block) -> Iterator[RenderableType]:
    match block:
        case Prose(text, quiet, lead):
            yield Text(f"{lead} {text}".lstrip(), style="dim" if quiet else "")
        case Items(items):
            yield from bullets(items)
        case Facts(rows):
            room = _WIDTH - sum(max(len(row[k]) for row in rows) for k in (0, 1))
            short = ((what, n, more if len(more) <= room else "") for what, n, more in rows)
            yield figures(_indented(short))
        case Stack() | Bars():
            yield Text(block.title, style="bold")
            yield from _lines(figures_of_chart(block))
        case Grid(code=code) if code:
            yield Text(block.caption, style="bold")
            yield from _entries(block)
        case Grid():
            yield table(block)


def _indented(rows: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Put what goes on a line before it under that."""
    for what, *rest in rows:
        yield ("  " * what[:1].islower() + what, *rest)


def _entries(grid: Grid) -> Iterator[RenderableType]:
    """List the rows of a table with names out of a file; of a folded one, what they are."""
    if grid.folded:
        yield Text(", ".join(row[0] for row in grid.rows))
        return
    for row, tone in zip(grid.rows, grid.tones, strict=True):
        names = "; ".join(row[k] for k in sorted(grid.code) if row[k])
        yield Text.assemble((row[0], _TONES.get(tone, "")), f" ({names})" if names else "")
        said = " ".join(row[k] for k in range(1, len(row)) if k not in grid.code)
        yield Padding(Text(said), (0, 0, 0, 2), expand=False)


def table(grid: Grid) -> RenderableType:
    """Draw a table; of a folded one, the first lines."""
    rows = grid.rows[:MOST_ROWS] if grid.folded else grid.rows
    tones = grid.tones or ("plain",) * len(grid.rows)
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    for k, head in enumerate(grid.columns):
        if k in grid.numeric:
            drawn.add_column(escape(head), justify="right", max_width=_WIDEST)
        else:
            least = max((len(row[k]) for row in rows), default=0) if k == 0 else 0
            drawn.add_column(
                escape(head),
                overflow="fold",
                min_width=min(least, _NAME) if len(grid.columns) <= 5 else None,
            )
    for row, tone in zip(rows, tones, strict=False):
        drawn.add_row(Text(row[0], style=_TONES.get(tone, "")), *map(escape, row[1:]))
    left = len(grid.rows) - len(rows)
    more = f"{left:,} more lines are in the report (--report)."
    return Group(drawn, Text(more, style="dim")) if left else drawn


def _number(value: float) -> str:
    return "not known" if value != value else f"{value:.10g}"


def _rows(rebuilt: Reconstruction) -> RenderableType:
    if rebuilt.X is None:
        return Text("none")
    # A row of the data is a column here: there is room for any number of attributes.
    n = min(MOST_ROWS, rebuilt.n_rows)
    lines = Table(box=None, padding=(0, 1, 0, 0))
    lines.add_column("column", overflow="fold", max_width=26)
    for k in range(n):
        lines.add_column(f"#{k + 1}", overflow="fold", justify="right")
    for column in rebuilt.X:
        lines.add_row(escape(str(column)), *(f"{v:g}" for v in rebuilt.X[column].head(n)))
    if (y := rebuilt.outcomes) is not None:
        targets = y.head(n).map(str) if rebuilt.labelled else y.head(n).map(_number)
        lines.add_row(str(y.name), *map(escape, targets), style="bold")
    return Group(lines, Text(f"{n:,} of {rebuilt.n_rows:,} rows", style="dim"))
