"""Whether a JSON text holds anything beside its values: in blanks, or in the digits of numbers.

Programs lay out a document by rules: what stands between two values depends on what these are and
on how deep they lie. Where it does not, someone wrote something there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from treeleak.core.arrays import IntArray
from treeleak.release.stored import Leftover

MOST_GAP = 256
"""Letters between two values: a line break, and blanks for each level."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPED = re.compile(r"\\(?:u00[0-7][0-9a-fA-F]|/)")
_GAP = re.compile(rb"\s+")
_LONG = re.compile(r"\d[\d.]{20,}|\d[eE][-+]?\d{4,}")
_DIGITS = 20
"""Of a whole number of 64 bits; others have fewer."""


def odd_layout(text: str) -> Iterator[Leftover]:
    """List what a text holds beside its document."""
    bare = _TEXT.sub('""', text)
    for found in _LONG.finditer(bare):
        digits = found[0].replace(".", "").strip("0")
        exponent = "e" in found[0].lower()
        if exponent or len(digits) > _DIGITS or len(found[0]) > 2 * _DIGITS:
            yield Leftover("the text", "numbers of more digits than any has", text)
            break
    if any(
        _ESCAPED.search(text_match[0])
        for text_match in _TEXT.finditer(text)
        if "\\" in text_match[0]
    ):
        yield Leftover("the text", "letters written in another way than usual", text)
    if not _regular(bare.strip()) or len(text) - len(text.strip()) > 1:
        yield Leftover("the text", "blanks that no program writes", text)


def _regular(bare: str) -> bool:
    """Say whether each gap is what always stands between such values at this depth."""
    raw = bare.encode()
    gaps = list(_GAP.finditer(raw))
    if not gaps:
        return True
    data = np.frombuffer(raw, np.uint8)
    blank = np.isin(data, (32, 9, 10, 13))
    at = np.flatnonzero(~blank)
    character_class = np.zeros(256, dtype=np.int64)
    for k, letter in enumerate(b'[]{},:"'):
        character_class[letter] = k + 1
    letters = data[at]
    opens, closes = np.isin(letters, (91, 123)), np.isin(letters, (93, 125))
    step = opens.astype(np.int64) - closes
    depth = np.cumsum(step)
    # Some programs indent what a key holds by one level more.
    brackets = np.flatnonzero(opens | closes)
    pairs = brackets[np.argsort((depth + closes)[brackets], kind="stable")]
    wide = np.zeros(len(at), dtype=np.int64)
    wide[1:] = opens[1:] & (letters[:-1] == ord(":"))
    step[pairs[0::2]] += wide[pairs[0::2]]
    step[pairs[1::2]] -= wide[pairs[0::2]]
    # Between which letters, and how deep, any two neighbours stand: but within a number.
    left, right = character_class[letters[:-1]], character_class[letters[1:]]
    length = np.diff(at) - 1
    place = (left * 8 + right) * (int(depth.max()) + 1) + depth[:-1]
    wider = np.cumsum(step)
    # A line is indented by its depth, also one of a kind: what closes, as what it closes.
    line = (length > 0) & (data[at[:-1] + 1] == ord("\n"))
    levels = (
        np.where(closes, depth, depth - opens),
        np.where(closes, wider - step - 1, wider - np.where(opens, step, 0) + wide),
    )
    if not any(_indented(length[line] - 1, level[1:][line]) for level in levels):
        return False
    place = place * (int(wider.max()) + 1) + wider[:-1]
    borders = (left > 0) | (right > 0)
    place, length = place[borders], length[borders]
    order = np.argsort(place, kind="stable")
    place, length = place[order], length[order]
    same = place[1:] == place[:-1]
    if (same & (length[1:] != length[:-1])).any() or length.max() > MOST_GAP:
        return False
    # One way to break lines and one to indent them.
    ways = {gap[0] for gap in gaps} if len(gaps) < 10**6 else {gap[0] for gap in gaps[: 10**6]}
    indents = {way[1:2] for way in ways if way[:1] == b"\n"} - {b""}
    return len(indents) <= 1 and all(re.fullmatch(rb"\n( *|\t*)| ", way) for way in ways)


def _indented(blanks: IntArray, level: IntArray) -> bool:
    """Say whether lines have as many blanks for each level."""
    return bool((blanks * max(int(level.sum()), 1) == int(blanks.sum()) * level).all())
