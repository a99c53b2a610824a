"""LightGBM's text files, read as data; LightGBM is not imported.

A text has a head of lines ``key=value``, such lines for each tree, and behind them the importance
of columns, the parameters of the training, and the categories of a DataFrame. What a Python object
keeps of itself, in a pickle or live, is the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.core.output import read_text
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_JSON_BYTES, MOST_TREES, at_most
from treeleak.release.readers.lightgbm_lines import (
    HEAD,
    PARAMETERS_BY_NAME,
    TREE,
    Sizes,
    Written,
    number,
    whole_of,
)
from treeleak.release.registry import describe_format, reader
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

BLANK = 2
"""Empty lines behind each tree, in every version."""
MOST_BLANK = 3
"""Empty lines between two parts of a file: versions differ."""
ITEM = re.compile(r"(.*)=([-+.\deE]{1,24})")
PARAMETER = re.compile(r"\[([A-Za-z_0-9]+): ?(.*)\]")
END = "end of trees"
IMPORTANCES = ("feature_importances:", "feature importances:")
PARAMETERS, END_OF_PARAMETERS = "parameters:", "end of parameters"
_BEHIND_TREES = "behind the trees"
_BARE = ("tree", "average_output")
"""Lines of the head that are a word alone."""


@lru_cache(maxsize=1)  # A large file takes seconds, and several places need it.
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


describe_format(
    "LightGBM text",
    ".txt",
    "rows, sums of hessians and gain of each node, ranges of all columns, settings, seeds",
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


@dataclass(frozen=True)
class Odd:
    """A line that LightGBM does not write."""

    number: int
    """From 0."""
    where: str
    line: str
    anew: str | None
    """What LightGBM writes for its value; None where it has no such line."""


def odd_lines(lines: Sequence[str]) -> list[Odd]:
    """List the lines of a model's text that LightGBM does not write."""
    return list(_Account(lines).odd())


class _Account:
    """A walk over the lines, each of which belongs to one part of the file."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0
        head = dict(line.partition("=")[::2] for _, line in self._keyed())
        self._at = 0
        last = whole_of(head.get("max_feature_idx", ""))
        self._sizes = Sizes(
            columns=0 if last is None else last + 1,
            classes=whole_of(head.get("num_class", "")) or 1,
        )
        self._columns = set(head.get("feature_names", "").split())

    def odd(self) -> Iterator[Odd]:
        """List the odd lines."""
        sizes: list[int] = []
        head_line: int | None = None
        for at, line in self._keyed():
            if line.startswith("tree_sizes="):
                head_line = at
            yield from self._line(at, line, HEAD, self._sizes, "the head")
        yield from self._blank(MOST_BLANK)
        while (self._next or "").startswith("Tree="):
            start = self._at
            yield from self._tree()
            # The size of a tree counts the empty lines behind it.
            sizes.append(
                BLANK + sum(len(line.encode()) + 1 for line in self._lines[start : self._at])
            )
            blank = list(self._blank(BLANK))
            # Files without an end of trees have one more before what follows.
            yield from blank if (self._next or "").startswith("Tree=") else blank[1:]
        anew = f"tree_sizes={' '.join(map(str, sizes))}"
        if head_line is not None and self._lines[head_line] != anew:
            yield Odd(head_line, "the head", self._lines[head_line], anew)
        yield from self._behind()

    def _tree(self) -> Iterator[Odd]:
        values: dict[str, str] = {}
        leaves = 1
        where = self._lines[self._at].replace("=", " ")[:20]
        for at, line in self._keyed():
            key, _, value = line.partition("=")
            values.setdefault(key, value)
            if key == "num_leaves":
                leaves = whole_of(value) or 1
            tree_sizes = Sizes(self._sizes.columns, self._sizes.classes, leaves, values)
            yield from self._line(at, line, TREE, tree_sizes, where)

    def _line(
        self, at: int, line: str, known: Mapping[str, Written], sizes: Sizes, where: str
    ) -> Iterator[Odd]:
        key, sign, value = line.partition("=")
        if key not in known:
            yield Odd(at, where, line, None)
        elif known is HEAD and key in _BARE:
            if sign:
                yield Odd(at, where, line, key)
        elif (anew := known[key](value, sizes)) != value or not sign:
            yield Odd(at, where, line, None if anew is None else f"{key}={anew}")

    def _behind(self) -> Iterator[Odd]:
        """Account for what stands behind the trees: sections in their order, each once."""
        if self._next == END:
            self._at += 1
        yield from self._blank(MOST_BLANK)
        if self._next in IMPORTANCES:
            self._at += 1
            yield from self._importances()
            yield from self._blank(MOST_BLANK)
        if self._next == PARAMETERS:
            self._at += 1
            yield from self._parameters()
            yield from self._blank(MOST_BLANK)
        line = self._next
        if line is not None and line.startswith(f"{_BEHIND}:"):
            anew = _json(line.removeprefix(f"{_BEHIND}:"))
            if line != f"{_BEHIND}:{anew}":
                yield Odd(self._at, _BEHIND_TREES, line, f"{_BEHIND}:{anew}" if anew else None)
            self._at += 1
            yield from self._blank(MOST_BLANK)
        for at in range(self._at, len(self._lines)):
            yield Odd(at, _BEHIND_TREES, self._lines[at], None)

    def _importances(self) -> Iterator[Odd]:
        seen: set[str] = set()
        for at, line in self._keyed():
            found = ITEM.fullmatch(line)
            known = found is not None and found[1] in self._columns - seen
            if found is None or not known:
                yield Odd(at, "importance of columns", line, None)
                continue
            seen.add(found[1])
            if (anew := number(found[2])) != found[2]:
                yield Odd(at, "importance of columns", line, anew and f"{found[1]}={anew}")

    def _parameters(self) -> Iterator[Odd]:
        seen: set[str] = set()
        for at, line in self._keyed():
            if line == END_OF_PARAMETERS:
                return
            found = PARAMETER.fullmatch(line)
            written = PARAMETERS_BY_NAME.get(found[1]) if found else None
            if found is None or written is None or found[1] in seen:
                yield Odd(at, PARAMETERS, line, None)
                continue
            seen.add(found[1])
            anew = written(found[2], self._sizes)
            if line != f"[{found[1]}: {anew}]":
                yield Odd(at, PARAMETERS, line, None if anew is None else f"[{found[1]}: {anew}]")
        yield from self._blank(1)
        if self._next == END_OF_PARAMETERS:
            self._at += 1

    def _keyed(self) -> Iterator[tuple[int, str]]:
        """Take lines up to an empty one, or one that begins another part."""
        first = self._at
        while line := self._next:
            begins = line.startswith("Tree=") and self._at > first
            if begins or line == END or line.startswith(f"{_BEHIND}:"):
                return
            self._at += 1
            yield self._at - 1, line

    def _blank(self, most: int) -> Iterator[Odd]:
        """Pass over empty lines; list those that are too many."""
        first = self._at
        while self._next == "":
            self._at += 1
        for at in range(first + most, self._at):
            yield Odd(at, "empty lines", "", None)

    @property
    def _next(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None


def _json(text: str) -> str | None:
    """Write lists of categories as Python does."""
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError):
        return None
