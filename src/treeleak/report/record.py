"""What makes a report a record: by which policy, from what, when, and what follows for whom."""

from __future__ import annotations

from collections.abc import Iterator

from treeleak.report.facts import Doc, Fact

_STATED = (
    ("attacker", "Protects against"),
    ("recipient", "Goes to"),
    ("purpose", "For"),
    ("review", "To be reviewed by"),
)


def of_policy(ruled: Doc) -> Iterator[Fact]:
    """Say what a policy states of attacker, recipient, purpose and review."""
    for key, what in _STATED:
        if ruled[key]:
            yield what, ruled[key], ""


def of_inputs(source: Doc) -> Iterator[Fact]:
    """Name the files that were read, with their hashes."""
    for what, own in source["inputs"].items():
        withheld = (
            "its SHA-256 is in the internal edition only: it would confirm a guess of the data"
        )
        sha256 = withheld if own["sha256"] is None else f"SHA-256 {own['sha256']}"
        yield f"Input: {what.replace('_', ' ')}", own["file"], sha256


def of_use(source: Doc) -> Iterator[Fact]:
    """Say when the audit was made, against whom, who may see it, and until when it holds."""
    yield "Made", source["time"].replace("T", " ").replace("Z", " UTC"), ""
    yield "Attacks stand for", source["threat_model"], ""
    yield "May be seen by", source["readers"], ""
    yield "To be reviewed", source["review"], ""
