"""Scores in words: categories and numbers are never mixed in one figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treeleak.core.percent import percent
from treeleak.metrics.scores import Numbers, Scores


def in_full(scores: Scores) -> str:
    """Say how far rows are off, as the beginning of a sentence."""
    wrong, numbers = scores.categories, scores.numbers
    if numbers is None and wrong is None:
        return f"The rebuilt values have an error of {percent(scores.error, 1)} (DRAFT)"
    if numbers is None:
        return f"{percent(wrong or 0.0, 1)} of the rebuilt values are wrong"
    told = (
        f"numbers are {off_by(numbers)} on average, {percent(numbers.exact, 1)} of them exactly "
        f"right and {percent(numbers.near, 1)} within 1% of their column's range"
    )
    if wrong is None:
        return f"The rebuilt {told}"
    return f"{percent(wrong, 1)} of the rebuilt categories are wrong; {told}"


def in_short(scores: Scores) -> str:
    """Say the same of a yardstick, beside the rebuilt rows."""
    wrong, numbers = scores.categories, scores.numbers
    if numbers is None and wrong is None:
        return f"an error of {percent(scores.error, 1)}"
    if numbers is None:
        return f"{percent(wrong or 0.0, 1)} wrong"
    if wrong is None:
        return f"{off_by(numbers)}, {percent(numbers.near, 1)} within 1%"
    return f"{percent(wrong, 1)} wrong; numbers {off_by(numbers)}"


def read_scores(told: Mapping[str, Any]) -> Scores:
    """Take scores out of the document of an audit."""
    numbers = told["numbers"]
    return Scores(**{**told, "numbers": None if numbers is None else Numbers(**numbers)})


def by_chance(probability: float) -> str:
    """Say how probable a margin would be by chance."""
    if probability < 1e-4:
        return "<0.01%"
    return f"{100 * probability:.2g}%" if probability < 0.1 else f"{100 * probability:.0f}%"


def off_by(numbers: Numbers) -> str:
    """Say how far numbers are off, in the unit of their spread."""
    return f"off by {numbers.off:.2f} standard deviations"
