"""Lists that a sentence has no room for, the item that was meant, and names that none has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def listed(texts: Sequence[str], most: int = 5) -> str:
    """List the first of some texts, and count the others."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def did_you_mean(word: object, known: Iterable[str], most: int = 0) -> str:
    """Say which of the known words was meant, perhaps; else the first ``most`` of them."""
    words = list(known)
    if near := get_close_matches(str(word), words, 1):
        return f"; did you mean {near[0]!r}?"
    return f"; known: {listed(words, most)}" if most else ""


def free_name(wanted: str, taken: Iterable[object]) -> str:
    """Choose the wanted name, or one like it that nothing has."""
    known = set(taken)
    while wanted in known:
        wanted += "_"
    return wanted


def unknown_keys(unknown: Iterable[object], known: Iterable[str]) -> str:
    """Name keys that nobody reads."""
    names = sorted(map(str, unknown))
    return f"unknown keys {names[:5]}{did_you_mean(names[0], known, 12)}"
