"""The schema file: docs/schema-file.md explains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from treeleak.core.declared import Declared, Published, Whole

End = int | float
"""Of a range: TOML can write infinities."""
WholeEnd = Annotated[End, Meta(extra_json_schema={"type": "integer"})]
Texts = Annotated[tuple[str, ...], Meta(min_length=1, extra_json_schema={"uniqueItems": True})]
Weights = Annotated[dict[str, int | float], Meta(min_length=1)]


class Binary(Declared, frozen=True, tag_field="kind", tag="binary"):
    """A column that holds 0 or 1."""

    name: str
    missing: bool = False


class Ordinal(Declared, frozen=True, tag_field="kind", tag="ordinal"):
    """A column that holds whole numbers from low to high, both included."""

    name: str
    low: WholeEnd
    high: WholeEnd
    missing: bool = False


class Numeric(Declared, frozen=True, tag_field="kind", tag="numeric"):
    """A column that holds any number from low to high."""

    name: str
    low: End | UnsetType = UNSET
    high: End | UnsetType = UNSET
    missing: bool = False


class Categorical(Declared, frozen=True, tag_field="kind", tag="categorical"):
    """A column that holds one of a few values: values, labels, or both are given."""

    name: str
    values: (
        Annotated[
            tuple[int | float, ...],
            Meta(min_length=1, extra_json_schema={"uniqueItems": True}),
        ]
        | UnsetType
    ) = UNSET
    labels: Annotated[
        Texts | UnsetType,
        Meta(description="Text of each value; without values, of the codes 0, 1, 2 and so on."),
    ] = UNSET
    missing: bool = False


class OneHot(Declared, frozen=True, tag_field="kind", tag="one-hot"):
    """A group of 0/1 columns: exactly one is 1, or at most one."""

    name: str
    members: Texts = field(name="columns")
    at_most_one: bool = False


class Implies(Declared, frozen=True, tag_field="kind", tag="implies"):
    """Where all columns of given have their values, all columns of then have theirs."""

    given: Weights
    then: Weights


class Linear(Declared, frozen=True, tag_field="kind", tag="linear"):
    """The sum of coefficient times column lies from low to high."""

    coefficients: Weights
    low: End | UnsetType = UNSET
    high: End | UnsetType = UNSET


class AtMost(Declared, frozen=True, tag_field="kind", tag="at-most", omit_defaults=False):
    """At most k of these 0/1 columns are 1."""

    members: Texts = field(name="columns")
    k: Whole = 1


Attribute = Binary | Ordinal | Numeric | Categorical | OneHot
Rule = Implies | Linear | AtMost


class Schema(Published, frozen=True):
    """What a row of the training data can be. The TOML form has the same keys."""

    schema_id: ClassVar[str] = "treeleak:schema:1"
    title: ClassVar[str] = "treeleak schema file, version 1"
    also: ClassVar[Mapping[str, Any]] = {
        "Categorical": {"anyOf": [{"required": ["values"]}, {"required": ["labels"]}]}
    }

    version: Literal[1]
    attribute: tuple[Attribute, ...] = ()
    rule: tuple[Rule, ...] = ()
