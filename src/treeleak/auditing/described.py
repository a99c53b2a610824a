"""How results become documents: every field by its name, as JSON knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


class Described:
    """A dataclass that goes into a document as it is, but for fields that no representation has."""

    def to_dict(self) -> dict[str, Any]:
        """Describe it (formats/audit.schema.json, formats/hardened.schema.json)."""
        return _fields(self)


def _fields(part: Any) -> dict[str, Any]:
    return {f.name: _plain(getattr(part, f.name)) for f in fields(part) if f.repr}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value
