"""Whole numbers that no float may hold, like the points of a grid of many columns."""

from __future__ import annotations

import math

MOST = 10**300
"""Where numbers are no longer written out: a float holds little more."""


def short(number: int) -> str:
    """Write a number, from a million on with three digits, however large it is."""
    if number < MOST:
        return f"{number:,}" if number < 10**6 else f"{number:.3g}"
    # Neither a float nor a text may be made of it: both have a largest size.
    return f"more than 10^{math.floor(math.log10(number)) - 1}"


def bounded(number: int) -> int:
    """The number, or the largest that is written out."""
    return min(number, MOST)
