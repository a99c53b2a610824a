"""What an audit may conclude, a finding, and figures in words: scores, chances, times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from treeleak.auditing import wording
from treeleak.core.clock import Incumbent
from treeleak.core.message import Audience, Message, MessageTemplate, sentences
from treeleak.core.private import dataclass
from treeleak.formats.literals import Part, Verdict
from treeleak.metrics.scores import Scores
from treeleak.reconstruction import Reconstruction

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


def rows_open(findings: Iterable[tuple[str, Verdict | None]]) -> bool:
    """Say, by part and verdict of each finding, whether what rebuilt rows disclose is not settled.

    Either some finding on them is open, or none on rows has a verdict but open.
    """
    found = tuple(findings)
    settled = any(
        p in ("reconstruction", "uncertainty") and v not in (None, OPEN) for p, v in found
    )
    return not settled or ("reconstruction", OPEN) in found


def in_full(scores: Scores) -> Message:
    """Say how far rows are off, as the beginning of a sentence."""
    templates = wording.ERROR, wording.WRONG, wording.OFF, wording.WRONG_AND_OFF
    return _sentence(scores, *templates)


def in_short(scores: Scores) -> Message:
    """Say the same of a yardstick, beside the rebuilt rows."""
    templates = (
        wording.ERROR_SHORT, wording.WRONG_SHORT, wording.OFF_SHORT, wording.WRONG_AND_OFF_SHORT,
    )  # fmt: skip
    return _sentence(scores, *templates)


def _sentence(
    scores: Scores,
    error: MessageTemplate,
    wrong: MessageTemplate,
    off: MessageTemplate,
    both: MessageTemplate,
) -> Message:
    numbers, of_categories = scores.numbers, {"wrong": scores.categories}
    if numbers is None:
        return error(error=scores.error) if scores.categories is None else wrong(**of_categories)
    of_numbers = {"off": numbers.off, "exact": numbers.exact, "near": numbers.near}
    if scores.categories is None:
        return off(**of_numbers)
    return both(**of_categories, **of_numbers)


def by_chance(probability: float) -> str:
    """Say how probable a margin would be by chance."""
    if probability < 1e-4:
        return "<0.01%"
    return f"{100 * probability:.2g}%" if probability < 0.1 else f"{100 * probability:.0f}%"


_FEWEST_STEPS = 3
_FLAT = 0.1
"""Least power of the time by which the misfit must fall to speak of a pace."""
_MOST = 100.0
"""Factor over the time that was spent, beyond which nothing is foretold."""
_LEFT = 0.5
"""Misfit at which every count is met."""
_LITTLE = 0.1
"""Share of the misfit below which it may vanish at once, as sums over drawn rows do."""


def time_needed(trace: Sequence[Incumbent]) -> float | None:
    """Estimate the seconds after which every count would be met, at the pace so far.

    The misfit is taken to fall as a power of the time, fitted to the later half of the trace: a
    rough guess that is out by a factor of a few.

    Returns None where too few steps show a pace, or little of the misfit is left, of which a pace
    tells nothing; and infinity where the misfit hardly falls, or it would take a hundred times as
    long.
    """
    seconds = np.array([max(i.seconds, 1e-3) for i in trace])
    misfit = np.array([float(i.misfit) for i in trace])
    late = (seconds >= seconds.max(initial=0.0) / 4) & (misfit > 0)
    if late.sum() < _FEWEST_STEPS or np.ptp(np.log(seconds[late])) == 0:
        return None
    slope, _ = np.polyfit(np.log(seconds[late]), np.log(misfit[late]), 1)
    never = None if misfit[-1] <= _LITTLE * misfit.max() else np.inf
    if slope > -_FLAT:
        return never
    factor = (misfit[late][-1] / _LEFT) ** (-1 / slope)
    return float(seconds[late][-1] * factor) if factor <= _MOST else never


def more_time_helps(rebuilt: Reconstruction) -> bool:
    """Whether an attack that found no fitting rows may find them in more time."""
    return rebuilt.status == "unknown" and time_needed(rebuilt.trace) != np.inf


def time_words(seconds: float) -> str:
    """Say a time in the unit that fits."""
    for unit, size in (("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
