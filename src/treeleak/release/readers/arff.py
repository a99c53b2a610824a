"""The header of an ARFF file, WEKA's table of rows: which columns there are, and their values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from treeleak.core.errors import BadInput
from treeleak.core.private import dataclass
from treeleak.core.text_files import read_text
from treeleak.release.bounds import MOST_TEXT_BYTES, at_most


@dataclass(frozen=True)
class ARFFHeader:
    """What the header of an ARFF file says of the columns."""

    attributes: Mapping[str, tuple[str, ...] | None]
    """In order: the values of a nominal attribute, None for any other."""


def text_of(source: str | Path) -> tuple[str, str]:
    """Read a file, or take its text; also give what a message starts with."""
    if isinstance(source, str) and "\n" in source:
        at_most(MOST_TEXT_BYTES, len(source), "letters")
        return source.replace("\r\n", "\n"), ""
    return read_text(source, MOST_TEXT_BYTES), f"{source}: "


def columns_and_classes(
    header: ARFFHeader | None, target: str | None
) -> tuple[dict[str, tuple[str, ...] | None] | None, tuple[str, ...] | None]:
    """Part the columns that a header names from the classes; None for both without a header."""
    if header is None:
        return None, None
    attributes = dict(header.attributes)
    target = next(reversed(attributes)) if target is None else target
    if target not in attributes:
        raise BadInput(f"the ARFF header has no attribute {target!r}")
    classes = attributes.pop(target)
    if classes is None:
        raise BadInput(f"the class attribute {target!r} of the ARFF header is not nominal")
    return attributes, classes


def read_arff_header(source: str | Path) -> ARFFHeader:
    """Read the attributes of an ARFF file; its rows are not looked at.

    Parameters
    ----------
    source : str or Path
        The file, or its text (a ``str`` with a line break).

    Raises
    ------
    BadInput
        Naming the line.
    """
    text, where = text_of(source)
    attributes: dict[str, tuple[str, ...] | None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        word = line.split(None, 1)[0].lower() if line.strip() else ""
        if word == "@data":
            break
        if word == "@attribute":
            name, values = _attribute(line.split(None, 1)[1:], f"{where}line {number}")
            if name in attributes:
                raise BadInput(f"{where}line {number}: attribute {name!r:.80} appears twice")
            attributes[name] = values
    if not attributes:
        raise BadInput(f"{where}no ARFF header: it names no attribute")
    return ARFFHeader(attributes)


# A name or value, bare or in quotes, within which a backslash takes the next letter as it is.
_WORD = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,{}'"%]+"""
_ATTRIBUTE = re.compile(rf"({_WORD})\s*(\{{.*\}}|[A-Za-z]\w*).*")
_DOMAIN = re.compile(rf"\{{\s*(?:{_WORD})(?:[\s,]+(?:{_WORD}))*[\s,]*\}}")


def _attribute(rest: Sequence[str], where: str) -> tuple[str, tuple[str, ...] | None]:
    match = _ATTRIBUTE.fullmatch(rest[0].strip()) if rest else None
    if match is None:
        raise BadInput(f"{where}: no name and type of an attribute")
    name, kind = _bare(match[1]), match[2]
    if not kind.startswith("{"):
        return name, None
    values = tuple(_bare(word) for word in re.findall(_WORD, kind[1:-1]))
    if not _DOMAIN.fullmatch(kind) or len(set(values)) != len(values):
        raise BadInput(f"{where}: the values of {name!r:.80} are not a list, or one appears twice")
    return name, values


def _bare(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word[0] in "'\"" else word
