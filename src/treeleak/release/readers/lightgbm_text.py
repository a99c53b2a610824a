"""LightGBM's text files, read as data; LightGBM is not imported.

A text has a head of lines ``key=value``, such lines for each tree, and behind them the importance
of columns, the parameters of the training, and the categories of a DataFrame. What a Python object
keeps of itself, in a pickle or live, is the same text.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.core.text_files import read_text
from treeleak.release.bounds import MOST_JSON_BYTES, MOST_TREES, at_most
from treeleak.release.registry import reader
from treeleak.release.stored import StoredObject

BOOSTER = "lightgbm.basic.Booster"
MOST_LINES = 2**22
"""A tree takes some 25."""
MOST_ENTRIES = 2**20
"""Numbers in a line: LightGBM grows no more than 2^17 leaves."""
MOST_KEYS = 100
"""Keys of a tree, or of the head: some 20 are known."""

NUMBERS = (
    "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type",
    "left_child", "right_child", "leaf_value", "leaf_weight", "leaf_count", "internal_value",
    "internal_weight", "internal_count", "cat_boundaries", "cat_threshold", "is_linear",
    "shrinkage",
)  # fmt: skip
"""Keys of a tree that hold numbers; what stands under any other is kept as text."""

END = "end of trees"
_BEHIND = "pandas_categorical"
_OURS = (
    "trees", "parameters", "behind", _BEHIND, "importances", "other lines", "handle", "_handle",
)  # fmt: skip
"""What the reader, and the inventory after it, put beside the keys of the head."""
_HEAD = re.compile(rb"tree\s*\r?\nversion=v\d")
_IMPORTANCE = re.compile(r"(.*)=([-+.\deE]{1,40})")
_PARAMETER = re.compile(r"\[([A-Za-z_0-9]+): ?(.*)\]$")


def booster_from_text(text: str) -> StoredObject:
    """Read a model in LightGBM's own words.

    Returns
    -------
    StoredObject
        With what the head says, ``trees``, ``parameters`` and what stands behind them.

    Raises
    ------
    BadModel
        Naming the line.
    """
    at_most(MOST_JSON_BYTES, len(text), "letters")
    lines = _Lines(text)
    number, first = lines.next()
    if first != "tree":
        raise BadModel(f"line {number}: a model of LightGBM begins with the word tree")
    state: dict[str, Any] = dict(lines.keys("the head"))
    for key in _OURS:
        if key in state:
            raise BadModel(f"the head holds a key {key!r}, which is none of LightGBM's")
    trees: list[dict[str, Any]] = []
    while lines.starts("Tree="):
        number, begun = lines.next()
        if begun != f"Tree={len(trees)}":
            raise BadModel(f"line {number}: {begun!r:.40}, Tree={len(trees)} was due")
        at_most(MOST_TREES, len(trees) + 1, "trees")
        trees.append(dict(_numbers(lines, f"tree {len(trees)}")))
    if not lines.starts(END):
        raise BadModel(f"line {lines.number}: neither a tree nor the end of trees: cut short")
    number, ended = lines.next()
    if ended != END:
        raise BadModel(f"line {number}: {ended!r:.40}, {END!r} was due")
    return StoredObject(BOOSTER, state | {"trees": trees} | dict(_behind(lines)))


@reader("LightGBM text", lambda head: _HEAD.match(head) is not None)
def _read_file(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    return booster_from_text(read_text(path, MOST_JSON_BYTES))


class _Lines:
    """The lines that are not empty, one after the other."""

    def __init__(self, text: str) -> None:
        at_most(MOST_LINES, text.count("\n"), "lines")
        self._lines = text.split("\n")
        self._at = -1
        self._forward()

    def _forward(self) -> None:
        self._at += 1
        while self._at < len(self._lines) and not self._lines[self._at].strip():
            self._at += 1

    @property
    def number(self) -> int:
        """Number of the next line, from 1."""
        return self._at + 1

    @property
    def left(self) -> bool:
        """Whether there is another line."""
        return self._at < len(self._lines)

    def starts(self, word: str) -> bool:
        """Say whether the next line begins like this."""
        return self.left and self._lines[self._at].startswith(word)

    def next(self) -> tuple[int, str]:
        """Take a line, with its number."""
        if not self.left:
            raise BadModel("the text is cut short")
        number, line = self.number, self._lines[self._at].rstrip("\r")
        self._forward()
        return number, line

    def keys(self, where: str) -> Iterator[tuple[str, str]]:
        """Take the lines that give keys their values, up to a tree or the end of trees."""
        seen: set[str] = set()
        while self.left and not self.starts("Tree=") and not self.starts(END):
            number, line = self.next()
            key, _, value = line.partition("=")
            if key in seen:
                raise BadModel(f"line {number}: {key!r:.40} appears twice in {where}")
            seen.add(key)
            at_most(MOST_KEYS, len(seen), f"keys in {where}")
            yield key, value


def _numbers(lines: _Lines, where: str) -> Iterator[tuple[str, Any]]:
    for key, value in lines.keys(where):
        if key not in NUMBERS:
            yield key, value
            continue
        at_most(MOST_ENTRIES, value.count(" "), f"spaces between the numbers of {key} in {where}")
        try:
            yield key, np.array(value.strip(" ").split(" ") if value else (), dtype=float)
        except ValueError as error:
            raise BadModel(f"{where}: {key} is not a list of numbers") from error


def _behind(lines: _Lines) -> Iterator[tuple[str, Any]]:
    """Read what stands behind the trees."""
    parameters: dict[str, str] = {}
    others: list[str] = []
    categories: str | None = None
    while lines.left:
        number, line = lines.next()
        if line.startswith(f"{_BEHIND}:"):
            if categories is not None:
                raise BadModel(f"line {number}: {_BEHIND!r} appears twice")
            categories = line.partition(":")[2]
        elif found := _PARAMETER.match(line):
            if found[1] in parameters:
                raise BadModel(f"line {number}: the parameter {found[1]!r:.40} appears twice")
            parameters[found[1]] = found[2]
        elif line not in ("feature_importances:", "parameters:", "end of parameters"):
            others.append(line)
    if categories is not None:
        yield _BEHIND, categories
    yield "parameters", parameters
    yield "behind", others


def importance(line: str, columns: Container[str]) -> str | None:
    """Read the number in a line behind the trees that says how important a column is, if it does.

    ``columns``: those of the model.
    """
    found = _IMPORTANCE.fullmatch(line)
    return found[2] if found and found[1] in columns else None
