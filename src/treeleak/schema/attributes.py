"""Attributes: the columns that each owns, and its domain.

An attribute owns one column of the model (binary, ordinal, numeric, categorical) or several
(a one-hot group). Everything else in treeleak sees an attribute only through this module.
"""

# A method that overrides says no more than the one it overrides, whose docstring it shares.
# ruff: noqa: D102

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from msgspec import UNSET, Struct

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.declared import to_builtins, union_members
from treeleak.core.errors import BadSchema
from treeleak.core.private import dataclass
from treeleak.formats import schema as declared

_LARGEST = float(np.finfo(float).max)


def list_of(value: Any, what: str) -> tuple[Any, ...]:
    """Read a list, and no text."""
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise BadSchema(f"{what} must be a list, not {value!r:.80}")
    return tuple(value)


def names_of(value: Any, what: str) -> tuple[str, ...]:
    """Read different names of columns, one at least."""
    if not (names := _different(value, what, "column", "the name of a column")):
        raise BadSchema(f"{what}: no columns")
    return names


def labels_of(value: Any, what: str) -> tuple[str, ...]:
    """Read different labels."""
    return _different(value, what, "label", "a label")


def _different(value: Any, what: str, one: str, text: str) -> tuple[str, ...]:
    texts = list_of(value, f"{what}: {one}s")
    for entry in texts:
        if not isinstance(entry, str):
            raise BadSchema(f"{what}: {text} must be text, not {entry!r:.80}")
    if len(set(texts)) != len(texts):
        raise BadSchema(f"{what}: a {one} appears twice")
    return texts


def flag_of(value: Any, what: str) -> bool:
    """Read a truth value, numpy's included."""
    if not isinstance(value, (bool, np.bool_)):
        raise BadSchema(f"{what} must be true or false")
    return bool(value)


def number_of(value: Any, what: str, finite: bool = True) -> float:
    """Turn any real number, numpy's included, into a plain int or float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadSchema(f"{what} must be a number, not {value!r:.80}")
    plain = int(value) if isinstance(value, Integral) else float(value)
    # An int beyond the floats' range would overflow in the first comparison with an array.
    if (abs(plain) > _LARGEST and (finite or isinstance(plain, int))) or plain != plain:
        raise BadSchema(f"{what} must be a finite number, not {plain!r:.40}")
    return plain


def weights_of(value: Any, what: str) -> dict[str, float]:
    """Read a number for each of some columns."""
    if not isinstance(value, Mapping) or not value:
        raise BadSchema(f"{what} must map columns to numbers, not {value!r:.80}")
    names_of(list(value), what)
    return {name: number_of(v, f"{what}, column {name!r}: the value") for name, v in value.items()}


def set_ends(item: Any, what: str) -> None:
    """Check ``low`` and ``high`` of an attribute or rule, and make them floats."""
    low, high = (
        float(number_of(getattr(item, end), f"{what}: {end}", finite=False))
        for end in ("low", "high")
    )
    if low > high or low == math.inf or high == -math.inf:
        raise BadSchema(f"{what}: no number lies from {low} to {high}")
    settle(item, low=low, high=high)


def settle(item: Any, **fields: Any) -> None:
    """Replace what a frozen object was given by what was read of it."""
    for name, value in fields.items():
        object.__setattr__(item, name, value)


MOST_WHOLE = 2**53
"""From here on floats skip whole numbers."""


@dataclass(frozen=True)
class Attribute:
    """One attribute of a row: a name and the columns of the model that hold it."""

    name: str
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise BadSchema(f"the name of an attribute must be text, not {self.name!r:.80}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the model that this attribute owns, in order."""
        return (self.name,)

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest value that each of its columns can take."""
        return 0.0, 1.0

    def to_dict(self) -> dict[str, Any]:
        """Describe the attribute as it stands in a schema file."""
        return entry_of(self)

    def holds(self, block: FloatArray) -> BoolArray:
        """Say which rows of ``block`` (rows x own columns) lie in the domain."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Single(Attribute):
    missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, missing=flag_of(self.missing, f"column {self.name!r}: missing"))

    def _domain(self, x: FloatArray) -> BoolArray:
        raise NotImplementedError

    def holds(self, block: FloatArray) -> BoolArray:
        x = block[:, 0]
        return self._domain(x) | (np.isnan(x) & self.missing)


@dataclass(frozen=True)
class Binary(_Single):
    """A column that holds 0 or 1."""

    kind: ClassVar[str] = "binary"

    def _domain(self, x: FloatArray) -> BoolArray:
        return np.isin(x, (0.0, 1.0))


@dataclass(frozen=True)
class Ordinal(_Single):
    """A column that holds whole numbers from ``low`` to ``high``, both included."""

    low: int
    high: int
    kind: ClassVar[str] = "ordinal"

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in ("low", "high"):
            value = number_of(getattr(self, side), f"ordinal column {self.name!r}: {side}")
            if value != math.floor(value):
                raise BadSchema(f"ordinal column {self.name!r}: {side} must be a whole number")
            if abs(value) > MOST_WHOLE:
                raise BadSchema(
                    f"ordinal column {self.name!r}: {side} is {value!r:.40}, and floats skip whole "
                    "numbers from 2^53 on: call the column numeric"
                )
            settle(self, **{side: int(value)})
        if self.low > self.high:
            raise BadSchema(f"ordinal column {self.name!r}: low {self.low} > high {self.high}")

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def _domain(self, x: FloatArray) -> BoolArray:
        whole = np.asarray(x == np.round(x), dtype=bool)
        return whole & (x >= self.low) & (x <= self.high)


@dataclass(frozen=True)
class Numeric(_Single):
    """A column that holds any number from ``low`` to ``high``; either may be infinite."""

    low: float = -math.inf
    high: float = math.inf
    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_ends(self, f"numeric column {self.name!r}")

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def _domain(self, x: FloatArray) -> BoolArray:
        return (x >= self.low) & (x <= self.high)


@dataclass(frozen=True)
class Categorical(_Single):
    """A column that holds one of a few values: numeric codes, which may stand for labels.

    ``Categorical("job", labels=("clerk", "nurse"))`` has the codes 0 and 1.
    """

    values: tuple[float, ...] = ()
    labels: tuple[str, ...] | None = None
    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"categorical column {self.name!r}"
        labels = None if self.labels is None else labels_of(self.labels, what)
        codes = self.values or range(len(labels or ()))
        values = tuple(number_of(v, f"{what}: each value") for v in codes)
        if labels is not None and len(labels) != len(values):
            raise BadSchema(f"{what}: {len(labels)} labels for {len(values)} values")
        if not values:
            raise BadSchema(f"{what}: no values")
        if len(set(values)) != len(values):
            raise BadSchema(f"{what}: a value appears twice")
        order = sorted(range(len(values)), key=values.__getitem__)
        settle(
            self,
            values=tuple(values[i] for i in order),
            labels=None if labels is None else tuple(labels[i] for i in order),
        )

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.values[0]), float(self.values[-1])

    def _domain(self, x: FloatArray) -> BoolArray:
        return np.isin(x, np.asarray(self.values, dtype=float))


@dataclass(frozen=True)
class OneHot(Attribute):
    """A group of 0/1 columns: exactly one of them is 1 (or at most one)."""

    members: tuple[str, ...]
    at_most_one: bool = False
    kind: ClassVar[str] = "one-hot"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"one-hot group {self.name!r}"
        settle(self, members=names_of(self.members, what))
        settle(self, at_most_one=flag_of(self.at_most_one, f"{what}: at_most_one"))

    @property
    def columns(self) -> tuple[str, ...]:
        return self.members

    @property
    def bounds(self) -> tuple[float, float]:
        return float(len(self.members) == 1 and not self.at_most_one), 1.0

    def holds(self, block: FloatArray) -> BoolArray:
        binary = np.isin(block, (0.0, 1.0)).all(axis=1)
        ones = (0.0, 1.0) if self.at_most_one else (1.0,)
        return np.asarray(binary & np.isin(block.sum(axis=1), ones), dtype=bool)


@dataclass(frozen=True, eq=False)
class Joint(Attribute):
    """Columns whose values are listed together, row by row: those that are known.

    Made by :mod:`treeleak.side_information.side_information`; never part of a schema file.

    Attributes
    ----------
    owners : tuple of Attribute
        The attribute that each column was taken from; further columns measure nothing.
    members : tuple of str
    values : float array, shape (n_values, n_columns)
    """

    owners: tuple[Attribute, ...]
    members: tuple[str, ...]
    values: FloatArray
    kind: ClassVar[str] = "joint"

    @property
    def columns(self) -> tuple[str, ...]:
        return self.members


_DECLARED: dict[str, type[Struct]] = {
    str(struct.__struct_config__.tag): struct
    for struct in (*union_members(declared.Attribute), *union_members(declared.Rule))
}


def entry_of(item: Any) -> dict[str, Any]:
    """Describe an attribute or a rule, both by its kind; ends that are infinite are left out."""
    kind = _DECLARED[item.kind]
    fields = {name: getattr(item, name) for name in kind.__struct_fields__}
    left_out = (None, -math.inf, math.inf)
    return to_builtins(kind(**{k: UNSET if v in left_out else v for k, v in fields.items()}))
