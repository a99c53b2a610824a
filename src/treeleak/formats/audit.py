"""What a tree model discloses, as a document."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from treeleak.core.declared import Declared, Positive, Published, Share, says
from treeleak.formats.exposed import Article29, Exposure, Membership
from treeleak.formats.held import Budget, Counts, Entry, Structure
from treeleak.formats.measured import Measurement, Uncertainty
from treeleak.formats.reconstruction import Reconstruction, Status
from treeleak.formats.said import Code, Message, Sha256, Some, Texts, Values, Verdict

Edition = Literal["releasable", "internal"]
Part = Literal["inventory", "counts", "noise", "reconstruction", "uncertainty"]
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
State = Literal["met", "violated", "not assessed"]


class Finding(Declared, frozen=True, kw_only=True):
    """Something that the audit found."""

    part: Part
    verdict: Annotated[Verdict | None, says("null for a remark that the verdict does not rest on.")]
    text: str
    rule: Annotated[
        str, says("The condition that held, and led to the verdict; empty for a remark.")
    ]
    code: Code | UnsetType = UNSET
    messages: Annotated[
        Annotated[tuple[Message, ...], Meta(min_length=1)] | UnsetType,
        says("Of what the text is made; the first has the code of the finding."),
    ] = UNSET
    fix: Annotated[Texts | UnsetType, says("Codes of the advice that is about this.")] = UNSET


class Variant(Declared, frozen=True):
    """The attack with less to go by."""

    what: Literal[
        "without the population",
        "drawn counts only",
        "drawn counts only, without the population",
    ]
    status: Status
    expected_error: Share | None
    measurement: Measurement | None


class Check(Declared, frozen=True):
    """A bound of a policy, and what was found."""

    key: str
    what: str
    bound: str
    found: str
    state: State


class Ruling(Declared, frozen=True, kw_only=True):
    """Whether an audit meets a policy."""

    policy: str
    threshold: Some
    limits: dict[str, Positive]
    inference_of: Annotated[
        dict[str, Share] | UnsetType,
        says("Bounds on the risk of guessing single sensitive columns."),
    ] = UNSET
    forbidden_parts: Annotated[
        Texts | UnsetType, says("Kinds of parts that may not be in the file.")
    ] = UNSET
    attacker: Annotated[
        str | UnsetType,
        says(
            "Against whom the policy is meant to protect; empty where it does not say, as in what "
            "follows."
        ),
    ] = UNSET
    recipient: Annotated[str | UnsetType, says("Who gets the model.")] = UNSET
    purpose: Annotated[str | UnsetType, says("What for.")] = UNSET
    review: Annotated[
        str | UnsetType, says("Until when a decision by this policy holds: YYYY-MM-DD.")
    ] = UNSET
    allow_possible_leak: bool
    passed: Annotated[bool, says("What was not assessed does not pass.")]
    headline: str
    checks: Annotated[tuple[Check, ...], Meta(min_length=2)]


class Figure(Declared, frozen=True):
    """A figure that speaks to a question."""

    key: Annotated[str, says("As limits of a policy are called.")]
    what: str
    found: Annotated[str | None, says("Null where not assessed, or not for this edition.")]
    reason: Annotated[str, says("Why there is no figure.")]


class Question(Declared, frozen=True):
    """A question of those who judge anonymity, and the figures that speak to it."""

    source: str
    asks: Annotated[str, says("The question, in treeleak's words.")]
    figures: tuple[Figure, ...]
    beyond: Annotated[str, says("What remains to be judged.")]


class NotAssessed(Declared, frozen=True):
    """A part that was not assessed, and why."""

    part: Literal[
        "counts", "reconstruction", "measurement", "population", "uncertainty", "exposure",
        "inference", "structure", "membership",
    ]  # fmt: skip
    reason: str
    code: Code | UnsetType = UNSET
    values: Values | UnsetType = UNSET


class Input(Declared, frozen=True):
    """A file that was read beside that of the model."""

    file: str
    sha256: Annotated[
        Sha256 | None,
        says(
            "Null in the releasable edition, except for policies and models: it could confirm a "
            "guess of the data."
        ),
    ]


class Provenance(Declared, frozen=True, kw_only=True):
    """What was audited, when and by what."""

    file: str | None
    sha256: Sha256 | None
    origin: str
    seed: int
    seconds: Positive
    time: Annotated[Time | UnsetType, says("When the audit ended, in UTC.")] = UNSET
    threat_model: Annotated[str | UnsetType, says("Whom the attacks stand for.")] = UNSET
    inputs: Annotated[
        dict[str, Input] | UnsetType,
        says("Files that were read beside that of the model, by what they are."),
    ] = UNSET
    readers: Annotated[str | UnsetType, says("Who may see this edition.")] = UNSET
    review: Annotated[str | UnsetType, says("When to decide anew.")] = UNSET
    versions: dict[str, str]


class Audit(Published, frozen=True, kw_only=True):
    """What a tree model discloses about its training rows.

    The releasable edition holds no row, nothing about a single leaf and no group of few rows. The
    internal edition has rows.
    """

    schema_id: ClassVar[str] = "treeleak:audit:1"
    title: ClassVar[str] = "treeleak audit, version 1"

    format: Literal["treeleak-audit"]
    version: Annotated[
        Literal[1, 2], says("From 2 on, findings and what was not assessed have codes and values.")
    ]
    edition: Edition
    verdict: Verdict
    headline: Annotated[str, says("The verdict in one sentence.")]
    findings: tuple[Finding, ...]
    inventory: tuple[Entry, ...]
    counts: Counts | None
    structure: Annotated[
        Structure | UnsetType | None,
        says(
            "How many numbers the model learned, and which rows it treats alike; null for rules "
            "and models that are not covered."
        ),
    ] = UNSET
    budget: Annotated[
        Budget | None,
        says(
            "Privacy budget, where counts carry noise: epsilon of pure differential privacy, for "
            "tables of which one has one row more."
        ),
    ]
    reconstruction: Reconstruction | None
    uncertainty: Annotated[
        Uncertainty | UnsetType | None,
        says(
            "Residual uncertainty of the training rows, given one tree or one rule list; null for "
            "other models."
        ),
    ] = UNSET
    measurement: Measurement | None
    variants: Annotated[tuple[Variant, ...], says("The same attack with less to go by.")]
    ruling: Annotated[
        Ruling | UnsetType | None,
        says("Whether the audit meets a policy, where it was held against one."),
    ] = UNSET
    exposure: Annotated[
        Exposure | None,
        says(
            "What was recovered and how surely, of which columns and groups; null where nothing "
            "was rebuilt."
        ),
    ]
    article29: Annotated[
        Article29 | None,
        says(
            "Singling out and inference, in the terms of the Article 29 Working Party; null where "
            "no training rows were compared."
        ),
    ]
    membership: Annotated[
        Membership | UnsetType | None,
        says(
            "Membership inference: whether the model discloses who is in the training set; null "
            "without control rows."
        ),
    ] = UNSET
    frameworks: Annotated[
        tuple[Question, ...] | UnsetType,
        says(
            "Which figures speak to which question of those who judge anonymity; no legal advice."
        ),
    ] = UNSET
    mismatch: Annotated[str | None, says("Why the rows given cannot be the training rows.")]
    not_assessed: tuple[NotAssessed, ...]
    advice: Annotated[Texts, Meta(min_length=1)]
    notes: Texts
    provenance: Provenance
