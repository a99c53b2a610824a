"""Steps that change a file, and a model in JSON or UBJSON, changed as data.

What no step touches keeps every digit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.checked_json import read_json

Change = Callable[[Any], Any]

MOST_DIGITS = 25
"""Letters of a number in double precision: its sign, point and exponent, too."""

DROPPED = object()
"""What a change returns for a value that goes with its key."""


class Digits(str):
    """A number as it stands in a file: libraries differ in how they read the last digit."""

    __slots__ = ()


def zero(number: Any) -> Digits:
    """Write zero as a number of the same kind: whole or not, libraries tell these apart."""
    return Digits("0" if str(number).lstrip("-").isdigit() else "0E0")


@dataclass(frozen=True, eq=False)
class Document:
    """What a file says."""

    root: Mapping[str, Any]
    write: Callable[[Any], bytes]

    def to_bytes(self) -> bytes:
        """Write the file; the same content is always written the same way."""
        return self.write(self.root)

    def with_changes(self, changes: Iterable[tuple[str, Change]]) -> Document:
        """Change the values at places; the very same document where nothing changes."""
        root = self.root
        for place, change in changes:
            root = changed(root, [part for part in place.split("/") if part], change)
        return self if root is self.root else replace(self, root=root)


def read_document(path: Path, check: Callable[[Any], bool], what: str) -> Document:
    """Read a JSON file with its numbers as they stand there.

    Raises
    ------
    BadModel
    """

    def made(root: Any) -> Document:
        if not check(root):
            raise BadModel(f"no {what}")
        return Document(root, json_bytes)

    return read_json(path, made, number=Digits)


def json_bytes(value: Any) -> bytes:
    """Write JSON, numbers as they stood."""
    parts: list[str] = []
    _append(value, parts)
    return "".join(parts).encode()


def _append(value: Any, parts: list[str]) -> None:
    if isinstance(value, Digits):
        parts.append(value)
    elif isinstance(value, Mapping):
        parts.append("{")
        for k, (key, part) in enumerate(value.items()):
            parts += ("," if k else "", json.dumps(key), ":")
            _append(part, parts)
        parts.append("}")
    elif isinstance(value, list):
        if value and all(isinstance(item, Digits) for item in value):
            parts += ("[", ",".join(value), "]")
            return
        parts.append("[")
        for k, part in enumerate(value):
            parts.append("," if k else "")
            _append(part, parts)
        parts.append("]")
    else:
        parts.append(json.dumps(value))


def changed(value: Any, place: list[str], change: Change) -> Any:
    """Change what stands at a place; ``*`` stands for each item of a list, or each value.

    What is not there is not changed. Returns the very same value where nothing changes.
    """
    if not place:
        return change(value)
    if isinstance(value, list):
        if place[0] != "*":
            return value
        items = [changed(item, place[1:], change) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if not isinstance(value, Mapping):
        return value
    new = dict(value)
    for key in [place[0]] if place[0] != "*" else list(value):
        if key in value:
            new[key] = changed(value[key], place[1:], change)
            if new[key] is DROPPED:
                del new[key]
    same = len(new) == len(value) and all(new[key] is value[key] for key in new)
    return value if same else new


def dropped(value: Any) -> Any:  # noqa: ARG001
    """Take a value away with its key."""
    return DROPPED


def zeros(value: Any) -> Any:
    """Put zeros in place of a list of numbers."""
    if isinstance(value, np.ndarray):
        return np.zeros_like(value) if value.any() else value
    if isinstance(value, list):
        # Libraries look for as many numbers as there are nodes.
        done = all(isinstance(item, Digits) and float(item) == 0 for item in value)
        return value if done else [zero(item) for item in value]
    return value


def few_digits(value: Any) -> Any:
    """Write numbers of more digits than any has with as many as tell them apart."""
    if isinstance(value, Digits) and len(value) > MOST_DIGITS:
        return Digits(repr(float(value)))
    if isinstance(value, Mapping):
        new = {key: few_digits(inner) for key, inner in value.items()}
        return new if any(new[key] is not value[key] for key in new) else value
    if isinstance(value, list):
        items = [few_digits(item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def step(name: str, takes: str, costs: str, *changes: tuple[str, Change]) -> Step:
    """Make a measure of changes at places."""
    return Step(name, takes, costs, lambda document: document.with_changes(changes))


NOTHING = "nothing that predictions need"


@dataclass(frozen=True)
class Step:
    """A measure."""

    name: str
    """As it is asked for."""
    takes: str
    """What it takes away, in words."""
    costs: str
    """What no longer works, in words."""
    apply: Callable[[Any], Any]
    """From what a file holds to the changed content, or to the very same if there is nothing to
    change."""
    lossless: bool = True
    """Whether predictions stay what they are."""
