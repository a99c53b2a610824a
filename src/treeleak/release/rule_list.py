"""Rule lists and rule sets: what was released of them, whatever learnt them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.errors import BadInput, BadModel

__all__ = ["Condition", "DecisionRule", "RuleList"]

Value = float | str


@dataclass(frozen=True)
class Condition:
    """A test of one column.

    Attributes
    ----------
    column : str
    values : tuple of float or str, or None
        Met by these values; texts are labels of a categorical column.
    above, upto : float
        Otherwise met by ``above < value <= upto``.
    negated : bool
        Met where it would not be; also by a missing value, which meets no other condition.
    """

    column: str
    values: tuple[Value, ...] | None = None
    above: float = -math.inf
    upto: float = math.inf
    negated: bool = False

    def holds(self, values: pd.Series[Any]) -> NDArray[np.bool_]:
        """Say which of the values meet the condition."""
        if self.values is not None:
            met = values.isin(list(self.values)).to_numpy(dtype=bool)
        else:
            numbers = values.to_numpy(dtype=float, na_value=np.nan)
            met = (numbers > self.above) & (numbers <= self.upto)
        return ~met if self.negated else met

    def __str__(self) -> str:
        if self.values is not None:
            listed = ", ".join(f"{v:g}" if isinstance(v, (int, float)) else v for v in self.values)
            said = f"{self.column} is {'not ' if self.negated else ''}{listed}"
            return said if len(self.values) == 1 else said.replace(" is ", " is one of ", 1)
        low = f"{self.above:g} < " if math.isfinite(self.above) else ""
        high = f" <= {self.upto:g}" if math.isfinite(self.upto) else ""
        return f"{'not ' if self.negated else ''}{low}{self.column}{high}"


@dataclass(frozen=True)
class DecisionRule:
    """Conditions that a row must all meet, and what is said of the rows that do.

    Attributes
    ----------
    conditions : tuple of Condition
        None for a default.
    prediction : object
    counts : tuple of int, or None
        Training rows of each class that the rule captures.
    """

    conditions: tuple[Condition, ...]
    prediction: Any
    counts: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions)) or "anything"


@dataclass(frozen=True, eq=False)
class RuleList:
    """Rules in order, of which the first that a row meets captures it; or a set of rules.

    Attributes
    ----------
    columns : tuple of str
        The model's columns, in order.
    classes : tuple
        In the order of the counts.
    rules : tuple of DecisionRule
    default : DecisionRule
        Captures what no rule does.
    ordered : bool
        A rule list; otherwise a rule set.
    covered : tuple of int, or None
        Of a rule set whose rules have no counts of their own: training rows of each class that
        meet any of them.
    n_rows : int or None
        Training rows, where the release says so beside the counts.
    origin : str
        The library, its version and the class that made the model.
    notes : tuple of str
    """

    columns: tuple[str, ...]
    classes: tuple[Any, ...]
    rules: tuple[DecisionRule, ...]
    default: DecisionRule
    ordered: bool = True
    covered: tuple[int, ...] | None = None
    n_rows: int | None = None
    origin: str = ""
    notes: tuple[str, ...] = ()

    def apply(self, X: pd.DataFrame) -> NDArray[np.int64]:
        """Number of the rule that captures each row; ``len(rules)`` for the default."""
        at = np.full(len(X), len(self.rules), dtype=np.int64)
        for j in reversed(range(len(self.rules))):
            met = np.ones(len(X), dtype=bool)
            for condition in self.rules[j].conditions:
                met &= condition.holds(X[condition.column])
            at[met] = j
        return at

    def predict(self, X: pd.DataFrame) -> NDArray[Any]:
        """What the rules say of each row."""
        said = [r.prediction for r in (*self.rules, self.default)]
        return np.array(said)[self.apply(X)]

    def counted(self, X: pd.DataFrame, y: Sequence[Any]) -> RuleList:
        """The same rules with the counts of these rows."""
        number = {c: i for i, c in enumerate(self.classes)}
        labels = np.array([number.get(v, -1) for v in y], dtype=np.int64)
        if (labels < 0).any():
            strange = list(y)[int((labels < 0).argmax())]
            raise BadInput(f"label {strange!r} is no class of the rules")
        counts = np.zeros((len(self.rules) + 1, len(self.classes)), dtype=np.int64)
        np.add.at(counts, (self.apply(X), labels), 1)
        *rules, default = (
            replace(rule, counts=tuple(map(int, own)))
            for rule, own in zip((*self.rules, self.default), counts, strict=True)
        )
        return replace(self, rules=tuple(rules), default=default, covered=None, n_rows=len(X))

    def __post_init__(self) -> None:
        if len(set(self.columns)) != len(self.columns):
            raise BadModel("two columns of the rules have one name")
        for j, rule in enumerate(self.rules):
            for condition in rule.conditions:
                if condition.column not in self.columns:
                    raise BadModel(f"rule {j + 1} tests {condition.column!r}: no such column")
