"""The schema file: attributes and rules as TOML or JSON."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from treeleak.core.declared import Place, in_words, set_fields
from treeleak.core.declared import read as document
from treeleak.core.errors import BadSchema, cause
from treeleak.core.output import read_text
from treeleak.core.text import plain
from treeleak.formats import schema as declared
from treeleak.schema.attributes import Attribute, Binary, Categorical, Numeric, OneHot, Ordinal
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
