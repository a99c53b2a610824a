"""Trees whose splits follow from the schema and from chance, never from a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from treeleak.core.errors import BadSchema
from treeleak.core.private import dataclass
from treeleak.release.growing import GrowingTree
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.tree import LEAF, Tree
from treeleak.schema import Categorical, Numeric, OneHot, Ordinal, Schema


@dataclass(frozen=True)
class Column:
    """What a column can still hold somewhere in a tree."""

    low: float
    high: float
    """Its ends: numbers, or positions in ``values``."""
    values: tuple[float, ...] = ()
    """The codes of a categorical column, ascending."""
    continuous: bool = False
    """Any number between the ends, else whole numbers only."""
    group: int = -1
    """Number of its one-hot group; -1 if none."""
    at_most_one: bool = False
    """No column of the group need be 1."""
    missing: bool = False
    """Whether it may hold a missing value."""

    @property
    def open(self) -> bool:
        """Whether a test could still part two values."""
        return self.low < self.high

    def split(self, source: Random) -> tuple[float, Column, Column]:
        """Draw a threshold, and say what is left on either side of it."""
        if self.continuous:
            u = source.random()
            at = min(max(self.low * (1 - u) + self.high * u, self.low), self.high)
            return at, replace(self, high=at), replace(self, low=at)
        below = source.randrange(int(self.low), int(self.high))
        ends = (below, below + 1)
        a, b = (self.values[i] for i in ends) if self.values else ends
        middle = a / 2 + b / 2
        # Between two neighbouring floats there is no other.
        at = middle if middle < b else a
        return at, replace(self, high=below), replace(self, low=below + 1)


def columns_of(schema: Schema) -> tuple[Column, ...]:
    """What each column of a schema can hold, in the order of its columns.

    Raises BadSchema if a numeric column has no bounds: a threshold must be drawn between two
    numbers, and to take them from the rows would give rows away.
    """
    columns: list[Column] = []
    for number, attribute in enumerate(schema.attributes):
        low, high = attribute.bounds
        match attribute:
            case OneHot(at_most_one=at_most_one):
                column = Column(low, high, group=number, at_most_one=at_most_one)
                columns += [column] * len(attribute.columns)
            case Categorical(values=values, missing=missing):
                columns.append(Column(0, len(values) - 1, values, missing=missing))
            case Numeric(missing=missing) if not (math.isfinite(low) and math.isfinite(high)):
                raise BadSchema(
                    f"numeric column {attribute.name!r} needs two finite bounds in the "
                    "schema: splits are drawn between them, because they must not come "
                    "from the rows"
                )
            case Numeric(missing=missing):
                columns.append(Column(low, high, continuous=True, missing=missing))
            case Ordinal(low=least, high=greatest, missing=missing):
                columns.append(Column(least, greatest, missing=missing))
            case _:
                missing = getattr(attribute, "missing", False)
                columns.append(Column(low, high, missing=missing))
    return tuple(columns)


def random_tree(columns: Sequence[Column], max_depth: int, n_classes: int, source: Random) -> Tree:
    """Grow a tree to its full depth, or until nothing is left to test, and count nothing.

    Each node draws one of the columns that the tests above it have not settled, all with the same
    probability, and a split of what that column can still hold.

    ``columns``: from :func:`columns_of`. The tree counts 0 everywhere.
    """
    tree = GrowingTree()
    todo = [(0, LEAF, 0, list(columns))]
    while todo:
        depth, parent, side, here = todo.pop()
        candidates = [c for c, column in enumerate(here) if column.open]
        if depth == max_depth or not candidates:
            tree.add(parent=parent, side=side)
            continue
        tested = source.choice(candidates)
        at, low, high = here[tested].split(source)
        missing_left = here[tested].missing and bool(source.getrandbits(1))
        node = tree.add(tested, at, parent, side, missing_left)
        todo.append((depth + 1, node, 1, _propagate(here, tested, high)))
        todo.append((depth + 1, node, 0, _propagate(here, tested, low)))
    return tree.tree(Statistics.counting(ROWS, np.zeros((len(tree), n_classes))))


def _propagate(columns: Sequence[Column], tested: int, narrowed: Column) -> list[Column]:
    """What is left of every column once one is narrowed: a one-hot group has but one 1."""
    out = list(columns)
    out[tested] = narrowed
    if narrowed.group < 0:
        return out
    others = [c for c, x in enumerate(out) if x.group == narrowed.group and c != tested]
    if narrowed.low == 1:
        for c in others:
            out[c] = replace(out[c], low=0, high=0)
    elif not narrowed.at_most_one:
        possible = [c for c in others if out[c].high == 1]
        if len(possible) == 1:
            out[possible[0]] = replace(out[possible[0]], low=1)
    return out
