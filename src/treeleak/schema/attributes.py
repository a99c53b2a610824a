"""What a row can be: the attributes, their columns and domains, and rules between columns.

A schema lists *attributes*. An attribute owns one column of the model (binary, ordinal,
numeric, categorical) or several (a one-hot group). Everything else in treeleak sees an
attribute only through this module.
"""

# A method that overrides says no more than the one it overrides, whose docstring it shares.
# ruff: noqa: D102

from __future__ import annotations

import inspect
import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.errors import BadSchema, cause
from treeleak.core.plain import plain
from treeleak.core.private import dataclass
from treeleak.core.text_files import read_text

__all__ = [
    "AtMost",
    "Attribute",
    "Binary",
    "Categorical",
    "Implies",
    "Joint",
    "Linear",
    "Numeric",
    "OneHot",
    "Ordinal",
    "Rule",
    "Schema",
]

SCHEMA_VERSION = 1
MOST_BYTES = 2**22
"""Of a schema file: 4 MiB describe 50,000 columns, and TOML is read at 1 MB in a second."""
MOST_WHOLE = 2**53
"""From here on floats skip whole numbers."""
_LARGEST = float(np.finfo(float).max)


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
        raise NotImplementedError

    def holds(self, block: FloatArray) -> BoolArray:
        """Say which rows of ``block`` (rows x own columns) lie in the domain."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Single(Attribute):
    missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.missing, (bool, np.bool_)):
            raise BadSchema(f"column {self.name!r}: missing must be true or false")
        object.__setattr__(self, "missing", bool(self.missing))

    def _domain(self, x: FloatArray) -> BoolArray:
        raise NotImplementedError

    def holds(self, block: FloatArray) -> BoolArray:
        x = block[:, 0]
        return self._domain(x) | (np.isnan(x) & self.missing)

    def _extra(self) -> dict[str, Any]:
        return {}

    def to_dict(self) -> dict[str, Any]:
        out = {"kind": self.kind, "name": self.name, **self._extra()}
        return out | ({"missing": True} if self.missing else {})


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
            value = _number(getattr(self, side), f"ordinal column {self.name!r}: {side}")
            if value != math.floor(value):
                raise BadSchema(f"ordinal column {self.name!r}: {side} must be a whole number")
            if abs(value) > MOST_WHOLE:
                raise BadSchema(
                    f"ordinal column {self.name!r}: {side} is {value!r:.40}, and floats skip whole "
                    "numbers from 2^53 on: call the column numeric"
                )
            object.__setattr__(self, side, int(value))
        if self.low > self.high:
            raise BadSchema(f"ordinal column {self.name!r}: low {self.low} > high {self.high}")

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def _domain(self, x: FloatArray) -> BoolArray:
        whole = np.asarray(x == np.round(x), dtype=bool)
        return whole & (x >= self.low) & (x <= self.high)

    def _extra(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True)
class Numeric(_Single):
    """A column that holds any number from ``low`` to ``high``; either may be infinite."""

    low: float = -math.inf
    high: float = math.inf
    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        super().__post_init__()
        _set_interval(self, f"numeric column {self.name!r}")

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def _domain(self, x: FloatArray) -> BoolArray:
        return (x >= self.low) & (x <= self.high)

    def _extra(self) -> dict[str, Any]:
        return _finite_bounds(self)


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
        if self.labels is not None:
            object.__setattr__(self, "labels", _labels(self.labels, what))
        codes = self.values or range(len(self.labels or ()))
        values = tuple(_number(v, f"{what}: each value") for v in codes)
        if self.labels is not None and len(self.labels) != len(values):
            raise BadSchema(f"{what}: {len(self.labels)} labels for {len(values)} values")
        if not values:
            raise BadSchema(f"{what}: no values")
        if len(set(values)) != len(values):
            raise BadSchema(f"{what}: a value stands twice")
        order = sorted(range(len(values)), key=values.__getitem__)
        object.__setattr__(self, "values", tuple(values[i] for i in order))
        if self.labels is not None:
            object.__setattr__(self, "labels", tuple(self.labels[i] for i in order))

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.values[0]), float(self.values[-1])

    def _domain(self, x: FloatArray) -> BoolArray:
        return np.isin(x, np.asarray(self.values, dtype=float))

    def _extra(self) -> dict[str, Any]:
        labels = {} if self.labels is None else {"labels": list(self.labels)}
        return {"values": list(self.values)} | labels


@dataclass(frozen=True)
class OneHot(Attribute):
    """A group of 0/1 columns of which exactly one is 1 (or at most one)."""

    members: tuple[str, ...]
    at_most_one: bool = False
    kind: ClassVar[str] = "one-hot"

    def __post_init__(self) -> None:
        super().__post_init__()
        what = f"one-hot group {self.name!r}"
        object.__setattr__(self, "members", _names(self.members, what))
        if not isinstance(self.at_most_one, (bool, np.bool_)):
            raise BadSchema(f"{what}: at_most_one must be true or false")
        object.__setattr__(self, "at_most_one", bool(self.at_most_one))

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

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind, "name": self.name, "columns": list(self.members)}
        return out | ({"at_most_one": True} if self.at_most_one else {})


@dataclass(frozen=True, eq=False)
class Joint(Attribute):
    """Columns whose values are listed together, row by row: those that are known.

    Made by :mod:`treeleak.side_information.given`; never part of a schema file.

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
        raise NotImplementedError


@dataclass(frozen=True)
class Implies(Rule):
    """Where every column of ``given`` has its value, every column of ``then`` has its own.

    ``Implies({"pregnant": 1}, {"sex_male": 0})``: a pregnant person is not male.
    """

    given: Mapping[str, float]
    then: Mapping[str, float]
    kind: ClassVar[str] = "implies"

    def __post_init__(self) -> None:
        for side in ("given", "then"):
            object.__setattr__(self, side, _weights(getattr(self, side), f"implies: {side}"))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.given, *self.then]))

    def holds(self, values: Mapping[str, FloatArray]) -> BoolArray:
        premise = np.logical_and.reduce([values[c] == v for c, v in self.given.items()])
        conclusion = np.logical_and.reduce([values[c] == v for c, v in self.then.items()])
        return np.asarray(~premise | conclusion, dtype=bool)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "given": dict(self.given), "then": dict(self.then)}


@dataclass(frozen=True)
class Linear(Rule):
    """``low <= sum of coefficient x column <= high``."""

    coefficients: Mapping[str, float]
    low: float = -math.inf
    high: float = math.inf
    kind: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", _weights(self.coefficients, "linear"))
        _set_interval(self, f"linear rule over {list(self.coefficients)}")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.coefficients)

    def holds(self, values: Mapping[str, FloatArray]) -> BoolArray:
        total = sum(
            (w * values[c] for c, w in self.coefficients.items()), start=np.zeros(1, dtype=float)
        )
        return (total >= self.low - 1e-9) & (total <= self.high + 1e-9)

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind, "coefficients": dict(self.coefficients)}
        return out | _finite_bounds(self)


@dataclass(frozen=True)
class AtMost(Rule):
    """At most ``k`` of these 0/1 columns are 1."""

    members: tuple[str, ...]
    k: int = 1
    kind: ClassVar[str] = "at-most"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", _names(self.members, "at-most rule"))
        if isinstance(self.k, bool) or not isinstance(self.k, Integral) or self.k < 0:
            raise BadSchema(f"at-most rule: k must be a whole number from 0 on, not {self.k!r:.80}")
        object.__setattr__(self, "k", int(self.k))

    @property
    def columns(self) -> tuple[str, ...]:
        return self.members

    def holds(self, values: Mapping[str, FloatArray]) -> BoolArray:
        total = np.sum([values[c] for c in self.members], axis=0)
        return np.asarray(total <= self.k, dtype=bool)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "columns": list(self.members), "k": self.k}


@dataclass(frozen=True)
class Schema:
    """The attributes of a row, in the model's column order, and the rules between them.

    Parameters
    ----------
    attributes : sequence of Attribute
        No column may belong to two attributes.
    rules : sequence of Rule, optional
        Each speaks only of columns that some attribute owns.

    Raises
    ------
    BadSchema
        If a name or a column stands twice, or a rule names an unknown column or counts the
        ones of a column that is not 0/1.
    """

    attributes: tuple[Attribute, ...]
    rules: tuple[Rule, ...] = ()

    def __init__(self, attributes: Iterable[Attribute], rules: Iterable[Rule] = ()) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        object.__setattr__(self, "rules", tuple(rules))
        seen: dict[str, str] = {}
        names: set[str] = set()
        zero_one: set[str] = set()
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                raise BadSchema(f"a {type(attribute).__name__} is no attribute")
            if attribute.name in names:
                raise BadSchema(f"two attributes are named {attribute.name!r}")
            names.add(attribute.name)
            for column in attribute.columns:
                if column in seen:
                    raise BadSchema(
                        f"column {column!r} belongs to both {seen[column]!r} and {attribute.name!r}"
                    )
                seen[column] = attribute.name
            if isinstance(attribute, (Binary, OneHot)):
                zero_one.update(attribute.columns)
        for rule in self.rules:
            for column in rule.columns:
                if column not in seen:
                    raise BadSchema(f"{rule.kind!r} rule names {column!r}: no such column")
                if isinstance(rule, AtMost) and column not in zero_one:
                    raise BadSchema(f"{rule.kind!r} rule names {column!r}: no 0/1 column")

    @classmethod
    def from_columns(
        cls,
        columns: Iterable[str],
        one_hot: Iterable[Sequence[str]] = (),
        rules: Iterable[Rule] = (),
    ) -> Schema:
        """Make a schema of one-hot groups and, for every other column, binaries.

        Parameters
        ----------
        columns : iterable of str
            The model's columns, in order.
        one_hot : iterable of sequences of str
            Each a group of columns of which exactly one is 1.
        rules : iterable of Rule
            Rules between columns.
        """
        names = [str(c) for c in columns]
        known = set(names)
        group_of: dict[str, tuple[str, ...]] = {}
        for members in one_hot:
            # A text is a sequence too: a list of names where a list of groups was due.
            group = _names([str(m) for m in _list(members, "one-hot group")], "one-hot group")
            for member in group:
                if member not in known:
                    raise BadSchema(f"one-hot group {list(group)} names {member!r}: no such column")
                if member in group_of:
                    raise BadSchema(f"column {member!r} belongs to two one-hot groups")
                group_of[member] = group
        attributes: list[Attribute] = []
        done: set[tuple[str, ...]] = set()
        for name in names:
            members_of = group_of.get(name)
            if members_of is None:
                attributes.append(Binary(name))
            elif members_of not in done:
                done.add(members_of)
                attributes.append(OneHot(" | ".join(members_of), members_of))
        return cls(attributes, rules)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column, grouped by attribute."""
        return tuple(c for a in self.attributes for c in a.columns)

    def for_model(self, feature_names: Sequence[str]) -> Schema:
        """Check the schema against a model's columns, and return it.

        Raises
        ------
        BadSchema
            If a column of the schema is not in the model, or the other way round.
        """
        model, own = set(feature_names), set(self.columns)
        if unknown := [c for c in self.columns if c not in model]:
            raise BadSchema(f"the schema names columns that the model lacks: {unknown[:5]}")
        if absent := [c for c in feature_names if c not in own]:
            raise BadSchema(f"the model has columns that the schema lacks: {absent[:5]}")
        return self

    def valid(self, X: NDArray[Any], feature_names: Sequence[str]) -> BoolArray:
        """Say which rows of ``X`` (rows x columns in ``feature_names`` order) are possible."""
        at = {c: i for i, c in enumerate(feature_names)}
        x = np.asarray(X, dtype=float)
        ok = np.ones(len(x), dtype=bool)
        for attribute in self.attributes:
            ok &= attribute.holds(x[:, [at[c] for c in attribute.columns]])
        for rule in self.rules:
            silent = np.isnan(x[:, [at[c] for c in rule.columns]]).any(axis=1)
            ok &= silent | rule.holds({c: x[:, at[c]] for c in rule.columns})
        return ok

    def to_dict(self) -> dict[str, Any]:
        """Describe the schema as it stands in a schema file (see docs/schema-file.md)."""
        out: dict[str, Any] = {
            "version": SCHEMA_VERSION,
            "attribute": [a.to_dict() for a in self.attributes],
        }
        return out | ({"rule": [r.to_dict() for r in self.rules]} if self.rules else {})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Read what :meth:`to_dict` wrote.

        Raises
        ------
        BadSchema
            Naming the entry that cannot be read.
        """
        if not isinstance(data, Mapping) or data.get("version") != SCHEMA_VERSION:
            raise BadSchema(f"not a schema of version {SCHEMA_VERSION}")
        # A misspelt table would otherwise drop a whole list of attributes or rules in silence.
        if unknown := set(data) - {"version", "attribute", "rule"}:
            raise BadSchema(f"unknown keys {sorted(map(str, unknown))}")
        return cls(
            [_build(_ATTRIBUTES, e, "attribute") for e in _entries(data, "attribute")],
            [_build(_RULES, e, "rule") for e in _entries(data, "rule")],
        )

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema file, TOML or JSON by its ending.

        Raises
        ------
        BadSchema
            Naming the file and what is wrong with it.
        """
        text = read_text(path, MOST_BYTES, BadSchema)
        try:
            is_json = Path(path).suffix.lower() == ".json"
            return cls.from_dict(json.loads(text) if is_json else tomllib.loads(text))
        except (ValueError, RecursionError) as error:
            raise BadSchema(f"{path}: {cause(error)}") from error

    def to_toml(self) -> str:
        """Write the schema as TOML."""
        lines = [f"version = {SCHEMA_VERSION}"]
        described = self.to_dict()
        for table in ("attribute", "rule"):
            for entry in described.get(table, ()):
                lines += ["", f"[[{table}]]"]
                lines += [f"{key} = {_toml(value)}" for key, value in entry.items()]
        return "\n".join(lines) + "\n"


_ATTRIBUTES: dict[str, Any] = {
    "binary": lambda name, missing=False: Binary(name, missing=missing),
    "ordinal": lambda name, low, high, missing=False: Ordinal(name, low, high, missing=missing),
    "numeric": lambda name, low=-math.inf, high=math.inf, missing=False: Numeric(
        name, low, high, missing=missing
    ),
    "categorical": lambda name, values=(), labels=None, missing=False: Categorical(
        name, _list(values, f"categorical column {name!r}: values"), labels, missing=missing
    ),
    "one-hot": lambda name, columns, at_most_one=False: OneHot(name, columns, at_most_one),
}
_RULES: dict[str, Any] = {
    "implies": lambda given, then: Implies(given, then),
    "linear": lambda coefficients, low=-math.inf, high=math.inf: Linear(coefficients, low, high),
    "at-most": lambda columns, k=1: AtMost(columns, k),
}


def _entries(data: Mapping[str, Any], table: str) -> list[Mapping[str, Any]]:
    entries = data.get(table, [])
    if not isinstance(entries, list) or not all(isinstance(e, Mapping) for e in entries):
        raise BadSchema(f"{table!r} must be a list of tables")
    return entries


def _build(makers: Mapping[str, Any], entry: Mapping[str, Any], table: str) -> Any:
    rest = dict(entry)
    kind = rest.pop("kind", None)
    if not isinstance(kind, str) or kind not in makers:
        raise BadSchema(f"{table} of unknown kind {kind!r}; known: {', '.join(makers)}")
    try:
        inspect.signature(makers[kind]).bind(**rest)
    except TypeError as error:
        raise BadSchema(f"{table} {rest.get('name', kind)!r}: {error}") from error
    return makers[kind](**rest)


def _list(value: Any, what: str) -> tuple[Any, ...]:
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise BadSchema(f"{what} must be a list, not {value!r:.80}")
    return tuple(value)


def _names(value: Any, what: str) -> tuple[str, ...]:
    names = _list(value, f"{what}: columns")
    if not names:
        raise BadSchema(f"{what}: no columns")
    for name in names:
        if not isinstance(name, str):
            raise BadSchema(f"{what}: the name of a column must be text, not {name!r:.80}")
    if len(set(names)) != len(names):
        raise BadSchema(f"{what}: a column stands twice")
    return names


def _labels(value: Any, what: str) -> tuple[str, ...]:
    labels = _list(value, f"{what}: labels")
    for label in labels:
        if not isinstance(label, str):
            raise BadSchema(f"{what}: a label must be text, not {label!r:.80}")
    if len(set(labels)) != len(labels):
        raise BadSchema(f"{what}: a label stands twice")
    return labels


def _number(value: Any, what: str, finite: bool = True) -> float:
    """Turn any real number, numpy's included, into a plain int or float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadSchema(f"{what} must be a number, not {value!r:.80}")
    plain = int(value) if isinstance(value, Integral) else float(value)
    # An int beyond the floats' range would overflow in the first comparison with an array.
    if (abs(plain) > _LARGEST and (finite or isinstance(plain, int))) or plain != plain:
        raise BadSchema(f"{what} must be a finite number, not {plain!r:.40}")
    return plain


def _weights(value: Any, what: str) -> dict[str, float]:
    if not isinstance(value, Mapping) or not value:
        raise BadSchema(f"{what} must map columns to numbers, not {value!r:.80}")
    _names(list(value), what)
    return {name: _number(v, f"{what}, column {name!r}: the value") for name, v in value.items()}


def _set_interval(item: Numeric | Linear, what: str) -> None:
    low = float(_number(item.low, f"{what}: low", finite=False))
    high = float(_number(item.high, f"{what}: high", finite=False))
    if low > high or low == math.inf or high == -math.inf:
        raise BadSchema(f"{what}: no number lies from {low} to {high}")
    object.__setattr__(item, "low", low)
    object.__setattr__(item, "high", high)


def _finite_bounds(item: Numeric | Linear) -> dict[str, float]:
    bounds = {"low": item.low, "high": item.high}
    return {side: value for side, value in bounds.items() if math.isfinite(value)}


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, str):
        # TOML reads back what cannot be seen from its number.
        return plain(json.dumps(value, ensure_ascii=False), most=None)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
