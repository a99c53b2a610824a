"""How a kind of stored objects is walked through, where it is not by attributes of classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from treeleak.auditing.inventory.conditions import Context, Rule
from treeleak.core.private import dataclass
from treeleak.release.stored import StoredObject

Named = tuple[str | None, Any]
"""A part of a container with its name, or None where it has none."""


@dataclass(frozen=True, eq=False)
class Walk:
    """What the inventory asks of objects of a kind, and of what stands in them."""

    owns: Callable[[Any], bool]
    """Whether a value is an object of this kind."""
    context: Callable[[StoredObject, Context], Context]
    """Adds what an object says of the number of rows and of the names of columns."""
    rule: Callable[[StoredObject, str, Any, Context], Rule | None]
    """Finds the rule of a value as a whole; None if it must be taken apart."""
    inside: Callable[[Any], Iterable[Named]]
    """Lists the parts of a container."""
    beside: Callable[[Any], Sequence[Named]]
    """Lists what stands beside what a rule knows as a whole."""
    alone: tuple[Rule, ...]
    """Rules that know a value with all that is beside it."""
    is_odd: Callable[[Any], bool]
    """Whether names in a container are none that programs give."""
    most: int
    """Containers that are looked at."""
