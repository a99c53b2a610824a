"""The report as one HTML file that asks nothing of anybody: no network, no folder beside it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from treeleak._version import __version__
from treeleak.auditing import Audit
from treeleak.core.text import plain
from treeleak.formats.literals import Edition
from treeleak.report import svg
from treeleak.report.blocks import Bars, Block, Sheet, Stack
from treeleak.report.sheet import sheet_of

if TYPE_CHECKING:
    from jinja2 import Environment

CHARTS = 2
"""Charts of the piece that a notebook shows."""


def render_html(audit: Audit, edition: Edition = "releasable", command: str | None = None) -> str:
    """Write an audit as a page.

    ``edition``: the internal one shows rows. Write it to files that nobody else may read.
    ``command``: what to type to get the audit again. Returns one HTML document that holds its style
    and its program, and loads nothing.
    """
    sheet = sheet_of(audit, edition, command)
    style, script = _file("page.css"), _file("page.js")
    allowed = f"style-src {_hash(style)}; script-src {_hash(script)}"
    return _drawn(
        "page.html",
        sheet=sheet,
        style=_trusted(style),
        script=_trusted(script),
        policy=f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'",
        version=__version__,
    )


def render_piece(audit: Audit) -> str:
    """Write the beginning of the releasable report, for a notebook."""
    sheet = sheet_of(audit)
    charts = list(_charts(sheet))[:CHARTS]
    # Two audits in one notebook must not share ids.
    serialised = json.dumps(asdict(sheet), default=sorted).encode()
    key = f"treeleak-{hashlib.sha256(serialised).hexdigest()[:12]}"
    style = _trusted(_file("piece.css"))
    return _drawn("piece.html", sheet=sheet, style=style, charts=charts, key=key)


def _charts(sheet: Sheet) -> Iterator[Stack | Bars]:
    for section in sheet.sections:
        yield from (b for b in section.blocks if isinstance(b, (Stack, Bars)))


def _drawn(template: str, **parts: Any) -> str:
    return _environment().get_template(template).render(parts)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("treeleak.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_final,
    )
    made.filters["embedded"] = _embedded
    made.tests["of_kind"] = _of_kind
    made.globals.update(draw=svg.draw, figures=svg.figures)
    return made


def _final(value: Any) -> Any:
    """Make every text fit to be shown that is not markup of this package."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _of_kind(block: Block, kind: str) -> bool:
    return type(block).__name__ == kind


def _embedded(data: Any) -> Markup:
    """Write data so that it can stand in a script element: no text in it can end that."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for c in "<>&\u2028\u2029":
        text = text.replace(c, f"\\u{ord(c):04x}")
    # Halves of surrogate pairs cannot be written as UTF-8.
    return _trusted(text.encode("utf-8", "backslashreplace").decode())


def _trusted(text: str) -> Markup:
    """Let text of this package, or without any sign of markup, stand as it is."""
    return Markup(text)  # noqa: S704


def _file(name: str) -> str:
    return resources.files("treeleak.report").joinpath("templates", name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
