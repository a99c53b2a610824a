"""A rule of the inventory: what some attributes are, and whether they give rows away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

from treeleak.auditing.inventory import conditions, forms, numbers
from treeleak.core.private import dataclass
from treeleak.formats.literals import Mark
from treeleak.release.stored import StoredObject

Change = Literal[
    "counts", "rule counts", "leaves", "seeds", "noise seeds", "rows", "values", "per_row"
]


@dataclass(frozen=True, eq=False)
class Rule:
    """What some attributes are, and whether they give rows away; no two rules are the same."""

    names: str
    """Patterns of attributes, separated by blanks."""
    mark: Mark
    what: str
    why: str
    """In plain words."""
    owner: str = "*"
    """Patterns of the class that holds the attribute."""
    when: Callable[[Any, conditions.Context], bool] = field(default=lambda *_: True)
    """Gets the value and the context."""
    change: Change | None = None
    """Key of the advice that helps."""
    rows: bool = False
    """Whether it holds training rows as they are."""
    unknown: bool = False
    """Whether nobody knows what it is."""
    form: forms.Form = forms.anything
    """Gets the value and the object that holds it, and says whether type and size are those that
    such a value has. If not, the rule does not speak of it."""
    describe: Callable[[Any, StoredObject], str] = numbers.nothing
    """Gets them as well, and says in numbers what a stranger reads there; perhaps nothing."""
    of_columns: Callable[[conditions.Context], str] = numbers.nothing_more
    """Says once for a whole file what its parts of this kind tell of the columns."""

    def names_it(self, owner: str, name: str) -> bool:
        """Say whether the rule speaks of an attribute of this name, in objects of this class."""
        return fits(self.names, name) and fits(self.owner, owner)


@lru_cache(1 << 14)
def fits(patterns: str, name: str) -> bool:
    """Say whether a name fits one of several patterns, which blanks separate."""
    return any(fnmatchcase(name, p) for p in patterns.split())
