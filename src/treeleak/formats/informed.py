"""What a model discloses about one row to an adversary who knows all others, as documents."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from treeleak.core.declared import Declared, Positive, Published, Share, Whole, says

Row = Annotated[dict[str, float | None], says("Values by column; null where missing.")]
Bits = Annotated[float, says("Divergence of the posterior from what the known rows suggest.", ge=0)]


class Candidate(Declared, frozen=True):
    """One of the most probable rows."""

    row: Row
    label: Any
    probability: Share


class Guess(Declared, frozen=True):
    """What the missing row is."""

    version: Literal[1]
    status: Literal["unique", "likely"]
    expected_error: Share
    label_confidence: Share
    bits: Bits
    seed: Whole
    seconds: Positive
    notes: tuple[str, ...]
    versions: dict[str, str]
    row: Row | UnsetType = UNSET
    label: Any = UNSET
    confidence: dict[str, Share] | UnsetType = UNSET
    value_by_value: Row | UnsetType = UNSET
    majority: Row | UnsetType = UNSET
    valid_majority: Row | UnsetType = UNSET
    candidates: tuple[Candidate, ...] | UnsetType = UNSET


class Means(Declared, frozen=True):
    """Averages over the targets."""

    error: Share
    value_by_value: Share
    majority: Share
    valid_majority: Share
    expected_error: Share
    probability: Share
    label_right: Share
    bits: Bits
    outlier: Share


class Group(Declared, frozen=True):
    """Some of the rows; null where there are none."""

    n_rows: Whole
    error: Share | None
    perfect: Share | None
    worst: Share | None


class Individual(Declared, frozen=True):
    """Errors of all rows, of inliers and of outliers."""

    all: Group
    inliers: Group
    outliers: Group


class Target(Declared, frozen=True):
    """One row that was taken as the missing one."""

    row: Whole
    error: Share
    value_by_value: Share
    majority: Share
    valid_majority: Share
    expected_error: Share
    probability: Share
    label_right: bool
    bits: Bits
    outlier: bool


class Audit(Declared, frozen=True):
    """How well the model discloses each of some rows."""

    version: Literal[1]
    n_rows: Annotated[int, Meta(ge=2)]
    means: Means
    individual: Individual
    seed: Whole
    seconds: Positive
    notes: tuple[str, ...]
    versions: dict[str, str]
    targets: tuple[Target, ...] | UnsetType = UNSET


class Informed(Published, frozen=True):
    """What a model discloses about one training row to an adversary who knows all others.

    About the missing one, or about some rows in turn. Rows only on request.
    """

    schema_id: ClassVar[str] = "treeleak:informed:1"
    title: ClassVar[str] = "treeleak informed adversary, version 1"
    one_of: ClassVar[tuple[type[Declared], ...]] = (Guess, Audit)
