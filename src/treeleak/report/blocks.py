"""What a sheet is made of: plain data, which a renderer draws and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from treeleak.core.private import dataclass

Tone = Literal["leak", "open", "calm", "grey", "plain"]
"""leak: a person's data; open: perhaps; calm: nothing shown; grey: not known; plain: neither."""


@dataclass(frozen=True)
class Prose:
    """A paragraph; a quiet one explains, a lead stands out before the text."""

    text: str
    quiet: bool = False
    lead: str = ""


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Figures with what they are; a third entry says more of one."""

    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Grid:
    """A table."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()
    """Columns of figures."""
    tones: tuple[Tone, ...] = ()
    """One per row, shown beside its first cell; empty for none."""
    folded: bool = False
    """Whether it is closed until asked for."""
    code: frozenset[int] = frozenset()
    """Columns with names out of a file."""

    def without_empty(self, nothing: str) -> Grid:
        """The same without columns of figures in which no row says anything."""
        with_values = [
            k
            for k in range(len(self.columns))
            if k not in self.numeric or any(row[k] != nothing for row in self.rows)
        ]
        return replace(
            self,
            columns=tuple(self.columns[k] for k in with_values),
            rows=tuple(tuple(row[k] for k in with_values) for row in self.rows),
            numeric=frozenset(i for i, k in enumerate(with_values) if k in self.numeric),
            code=frozenset(i for i, k in enumerate(with_values) if k in self.code),
        )


@dataclass(frozen=True)
class Share:
    """A part of a whole."""

    label: str
    share: float
    text: str
    tone: Tone


@dataclass(frozen=True)
class Stack:
    """A whole in its parts, side by side."""

    title: str
    of: str
    parts: tuple[Share, ...]


@dataclass(frozen=True)
class Bar:
    """A line of bars: one value per series, each with its spread, from 0 to 1; None for none."""

    label: str
    values: tuple[float | None, ...]
    spread: tuple[float, ...] = ()


@dataclass(frozen=True)
class Bars:
    """Shares side by side."""

    title: str
    of: str
    """What a bar stands for."""
    series: tuple[tuple[str, Tone], ...]
    bars: tuple[Bar, ...]
    digits: int = 0
    """Of the percentages."""
    top: float = 1.0
    """Share at which the axis ends."""
    left_out: int = 0
    """Bars that are in the table only."""


@dataclass(frozen=True)
class Pages:
    """A table that is too long for one page: drawn by the page that shows it."""

    caption: str
    data: dict[str, Any]
    """What the page gets as JSON."""
    rows: int


Chart = Stack | Bars
Block = Prose | Items | Facts | Grid | Stack | Bars | Pages


@dataclass(frozen=True)
class Section:
    """A part of the report."""

    key: str
    title: str
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, key: str, title: str, blocks: Sequence[Block | None]) -> Section:
        """Make a section of the blocks that there are."""
        return cls(key, title, tuple(b for b in blocks if b is not None))


@dataclass(frozen=True)
class Answer:
    """A question that the first screen answers."""

    question: str
    answer: str
    more: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tile:
    """A figure that stands out."""

    figure: str
    label: str
    more: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Sheet:
    """A report before it is drawn."""

    edition: str
    """{"releasable", "internal"}."""
    model: str
    """Name of the model's file, or its origin."""
    origin: str
    verdict: str
    tone: Tone
    headline: str
    answers: tuple[Answer, ...]
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
