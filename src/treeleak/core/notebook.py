"""What notebooks show of a result: drawn by a room that the result's own does not import."""

from __future__ import annotations

from treeleak.core.on_demand import load

_DRAWN_BY: dict[str, str] = {}


def draw_with(kind: str, place: str) -> None:
    """Have results of a kind drawn by the function at "module:name"."""
    _DRAWN_BY[kind] = place


def html_of(kind: str, result: object, *how: object) -> str:
    """Draw a result."""
    return str(load(_DRAWN_BY[kind])(result, *how))
