"""Lists that a sentence has no room for."""

from __future__ import annotations

from collections.abc import Sequence


def listed(texts: Sequence[str], most: int = 5) -> str:
    """List the first of some texts, and count the others."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
