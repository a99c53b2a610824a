"""A rule of the inventory, what it may ask of a value, and of the model as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from treeleak.auditing.inventory import forms
from treeleak.auditing.inventory.stored_rows import Table
from treeleak.core.private import dataclass
from treeleak.formats.literals import Mark
from treeleak.release.release import Release
from treeleak.release.stored import StoredObject


@dataclass(frozen=True)
class Context:
    """What the rules may ask of the model as a whole."""

    n_rows: int | None = None
    """Training rows, where known."""
    drawn: bool | None = False
    """Whether the trees drew their rows at random; None where nobody knows."""
    missing: bool | None = False
    """Whether the trees saw missing values; None where nobody knows."""
    noise: bool = False
    """Whether the counts, or the classes of the leaves, carry noise."""
    release: Release | None = None
    """What an adversary sees of the model, where it could be read."""
    rows: Any = None
    """The training rows, where they were given."""
    table: Table | None = None
    """The same, made comparable."""
    columns: frozenset[str] = frozenset()
    """Names of columns, as far as a file of R says them."""
    least_count: int | None = None
    """The smallest number of people that the model's folder lets be shown, where it says one."""


def filled(value: Any, _: Context) -> bool:
    """Say whether there is anything."""
    # An array of no dimension has no length, though it has the method.
    sized = hasattr(value, "__len__") and getattr(value, "shape", None) != ()
    return value is not None and (not sized or len(value) > 0)


def plain(value: Any, _: Context) -> bool:
    """Say whether these are whole numbers and texts."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(i, (str, int, np.integer)) for i in items)


def half(value: Any, _: Context) -> bool:
    """Say whether all thresholds are 0.5."""
    cuts = np.asarray(value, dtype=float)
    # scikit-learn writes -2 where a leaf has no threshold, other formats NaN.
    return bool(np.isin(cuts[np.isfinite(cuts)], (0.5, -2.0)).all())


def noisy(value: Any, context: Context) -> bool:
    """Say whether there is a value, of a model whose counts carry noise."""
    return context.noise and value is not None


def of_leaves(value: Any, _: Context) -> bool:
    """Say whether the root, and so every node that is no leaf, is left empty."""
    return isinstance(value, np.ndarray) and len(value) > 1 and not value[0].any()


def plain_values(value: Any, context: Context) -> bool:
    """Say whether the values of nodes carry no noise, and those of inner nodes are there."""
    return not context.noise and not of_leaves(value, context)


def of_random_targets(value: Any, context: Context) -> bool:
    """Say whether these are values of nodes of a forest that has no targets."""
    origin = "" if context.release is None else context.release.origin
    return plain_values(value, context) and origin.endswith(
        ("IsolationForest", "RandomTreesEmbedding")
    )


def one_per_row(value: Any, context: Context) -> bool:
    """Say whether a value has as many parts as there are training rows."""
    n = context.n_rows or 0
    if n < 2:
        return False
    waiting = [value]
    while waiting:  # A file may nest lists as deep as it likes.
        part = waiting.pop()
        if isinstance(part, np.ndarray):
            # Tables of pandas hold their columns as the rows of an array.
            if n in part.shape:
                return True
        elif isinstance(part, (str, bytes)):
            # The first line may name the columns.
            if len(part.strip().splitlines()) in (n, n + 1):
                return True
        elif isinstance(part, (Mapping, list, tuple)):
            if len(part) == n:
                return True
            inside = part.values() if isinstance(part, Mapping) else part
            deeper = (str, bytes, np.ndarray, list, tuple)
            waiting += [v for v in inside if isinstance(part, Mapping) or isinstance(v, deeper)]
    return False


Change = Literal[
    "counts",
    "rule counts",
    "leaves",
    "seeds",
    "noise seeds",
    "rows",
    "values",
    "per_row",
    "event times",
    "categories",
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
    when: Callable[[Any, Context], bool] = field(default=lambda *_: True)
    """Gets the value and the context."""
    change: Change | None = None
    """Key of the advice that helps."""
    rows: bool = False
    """Whether it holds training rows, or their labels, as they are."""
    unknown: bool = False
    """Whether nobody knows what it is."""
    form: forms.Form = field(default=lambda *_: True)
    """Gets the value and the object that holds it, and says whether type and size are those that
    such a value has. If not, the rule does not speak of it. By default whatever it is: it is called
    a leak already, or its file's reader has checked it."""
    describe: Callable[[Any, StoredObject], str] = field(default=lambda *_: "")
    """Gets them as well, and says in numbers what a stranger reads there; perhaps nothing."""
    of_columns: Callable[[Context], str] = field(default=lambda _: "")
    """Says once for a whole file what its parts of this kind tell of the columns."""
    in_order: bool = False
    """Whether it holds a value for each row, in their order, that is none of the table itself."""
    texts: bool = False
    """Whether somebody may have chosen the texts there: numbers in them are counted."""

    def names_it(self, owner: str, name: str) -> bool:
        """Say whether the rule speaks of an attribute of this name, in objects of this class."""
        return fits(self.names, name) and fits(self.owner, owner)


@lru_cache(1 << 14)
def fits(patterns: str, name: str) -> bool:
    """Say whether a name fits one of several patterns, which blanks separate."""
    return any(fnmatchcase(name, p) for p in patterns.split())
