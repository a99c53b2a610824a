"""Texts of unknown origin, made fit to be shown: nothing in them acts."""

from __future__ import annotations

import unicodedata

__all__ = ["MOST_LETTERS", "plain", "shortened"]

MOST_LETTERS = 2_000
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d\u00ad")


def plain(text: str) -> str:
    r"""Show what would steer the text around it, or cannot be seen, by its number.

    Control characters, overrides of the writing direction and halves of surrogate pairs become
    ``\u202e``; texts of more than :data:`MOST_LETTERS` letters are cut.
    """
    if len(text) > MOST_LETTERS:
        text = f"{text[:MOST_LETTERS]}… ({len(text):,} letters)"
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(c) for c in text)


def _shown(c: str) -> str:
    if c in _JOINERS or unicodedata.category(c) not in _HIDDEN:
        return c
    code = ord(c)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def shortened(text: str, width: int) -> str:
    """Cut a text to what fits; wide letters count twice."""
    text, room = plain(text), width
    for k, c in enumerate(text):
        room -= 2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c)
        if room < 0:
            return f"{text[: max(k - 1, 0)]}…"
    return text
