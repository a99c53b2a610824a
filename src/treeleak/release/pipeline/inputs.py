"""The columns that went into a pipeline, and how the model's own columns are read as these."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from treeleak.core.arrays import IntArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import MessageTemplate
from treeleak.core.private import dataclass
from treeleak.schema import Attribute, Categorical, Numeric, OneHot

LOST = MessageTemplate("columns_lost", "lost before the model saw them: {columns:all_quoted}")
IMPUTED = MessageTemplate(
    "values_filled_in",
    "missing values were filled in before the model saw them, and look like any others: "
    "{columns:all_quoted}",
)

MISSING = math.nan
"""Stands for a missing value among texts: one object, so that equal lists compare as equal."""
_LARGEST = 1e150
"""Stands for infinity: its product with any value of a model's column is still a float."""
_ROUNDING = 1e-9
"""How far, by its range, a transformed value may miss what its transformer says of its ends."""


@dataclass(frozen=True)
class Unreadable:
    """A column that is not read as any column of the input, and why."""

    why: str


@dataclass(frozen=True)
class Reading:
    """How one column of the model is read as a column of the input."""

    source: str
    """The column of the input."""
    factor: float = 1.0
    offset: float = 0.0
    """A value ``x`` of the model's column stands for ``factor * x + offset``."""
    imputed: bool = field(default=False, kw_only=True)
    """Whether a missing value was replaced, and nothing says where."""
    rounded: bool = field(default=False, kw_only=True)
    """Whether it was scaled, be it to and fro: its values may miss what they stand for by a
    hair."""
    fills: tuple[Any, ...] | None = field(default=(), kw_only=True, compare=False)
    """The value of the input that stands for a missing one, if any does; None if it differs from
    row to row."""
    one_way: bool = field(default=False, kw_only=True, compare=False)
    """Whether a value of the input may have been replaced that is not missing."""

    def plain(self, x: Any) -> Any:
        """Undo all scaling."""
        return self.factor * x + self.offset

    def scaled(self, factor: float, offset: float) -> Self | Unreadable:
        """Read a column of which ``factor * x + offset`` is what this one reads."""
        both = self.factor * factor, self.factor * offset + self.offset
        if not (1 / _LARGEST < abs(both[0]) < _LARGEST and abs(both[1]) < _LARGEST):
            return Unreadable(f"it was scaled by {factor:g} and {offset:g}, which cannot be undone")
        rounded = self.rounded or (factor, offset) != (1, 0)
        return replace(self, factor=both[0], offset=both[1], rounded=rounded)

    @property
    def unscaled(self) -> bool:
        """Whether nothing was scaled."""
        return self.factor == 1 and self.offset == 0 and not self.rounded


@dataclass(frozen=True)
class Number(Reading):
    """A number; ``low`` and ``high``, in the input's unit, bound those of the training rows."""

    low: float = field(default=-math.inf, kw_only=True)
    high: float = field(default=math.inf, kw_only=True)


@dataclass(frozen=True)
class Code(Reading):
    """A code that stands for a value."""

    codes: tuple[float, ...] = field(kw_only=True)
    """Ascending."""
    values: tuple[Any, ...] = field(kw_only=True)
    """What each code stands for."""
    ends: tuple[tuple[float, float], ...] | None = field(default=None, kw_only=True)
    """Where codes stand for bins: from where to where each goes."""
    closed: bool = field(default=True, kw_only=True)
    """Whether every training row has one of the codes, or a missing value. Else a number that is
    near none of them stands for nothing."""


@dataclass(frozen=True)
class Indicator(Reading):
    """Whether the input has one of several values."""

    values: tuple[Any, ...] = field(kw_only=True)
    """All of them."""
    at: int = field(kw_only=True)
    """Number of this one."""
    closed: bool = field(default=True, kw_only=True)
    """Whether every training row has one of the values."""


@dataclass(frozen=True)
class Missing(Reading):
    """Whether the input was missing, which ``value`` stood for."""

    value: Any = field(default=MISSING, kw_only=True)


@dataclass(frozen=True)
class Inputs:
    """The columns of the input, and how each column of the model is read as one of them."""

    names: tuple[str, ...]
    """The columns of the input, in order."""
    readings: Mapping[str, Reading]
    """By column of the model."""
    why_not: str = ""
    """Why rows cannot be written in the columns of the input; empty if they can."""
    live: Any = field(default=None, repr=False, compare=False)
    """The pipeline itself, where it is not only stored."""

    @classmethod
    def of(
        cls, names: Sequence[str], columns: Sequence[str], readings: Sequence[Reading | Unreadable]
    ) -> Inputs:
        """Put together what is known of each column of the model."""
        found = dict(zip(columns, readings, strict=True))
        bad = [f"{c!r}: {r.why}" for c, r in found.items() if isinstance(r, Unreadable)]
        why = f"column {bad[0]}" if bad else ""
        if len(set(names)) < len(names):
            why = "two columns of the input have one name"
        readable = {c: r for c, r in found.items() if not isinstance(r, Unreadable)}
        return cls(tuple(names), readable, why)

    def check(self) -> None:
        """Raise NotCovered if rows cannot be written in the columns of the input."""
        if self.why_not:
            raise NotCovered(f"rows cannot be written in the columns of the input: {self.why_not}")

    @cached_property
    def read_from(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of the model that each column of the input is read from.

        A column that nothing is left of is not among them; where several forms of one are left, a
        number comes before codes, and these before a group.
        """
        by_source: dict[str, list[tuple[str, Reading]]] = {name: [] for name in self.names}
        for column, reading in self.readings.items():
            by_source[reading.source].append((column, reading))
        found: dict[str, tuple[str, ...]] = {}
        for name, pairs in by_source.items():
            forms = [
                (c, r) for kind in (Number, Code, Indicator) for c, r in pairs if type(r) is kind
            ]
            if forms:
                gaps = [c for c, r in pairs if isinstance(r, Missing)]
                found[name] = (*_group(*forms[0], forms), *gaps)
        return found

    @property
    def lost(self) -> tuple[str, ...]:
        """Columns of the input of which the model has nothing."""
        return tuple(name for name in self.names if name not in self.read_from)

    def table(self, X: pd.DataFrame) -> pd.DataFrame:
        """Write rows in the columns of the input.

        ``X``: rows in the model's columns. Columns that are lost are left out. What a row of no 1,
        or of several, stands for in a group that does not say so is missing; so is what an unknown
        code stands for.
        """
        return self._each(X, lambda columns: self._column(X, columns))

    def least(self, X: pd.DataFrame) -> pd.DataFrame:
        """Of each column of the input, the least of the columns that it is read from.

        For what is said of values: a value is as sure as the least sure part of it, and given only
        if all parts are.
        """
        return self._each(X, lambda columns: X[list(columns)].min(axis=1))

    def bounds(self, lower: pd.DataFrame, upper: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Between which numbers each value lies, in the units of the input.

        Parameters
        ----------
        lower, upper : DataFrame
            The same in the model's columns.

        Returns
        -------
        lower, upper : DataFrame
            NaN in columns that hold no numbers.
        """
        ends = {
            name: self._ends(columns[0], lower[columns[0]], upper[columns[0]])
            for name, columns in self.read_from.items()
        }
        low, high = (
            pd.DataFrame({name: pair[side] for name, pair in ends.items()}, index=lower.index)
            for side in (0, 1)
        )
        return low, high

    def holding(self, columns: Collection[str]) -> tuple[str, ...]:
        """Columns of the input that are read from these columns of the model and no others."""
        return tuple(
            name
            for name, columns_read in self.read_from.items()
            if set(columns_read) <= set(columns)
        )

    def notes(self) -> tuple[str, ...]:
        """Say what the reader of rows in the columns of the input should know."""
        messages: list[str] = []
        if self.lost:
            messages.append(LOST(columns=self.lost))
        imputed = [
            n
            for n, columns_read in self.read_from.items()
            if self.readings[columns_read[0]].imputed
        ]
        if imputed:
            messages.append(IMPUTED(columns=imputed))
        return tuple(messages)

    def attributes(self) -> list[Attribute]:
        """List what the transformers say of the model's columns: groups, codes and bounds."""
        found: list[Attribute] = []
        encoded: dict[int, list[tuple[str, Indicator]]] = {}
        for column, reading in self.readings.items():
            if isinstance(reading, Indicator) and reading.unscaled:
                encoded.setdefault(id(reading.values), []).append((column, reading))
            elif isinstance(reading, Code) and reading.unscaled and reading.closed:
                labels = tuple(map(_text, reading.values))
                distinct_labels = labels if len(set(labels)) == len(labels) else None
                found.append(Categorical(column, reading.codes, distinct_labels))
            elif isinstance(reading, Number) and math.isfinite(reading.low - reading.high):
                ends = reading.low, reading.high
                low, high = sorted((end - reading.offset) / reading.factor for end in ends)
                slack = _ROUNDING * max(high - low, abs(low), abs(high))
                if math.isfinite(slack):
                    found.append(Numeric(column, low - slack, high + slack))
        for members in encoded.values():
            columns, first = _group(*members[0], members), members[0][1]
            whole = len(columns) == len(first.values) and all(r.closed for _, r in members)
            if whole or len(columns) > 1:
                found.append(OneHot(first.source, columns, at_most_one=not whole))
        return found

    def _each(
        self, X: pd.DataFrame, column: Callable[[tuple[str, ...]], pd.Series[Any]]
    ) -> pd.DataFrame:
        written = {name: column(columns_read) for name, columns_read in self.read_from.items()}
        return pd.DataFrame(written, index=X.index)

    def _column(self, X: pd.DataFrame, columns: tuple[str, ...]) -> pd.Series[Any]:
        readings = {c: self.readings[c] for c in columns}
        first = readings[columns[0]]
        if isinstance(first, Indicator):
            group = {c: r for c, r in readings.items() if isinstance(r, Indicator)}
            written = _listed(first.values, _marked(group, X))
        elif isinstance(first, Code):
            written = _listed(first.values, _position(first, X[columns[0]]))
        else:
            written = X[columns[0]] if first.unscaled else first.plain(X[columns[0]])
        written = written.set_axis(X.index)
        for column, reading in readings.items():
            if isinstance(reading, Missing) and (absent := reading.plain(X[column]) > 0.5).any():
                written = written.astype(object).where(~absent, reading.value).infer_objects()
        return written

    def _ends(
        self, column: str, lower: pd.Series[float], upper: pd.Series[float]
    ) -> tuple[pd.Series[float], pd.Series[float]]:
        reading = self.readings[column]
        if isinstance(reading, Number):
            ends = reading.plain(lower), reading.plain(upper)
            return ends if reading.factor > 0 else ends[::-1]
        low = high = np.full(len(lower), np.nan)
        if isinstance(reading, Code) and reading.ends is not None:
            sides = np.sort([reading.plain(lower), reading.plain(upper)], axis=0)
            first = np.searchsorted(reading.codes, sides[0])
            last = np.searchsorted(reading.codes, sides[1], side="right") - 1
            known = (first <= last) & ~np.isnan(sides[0])
            table = np.array(reading.ends)
            low = np.where(known, table[first.clip(max=len(table) - 1), 0], np.nan)
            high = np.where(known, table[last.clip(min=0), 1], np.nan)
        return pd.Series(low, index=lower.index), pd.Series(high, index=lower.index)


def _group(column: str, first: Reading, others: Iterable[tuple[str, Reading]]) -> tuple[str, ...]:
    """The columns that are read together with the first one."""
    if not isinstance(first, Indicator):
        return (column,)
    found: dict[int, str] = {}
    for name, reading in others:
        # The columns that an encoder made of one column share its list of values.
        if isinstance(reading, Indicator) and reading.values is first.values:
            found.setdefault(reading.at, name)
    return tuple(found.values())


def _marked(group: Mapping[str, Indicator], X: pd.DataFrame) -> IntArray:
    """Number of the value that each row has; -1 where that is not said."""
    ones = np.column_stack([r.plain(X[c]) > 0.5 for c, r in group.items()])
    held = np.array([r.at for r in group.values()])
    n_values = len(next(iter(group.values())).values)
    others = np.setdiff1d(np.arange(n_values), held)
    # A category without a column is what is left where there is no 1.
    none = others[0] if len(others) == 1 else -1
    at = np.where(ones.any(axis=1), held[ones.argmax(axis=1)], none)
    return np.where(ones.sum(axis=1) > 1, -1, at)


def _position(reading: Code, x: pd.Series[Any]) -> IntArray:
    """Number of the code that each value stands for; -1 for one that is none of them."""
    codes = np.array(reading.codes)
    plain = reading.plain(x.to_numpy(dtype=float))
    above = np.searchsorted(codes, plain).clip(max=len(codes) - 1)
    below = (above - 1).clip(min=0)
    # What was scaled or filled in may lie beside its code.
    at = np.where(plain - codes[below] < codes[above] - plain, below, above)
    known = ~np.isnan(plain) & (reading.closed | (np.abs(codes[at] - plain) <= 0.5))
    return np.where(known, at, -1)


def _listed(values: Sequence[Any], at: IntArray) -> pd.Series[Any]:
    # Number -1 is that of the missing value, which comes last.
    return pd.Series([*values, MISSING], dtype=object).iloc[at].infer_objects()


def _text(value: Any) -> str:
    return "missing" if value is MISSING else str(value)
