"""Texts for people: foreign ones made fit to be shown, lists, shares and large numbers in words.

Terminal, pages, logs and errors show no name, label or note of a file but through :func:`plain`.
Schemas keep texts as they are, for names have to match. Tables keep them but for a mark, which
:mod:`treeleak.core.output` puts in front of formulas and takes off again.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

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
