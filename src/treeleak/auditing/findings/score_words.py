"""Scores as messages: categories and numbers are never mixed in one figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treeleak.auditing import wording
from treeleak.core.message import Message, MessageTemplate
from treeleak.metrics.scores import Numbers, Scores


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


def read_scores(stored: Mapping[str, Any]) -> Scores:
    """Take scores out of the document of an audit."""
    numbers = stored["numbers"]
    return Scores(**{**stored, "numbers": None if numbers is None else Numbers(**numbers)})


def by_chance(probability: float) -> str:
    """Say how probable a margin would be by chance."""
    if probability < 1e-4:
        return "<0.01%"
    return f"{100 * probability:.2g}%" if probability < 0.1 else f"{100 * probability:.0f}%"
