"""Statements about several columns that every row meets."""

# A method that overrides says no more than the one it overrides, whose docstring it shares.
# ruff: noqa: D102

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import BadSchema
from treeleak.core.private import dataclass
from treeleak.schema.attributes import entry_of, names_of, set_ends, settle, weights_of


@dataclass(frozen=True)
class Rule:
    """A statement about several columns that every row meets.

    It says nothing of a row in which one of its columns is missing.
    """

    kind: ClassVar[str] = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the rule speaks of."""
        raise NotImplementedError

    def holds(self, values: Mapping[str, FloatArray]) -> BoolArray:
        """Say for which rows the rule is met; ``values`` maps each column to its values."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Describe the rule as it stands in a schema file."""
        return entry_of(self)


@dataclass(frozen=True)
class Implies(Rule):
    """If every column of ``given`` has its value, every column of ``then`` has its value, too.

    ``Implies({"pregnant": 1}, {"sex_male": 0})``: a pregnant person is not male.
    """

    given: Mapping[str, float]
    then: Mapping[str, float]
    kind: ClassVar[str] = "implies"

    def __post_init__(self) -> None:
        for side in ("given", "then"):
            settle(self, **{side: weights_of(getattr(self, side), f"implies: {side}")})

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.given, *self.then]))

    def holds(self, values: Mapping[str, FloatArray]) -> BoolArray:
        premise = np.logical_and.reduce([values[c] == v for c, v in self.given.items()])
        conclusion = np.logical_and.reduce([values[c] == v for c, v in self.then.items()])
        return np.asarray(~premise | conclusion, dtype=bool)


@dataclass(frozen=True)
class Linear(Rule):
    """``low <= sum of coefficient x column <= high``."""

    coefficients: Mapping[str, float]
    low: float = -math.inf
    high: float = math.inf
    kind: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        settle(self, coefficients=weights_of(self.coefficients, "linear"))
        set_ends(self, f"linear rule over {list(self.coefficients)}")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.coefficients)

    def holds(self, values: Mapping[str, FloatArray]) -> BoolArray:
        total = sum(
            (w * values[c] for c, w in self.coefficients.items()), start=np.zeros(1, dtype=float)
        )
        return (total >= self.low - 1e-9) & (total <= self.high + 1e-9)


@dataclass(frozen=True)
class AtMost(Rule):
    """At most ``k`` of these 0/1 columns are 1."""

    members: tuple[str, ...]
    k: int = 1
    kind: ClassVar[str] = "at-most"

    def __post_init__(self) -> None:
        settle(self, members=names_of(self.members, "at-most rule"))
        if isinstance(self.k, bool) or not isinstance(self.k, Integral) or self.k < 0:
            raise BadSchema(f"at-most rule: k must be a whole number from 0 on, not {self.k!r:.80}")
        settle(self, k=int(self.k))

    @property
    def columns(self) -> tuple[str, ...]:
        return self.members

    def holds(self, values: Mapping[str, FloatArray]) -> BoolArray:
        total = np.sum([values[c] for c in self.members], axis=0)
        return np.asarray(total <= self.k, dtype=bool)
