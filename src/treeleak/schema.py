"""What a row can be: the attributes, their columns and domains, and rules between columns.

A schema lists *attributes*. An attribute owns one column of the model (binary, ordinal,
numeric, categorical) or several (a one-hot group). Everything else in treeleak sees an
attribute only through this module.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treeleak.errors import BadSchema

__all__ = [
    "AtMost",
    "Attribute",
    "Binary",
    "Categorical",
    "Implies",
    "Linear",
    "Numeric",
    "OneHot",
    "Ordinal",
    "Rule",
    "Schema",
]

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Attribute:
    """One attribute of a row: a name and the columns of the model that hold it."""

    name: str
    kind: ClassVar[str] = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the model that this attribute owns, in order."""
        return (self.name,)

    def to_dict(self) -> dict[str, Any]:
        """Describe the attribute as it stands in a schema file."""
        raise NotImplementedError

    def holds(self, block: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say which rows of ``block`` (rows x own columns) lie in the domain."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Single(Attribute):
    missing: bool = field(default=False, kw_only=True)

    def _domain(self, x: NDArray[np.float64]) -> NDArray[np.bool_]:
        raise NotImplementedError

    def holds(self, block: NDArray[np.float64]) -> NDArray[np.bool_]:
        x = block[:, 0]
        return np.where(np.isnan(x), self.missing, self._domain(x))

    def _extra(self) -> dict[str, Any]:
        return {}

    def to_dict(self) -> dict[str, Any]:
        out = {"kind": self.kind, "name": self.name, **self._extra()}
        return out | ({"missing": True} if self.missing else {})


@dataclass(frozen=True)
class Binary(_Single):
    """A column that holds 0 or 1."""

    kind: ClassVar[str] = "binary"

    def _domain(self, x: NDArray[np.float64]) -> NDArray[np.bool_]:
        return (x == 0) | (x == 1)


@dataclass(frozen=True)
class Ordinal(_Single):
    """A column that holds whole numbers from ``low`` to ``high``, both included."""

    low: int
    high: int
    kind: ClassVar[str] = "ordinal"

    def __post_init__(self) -> None:
        if int(self.low) != self.low or int(self.high) != self.high:
            raise BadSchema(f"ordinal column {self.name!r}: low and high must be whole numbers")
        if self.low > self.high:
            raise BadSchema(f"ordinal column {self.name!r}: low {self.low} > high {self.high}")

    def _domain(self, x: NDArray[np.float64]) -> NDArray[np.bool_]:
        return (x >= self.low) & (x <= self.high) & (x == np.round(x))

    def _extra(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True)
class Numeric(_Single):
    """A column that holds any number from ``low`` to ``high``; either may be infinite."""

    low: float = -math.inf
    high: float = math.inf
    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise BadSchema(f"numeric column {self.name!r}: low {self.low} > high {self.high}")

    def _domain(self, x: NDArray[np.float64]) -> NDArray[np.bool_]:
        return (x >= self.low) & (x <= self.high)

    def _extra(self) -> dict[str, Any]:
        bounds = {"low": self.low, "high": self.high}
        return {k: float(v) for k, v in bounds.items() if math.isfinite(v)}


@dataclass(frozen=True)
class Categorical(_Single):
    """A column that holds one of a few numeric codes."""

    values: tuple[float, ...]
    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        values = tuple(self.values)
        if not values:
            raise BadSchema(f"categorical column {self.name!r}: no values")
        if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in values):
            raise BadSchema(f"categorical column {self.name!r}: values must be finite numbers")
        if len(set(values)) != len(values):
            raise BadSchema(f"categorical column {self.name!r}: a value stands twice")
        object.__setattr__(self, "values", tuple(sorted(values)))

    def _domain(self, x: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.isin(x, np.asarray(self.values, dtype=float))

    def _extra(self) -> dict[str, Any]:
        return {"values": list(self.values)}


@dataclass(frozen=True)
class OneHot(Attribute):
    """A group of 0/1 columns of which exactly one is 1 (or at most one)."""

    members: tuple[str, ...]
    at_most_one: bool = False
    kind: ClassVar[str] = "one-hot"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        if not self.members:
            raise BadSchema(f"one-hot group {self.name!r}: no columns")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.members

    def holds(self, block: NDArray[np.float64]) -> NDArray[np.bool_]:
        binary = np.isin(block, (0.0, 1.0)).all(axis=1)
        total = block.sum(axis=1)
        return binary & ((total == 1) | (self.at_most_one & (total == 0)))

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind, "name": self.name, "columns": list(self.members)}
        return out | ({"at_most_one": True} if self.at_most_one else {})


@dataclass(frozen=True)
class Rule:
    """A statement about several columns that every row meets."""

    kind: ClassVar[str] = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the rule speaks of."""
        raise NotImplementedError

    def holds(self, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
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

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.given, *self.then]))

    def holds(self, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
        premise = np.logical_and.reduce([values[c] == v for c, v in self.given.items()])
        conclusion = np.logical_and.reduce([values[c] == v for c, v in self.then.items()])
        return ~premise | conclusion

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "given": dict(self.given), "then": dict(self.then)}


@dataclass(frozen=True)
class Linear(Rule):
    """``low <= sum of coefficient x column <= high``."""

    coefficients: Mapping[str, float]
    low: float = -math.inf
    high: float = math.inf
    kind: ClassVar[str] = "linear"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.coefficients)

    def holds(self, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
        total = sum(
            (w * values[c] for c, w in self.coefficients.items()), start=np.zeros(1, dtype=float)
        )
        return (total >= self.low - 1e-9) & (total <= self.high + 1e-9)

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"kind": self.kind, "coefficients": dict(self.coefficients)}
        bounds = {"low": self.low, "high": self.high}
        return out | {k: v for k, v in bounds.items() if math.isfinite(v)}


@dataclass(frozen=True)
class AtMost(Rule):
    """At most ``k`` of these 0/1 columns are 1."""

    members: tuple[str, ...]
    k: int = 1
    kind: ClassVar[str] = "at-most"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))

    @property
    def columns(self) -> tuple[str, ...]:
        return self.members

    def holds(self, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
        return np.sum([values[c] for c in self.members], axis=0) <= self.k

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
        If a name or a column stands twice, or a rule names an unknown column.
    """

    attributes: tuple[Attribute, ...]
    rules: tuple[Rule, ...] = ()

    def __init__(self, attributes: Iterable[Attribute], rules: Iterable[Rule] = ()) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        object.__setattr__(self, "rules", tuple(rules))
        seen: dict[str, str] = {}
        names: set[str] = set()
        for attribute in self.attributes:
            if attribute.name in names:
                raise BadSchema(f"two attributes are named {attribute.name!r}")
            names.add(attribute.name)
            for column in attribute.columns:
                if column in seen:
                    raise BadSchema(
                        f"column {column!r} belongs to both {seen[column]!r} and {attribute.name!r}"
                    )
                seen[column] = attribute.name
        for rule in self.rules:
            for column in rule.columns:
                if column not in seen:
                    raise BadSchema(f"a rule of kind {rule.kind!r} names {column!r}: no such column")

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
        group_of: dict[str, tuple[str, ...]] = {}
        for members in one_hot:
            group = tuple(str(m) for m in members)
            for member in group:
                if member not in names:
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

    def valid(self, X: NDArray[Any], feature_names: Sequence[str]) -> NDArray[np.bool_]:
        """Say which rows of ``X`` (rows x columns in ``feature_names`` order) are possible."""
        at = {c: i for i, c in enumerate(feature_names)}
        x = np.asarray(X, dtype=float)
        ok = np.ones(len(x), dtype=bool)
        for attribute in self.attributes:
            ok &= attribute.holds(x[:, [at[c] for c in attribute.columns]])
        for rule in self.rules:
            ok &= rule.holds({c: x[:, at[c]] for c in rule.columns})
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
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
            data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
            return cls.from_dict(data)
        except (OSError, ValueError) as error:
            raise BadSchema(f"{path}: {error}") from error

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
    "categorical": lambda name, values, missing=False: Categorical(
        name, tuple(values), missing=missing
    ),
    "one-hot": lambda name, columns, at_most_one=False: OneHot(name, tuple(columns), at_most_one),
}
_RULES: dict[str, Any] = {
    "implies": lambda given, then: Implies(given, then),
    "linear": lambda coefficients, low=-math.inf, high=math.inf: Linear(coefficients, low, high),
    "at-most": lambda columns, k=1: AtMost(tuple(columns), k),
}


def _entries(data: Mapping[str, Any], table: str) -> list[Mapping[str, Any]]:
    entries = data.get(table, [])
    if not isinstance(entries, list) or not all(isinstance(e, Mapping) for e in entries):
        raise BadSchema(f"{table!r} must be a list of tables")
    return entries


def _build(makers: Mapping[str, Any], entry: Mapping[str, Any], table: str) -> Any:
    rest = dict(entry)
    kind = rest.pop("kind", None)
    if kind not in makers:
        raise BadSchema(f"{table} of unknown kind {kind!r}; known: {', '.join(makers)}")
    try:
        return makers[kind](**rest)
    except TypeError as error:
        raise BadSchema(f"{table} {rest.get('name', kind)!r}: {error}") from error


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
