"""What an audit may conclude, and a finding: one thing that it found."""

from __future__ import annotations

from typing import Any, ClassVar

from treeleak.core.message import Audience, Message, sentences
from treeleak.core.private import dataclass
from treeleak.formats.literals import Part, Verdict

LEAK: Verdict = "leak shown"
POSSIBLE: Verdict = "possible leak"
NO_LEAK: Verdict = "no leak shown by these attacks (this is no proof of safety)"
OPEN: Verdict = "not assessed"


@dataclass(frozen=True)
class Finding:
    """Something that the audit found: codes and figures; the words follow from them.

    Attributes
    ----------
    part : {"inventory", "counts", "noise", "reconstruction", "uncertainty", "membership"}
    verdict : str or None
        How severe it is; None for a remark that the verdict does not rest on.
    messages : tuple of Message
        What was found. The code of the first is that of the finding.
    evidence : Message or None
        The condition that held, and led to the verdict.
    fix : tuple of str
        Codes of the advice that is about this.
    """

    _shown_fields: ClassVar = ("part", "verdict")

    part: Part
    verdict: Verdict | None
    messages: tuple[Message, ...]
    evidence: Message | None = None
    fix: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """What was found, whatever the words."""
        return self.messages[0].code

    @property
    def text(self) -> str:
        """In plain words, for the owner of the data who has not read the rest."""
        return self.render_for(None)

    @property
    def rule(self) -> str:
        """The evidence in words; empty for a remark."""
        return str(self.evidence or "")

    def render_for(self, reader: Audience | None) -> str:
        """The words that a reader may read; all, if None."""
        return sentences(*(m.render_for(reader) for m in self.messages))

    def to_dict(self, reader: Audience | None = None) -> dict[str, Any]:
        """Describe the finding (formats/audit.schema.json)."""
        return {
            "code": self.code,
            "part": self.part,
            "verdict": self.verdict,
            "text": self.render_for(reader),
            "rule": "" if self.evidence is None else self.evidence.render_for(reader),
            "messages": [m.as_data(reader) for m in self.messages],
            "fix": list(self.fix),
        }
