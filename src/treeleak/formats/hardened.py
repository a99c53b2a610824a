"""What was taken out of a model's file, as a document."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from treeleak.core.declared import Declared, Number, Positive, Published, Share, Whole, says
from treeleak.formats.audit import Provenance
from treeleak.formats.held import Entry
from treeleak.formats.said import Sha256, Texts, Verdict


class Leak(Declared, frozen=True):
    """What an attack makes of a state of the file."""

    verdict: Verdict
    status: Annotated[str | None, says("Of the rebuilt rows.")]
    wrong: Annotated[
        Share | None, says("Share of values that are wrong: measured, or as the attack expects.")
    ]
    measured: bool
    exact_rows: Annotated[
        Share | None,
        says("Share of training rows rebuilt on every value that splits distinguish."),
    ]
    guess: Share | None
    shape: Share | None
    draws: Annotated[str | None, says("What the draws are known from.")]
    why: Annotated[str | None, says("Why it was not assessed.")]


class State(Declared, frozen=True):
    """The file after a step."""

    step: str
    takes: str
    costs: str
    changed: Annotated[bool, says("Whether there was something to take away.")]
    attacked: Annotated[
        bool,
        says(
            "Whether this state was attacked; if not, an attack meets what it met before the step."
        ),
    ]
    leak: Leak


class Answers(Declared, frozen=True):
    """Predictions of the original and of the hardened file on the same rows."""

    rows: Whole
    of: str
    same_labels: Share
    changed_labels: Whole
    largest_change: Positive


class Alternative(Declared, frozen=True):
    """Another training, what it costs and what it saves."""

    what: str
    settings: dict[str, Any]
    accuracy: Share
    lost: Number
    lost_se: Positive
    verdict: str
    status: str | None
    error: Number | None
    guess: Number | None
    exact_rows: Number | None
    why: str | None
    seconds: Positive
    epsilon: Number | None
    ended: Annotated[bool, says("Whether the attack came to an answer.")]
    as_useful: Annotated[bool, says("What it loses may be chance.")]


class Retraining(Declared, frozen=True):
    """What other trainings would save."""

    alternatives: tuple[Alternative, ...]
    most_common: Share
    advice: Texts
    not_assessed: Texts
    seed: int


class Hardened(Published, frozen=True):
    """What was taken out of a model's file, and what attacks make of the rest. Holds no rows."""

    schema_id: ClassVar[str] = "treeleak:hardened:1"
    title: ClassVar[str] = "treeleak harden, version 1"

    format: Literal["treeleak-hardened"]
    version: Literal[1]
    file: str
    out: str
    sha256: Annotated[Sha256, says("Of the hardened file.")]
    states: Annotated[
        tuple[State, ...], says("The original first, then one for each step.", min_length=1)
    ]
    answers: Answers
    still_there: Annotated[
        tuple[Entry, ...],
        says("What the hardened file holds that stems from single rows, as in an audit."),
    ]
    advice: Texts
    retraining: Annotated[
        Retraining | None,
        says("What another training would save, and what it would cost, where that was tried."),
    ]
    provenance: Provenance
