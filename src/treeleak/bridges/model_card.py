"""Audits as a section of a model card: README.md on Hugging Face, and skops' cards."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from treeleak.auditing import Audit
from treeleak.bridges.summary import Summary, summary_of

TITLE = "Training data disclosure"
KEY = "treeleak"
_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n((?:.*?\n)??)---[ \t]*(?:\r?\n|$)", re.DOTALL)
_BEGINS, _ENDS = "<!-- treeleak: begin -->", "<!-- treeleak: end -->"


def section(audit: Audit | Summary) -> str:
    """Write what an audit found as Markdown without headings: for a section of any card.

    Only what the releasable edition says goes in.
    """
    found = summary_of(audit) if isinstance(audit, Audit) else audit
    verdict, rest = found.verdict.capitalize(), found.headline
    lines = [f"**{_escaped(verdict)}.** {_escaped(rest.removeprefix(f'{verdict}. '))}", ""]
    for figure, what, more in found.tiles:
        lines.append(f"- **{_escaped(figure)}** {_escaped(f'{what} ({more})' if more else what)}")
    lines += ["", "| | |", "|---|---|"]
    lines += [f"| {what} | {_escaped(text)} |" for what, text in _facts(found)]
    lists = {
        "What was found": [finding.text for finding in found.findings],
        "What was not assessed": found.open_parts,
        "What would help": found.changes,
    }
    for heading, texts in lists.items():
        if texts:
            lines += ["", f"{heading}:", "", *(f"- {_escaped(text)}" for text in texts)]
    return "\n".join(lines) + "\n"


def _facts(found: Summary) -> Iterator[tuple[str, str]]:
    source = found.provenance
    yield "Model", f"{found.name}{f' ({source.origin})' if source.origin else ''}"
    if source.sha256:
        yield "SHA-256", source.sha256
    if found.ruling is not None:
        yield "Policy", found.ruling.headline
    yield "Adversary", source.threat_model
    yield "Audit", f"treeleak {source.versions.get('treeleak', '')}, {source.time[:10]}"


def render(audits: Sequence[Summary], before: str = "") -> str:
    """Write a card, or put front matter and section into one; what they say else stays.

    ``before``: the card. A section of an earlier audit is replaced.
    """
    head, text = _parted(before)
    entries = "".join(f"- {_entry(audit)}\n" for audit in audits)
    # Lines that follow the key and belong to it are further in, or items of its list.
    kept = re.sub(rf"^{KEY}:.*\n(?:[ \t-].*\n)*", "", head, flags=re.MULTILINE)
    titles = [f"### {_escaped(a.name)}\n\n" if len(audits) > 1 else "" for a in audits]
    body = "\n".join(title + section(a) for title, a in zip(titles, audits, strict=True))
    part = f"{_BEGINS}\n## {TITLE}\n\n{body}{_ENDS}\n"
    begins, ends = text.find(_BEGINS), text.find(_ENDS)
    if 0 <= begins < ends:
        text = text[:begins] + part + text[ends + len(_ENDS) :].removeprefix("\n")
    else:
        text = f"{text.rstrip()}\n\n{part}" if text.strip() else part
    return f"---\n{kept}{KEY}:\n{entries}---\n{text}"


def is_card(text: str) -> bool:
    """Say whether a text is a model card: front matter, or an earlier section of treeleak."""
    return _BEGINS in text or bool(_FRONT_MATTER.match(text))


def _parted(card: str) -> tuple[str, str]:
    """Part a card into the lines of its front matter and the rest."""
    found = _FRONT_MATTER.match(card)
    return ("", f"\n{card}") if found is None else (found[1] or "", card[found.end() :])


def _entry(audit: Summary) -> str:
    """Say the most important as one line of YAML, of which JSON is a part."""
    entry: dict[str, Any] = {"file": audit.name, "verdict": audit.verdict}
    if audit.provenance.sha256:
        entry["sha256"] = audit.provenance.sha256
    if audit.ruling is not None:
        entry["policy_met"] = audit.ruling.passed
    entry |= {
        "date": audit.provenance.time[:10],
        "version": audit.provenance.versions.get("treeleak", ""),
    }
    text = json.dumps(entry, ensure_ascii=False)
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _escaped(text: str) -> str:
    """Write a text so that Markdown and HTML read no sign in it as their own, and make no link."""
    signs = re.sub(r"([\\`*_\[\]|~$@])", r"\\\1", html.escape(text, quote=False))
    return signs.replace("://", "\\://").replace("www.", "www\\.")
