"""The part of YAML that programs write: mappings, lists and plain values, in blocks.

No value is made of anything but these, whatever a file asks for: what a tag names is left out, and
is :data:`OPAQUE`. What is not understood is an error that names the line, never a guess.
"""

from __future__ import annotations

import re
from typing import Any

from treeleak.core.errors import BadInput

MOST_LEVELS = 40
MOST_LINES = 1000
"""Of one text."""

OPAQUE: Any = type("Opaque", (), {"__repr__": lambda _: "OPAQUE"})()
"""Stands for a value of a type that only code could make."""

_PLAIN_KEY = r"""(?:[^\s'"\[\]{}&*!|>%@`#,-]|-[0-9])(?:[^:#]|:(?!\s|$)|(?<!\s)#)*"""
_KEY = re.compile(rf"""('(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|{_PLAIN_KEY}):(?:\s+|$)""")
_PROPERTY = re.compile(r"([&!]\S*)(?:\s+|$)")
_LITERAL = re.compile(r"[|>][-+1-9]{0,2}")
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]{1,4})?")
_WORDS = {
    "": None, "~": None, "null": None, "true": True, "false": False, ".nan": float("nan"),
    ".inf": float("inf"), "-.inf": float("-inf"),
}  # fmt: skip
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "/": "/", " ": " ",
    "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v", "_": "\xa0", "N": "\x85",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)


def parse_yaml(text: str) -> Any:
    """Read a document.

    Raises
    ------
    BadInput
        Naming the line that is no such YAML, or goes beyond this part of it.
    """
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines: list[tuple[int, str, int]] = []
        for number, line in enumerate(text.splitlines(), 1):
            bare = line.strip()
            if not bare or bare.startswith("#") or (number == 1 and bare == "---"):
                continue
            indent = len(line) - len(line.lstrip(" "))
            if line[indent] == "\t":
                raise BadInput(f"line {number}: begins with a tab, where YAML has blanks")
            self.lines.append((indent, bare, number))
        self.at = 0
        self.anchors: dict[str, Any] = {}

    def document(self) -> Any:
        if not self.lines:
            return None
        found = self.block(self.lines[0][0], 0)
        if self.at < len(self.lines):
            raise self.error("stands further left than what it belongs to, or is no YAML")
        return found

    def error(self, why: str) -> BadInput:
        number = self.lines[min(self.at, len(self.lines) - 1)][2]
        return BadInput(f"line {number}: {why}")

    def next_indent(self) -> int:
        return self.lines[self.at][0] if self.at < len(self.lines) else -1

    def block(self, indent: int, level: int) -> Any:
        if level > MOST_LEVELS:
            raise self.error(f"more than {MOST_LEVELS} levels")
        text = self.lines[self.at][1]
        if _is_item(text):
            return self.items(indent, level)
        if _KEY.match(text):
            return self.mapping(indent, level)
        return self.value(text, indent - 1, level, in_mapping=False)

    def items(self, indent: int, level: int) -> list[Any]:
        found: list[Any] = []
        while self.next_indent() == indent and _is_item(self.lines[self.at][1]):
            _, text, number = self.lines[self.at]
            rest = text[1:].lstrip()
            if _is_item(rest) or _KEY.match(rest):
                own = indent + len(text) - len(rest)
                self.lines[self.at] = (own, rest, number)
                found.append(self.block(own, level + 1))
            else:
                found.append(self.value(rest, indent, level, in_mapping=False))
        return found

    def mapping(self, indent: int, level: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        while self.next_indent() == indent and (key := _KEY.match(self.lines[self.at][1])):
            text = self.lines[self.at][1]
            name = self.scalar(key[1])
            if name in found:
                raise self.error(f"the key {name!r:.80} stands twice")
            found[name] = self.value(text[key.end() :], indent, level, in_mapping=True)
        return found

    def value(self, text: str, indent: int, level: int, in_mapping: bool) -> Any:
        """Read what stands behind a key or a dash, and the lines that belong to it."""
        anchor, tagged = "", False
        while given := _PROPERTY.match(text):
            tagged |= given[1].startswith("!")
            anchor = given[1][1:] if given[1].startswith("&") else anchor
            text = text[given.end() :]
        if text:
            found = self.inline(text, indent)
        else:
            self.at += 1
            below = self.next_indent()
            deeper = below > indent
            listed = in_mapping and below == indent and _is_item(self.lines[self.at][1])
            found = self.block(below, level + 1) if deeper or listed else None
        found = OPAQUE if tagged else found
        if anchor:
            self.anchors[anchor] = found
        return found

    def inline(self, text: str, indent: int) -> Any:
        if text.startswith("*"):
            if text[1:] not in self.anchors:
                raise self.error(f"{text!r:.80} refers to nothing before it")
            self.at += 1
            return self.anchors[text[1:]]
        if _LITERAL.fullmatch(text):
            return self.literal(text[0], indent)
        if text[0] in "|>%@`" or text.startswith("? "):
            raise self.error(f"{text[0]!r} begins what is not read here")
        parts, plain = [text], text[0] not in "'\"[{"
        while plain or not _whole(_joined(parts)):
            goes_on = self.at + 1 < len(self.lines) and self.lines[self.at + 1][0] > indent
            if plain and not goes_on:
                break
            if not goes_on or len(parts) > MOST_LINES:
                raise self.error("a text or a list that is not closed, or too long")
            self.at += 1
            if plain and _KEY.match(self.lines[self.at][1]):
                raise self.error("a key in the middle of a text")
            parts.append(self.lines[self.at][1])
        found = self.scalar(_joined(parts))
        self.at += 1
        return found

    def literal(self, style: str, indent: int) -> str:
        """Read lines of a text as they are, but for empty ones."""
        self.at += 1
        parts = []
        while self.next_indent() > indent:
            parts.append(self.lines[self.at][1])
            self.at += 1
        return ("\n" if style == "|" else " ").join(parts)

    def scalar(self, text: str) -> Any:
        if text[0] == "'":
            return text[1:-1].replace("''", "'")
        if text[0] == '"':
            return _ESCAPED.sub(self._unescaped, text[1:-1])
        if text[0] in "[{":
            return self.flow(text)
        text = re.split(r"\s#", text, maxsplit=1)[0].strip()
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if _INT.fullmatch(text):
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) else text

    def _unescaped(self, found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code:
            if int(code, 16) > 0x10FFFF:
                raise self.error("an escape that is no character")
            return chr(int(code, 16))
        if found[4] not in _ESCAPES:
            raise self.error(f"the escape {found[0]!r:.80}")
        return _ESCAPES[found[4]]

    def flow(self, text: str) -> Any:
        """Read a list of plain values in brackets, or an empty mapping."""
        if text.replace(" ", "") == "{}":
            return {}
        inner = text[1:-1].strip()
        if text[0] == "{" or re.search(r"""[\[\]{}'"&*!]""", inner):
            raise self.error("brackets with more than plain values are not read here")
        return [self.scalar(part.strip() or "~") for part in inner.split(",")] if inner else []


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _joined(parts: list[str]) -> str:
    """Join the lines of a text; in double quotes, a backslash at an end stands for no blank."""
    text = "\n".join(parts)
    if text[0] == '"':
        text = re.sub(r"(?<!\\)((?:\\\\)*)\\\n", r"\1", text)
    return text.replace("\n", " ")


def _whole(text: str) -> bool:
    """Whether a text in quotes or a list in brackets is closed."""
    if text[0] == "'":
        return len(text) > 1 and re.fullmatch(r"'(?:[^']|'')*'", text) is not None
    if text[0] == '"':
        return re.fullmatch(r'"(?:[^"\\]|\\.)*"', text) is not None
    return text[-1] == {"[": "]", "{": "}"}.get(text[0], text[-1])
