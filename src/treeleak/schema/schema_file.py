"""The schema file: attributes and rules as TOML or JSON."""

from __future__ import annotations

import inspect
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from treeleak.core.errors import BadSchema, cause
from treeleak.core.listed import meant, unknown_keys
from treeleak.core.plain import plain
from treeleak.core.text_files import read_text
from treeleak.schema.attributes import Attribute, Binary, Categorical, Numeric, OneHot, Ordinal
from treeleak.schema.checks import list_of
from treeleak.schema.rules import AtMost, Implies, Linear, Rule

T = TypeVar("T")

_VERSION = 1
MOST_BYTES = 2**22
"""Of a schema file: 4 MiB describe 50,000 columns, and TOML is read at 1 MB in a second."""
_ATTRIBUTES: dict[str, Any] = {
    **{cls.kind: cls for cls in (Binary, Ordinal, Numeric)},
    "categorical": lambda name, values=(), labels=None, missing=False: Categorical(
        name, list_of(values, f"categorical column {name!r}: values"), labels, missing=missing
    ),
    "one-hot": lambda name, columns, at_most_one=False: OneHot(name, columns, at_most_one),
}
_RULES: dict[str, Any] = {
    **{cls.kind: cls for cls in (Implies, Linear)},
    "at-most": lambda columns, k=1: AtMost(columns, k),
}


def described(attributes: Iterable[Attribute], rules: Iterable[Rule]) -> dict[str, Any]:
    """Describe a schema in plain lists, texts and numbers."""
    out: dict[str, Any] = {"version": _VERSION, "attribute": [a.to_dict() for a in attributes]}
    told = [rule.to_dict() for rule in rules]
    return out | ({"rule": told} if told else {})


def made(data: Any) -> tuple[list[Attribute], list[Rule]]:
    """Make the attributes and rules of what :func:`described` wrote.

    Raises BadSchema, naming the entry that cannot be read.
    """
    if not isinstance(data, Mapping) or data.get("version") != _VERSION:
        raise BadSchema(f"not a schema of version {_VERSION}")
    # A misspelt table would otherwise drop a whole list of attributes or rules in silence.
    if unknown := set(data) - {"version", "attribute", "rule"}:
        raise BadSchema(unknown_keys(unknown, ("version", "attribute", "rule")))
    return _table(data, "attribute", _ATTRIBUTES), _table(data, "rule", _RULES)


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


def _table(data: Mapping[str, Any], table: str, makers: Mapping[str, Any]) -> list[Any]:
    entries = data.get(table, [])
    if not isinstance(entries, list) or not all(isinstance(e, Mapping) for e in entries):
        raise BadSchema(f"{table!r} must be a list of tables")
    return [_made(makers, entry, table) for entry in entries]


def _made(makers: Mapping[str, Any], entry: Mapping[str, Any], table: str) -> Any:
    rest = dict(entry)
    kind = rest.pop("kind", None)
    if not isinstance(kind, str) or kind not in makers:
        raise BadSchema(f"{table} of unknown kind {kind!r}{meant(kind, makers, len(makers))}")
    form = inspect.signature(makers[kind])
    if unknown := set(rest) - set(form.parameters):
        where = f"{table} {rest.get('name', kind)!r}"
        raise BadSchema(f"{where}: {unknown_keys(unknown, form.parameters)}")
    try:
        form.bind(**rest)
    except TypeError as error:
        raise BadSchema(f"{table} {rest.get('name', kind)!r}: {error}") from error
    return makers[kind](**rest)


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
