"""The schema file: attributes and rules as TOML or JSON."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping
from typing import Any

from treeleak.core.errors import BadSchema
from treeleak.core.plain import plain
from treeleak.schema.attributes import Binary, Categorical, Numeric, OneHot, Ordinal
from treeleak.schema.checks import list_of
from treeleak.schema.rules import AtMost, Implies, Linear

__all__ = ["ATTRIBUTES", "MOST_BYTES", "RULES", "SCHEMA_VERSION", "build", "entries", "toml"]

SCHEMA_VERSION = 1
MOST_BYTES = 2**22
"""Of a schema file: 4 MiB describe 50,000 columns, and TOML is read at 1 MB in a second."""
ATTRIBUTES: dict[str, Any] = {
    "binary": lambda name, missing=False: Binary(name, missing=missing),
    "ordinal": lambda name, low, high, missing=False: Ordinal(name, low, high, missing=missing),
    "numeric": lambda name, low=-math.inf, high=math.inf, missing=False: Numeric(
        name, low, high, missing=missing
    ),
    "categorical": lambda name, values=(), labels=None, missing=False: Categorical(
        name, list_of(values, f"categorical column {name!r}: values"), labels, missing=missing
    ),
    "one-hot": lambda name, columns, at_most_one=False: OneHot(name, columns, at_most_one),
}
RULES: dict[str, Any] = {
    "implies": lambda given, then: Implies(given, then),
    "linear": lambda coefficients, low=-math.inf, high=math.inf: Linear(coefficients, low, high),
    "at-most": lambda columns, k=1: AtMost(columns, k),
}


def entries(data: Mapping[str, Any], table: str) -> list[Mapping[str, Any]]:
    """List the entries of a table."""
    entries = data.get(table, [])
    if not isinstance(entries, list) or not all(isinstance(e, Mapping) for e in entries):
        raise BadSchema(f"{table!r} must be a list of tables")
    return entries


def build(makers: Mapping[str, Any], entry: Mapping[str, Any], table: str) -> Any:
    """Make what an entry describes."""
    rest = dict(entry)
    kind = rest.pop("kind", None)
    if not isinstance(kind, str) or kind not in makers:
        raise BadSchema(f"{table} of unknown kind {kind!r}; known: {', '.join(makers)}")
    try:
        inspect.signature(makers[kind]).bind(**rest)
    except TypeError as error:
        raise BadSchema(f"{table} {rest.get('name', kind)!r}: {error}") from error
    return makers[kind](**rest)


def toml(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml(k)} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    if isinstance(value, str):
        # TOML reads back what cannot be seen from its number.
        return plain(json.dumps(value, ensure_ascii=False), most=None)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
