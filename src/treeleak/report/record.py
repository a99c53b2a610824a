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
