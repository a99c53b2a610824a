"""Texts for a terminal: whatever a file says, it moves no cursor and fakes no line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rich.markup
import rich.text
from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    Group,
    RenderableType,
    RenderHook,
)
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table

from treeleak.core.text import plain


class Text(rich.text.Text):
    """Text of one line, or of as many as it takes: line ends in it are shown, not obeyed."""

    def __init__(self, text: str = "", *args: Any, **options: Any) -> None:
        super().__init__(plain(text), *args, **options)

    def append(self, text: rich.text.Text | str, style: Any = None) -> rich.text.Text:
        """Add a text; what is no text of Rich is made plain."""
        return super().append(plain(text) if isinstance(text, str) else text, style)


def escape(text: str) -> str:
    """Make a text plain, and let nothing in it count as markup."""
    return rich.markup.escape(plain(text))


class _Plain:
    """Whatever is printed, without a character that acts."""

    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self.inner, options):
            text = segment.text
            # Control segments are Rich's own.
            yield segment if segment.control else Segment(plain(text, None, "\n"), segment.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self.inner)


class _Guard(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Plain(r) for r in renderables]


def guard(console: Console) -> Console:
    """Make all plain that a console prints from now on."""
    console.push_render_hook(_Guard())
    return console


@contextmanager
def safe_console(console: Console) -> Iterator[None]:
    """Make all plain that a console prints in this block."""
    guard(console)
    try:
        yield
    finally:
        console.pop_render_hook()


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
        grid.add_row(*map(escape, line[: len(grid.columns)]))
    return grid
