"""What hardening found: each state of the file, and what an attack makes of it."""

from __future__ import annotations

from typing import Any, ClassVar

from treeleak.auditing import Audit, Entry
from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.findings.advice import HARDEN
from treeleak.auditing.findings.finding import OPEN
from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import Place
from treeleak.core.message import Audience
from treeleak.core.private import dataclass
from treeleak.core.text import percent
from treeleak.hardening.answers import Answers
from treeleak.hardening.files.document import Step
from treeleak.reconstruction import written

HARDENED_VERSION = 1

AS_IT_WAS = "as it was"


@dataclass(frozen=True)
class Leak(Serialisable):
    """What an attack made of one state of the file, in a line."""

    _shown_fields: ClassVar = ("verdict", "status", "measured")

    verdict: str
    status: str | None
    """Of the audit, and of the reconstruction; None where no attack was run."""
    wrong: float | None
    """Share of values that are wrong."""
    measured: bool
    """Whether ``wrong`` was found by comparing with the training rows; else the attack expects
    it."""
    exact_rows: float | None
    """Share of the training rows that were rebuilt without any difference that a tree could
    tell."""
    guess: float | None
    """Share of values that are wrong in a random baseline."""
    shape: float | None
    """The same for a guess from the shape of the trees alone, where leaves name classes only."""
    draws: str | None
    """What the draws are known from; None where they are hidden, or every tree saw every row."""
    why: str | None
    """Why it was not assessed."""

    @classmethod
    def of(cls, found: Audit) -> Leak:
        """Sum an audit up."""
        rebuilt, m = found.reconstruction, found.measurement
        why = found.mismatch or found.reason("reconstruction") or None
        if why is None and found.verdict == OPEN:
            reasons = (
                f.render_for(Audience(THRESHOLD)) for f in found.findings if f.verdict == OPEN
            )
            why = next(reasons, None)
        wrong = None if rebuilt is None else rebuilt.expected_error
        return cls(
            verdict=found.verdict,
            status=None if rebuilt is None else rebuilt.status,
            wrong=wrong if m is None else m.error,
            measured=m is not None,
            exact_rows=None if m is None else m.located_rows,
            guess=None if m is None else m.guess_mean,
            shape=None if m is None or m.shape is None else m.shape.error,
            draws=None if rebuilt is None or rebuilt.draws is None else rebuilt.draws.origin,
            why=why,
        )

    @classmethod
    def unseen(cls, why: str) -> Leak:
        """Say why a state was not attacked."""
        return cls(OPEN, None, None, False, None, None, None, None, why)

    @property
    def blank(self) -> bool:
        """Whether there is nothing but a reason why there was no attack."""
        return self.why is not None and self == Leak.unseen(self.why)


@dataclass(frozen=True)
class State(Serialisable):
    """The file after a step."""

    _shown_fields: ClassVar = ("step", "changed", "attacked")

    step: str
    """Its name; :data:`AS_IT_WAS` for the original."""
    takes: str
    costs: str
    """What the step takes away, and what no longer works."""
    changed: bool
    """Whether there was something to take away."""
    attacked: bool
    """Whether this state was attacked; if not, an attack meets what it met before the step, or
    there was no time."""
    leak: Leak

    @classmethod
    def after(cls, step: Step | None, changed: bool, attacked: bool, leak: Leak) -> State:
        """Say what is left after a step, or before any."""
        if step is None:
            return cls(AS_IT_WAS, "", "", False, True, leak)
        return cls(step.name, step.takes, step.costs, changed, attacked, leak)

    @property
    def original(self) -> bool:
        """Whether this is the file before any step."""
        return self.step == AS_IT_WAS


@dataclass(frozen=True, eq=False)
class Hardened:
    """A hardened file and what it still discloses.

    Attributes
    ----------
    file, out : str
        The original, and the hardened file.
    sha256 : str
        Of the hardened file.
    states : tuple of State
        The original first, then one for each step.
    answers : Answers
        Predictions of both files.
    audit : Audit
        Of the file that was written.
    still_there : tuple of Entry
        What it holds that comes from single rows, or shows how they were drawn.
    """

    file: str
    out: str
    sha256: str
    states: tuple[State, ...]
    answers: Answers
    audit: Audit
    still_there: tuple[Entry, ...]

    @property
    def leak(self) -> Leak:
        """What is left after the last step."""
        return self.states[-1].leak

    @property
    def advice(self) -> tuple[str, ...]:
        """What each step saved of this very file, where that was measured, and what is left."""
        attacked = [s for s in self.states if s.attacked and s.leak.exact_rows is not None]
        shares = (f"{s.step} {percent(s.leak.exact_rows or 0.0)}" for s in attacked)
        saved = (
            "Measured on this file, training rows rebuilt after each step, on every value "
            f"that splits distinguish: {', '.join(shares)}."
        )
        left = (text for text in self.audit.advice if not text.startswith(HARDEN))
        return (*[saved] * (len(attacked) > 1), *left)

    def to_dict(self) -> dict[str, Any]:
        """Describe the result (formats/hardened.schema.json); no row is in it."""
        return {
            "format": "treeleak-hardened",
            "version": HARDENED_VERSION,
            "file": self.file,
            "out": self.out,
            "sha256": self.sha256,
            "states": [s.to_dict() for s in self.states],
            "answers": self.answers.to_dict(),
            "still_there": [e.to_dict() for e in self.still_there],
            "advice": list(self.advice),
            "provenance": self.audit.provenance.to_dict(),
        }

    def to_json(self, path: Place | None = None) -> str:
        """Write :meth:`to_dict` as JSON, to a file too where one is named."""
        return written(lambda _: self.to_dict(), path, include_rows=False)
