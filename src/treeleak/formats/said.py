"""What documents say of a model: verdicts, and the codes and values behind sentences."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from treeleak.core.declared import Declared, says

Some = Annotated[int, Meta(ge=1)]
"""A number of what there is."""
Texts = tuple[str, ...]
Verdict = Literal[
    "leak shown",
    "possible leak",
    "no leak shown by these attacks (this is no proof of safety)",
    "not assessed",
]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Code = Annotated[str, says("What is said, whatever the words.", pattern="^[a-z0-9_]+$")]


class Message(Declared, frozen=True):
    """A sentence: its code, and the values in it."""

    code: Code
    values: Values


class Value(Declared, frozen=True):
    """A value in a sentence, and what it is."""

    kind: Literal[
        "", "people", "number", "share", "share1", "sd", "column", "columns", "quoted",
        "all_quoted", "value", "place", "foreign", "message", "within",
    ]  # fmt: skip
    value: str | float | bool | Texts | Message | None


Values = Annotated[
    dict[str, Value],
    says(
        "Null where the edition leaves a value out: fewer people stand behind it than the "
        "threshold, or it may name a person's value, a leaf or a column."
    ),
]
