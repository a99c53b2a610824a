"""What makes a report a record: by which policy, from what, when, and what follows for whom."""

from __future__ import annotations

from collections.abc import Iterator

from treeleak.report.blocks import Grid, Prose, Section
from treeleak.report.facts import Doc, Fact, capital

_STATED = (
    ("attacker", "Protects against"),
    ("recipient", "Goes to"),
    ("purpose", "For"),
    ("review", "To be reviewed by"),
)


def of_policy(ruling: Doc) -> Iterator[Fact]:
    """Say what a policy states of attacker, recipient, purpose and review."""
    for key, what in _STATED:
        if ruling[key]:
            yield what, ruling[key], ""


def of_inputs(source: Doc) -> Iterator[Fact]:
    """Name the files that were read, with their hashes."""
    for what, entry in source["inputs"].items():
        withheld = "its SHA-256 is in the internal edition only: it can confirm a guess of the data"
        sha256 = withheld if entry["sha256"] is None else f"SHA-256 {entry['sha256']}"
        yield f"Input: {what.replace('_', ' ')}", entry["file"], sha256


def of_use(source: Doc) -> Iterator[Fact]:
    """Say when the audit was made, against whom, who may see it, and until when it holds."""
    yield "Made", source["time"].replace("T", " ").replace("Z", " UTC"), ""
    yield "Adversary assumed", source["threat_model"], ""
    yield "Readers", source["readers"], ""
    yield "Review", source["review"], ""


def frameworks(found: Doc) -> Section:
    """Which figures speak to which question of those who judge anonymity."""
    rows = []
    for question in found["frameworks"]:
        figures = [_sentence(f) for f in question["figures"]]
        answer = " ".join(figures) or "No figure of this audit helps to answer it."
        rows.append((question["source"], question["asks"], answer, question["beyond"]))
    columns = ("Framework", "Question, in our words", "Figures", "Also consider")
    about = Prose(
        "This table lists figures of this audit that help to answer each question. It is not legal "
        "advice, and figures alone meet no framework."
    )
    table = Grid("Questions and figures", columns, tuple(rows))
    return Section.of("frameworks", "For those who judge anonymity", [about, table])


def _sentence(figure: Doc) -> str:
    what = capital(figure["what"])
    if figure["found"] is None:
        return f"{what}: not assessed ({figure['reason']})."
    return f"{what}: {figure['found']}."
