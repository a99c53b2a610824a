"""The rule file: docs/rule-file.md explains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from treeleak.core.declared import Declared, Label, Published, Real, Whole

Names = tuple[str, ...]
Columns = Annotated[Names, Meta(extra_json_schema={"uniqueItems": True})]
Counts = Annotated[
    tuple[Whole, ...], Meta(description="Training rows of each class that the rule captures.")
]
Value = str | Real


class Condition(Declared, frozen=True, kw_only=True):
    """A test of one column: one value, several, or bounds."""

    column: str
    one: Value | UnsetType = field(default=UNSET, name="is")
    several: Annotated[tuple[Value, ...], Meta(min_length=1)] | UnsetType = field(
        default=UNSET, name="in"
    )
    above: Real | UnsetType = UNSET
    upto: Real | UnsetType = UNSET
    negated: bool = field(default=False, name="not")


class Default(Declared, frozen=True):
    """What is said of rows that no rule captures."""

    then: Label
    counts: Counts | None = None


class Rule(Declared, frozen=True):
    """What is said of rows that meet all conditions."""

    conditions: tuple[Condition, ...] = field(name="if")
    then: Label
    counts: Counts | None = None


class Rules(Published, frozen=True, kw_only=True, omit_defaults=False):
    """A released rule list or rule set, whatever learnt it."""

    schema_id: ClassVar[str] = "treeleak:rules:1"
    title: ClassVar[str] = "treeleak rule file, version 1"
    also: ClassVar[Mapping[str, Any]] = {
        "Condition": {
            "oneOf": [
                {"required": ["is"]},
                {"required": ["in"]},
                {"anyOf": [{"required": ["above"]}, {"required": ["upto"]}]},
            ]
        }
    }

    format: Literal["treeleak-rules"]
    version: Literal[1]
    origin: Annotated[str, Meta(description="Library, its version, and the kind of model.")] = ""
    columns: Annotated[Columns, Meta(description="The model's columns, in order, tested or not.")]
    classes: Annotated[
        tuple[Label, ...], Meta(description="Class labels, in the order of the counts.")
    ]
    ordered: Annotated[
        bool,
        Meta(
            description="True: a list: the first rule that a row meets captures it. False: a set."
        ),
    ] = True
    n_rows: Annotated[
        Whole | UnsetType | None,
        Meta(description="Rows of the training set: the sum of all counts, if there are counts."),
    ] = UNSET
    rules: tuple[Rule, ...]
    default: Default
    covered: Annotated[
        tuple[Whole, ...] | UnsetType | None,
        Meta(description="Of a set without counts per rule: training rows that any rule captures."),
    ] = UNSET
    notes: Names = ()
