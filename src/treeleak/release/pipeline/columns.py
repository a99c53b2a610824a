"""Columns on their way through a pipeline's steps: their names, groups and readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import partial
from typing import Any, TypeVar

from treeleak.core.private import dataclass
from treeleak.release.pipeline.inputs import Number, Reading, Unreadable
from treeleak.release.stored import StoredObject

# Characters in all names together: a few bytes of a hostile file can ask for any number.
MAX_TEXT = 1 << 26


class UnknownStep(Exception):
    """A step whose output columns cannot be named; the text says which."""


Readings = list[Reading | Unreadable]
T = TypeVar("T")


@dataclass(frozen=True)
class Columns:
    """Columns on their way through the steps."""

    names: list[str]
    one_hot: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Groups of 0/1 columns of which every training row had exactly one 1."""
    readings: Readings = field(default_factory=list)
    """List of Reading or Unreadable. How each column is read as one of the input; without them,
    these are the input."""

    def __post_init__(self) -> None:
        if not self.readings:
            object.__setattr__(self, "readings", [Number(n) for n in self.names])

    def keep(self, mask: Iterable[Any]) -> Columns:
        """Drop columns; a group that loses a column is none any more."""
        return self.take([i for i, (_, k) in enumerate(zip(self.names, mask, strict=True)) if k])

    def take(self, at: Iterable[int]) -> Columns:
        """Choose columns by number, in any order."""
        at = list(at)
        names = [self.names[i] for i in at]
        left = set(names)
        groups = {g: cols for g, cols in self.one_hot.items() if left.issuperset(cols)}
        return Columns(names, groups, [self.readings[i] for i in at])

    def prefixed(self, rename: Callable[[str], str]) -> Columns:
        """Rename every column."""
        groups = {rename(g): tuple(map(rename, cols)) for g, cols in self.one_hot.items()}
        return Columns([rename(n) for n in self.names], groups, self.readings)


Rule = Callable[[StoredObject, Columns], Columns]


def tried(
    step: StoredObject, reading: Reading | Unreadable, read: Callable[[Reading], T]
) -> T | Unreadable:
    """Read on, if the column can be read so far and the step is understood."""
    if isinstance(reading, Unreadable):
        return reading
    try:
        return read(reading)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return Unreadable(f"{step.name} cannot be undone ({error})")


def undone(
    step: StoredObject, columns: Columns, one: Callable[[int, Reading], Reading | Unreadable]
) -> Readings:
    """Read each column of a step that puts out as many as go in."""
    return [tried(step, r, partial(one, i)) for i, r in enumerate(columns.readings)]


def bounded(text: int) -> int:
    """Refuse names that are too long in all."""
    if text > MAX_TEXT:
        raise UnknownStep(f"the names of the columns take more than {MAX_TEXT} characters")
    return text
