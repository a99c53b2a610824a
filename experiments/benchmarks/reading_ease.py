"""How easy the first pages are to read: Flesch's reading ease of their prose.

Headings, tables, code and pictures are left out, and each name of code counts as one short word.
Needs ``pip install textstat==0.7.3``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from experiments.benchmarks.frame import options, show
from treeleak.core.errors import NotCovered

ROOT = Path(__file__).parents[2]
GUIDES = (
    "quickstart",
    "output-checker",
    "researcher",
    "how-to-read-an-audit",
    "concepts",
    "limits",
)
PAGES = ("README.md", *(f"docs/{guide}.md" for guide in GUIDES))
FLOOR = 60.0

_NO_PROSE = (
    (r"```.*?```", ""),
    (r"^#+ .*$|^\|.*$", ""),
    (r"!\[.*?\]\(.*?\)", ""),
    (r"\[(.*?)\]\(.*?\)", r"\1"),
    (r"`[^`]*`", "x"),
    (r"<[^>\s][^>]*>", ""),
    (r"^\s*[-*] ", ""),
    (r"[*_]", ""),
)


def prose(page: str) -> str:
    """Leave the sentences of a page of Markdown."""
    for pattern, left in _NO_PROSE:
        page = re.sub(pattern, left, page, flags=re.DOTALL if "`" in pattern else re.MULTILINE)
    return page


def main(args: Sequence[str]) -> int:
    given = options("reading_ease", __doc__, args, pages=list(PAGES))
    try:
        import textstat
    except ImportError:
        raise NotCovered("reading ease needs textstat: pip install textstat==0.7.3") from None
    lines = []
    for page in given.pages:
        text = prose((ROOT / page).read_text(encoding="utf-8"))
        ease = textstat.flesch_reading_ease(text)
        lines.append({"page": page, "words": len(text.split()), "ease": ease, "floor": FLOOR,
                      "met": ease >= FLOOR})  # fmt: skip
    return int(not show(f"Flesch's reading ease, textstat {version('textstat')}", lines))
