"""The attributes of a row and the rules between them, together; and the files that say them."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray
from treeleak.core.declared import Place, in_words, set_fields
from treeleak.core.declared import read as document
from treeleak.core.errors import BadSchema, cause
from treeleak.core.output import read_text
from treeleak.core.private import dataclass
from treeleak.core.text import did_you_mean, plain
from treeleak.formats import schema as declared
from treeleak.schema.attributes import (
    Attribute,
    Binary,
    Categorical,
    Numeric,
    OneHot,
    Ordinal,
    list_of,
    names_of,
    settle,
)
from treeleak.schema.rules import AtMost, Implies, Linear, Rule

T = TypeVar("T")

_VERSION = 1
MOST_BYTES = 2**22
"""Of a schema file: 4 MiB describe 50,000 columns, and TOML is read at 1 MB in a second."""
_ATTRIBUTES: dict[str, Any] = {
    attribute.kind: attribute for attribute in (Binary, Ordinal, Numeric, Categorical, OneHot)
}
_RULES: dict[str, Any] = {rule.kind: rule for rule in (Implies, Linear, AtMost)}


def described(attributes: Iterable[Attribute], rules: Iterable[Rule]) -> dict[str, Any]:
    """Describe a schema in plain lists, texts and numbers."""
    out: dict[str, Any] = {"version": _VERSION, "attribute": [a.to_dict() for a in attributes]}
    rule_entries = [rule.to_dict() for rule in rules]
    return out | ({"rule": rule_entries} if rule_entries else {})


def made(data: Any) -> tuple[list[Attribute], list[Rule]]:
    """Make the attributes and rules of what :func:`described` wrote.

    Raises BadSchema, naming the entry that cannot be read.
    """
    if not isinstance(data, Mapping) or "version" not in data:
        raise BadSchema(f"not a schema: it lacks `version = {_VERSION}`")
    if data["version"] != _VERSION:
        raise BadSchema(f"not a schema of version {_VERSION}")

    def in_place(place: Place) -> str:
        """Call an attribute or a rule by its name."""
        match place:
            case str(table), int(i), *more:
                entry = data[table][i]
                item = entry.get("name", entry.get("kind")) if isinstance(entry, Mapping) else i
                return ": ".join(filter(None, (f"{table} {item!r:.80}", in_words(more))))
        return in_words(place)

    found = document(declared.Schema, data, BadSchema, in_place)
    return (
        [_ATTRIBUTES[_kind(item)](**set_fields(item)) for item in found.attribute],
        [_RULES[_kind(item)](**set_fields(item)) for item in found.rule],
    )


def _kind(entry: Struct) -> str:
    return str(entry.__struct_config__.tag)


def read(path: str | Path, make: Callable[[Any], T]) -> T:
    """Read a schema file, TOML or JSON by its ending, and make something of it.

    Raises BadSchema, naming the file and what is wrong with it.
    """
    text = read_text(path, MOST_BYTES, BadSchema)
    try:
        is_json = Path(path).suffix.lower() == ".json"
        return make(json.loads(text) if is_json else tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise BadSchema(f"{path}: {cause(error)}") from error


def to_toml(described: Mapping[str, Any]) -> str:
    """Write what :func:`described` said as TOML."""
    lines = [f"version = {_VERSION}"]
    for table in ("attribute", "rule"):
        for entry in described.get(table, ()):
            lines += ["", f"[[{table}]]"]
            lines += [f"{key} = {_toml(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


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


@dataclass(frozen=True)
class Schema:
    """The attributes of a row, in the model's column order, and the rules between them.

    Parameters
    ----------
    attributes : sequence of Attribute
        No column may belong to two attributes.
    rules : sequence of Rule, optional
        Each names only columns that some attribute owns.

    Raises
    ------
    BadSchema
        If a name or a column appears twice, or a rule names an unknown column or counts the
        ones of a column that is not 0/1.
    """

    attributes: tuple[Attribute, ...]
    rules: tuple[Rule, ...] = ()

    def __init__(self, attributes: Iterable[Attribute], rules: Iterable[Rule] = ()) -> None:
        settle(self, attributes=tuple(attributes), rules=tuple(rules))
        seen: dict[str, Attribute] = {}
        names: set[str] = set()
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                raise BadSchema(f"a {type(attribute).__name__} is not an attribute")
            if attribute.name in names:
                raise BadSchema(f"two attributes are named {attribute.name!r}")
            names.add(attribute.name)
            for column in attribute.columns:
                if column in seen:
                    raise BadSchema(
                        f"column {column!r} belongs to both {seen[column].name!r} and "
                        f"{attribute.name!r}"
                    )
                seen[column] = attribute
        for rule in self.rules:
            for column in rule.columns:
                if column not in seen:
                    raise BadSchema(f"{rule.kind!r} rule names {column!r}: no such column")
                if isinstance(rule, AtMost) and not isinstance(seen[column], (Binary, OneHot)):
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
            group = names_of([str(m) for m in list_of(members, "one-hot group")], "one-hot group")
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

    def within(self, predicate: Callable[[Attribute], bool]) -> Schema:
        """Keep some attributes, and the rules that name columns of theirs alone."""
        attributes = [a for a in self.attributes if predicate(a)]
        remaining = {c for a in attributes for c in a.columns}
        return Schema(attributes, (r for r in self.rules if remaining.issuperset(r.columns)))

    def for_model(self, feature_names: Sequence[str]) -> Schema:
        """Check the schema against a model's columns, and return it.

        Raises
        ------
        BadSchema
            If a column of the schema is not in the model, or the other way round.
        """
        model, columns = set(feature_names), set(self.columns)
        if unknown := [c for c in self.columns if c not in model]:
            hint = did_you_mean(unknown[0], [c for c in feature_names if c not in columns])
            raise BadSchema(f"the schema names columns that the model lacks: {unknown[:5]}{hint}")
        if absent := [c for c in feature_names if c not in columns]:
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
        return described(self.attributes, self.rules)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Read what :meth:`to_dict` wrote.

        Raises
        ------
        BadSchema
            Naming the entry that cannot be read.
        """
        return cls(*made(data))

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema file, TOML or JSON by its ending.

        Raises
        ------
        BadSchema
            Naming the file and what is wrong with it.
        """
        return read(path, cls.from_dict)

    @classmethod
    def from_argument(cls, schema: Schema | str | os.PathLike[str] | None) -> Schema | None:
        """Read a schema where its file is given; what is one already stays."""
        return cls.read(Path(schema)) if isinstance(schema, (str, os.PathLike)) else schema

    def to_toml(self) -> str:
        """Write the schema as TOML."""
        return to_toml(self.to_dict())
