"""What a pickle puts on its stack, and how much of it stands in what was read."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .objects import PLAIN, Stub


class Ledger:
    """All that a pickle puts on its stack, and how much of it stands in what was read.

    Each push of a value, also of one that was remembered, is one reference to it. Each place
    where the result holds the value takes one. What is left was pushed for nothing.
    """

    def __init__(self) -> None:
        self.pushed: list[Any] = []
        self.open: Counter[Any] = Counter()
        self.odd: list[Any] = []
        """What no program that writes pickles writes."""
        self.mapped: bool | None = None
        self._visited: set[int] = set()

    def push(self, value: Any) -> None:
        self.pushed.append(value)
        self.open[key_of(value)] += 1

    def take(self, *values: Any) -> None:
        """Take one reference to each value, and to what stands in it."""
        stack = list(values)
        while stack:
            value = stack.pop()
            self.open[key_of(value)] -= 1
            if id(value) not in self._visited and not is_plain(value):
                self._visited.add(id(value))
                stack += parts_of(value)

    def take_shells(self, *values: Any) -> None:
        """Take one reference to each value alone."""
        for value in values:
            self.open[key_of(value)] -= 1

    def left(self) -> list[Any]:
        """List what is left, containers with what stands in them."""
        out = []
        for outer in (True, False):
            for value in self.pushed:
                if self.open[key_of(value)] > 0 and is_plain(value) is not outer:
                    out.append(value)
                    self.take(value)
        return out + self.odd


def is_plain(value: Any) -> bool:
    """Say whether equal values of the type are the same."""
    empty = type(value) in (tuple, frozenset) and not value
    return empty or type(value) in (*PLAIN, bytes)


def key_of(value: Any) -> Any:
    # Texts tell 1 from 1.0 and True, and 0.0 from -0.0; those of numbers are short.
    text = repr(value) if type(value) in (int, float) else value
    return (type(value), text) if is_plain(value) else id(value)


def parts_of(value: Any) -> list[Any]:
    if isinstance(value, Stub):
        return value.parts()
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else []
