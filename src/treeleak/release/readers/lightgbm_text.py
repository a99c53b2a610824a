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
from treeleak.core.output import read_text
from treeleak.release.bounds import MOST_JSON_BYTES, MOST_TREES, at_most
from treeleak.release.readers.lightgbm_lines import END, IMPORTANCES, ITEM, PARAMETER, odd_lines
from treeleak.release.registry import reader
from treeleak.release.stored import Leftover, StoredObject

BOOSTER = "lightgbm.basic.Booster"
MOST_LINES = 2**22
"""A tree takes some 25."""
MOST_ENTRIES = 2**20
"""Numbers in a line: LightGBM grows no more than 2^17 leaves."""
MOST_WORDS = 2**22
"""Numbers in a line of categories: 32 bits each, for every test of a column of many categories."""
MOST_KEYS = 100
"""Keys of a tree, or of the head: some 20 are known."""

NUMBERS = (
    "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type",
    "left_child", "right_child", "leaf_value", "leaf_weight", "leaf_count", "internal_value",
    "internal_weight", "internal_count", "cat_boundaries", "cat_threshold", "is_linear",
    "shrinkage",
)  # fmt: skip
"""Keys of a tree that hold numbers; what stands under any other is kept as text."""

_BEHIND = "pandas_categorical"
_OURS = ("trees", "parameters", _BEHIND, "importances", "handle", "_handle")
"""What the reader puts beside the keys of the head."""
_HEAD = re.compile(rb"(tree|gbdt|dart|goss|rf)\s*\r?\n[a-z_]+=")
_UNVERSIONED = (
    "written by LightGBM before 2.0, which names no version: load it in LightGBM 2 "
    "(pip install 'lightgbm<3') and save it again with save_model"
)


def booster_from_text(text: str) -> StoredObject:
    """Read a model in LightGBM's own words.

    Returns
    -------
    StoredObject
        With what the head says, ``trees``, ``importances`` and ``parameters``. What LightGBM does
        not write so is left over.

    Raises
    ------
    BadModel
        Naming the line.
    """
    at_most(MOST_JSON_BYTES, len(text), "letters")
    lines = _Lines(text)
    number, first = lines.next()
    state: dict[str, Any] = dict(lines.keys("the head"))
    if first != "tree" or "version" not in state:
        if "num_class" in state:
            raise BadModel(_UNVERSIONED)
        raise BadModel(f"line {number}: a model of LightGBM begins with the word tree")
    for key in _OURS:
        if key in state:
            raise BadModel(f"the head holds a key {key!r}, which is none of LightGBM's")
    trees: list[dict[str, Any]] = []
    while lines.starts("Tree="):
        number, first_line = lines.next()
        if first_line != f"Tree={len(trees)}":
            raise BadModel(f"line {number}: {first_line!r:.40}, Tree={len(trees)} was due")
        at_most(MOST_TREES, len(trees) + 1, "trees")
        trees.append(dict(_numbers(lines, f"tree {len(trees)}")))
    # Versions 2.0 and 2.1 go on with the importance of columns.
    if not lines.starts(END) and not lines.starts(IMPORTANCES):
        raise BadModel(f"line {lines.number}: neither a tree nor the end of trees: cut short")
    number, ended = lines.next()
    if ended not in (END, *IMPORTANCES):
        raise BadModel(f"line {number}: {ended!r:.40}, {END!r} was due")
    columns = frozenset(str(state.get("feature_names", "")).split())
    left = tuple(
        Leftover(odd.where, "lines that LightGBM does not write", odd.line)
        for odd in odd_lines(text.split("\n"))
    )
    return StoredObject(
        BOOSTER, state | {"trees": trees} | dict(_behind(lines, columns)), leftovers=left
    )


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

    def starts(self, word: str | tuple[str, ...]) -> bool:
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
        while self.left and not self.starts(("Tree=", END, *IMPORTANCES)):
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
        most = MOST_WORDS if key == "cat_threshold" else MOST_ENTRIES
        at_most(most, value.count(" "), f"spaces between the numbers of {key} in {where}")
        try:
            yield key, np.array(value.strip(" ").split(" ") if value else (), dtype=float)
        except ValueError as error:
            raise BadModel(f"{where}: {key} is not a list of numbers") from error


def _behind(lines: _Lines, columns: Container[str]) -> Iterator[tuple[str, Any]]:
    """Read what stands behind the trees."""
    parameters: dict[str, str] = {}
    importances: list[str] = []
    categories: str | None = None
    while lines.left:
        number, line = lines.next()
        if line.startswith(f"{_BEHIND}:"):
            if categories is not None:
                raise BadModel(f"line {number}: {_BEHIND!r} appears twice")
            categories = line.partition(":")[2]
        elif found := PARAMETER.fullmatch(line):
            if found[1] in parameters:
                raise BadModel(f"line {number}: the parameter {found[1]!r:.40} appears twice")
            parameters[found[1]] = found[2]
        elif (found := ITEM.fullmatch(line)) and found[1] in columns:
            importances.append(found[2])
    if categories is not None:
        yield _BEHIND, categories
    yield "parameters", parameters
    try:
        if importances:
            yield "importances", np.array(importances, dtype=float)
    except ValueError as error:
        raise BadModel("the importance of a column is not a number") from error
