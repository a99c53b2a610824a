"""What a reader sees of an audit."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeleak.report.page import render_html
    from treeleak.report.short_reports import render_hardened, render_informed
    from treeleak.report.terminal import render

__all__ = ["render", "render_hardened", "render_html", "render_informed"]

_PLACES = {
    "render": "treeleak.report.terminal:render",
    "render_hardened": "treeleak.report.short_reports:render_hardened",
    "render_html": "treeleak.report.page:render_html",
    "render_informed": "treeleak.report.short_reports:render_informed",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(_PLACES[name])
