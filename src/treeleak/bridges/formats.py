"""Formats of other tools that an audit is written in: a line for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from treeleak.bridges import cyclonedx, model_card, sarif
from treeleak.bridges.summary import Summary

FORMATS: Mapping[str, Callable[[Sequence[Summary], str], str]] = {
    "sarif": sarif.render,
    "model-card": model_card.render,
    "cyclonedx": cyclonedx.render,
}
"""What writes audits, given what stands in the file so far; empty where that is replaced."""

ADDING = frozenset({"model-card"})
"""Those that add to a file that is there, if that is one of them; else only where told to."""
