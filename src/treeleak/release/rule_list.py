"""Rule lists and rule sets: what was released of them, whatever learnt them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.declared import EXACT_WHOLE
from treeleak.core.errors import BadInput, BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import (
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_CONDITIONS,
    MOST_ROWS,
    MOST_RULES,
    at_most,
)
from treeleak.release.release import class_numbers

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

    Raises
    ------
    BadModel
        If it tests nothing, or no value whatever could meet it.
    """

    column: str
    values: tuple[Value, ...] | None = None
    above: float = -math.inf
    upto: float = math.inf
    negated: bool = False

    def __post_init__(self) -> None:
        what = f"the condition on {self.column!r}"
        bounded = (self.above, self.upto) != (-math.inf, math.inf)
        if (self.values is not None) == bounded:
            raise BadModel(f"{what} must have either values or bounds, one of them finite")
        if self.values is not None:
            if not self.values:
                raise BadModel(f"{what} lists no values")
            for value in self.values:
                if isinstance(value, str):
                    continue
                _check_held(value, what)
                if not math.isfinite(value):
                    raise BadModel(f"{what} names {value!r}, which is not a finite number")
            return
        for end in (self.above, self.upto):
            _check_held(end, what)
        if not self.above < self.upto:
            raise BadModel(f"{what}: no number lies above {self.above:g} and up to {self.upto:g}")

    def holds(self, values: pd.Series[Any]) -> BoolArray:
        """Say which of the values meet the condition."""
        if self.values is not None:
            met = values.isin(list(self.values)).to_numpy(dtype=bool)
        else:
            try:
                numbers = values.to_numpy(dtype=float, na_value=np.nan)
            except (TypeError, ValueError, OverflowError) as error:
                raise BadInput(
                    f"column {self.column!r} holds something else than numbers"
                ) from error
            met = (numbers > self.above) & (numbers <= self.upto)
        return ~met if self.negated else met

    def __str__(self) -> str:
        if self.values is not None:
            listed = ", ".join(f"{v:g}" if isinstance(v, (int, float)) else v for v in self.values)
            text = f"{self.column} is {'not ' if self.negated else ''}{listed}"
            return text if len(self.values) == 1 else text.replace(" is ", " is one of ", 1)
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

    Raises
    ------
    BadModel
        If a name appears twice, a rule tests a column or predicts a class that there is not, its
        conditions contradict each other, or the counts do not fit the classes, each other or
        :attr:`n_rows`.
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

    @property
    def counts(self) -> tuple[tuple[int, ...], ...] | None:
        """Training rows of each class: of every rule, or of all that are covered; of the default.

        None where nothing is counted.
        """
        rule_counts = (
            [rule.counts for rule in self.rules] if self.covered is None else [self.covered]
        )
        known = tuple(
            counts for counts in (*rule_counts, self.default.counts) if counts is not None
        )
        return known or None

    def apply(self, X: pd.DataFrame) -> IntArray:
        """Number of the rule that captures each row; ``len(rules)`` for the default."""
        at = np.full(len(X), len(self.rules), dtype=np.int64)
        for j in reversed(range(len(self.rules))):
            met = np.ones(len(X), dtype=bool)
            for condition in self.rules[j].conditions:
                if condition.column not in X:
                    raise BadInput(f"the rows lack column {condition.column!r} of the rules")
                met &= condition.holds(X[condition.column])
            at[met] = j
        return at

    def predict(self, X: pd.DataFrame) -> NDArray[Any]:
        """What the rules say of each row."""
        predictions = [r.prediction for r in (*self.rules, self.default)]
        return np.array(predictions)[self.apply(X)]

    def counted(self, X: pd.DataFrame, y: Sequence[Any], at: IntArray | None = None) -> RuleList:
        """The same rules with the counts of these rows; ``at`` is what :meth:`apply` would say."""
        if len(X) != len(y):
            raise BadInput(f"{len(X)} rows with {len(y)} labels")
        labels = class_numbers(self.classes, y)
        if (labels < 0).any():
            strange = list(y)[int((labels < 0).argmax())]
            raise BadInput(f"label {strange!r} is not a class of the rules")
        counts = np.zeros((len(self.rules) + 1, len(self.classes)), dtype=np.int64)
        np.add.at(counts, (self.apply(X) if at is None else at, labels), 1)
        *rules, default = (
            replace(rule, counts=tuple(map(int, new_counts)))
            for rule, new_counts in zip((*self.rules, self.default), counts, strict=True)
        )
        return replace(self, rules=tuple(rules), default=default, covered=None, n_rows=len(X))

    def __post_init__(self) -> None:
        at_most(MOST_COLUMNS, len(self.columns), "columns")
        at_most(MOST_CLASSES, len(self.classes), "classes")
        at_most(MOST_RULES, len(self.rules), "rules")
        at_most(MOST_CONDITIONS, sum(len(r.conditions) for r in self.rules), "conditions")
        if len(set(self.columns)) != len(self.columns):
            raise BadModel("two columns of the rules have one name")
        if len(set(self.classes)) != len(self.classes):
            raise BadModel("two classes of the rules have one label")
        if self.default.conditions:
            raise BadModel("the default has conditions")
        columns, classes = set(self.columns), set(self.classes)
        for j, rule in enumerate((*self.rules, self.default)):
            where = f"rule {j + 1}" if j < len(self.rules) else "default"
            if rule.prediction not in classes:
                raise BadModel(f"{where} predicts {rule.prediction!r:.40}: no such class")
            for condition in rule.conditions:
                if condition.column not in columns:
                    raise BadModel(f"{where} tests {condition.column!r}: no such column")
            if (column := _contradicted(rule.conditions)) is not None:
                raise BadModel(
                    f"{where} contradicts itself: no value of {column!r} meets all its conditions"
                )
            self._check_counts(rule.counts, where)
        self._check_sums()

    def _check_counts(self, counts: tuple[int, ...] | None, where: str) -> None:
        if counts is None:
            return
        if len(counts) != len(self.classes):
            raise BadModel(f"{where} counts {len(counts)} classes, there are {len(self.classes)}")
        for count in counts:
            if int(count) != count or not 0 <= count <= MOST_ROWS:
                raise BadModel(
                    f"{where} counts {count!r:.40}, not a whole number of up to {MOST_ROWS:g} rows"
                )

    def _check_sums(self) -> None:
        rule_counts = [rule.counts for rule in self.rules]
        if self.covered is not None:
            if self.ordered:
                raise BadModel(
                    "covered is for a rule set; the rules of a list have their own counts"
                )
            if any(counts is not None for counts in rule_counts):
                raise BadModel(
                    "covered is for rules without counts of their own, and some have them"
                )
            self._check_counts(self.covered, "covered")
            rule_counts = [self.covered]
        known = [counts for counts in (*rule_counts, self.default.counts) if counts is not None]
        if len(known) not in (0, len(rule_counts) + 1):
            raise BadModel("some rules have counts and some have none (the default is a rule too)")
        total = sum(map(sum, known))
        if known and self.n_rows not in (None, total):
            raise BadModel(
                f"supports that do not add up: the rules capture {total} rows, "
                f"n_rows is {self.n_rows}"
            )


def _check_held(number: float, what: str) -> None:
    """Refuse a whole number that no value of a column, which is a float, can be held against."""
    if isinstance(number, int) and abs(number) > EXACT_WHOLE:
        raise BadModel(f"{what} names {number!r:.40}, and floats skip whole numbers from 2^53 on")


def _contradicted(conditions: Iterable[Condition]) -> str | None:
    """Find a column of which no value can meet all of its conditions, whatever its domain.

    Where all of them are negated, a missing value does.
    """
    of_column: dict[str, list[Condition]] = {}
    for condition in conditions:
        of_column.setdefault(condition.column, []).append(condition)
    # One condition alone is met by something, or it would not have been made.
    for column, tests in ((c, several) for c, several in of_column.items() if len(several) > 1):
        listed = [set(c.values) for c in tests if c.values is not None and not c.negated]
        between = [c for c in tests if c.values is None]
        positive = [c for c in between if not c.negated]
        low = max((c.above for c in positive), default=-math.inf)
        high = min((c.upto for c in positive), default=math.inf)
        barred = [c for c in between if c.negated]
        if listed:
            values = set.intersection(*listed)
            values.difference_update(*(c.values for c in tests if c.values and c.negated))
            numbers = [v for v in values if not isinstance(v, str)]
            if len(numbers) < len(values) and not positive:
                continue
        elif positive:
            # What is left are intervals, closed on the right: each ends here or before what is out.
            numbers = [high, *(c.above for c in barred)]
        else:
            continue
        if not _any_between(numbers, low, high, barred):
            return column
    return None


def _any_between(
    numbers: Sequence[float], low: float, high: float, barred: Sequence[Condition]
) -> bool:
    """Say whether a number lies above ``low``, up to ``high`` and in no interval barred."""
    x = np.array(numbers, dtype=float)
    x = x[(x > low) & (x <= high)]
    ends = sorted((c.above, c.upto) for c in barred)
    above = np.array([-math.inf, *(a for a, _ in ends)])
    reach = np.maximum.accumulate([-math.inf, *(b for _, b in ends)])
    return bool((x > reach[np.maximum(np.searchsorted(above, x) - 1, 0)]).any())
