"""Shares as a reader gets to see them."""

from __future__ import annotations


def percent(share: float, digits: int = 0) -> str:
    """Write a share in percent; all and nothing are said only where they are meant."""
    text, least = f"{share:.{digits}%}", 10.0**-digits
    if share > 0 and text == f"{0:.{digits}%}":
        return f"<{least:.{digits}f}%"
    if share < 1 and text == f"{1:.{digits}%}":
        return f">{100 - least:.{digits}f}%"
    return text


def hundredths(share: float) -> float:
    """Round to hundredths, so that no finer figure follows; a little is never nothing.

    Nor is nearly all of a share all. ``share``: not negative.
    """
    rounded = round(share, 2)
    if 0 < share < 0.01:
        return 0.01
    return 0.99 if 0.99 < share < 1 else rounded
