"""Blocks of text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from treeleak.report.safe_console import Text, escape

Cell = str | Text


def part(console: Console, title: str, body: Iterable[RenderableType]) -> None:
    """Print a part under its title."""
    console.print()
    console.print(Text(title, style="bold"))
    console.print(Padding(Group(*body), (0, 0, 0, 2), expand=False))


def bullets(texts: Iterable[str]) -> Iterator[RenderableType]:
    """List sentences."""
    grid = Table.grid(padding=(0, 1))
    for text in texts:
        grid.add_row("-", Text(text))
    yield grid


def figures(rows: Iterable[Sequence[str]]) -> Table:
    """List figures, each beside what it is; what stands third is quiet."""
    lines = list(rows)
    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    if any(len(line) > 2 and line[2] for line in lines):
        grid.add_column(justify="right", style="dim")
    for line in lines:
        grid.add_row(*line[: len(grid.columns)])
    return grid


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    words: int = 1,
    wraps: bool = True,
    widest: int | None = None,
    gap: int = 2,
) -> Table:
    """Make a table of words and, right of them, figures.

    ``words``: columns of words, the first ones.
    ``wraps``: whether words may go on in the next line. ``widest``: letters of the other columns.
    ``gap``: blanks between columns.
    """
    out = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="")
    for k, head in enumerate(heads):
        if k < words:
            out.add_column(head, overflow="fold", no_wrap=not wraps)
        else:
            out.add_column(head, justify="right", max_width=widest)
    for row in rows:
        out.add_row(*(escape(cell) if isinstance(cell, str) else cell for cell in row))
    return out
