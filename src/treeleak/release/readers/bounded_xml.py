"""XML taken for hostile: no document type, no entities, and bounds before anything is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any
from xml.parsers import expat

from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_LEVELS, at_most

MOST_BYTES = 2**28
"""Of a document: some 100 MB in a second."""
MOST_ELEMENTS = 2**22
"""Each takes some 500 bytes."""
MOST_DEEP = MOST_LEVELS + 20
"""Elements in each other: trees hold nodes that hold nodes."""
_PREFIX = re.compile(r"[A-Za-z]{0,12}")
_NAMESPACE = re.compile(
    r"http://(www\.dmg\.org/PMML-\d_\d{1,2}|www\.w3\.org/\d{4}/[A-Za-z/-]{3,24}|"
    r"jpmml\.org/jpmml-model/InlineTable)|"
)
"""Names of namespaces that programs declare: others could be texts of any kind."""


@dataclass(eq=False)
class Element:
    """A part of a document, with what is in it."""

    tag: str
    """Without its namespace."""
    space: str
    """The namespace."""
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    text: str = ""
    """All letters right in it, but for blanks around them."""

    def get(self, name: str, default: str = "") -> str:
        """Give an attribute."""
        return self.attributes.get(name, default)

    def all(self, *tags: str) -> list[Element]:
        """List the children of these names."""
        return [child for child in self.children if child.tag in tags]

    def walk(self) -> Iterator[Element]:
        """Go through the element and all that are in it, in their order."""
        waiting = [self]
        while waiting:
            yield (one := waiting.pop())
            waiting += reversed(one.children)


def parse_xml(data: bytes) -> tuple[Element, list[str]]:
    """Read a document; also list what nothing uses.

    These are comments, what it says to programs, and namespaces that no program declares.

    Raises
    ------
    BadModel
        If it is no XML, declares a document type or entities, or is beyond the bounds.
    """
    at_most(MOST_BYTES, len(data), "bytes")
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    root = Element("", "", {})
    open_elements, beside, seen = [root], list[str](), 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal seen
        seen += 1
        at_most(MOST_ELEMENTS, seen, "elements")
        at_most(MOST_DEEP, len(open_elements), "elements in each other")
        space, _, tag = name.rpartition(" ")
        element = Element(tag, space, attributes)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(_: str) -> None:
        element = open_elements.pop()
        element.text = element.text.strip()

    def letters(text: str) -> None:
        open_elements[-1].text += text

    def namespace(prefix: str | None, name: str | None) -> None:
        if not (_PREFIX.fullmatch(prefix or "") and _NAMESPACE.fullmatch(name or "")):
            beside.append(f"{prefix or ''} {name or ''}")

    def refuse(*_: Any) -> Any:
        raise BadModel("it declares a document type or entities, which no model needs")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = letters
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    parser.StartNamespaceDeclHandler = namespace
    parser.CommentHandler = beside.append
    parser.ProcessingInstructionHandler = lambda *said: beside.append(" ".join(said))
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise BadModel(f"no XML that can be read: {error}") from error
    return root.children[0], beside
