"""Texts of unknown origin, made fit to be shown: nothing in them acts.

Terminal, pages, logs and errors show no name, label or note of a file but through :func:`plain`.
Schemas keep texts as they are, for names have to match. Tables keep them but for a mark, which
:mod:`treeleak.core.spreadsheets` puts in front of formulas and takes off again.
"""

from __future__ import annotations

import unicodedata

MOST_LETTERS = 2_000
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks by name, which nobody can see."""
_JOINERS = frozenset("\u200c\u200d")
"""Needed within words of some scripts, and within emoji; elsewhere they only make names differ."""


def plain(text: str, most: int | None = MOST_LETTERS, keep: str = "") -> str:
    r"""Show what would steer the text around it, or cannot be seen, by its number.

    Control characters, line ends, overrides of the writing direction and halves of surrogate pairs
    become ``\u202e``.

    ``most``: letters after which it is cut. ``keep``: characters that stay.
    """
    if most is not None and len(text) > most:
        text = f"{text[:most]}… ({len(text):,} letters)"
    if text.isascii() and text.isprintable():
        return text
    around = f" {text} "
    return "".join(
        c if c in keep or (c in _JOINERS and _needed(before, after)) else _shown(c)
        for before, c, after in zip(around, text, around[2:], strict=False)
    )


def _needed(before: str, after: str) -> bool:
    return not (before.isascii() or after.isascii() or {before, after} & _JOINERS)


def _shown(c: str) -> str:
    if c not in _BLANK and unicodedata.category(c) not in _HIDDEN:
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
