"""The report as one HTML file that asks nothing of anybody: no network, no folder beside it.

Charts as inline SVG: sizes across in percent, so that letters keep their size on any screen.

All colours come from classes, for the page knows whether it is dark.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib import resources
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup

from treeleak._version import __version__
from treeleak.auditing import Audit
from treeleak.core.text import percent, plain, shortened
from treeleak.formats.literals import Edition
from treeleak.report.blocks import Bar, Bars, Block, Chart, Grid, Sheet, Stack, Tone
from treeleak.report.facts import NONE
from treeleak.report.sections import TONES
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
    made.globals.update(draw=draw, figures=figures)
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


LINE = 20
"""Height of a line of letters."""
THICK = 14
GAP = 12
LABEL = 90
"""Letters of a label, in all its lines."""
ROOM = 64
"""Percent of the width that a label may take: beyond stands the figure."""
WRAP, BELOW = 24, 16
"""Letters of a line of a label, which have room on the narrowest screens, and how far it stands
below the line before."""
_LEAST = 0.4
"""Percent of the width that a share above nothing takes at least: it can be seen."""


def draw(chart: Chart, key: str) -> Markup:
    """Draw a chart.

    ``chart``: Stack or Bars. ``key``: for its ids; nothing else on the page may have it.
    """
    if isinstance(chart, Stack):
        # One bar in parts, and below a line for each: a mark, its name, its figure.
        out, left = [], 0.0
        for k, part in enumerate(chart.parts):
            out.append(_rect(f"tone-{part.tone} part-{k}", left, _width(part.share), 0, 28))
            left += 100 * part.share
        y = 28 + GAP
        for k, part in enumerate(chart.parts):
            lines = _lines(part.label)
            out.append(_mark(part.tone, k, y + 2))
            out += _label(lines, y + 12, x=20)
            out.append(_at_end(part.text, y + 12))
            y += LINE + 2 + BELOW * (len(lines) - 1)
        height, body = y, Markup("").join(out)
    else:
        height, body = _bars(chart)
    return Markup(
        '<svg class="chart" role="img" width="100%" height="{h}" '
        'aria-labelledby="{key}-title {key}-desc">'
        '<title id="{key}-title">{title}</title><desc id="{key}-desc">{desc}</desc>{body}</svg>'
    ).format(h=height, key=key, title=plain(chart.title), desc=plain(_sentence(chart)), body=body)


def figures(chart: Chart) -> Grid:
    """List the figures of a chart."""
    caption = f"{chart.title}: the figures"
    if isinstance(chart, Stack):
        parts = tuple((p.label, p.text) for p in chart.parts)
        return Grid(caption, ("Part", f"Share {chart.of}"), parts, frozenset({1}))
    names = tuple(name for name, _ in chart.series)
    rows = tuple((b.label, *(_figure(chart, b, k) for k in range(len(names)))) for b in chart.bars)
    return Grid(caption, ("Bar", *names), rows, frozenset(range(1, 1 + len(names))))


def _sentence(chart: Chart) -> str:
    """Say in a sentence what a chart shows, for those who cannot see it."""
    if isinstance(chart, Stack):
        return f"{chart.of}: " + "; ".join(f"{p.label} {p.text}" for p in chart.parts)
    more = f" The table has {chart.left_out:,} more." if chart.left_out else ""
    first = (
        f"{b.label}: " + ", ".join(_figure(chart, b, k) for k in range(len(chart.series)))
        for b in _shown(chart)[:8]
    )
    return f"Bars, {chart.of}. " + "; ".join(first) + f".{more}"


def _figure(chart: Bars, bar: Bar, k: int) -> str:
    value = bar.values[k]
    if value is None:
        return "–"
    spread = f" ± {percent(bar.spread[k], chart.digits)}" if bar.spread else ""
    return percent(value, chart.digits) + spread


def _shown(chart: Bars) -> tuple[Bar, ...]:
    return chart.bars[: len(chart.bars) - chart.left_out]


def _width(share: float) -> float:
    return round(max(100 * min(share, 1.0), _LEAST if share > 0 else 0.0), 2)


def _bars(chart: Bars) -> tuple[int, Markup]:
    out = list(_legend(chart))
    y = LINE + 4 if out else 0
    for bar in _shown(chart):
        lines = _lines(bar.label)
        out += _label(lines, y + 13)
        values = " · ".join(_figure(chart, bar, k) for k in range(len(chart.series)))
        out.append(_at_end(values, y + 13))
        y += LINE + BELOW * (len(lines) - 1)
        for k, (_, tone) in enumerate(chart.series):
            value = bar.values[k]
            thick = THICK if len(chart.series) == 1 else THICK - 5
            out.append(_rect("track", 0, 100, y, thick))
            if value is not None:
                width = _width(value / chart.top)
                out.append(_rect(f"bar tone-{tone} part-{k}", 0, width, y, thick))
                if bar.spread and bar.spread[k]:
                    out += _whisker(value, bar.spread[k], chart.top, y + thick / 2)
            y += thick + 2
        y += GAP - 2
    return y, Markup("").join(out)


def _legend(chart: Bars) -> Iterator[Markup]:
    if len(chart.series) == 1:
        return
    for k, (name, tone) in enumerate(chart.series):
        x = round(100 * k / len(chart.series), 2)
        yield Markup(
            '<svg x="{x}%" y="0" overflow="visible">{mark}'
            '<text class="label" x="18" y="12">{name}</text></svg>'
        ).format(x=x, mark=_mark(tone, k, 1), name=name)


def _whisker(value: float, spread: float, top: float, y: float) -> Iterator[Markup]:
    low, high = (round(100 * min(max(v, 0) / top, 1), 2) for v in (value - spread, value + spread))
    for a, b, c, d in ((low, high, y, y), (low, low, y - 4, y + 4), (high, high, y - 4, y + 4)):
        yield Markup('<line class="whisker" x1="{}%" x2="{}%" y1="{}" y2="{}"/>').format(a, b, c, d)


def _mark(tone: str, k: int, y: float) -> Markup:
    return Markup(
        '<rect class="tone-{} part-{}" x="0" y="{}" width="12" height="12" rx="2"/>'
    ).format(tone, k, y)


def _rect(name: str, x: float, width: float, y: float, height: float) -> Markup:
    return Markup(
        '<rect class="{}" x="{:.2f}%" y="{}" width="{:.2f}%" height="{}" rx="2"/>'
    ).format(name, x, y, width, height)


class _Broken(TextWrapper):
    """Breaks between words, and within names of columns at their signs."""

    wordsep_re = re.compile(r"(\s+|(?<=[_/])(?=[^\s_/]))")


def _lines(label: str) -> list[str]:
    """Break a label where a narrow screen ends: letters keep their size there."""
    wide = any(unicodedata.east_asian_width(c) in "WF" for c in label)
    most = WRAP // 2 if wide else WRAP
    return _Broken(most).wrap(shortened(label, LABEL)) or [""]


def _label(lines: list[str], y: float, x: float = 0) -> Iterator[Markup]:
    for k, line in enumerate(lines):
        yield Markup(
            '<svg x="{}" y="{}" width="{}%" height="{}"><text class="label" y="13">{}</text></svg>'
        ).format(x, y - 13 + BELOW * k, ROOM, LINE, line)


def _at_end(text: str, y: float) -> Markup:
    return Markup('<text class="figure" x="100%" y="{y}">{t}</text>').format(y=y, t=text)


COLUMNS = ("Model", "Verdict", "Rows exact", "Rows proved", "Values wrong", "Expected wrong")
_FIGURES = ("exact_rows", "proved", "error", "expected_error")
FAILED = "no audit"
_STYLE = """
table.sortable th button { all: unset; cursor: pointer; text-decoration: underline dotted; }
table.sortable th button:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; }
th[aria-sort="ascending"] button::after { content: " \\2191"; }
th[aria-sort="descending"] button::after { content: " \\2193"; }
"""


def render_index(entries: Sequence[Mapping[str, Any]], internal: bool) -> str:
    """Write the page of a batch; ``entries`` in their order, the worst first."""
    style, script = _file("page.css") + _STYLE, _file("index.js")
    allowed = f"style-src {_hash(style)}; script-src {_hash(script)}"
    return _drawn(
        "index.html",
        lines=[_line(rank, entry) for rank, entry in enumerate(entries)],
        columns=COLUMNS,
        headline=headline(entries),
        internal=internal,
        style=_trusted(style),
        script=_trusted(script),
        policy=f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'",
        version=__version__,
    )


def headline(entries: Sequence[Mapping[str, Any]]) -> str:
    """Count verdicts, in words."""
    counted: dict[str, int] = {}
    for entry in entries:
        outcome = entry["verdict"] or FAILED
        counted[outcome] = counted.get(outcome, 0) + 1
    parts = [f"{n:,} {outcome.split(' (')[0]}" for outcome, n in counted.items()]
    unmet = sum(entry["policy_met"] is False for entry in entries)
    parts += [f"policy not met: {unmet:,}"] if unmet else []
    return f"{len(entries):,} model{'s' * (len(entries) != 1)}: {'; '.join(parts)}."


def verdict_of(entry: Mapping[str, Any]) -> str:
    """Say a verdict, and whether the policy is met; of a failure, its last words."""
    if entry["verdict"] is None:
        last = entry["said"].splitlines()[-1:] or [f"exit status {entry['status']}"]
        return f"{FAILED}: {last[0].removeprefix('treeleak: ')}"
    outcome: str = entry["verdict"].split(" (")[0]
    policy = {None: "", True: "; meets the policy", False: "; does not meet the policy"}
    return outcome + policy[entry["policy_met"]]


def _line(rank: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    tone: Tone = TONES.get(entry["verdict"], "grey")
    figures = [(NONE if (n := entry[k]) is None else percent(n, 1), n) for k in _FIGURES]
    return {
        "name": entry["name"],
        "link": None if entry["html"] is None else quote(entry["html"]),
        "verdict": verdict_of(entry),
        "tone": tone,
        "rank": rank,
        "figures": [(label, -1 if n is None else n) for label, n in figures],
    }
