"""What an audit may conclude, and a finding: one thing that it found."""

from __future__ import annotations

from typing import Any, Literal

from treeleak.auditing.disclosure.releasable import Edition
from treeleak.core.private import dataclass

Verdict = Literal[
    "leak shown",
    "possible leak",
    "no leak shown by these attacks (this is no proof of safety)",
    "not assessed",
]
LEAK: Verdict = "leak shown"
POSSIBLE: Verdict = "possible leak"
NO_LEAK: Verdict = "no leak shown by these attacks (this is no proof of safety)"
OPEN: Verdict = "not assessed"

Part = Literal["inventory", "counts", "noise", "reconstruction", "uncertainty"]


@dataclass(frozen=True)
class Finding:
    """Something that the audit found.

    Attributes
    ----------
    part : {"inventory", "counts", "noise", "reconstruction", "uncertainty"}
    verdict : str or None
        None for a remark that the verdict does not rest on.
    text : str
        In plain words, for somebody who has not read the rest.
    unnamed : str or None
        The same for the releasable edition, where :attr:`text` speaks of single leaves or values.
    rule : str
        The condition that held, and led to the verdict; empty for a remark.
    """

    part: Part
    verdict: Verdict | None
    text: str
    unnamed: str | None = None
    rule: str = ""

    def said(self, edition: Edition) -> str:
        """The text, as it may stand in an edition."""
        return self.text if edition == "internal" or self.unnamed is None else self.unnamed

    def to_dict(self, edition: Edition = "internal") -> dict[str, Any]:
        """Describe the finding (formats/audit.schema.json)."""
        told = {"part": self.part, "verdict": self.verdict, "text": self.said(edition)}
        return told | {"rule": self.rule}
