"""Formats of other tools that an audit is written in: a line for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from treeleak.bridges import cyclonedx, model_card, sarif
from treeleak.bridges.summary import Summary
from treeleak.core.private import dataclass


@dataclass(frozen=True)
class Format:
    """How audits are written for a tool."""

    render: Callable[[Sequence[Summary], str], str]
    """Audits, and what stands in the file so far, if it adds to that; else nothing."""
    adds: bool = False
    """Whether it adds to a file that is there."""


FORMATS: Mapping[str, Format] = {
    "sarif": Format(sarif.render),
    "model-card": Format(model_card.render, adds=True),
    "cyclonedx": Format(cyclonedx.render),
}
