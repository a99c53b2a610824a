"""What a part of a model discloses about its rows, in numbers: for the owner, not for others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treeleak.auditing.inventory.owners import numbers_in, whole
from treeleak.release.stored import StoredObject

MOST_BINS = 255
"""Of a column, where the owner does not say how many there may be."""


MOST_ROUNDS = 100_000
"""Scores of one metric: more rounds than anybody trains."""


def nothing(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Say nothing beside the rule."""
    return ""


def nothing_more(context: Any) -> str:  # noqa: ARG001
    """Say nothing of the columns."""
    return ""


def of_borders(value: Any, owner: StoredObject) -> str:
    """Count the values of columns whose borders are midpoints of all of them."""
    listed = list(value.values()) if isinstance(value, Mapping) else value
    parts = [numbers_in(part) for part in listed] if isinstance(listed, (list, tuple)) else []
    borders = [part for part in parts if part is not None and part.ndim == 1]
    if not borders:
        return ""
    most = max([MOST_BINS, *(n - 1 for n in whole([owner.get("n_bins")]))])
    full = [len(ends) + 1 for ends in borders if len(ends) + 1 < most]
    summary = f"{sum(map(len, borders)):,} borders of {len(borders):,} columns."
    if not full:
        return summary
    return (
        f"{summary} In {len(full):,} columns they are the middles of all neighbouring values, "
        f"{sum(full):,} different ones in all and up to {max(full):,} in a column. Anyone "
        "who knows one value, or knows that they are whole numbers, has them all."
    )


def of_rounds(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count the rounds that a score is told of."""
    held = numbers_in(value)
    return (
        ""
        if held is None or held.size < 2
        else (f"There is one after each of {held.size:,} rounds.")
    )


def of_ranges(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count the columns of which LightGBM keeps the smallest and largest value, or all."""
    words = value.split() if isinstance(value, str) else []
    ranges = sum(word.startswith("[") for word in words)
    lists = [word for word in words if word[0] != "[" and word != "none"]
    summary = (
        f"Smallest and largest value of {ranges:,} of {len(words):,} columns." if ranges else ""
    )
    listed = sum(len(word.split(":")) for word in lists)
    return summary + f" All {listed:,} categories of {len(lists):,} columns." * bool(lists)


def of_history(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count the scores that CatBoost tells of."""
    rounds = value.count('{"') if isinstance(value, str) else 0
    return f"Some {rounds:,} scores." if rounds else ""
