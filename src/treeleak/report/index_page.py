"""The page that lists many audits, each with a link to its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from treeleak._version import __version__
from treeleak.core.text import percent
from treeleak.report.blocks import Tone
from treeleak.report.facts import NONE
from treeleak.report.page import _drawn, _file, _hash, _trusted
from treeleak.report.sections import TONES

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
