"""LightGBM's text files, read as data; LightGBM is not imported.

A text has a head of lines ``key=value``, such lines for each tree, and behind them the importance
of columns, the parameters of the training, and the categories of a DataFrame. What a Python object
keeps of itself, in a pickle or live, is the same text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.core.message import static_message
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
LINEAR = static_message(
    "LightGBM trees with linear models in their leaves (linear_tree) are not covered",
    "lightgbm_linear",
)
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
_BEGIN = ("Tree=", END, *IMPORTANCES)
"""How lines begin that end the head or a tree."""
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
    walk = _Walk(text.split("\n"))
    left = tuple(
        Leftover(odd.where, "lines that LightGBM does not write", odd.line) for odd in walk.odd
    )
    return StoredObject(BOOSTER, walk.state, leftovers=left)


describe_format(
    "LightGBM text",
    ".txt",
    "rows, sums of hessians and gain of each node, ranges of all columns, settings, seeds",
)


@reader("LightGBM text", lambda head: _HEAD.match(head) is not None)
def _read_file(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    return booster_from_text(read_text(path, MOST_JSON_BYTES))


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
    return _Walk(lines).odd


class _Walk:
    """What the lines of a text say, each of which belongs to one part of the file.

    Raises BadModel, naming the line.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        at_most(MOST_LINES, len(lines) - 1, "lines")
        self._lines, self._at = lines, 0
        self.odd: list[Odd] = []
        places, end = self._keys("the head", MOST_BLANK)
        head = {key: self._value(at) for key, at in places.items()}
        if next(iter(head), "") != "tree" or "version" not in head:
            if "num_class" in head:
                raise BadModel(_UNVERSIONED)
            raise BadModel("line 1: a model of LightGBM begins with the word tree")
        del head["tree"]
        for key in _OURS:
            if key in head:
                raise BadModel(f"the head holds a key {key!r}, which is none of LightGBM's")
        last = whole_of(head.get("max_feature_idx", ""))
        self._sizes = Sizes(
            columns=0 if last is None else last + 1,
            classes=whole_of(head.get("num_class", "")) or 1,
        )
        self._hold(places, HEAD, self._sizes, "the head")
        stated = places.get("tree_sizes")
        trees, sizes = list[dict[str, Any]](), list[int]()
        while (line := self._next or "").startswith("Tree="):
            if line.rstrip("\r") != f"Tree={len(trees)}":
                raise BadModel(f"line {self._at + 1}: {line!r:.40}, Tree={len(trees)} was due")
            at_most(MOST_TREES, len(trees) + 1, "trees")
            self._skip(f"Tree={len(trees)}")
            begin = self._at - 1
            # Files without an end of trees have one more empty line before what follows.
            places, end = self._keys(f"tree {len(trees)}", BLANK)
            trees.append(self._tree(places, f"tree {len(trees)}"))
            # The size of a tree counts the empty lines behind it.
            sizes.append(BLANK + sum(len(line.encode()) + 1 for line in lines[begin:end]))
        anew = f"tree_sizes={' '.join(map(str, sizes))}"
        if stated is not None and lines[stated] != anew:
            self._note([stated], "the head", anew)
        self.state = {**head, "trees": trees, **self._behind(str(head.get("feature_names", "")))}

    @property
    def _next(self) -> str | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _value(self, at: int) -> str:
        return self._lines[at].rstrip("\r").partition("=")[2]

    def _note(self, at: Iterable[int], where: str, anew: str | None = None) -> None:
        self.odd += [Odd(k, where, self._lines[k], anew) for k in at]

    def _skip(self, *words: str) -> bool:
        """Pass over a line that is one of some words; say whether it is."""
        line = self._next
        if line is None or line.rstrip("\r") not in words:
            return False
        if line not in words:
            self._note([self._at], "ends of lines", line.rstrip("\r"))
        self._at += 1
        return True

    def _keys(self, where: str, most_blank: int) -> tuple[dict[str, int], int]:
        """Find the lines that give keys their values, up to a tree or the end of trees.

        Also says where the last of them ends.
        """
        places, blank, end = dict[str, int](), list[int](), self._at
        while (line := self._next) is not None and not line.startswith(_BEGIN):
            if line.strip():
                self._note(blank, "empty lines")
                key, blank, end = line.rstrip("\r").partition("=")[0], [], self._at + 1
                if key in places:
                    raise BadModel(f"line {end}: {key!r:.40} appears twice in {where}")
                places[key] = self._at
                at_most(MOST_KEYS, len(places), f"keys in {where}")
            else:
                blank.append(self._at)
            self._at += 1
        spare = most_blank + (where != "the head" and not (line or "").startswith("Tree="))
        odd = [k for n, k in enumerate(blank) if n >= spare or self._lines[k]]
        self._note(odd, "empty lines")
        return places, end

    def _hold(
        self, places: Mapping[str, int], known: Mapping[str, Written], sizes: Sizes, where: str
    ) -> None:
        """Hold lines against what LightGBM writes for their values."""
        for key, at in places.items():
            line = self._lines[at]
            _, sign, value = line.partition("=")
            if key not in known:
                self._note([at], where)
            elif known is HEAD and key in _BARE:
                if line != key:
                    self._note([at], where, key)
            elif (anew := known[key](value, sizes)) != value or not sign:
                self._note([at], where, None if anew is None else f"{key}={anew}")

    def _tree(self, places: Mapping[str, int], where: str) -> dict[str, Any]:
        values = {key: self._value(at) for key, at in places.items()}
        leaves = whole_of(values.get("num_leaves", "")) or 1
        sizes = Sizes(self._sizes.columns, self._sizes.classes, leaves, values)
        out: dict[str, Any] = {}
        for key, value in values.items():
            out[key] = value
            if key in NUMBERS:
                most = MOST_WORDS if key == "cat_threshold" else MOST_ENTRIES
                at_most(most, value.count(" "), f"spaces between the numbers of {key} in {where}")
                try:
                    out[key] = np.array(value.strip(" ").split(" ") if value else (), dtype=float)
                except ValueError as error:
                    raise BadModel(f"{where}: {key} is not a list of numbers") from error
        self._hold(places, TREE, sizes, where)
        return out

    # ------------------------------------------------------------------------ behind the trees

    def _behind(self, names: str) -> dict[str, Any]:
        """Read what stands behind the trees: sections in their order, each once."""
        line = self._next
        if line is None or not line.startswith((END, *IMPORTANCES)):
            raise BadModel(f"line {self._at + 1}: neither a tree nor the end of trees: cut short")
        # Versions 2.0 and 2.1 go on with the importance of columns.
        if not self._skip(END) and line.rstrip("\r") not in IMPORTANCES:
            raise BadModel(f"line {self._at + 1}: {line!r:.40}, {END!r} was due")
        self._blank(MOST_BLANK)
        importances = list[str]()
        if self._skip(*IMPORTANCES):
            columns, seen = set(names.split()), set[str]()
            for at, found in self._matched(ITEM):
                importances += [found[2]] if found and found[1] in columns else []
                if found is None or found[1] not in columns or found[1] in seen:
                    self._note([at], "importance of columns")
                    continue
                seen.add(found[1])
                if (anew := number(found[2])) != found[2]:
                    self._note([at], "importance of columns", anew and f"{found[1]}={anew}")
            self._blank(MOST_BLANK)
        parameters: dict[str, str] = {}
        if self._skip(PARAMETERS):
            for at, found in self._matched(PARAMETER):
                written = PARAMETERS_BY_NAME.get(found[1]) if found else None
                _put(parameters, found, at)
                anew = written(found[2], self._sizes) if found and written else None
                rewritten = None if anew is None or found is None else f"[{found[1]}: {anew}]"
                if self._lines[at] != rewritten:
                    self._note([at], PARAMETERS, rewritten)
            self._blank(1)
            self._skip(END_OF_PARAMETERS)
            self._blank(MOST_BLANK)
        out: dict[str, Any] = {"parameters": parameters}
        if (line := self._next) is not None and line.startswith(f"{_BEHIND}:"):
            out[_BEHIND] = line.rstrip("\r").partition(":")[2]
            anew = _json(out[_BEHIND])
            if line != f"{_BEHIND}:{anew}":
                self._note([self._at], _BEHIND_TREES, f"{_BEHIND}:{anew}" if anew else None)
            self._at += 1
            self._blank(MOST_BLANK)
        # Whatever stands elsewhere is odd, and says what it says.
        for at, line in enumerate(self._lines[self._at :], self._at):
            _put(parameters, PARAMETER.fullmatch(line.rstrip("\r")), at)
            _put(out, re.fullmatch(f"({_BEHIND}):(.*?)\r?", line), at)
            self._note([at], _BEHIND_TREES)
        try:
            if importances:
                out["importances"] = np.array(importances, dtype=float)
        except ValueError as error:
            raise BadModel("the importance of a column is not a number") from error
        return out

    def _matched(self, form: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str] | None]]:
        """Match lines up to an empty one or another part."""
        while (line := self._next) and not line.startswith((END_OF_PARAMETERS, f"{_BEHIND}:")):
            self._at += 1
            yield self._at - 1, form.fullmatch(line.rstrip("\r"))

    def _blank(self, most: int) -> None:
        """Pass over empty lines, and note those that are too many."""
        first = self._at
        while self._next == "":
            self._at += 1
        self._note(range(first + most, self._at), "empty lines")


def _put(held: dict[str, Any], found: re.Match[str] | None, at: int) -> None:
    if found is not None:
        if found[1] in held:
            raise BadModel(f"line {at + 1}: {found[1]!r:.40} appears twice")
        held[found[1]] = found[2]


def _json(text: str) -> str | None:
    """Write lists of categories as Python does."""
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError):
        return None
