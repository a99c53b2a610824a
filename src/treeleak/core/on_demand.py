"""Functions that are named in one place, and imported when they are asked for.

So are those that draw results in notebooks: a result's own room does not import theirs.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """Import what "module:name" names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


_DRAWN_BY: dict[str, str] = {}


def draw_with(kind: str, place: str) -> None:
    """Have results of a kind drawn by the function at "module:name"."""
    _DRAWN_BY[kind] = place


def html_of(kind: str, result: object, *how: object) -> str:
    """Draw a result."""
    return str(load(_DRAWN_BY[kind])(result, *how))
