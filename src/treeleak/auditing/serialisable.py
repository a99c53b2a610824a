"""How results become documents: every field by its name, as JSON knows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any

import numpy as np

_NAMES = ("what", "name", "column", "group", "by")
"""What tells the items of a list in a document apart."""


class Serialisable:
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


def figures_of(part: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Take the numbers and flags out of a part of a document."""
    if isinstance(part, (bool, Real, np.bool_)):
        yield name, part
    items: Iterable[tuple[str, Any]] = ()
    if isinstance(part, Mapping):
        items = ((key, value) for key, value in part.items())
    elif isinstance(part, list):
        named = [item for item in part if isinstance(item, Mapping)]
        items = ((", ".join(str(i[k]) for k in _NAMES if k in i), i) for i in named)
    for key, value in items:
        yield from figures_of(value, f"{name}: {key}" if name else key)
