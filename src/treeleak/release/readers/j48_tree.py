"""From the lines of a J48 tree to its nodes, where each can be read in one way only."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_COUNTS, MOST_ROWS, at_most
from treeleak.release.growing import GrowingTree
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.tree import LEAF, Tree

MAX_DEPTH = 1000
# More ways to read one line than any honest name allows.
MAX_READINGS = 100
_INDENT = "|   "
_NUMBER = r"\d+(?:\.\d+)?(?:E\d+)?"
_COUNTED = re.compile(rf" \(({_NUMBER})(?:/({_NUMBER}))?\)$")
_THRESHOLD = re.compile(r"-?\d+(?:\.\d+)?(?:E-?\d+)?")
_TEST = re.compile(r" (?P<test>=|!=|<=|>) ")


@dataclass
class _Line:
    """A branch: the line that it starts with, and the branches below it."""

    number: int
    text: str
    below: list[_Line] = field(default_factory=list)


@dataclass(frozen=True)
class _Reading:
    """One way to read a line; no label but at a leaf."""

    column: str
    test: str
    value: str
    label: str | None


@dataclass(frozen=True)
class _Leaf:
    label: str
    rows: int
    wrong: int


def nested_lines(after: Sequence[str], start: int) -> tuple[list[_Line], list[str]]:
    """Nest the lines of the tree by their indentation; also give what follows it."""
    at = 1 + (len(after) > 1 and set(after[1].strip()) == {"-"})
    while at < len(after) and not after[at].strip():
        at += 1
    root: list[_Line] = []
    open_levels = [root]
    while at < len(after) and after[at].strip():
        text, number = after[at], start + at
        depth = 0
        while text.startswith(_INDENT, depth * len(_INDENT)):
            depth += 1
        if depth > MAX_DEPTH:
            raise BadModel(f"line {number}: deeper than {MAX_DEPTH} levels")
        if depth >= len(open_levels):
            if depth > len(open_levels) or not open_levels[-1]:
                raise BadModel(f"line {number}: indented deeper than the line before it allows")
            open_levels.append(open_levels[-1][-1].below)
        del open_levels[depth + 1 :]
        open_levels[depth].append(_Line(number, text[depth * len(_INDENT) :]))
        at += 1
    if not root:
        raise BadModel(f"line {start}: no tree follows the heading")
    return root, list(after[at:])


class TreeBuilder:
    """Lays the nodes of the tree out; keeps what was learnt of its columns on the way."""

    def __init__(
        self,
        attributes: Mapping[str, tuple[str, ...] | None] | None,
        classes: tuple[str, ...] | None,
    ) -> None:
        self._given = attributes is not None
        self._classes = classes
        self.levels = dict(attributes or {})
        self._number = {column: i for i, column in enumerate(self.levels)}
        self.thresholds: list[str] = []
        self.leaves: dict[int, _Leaf] = {}
        self.splits = 0
        self._tree = GrowingTree()

    def grow(self, lines: list[_Line]) -> None:
        """Add the nodes that the lines describe."""
        if len(lines) == 1 and not lines[0].below and lines[0].text.startswith(": "):
            label = _COUNTED.sub("", lines[0].text).removeprefix(": ")
            self._leaf(lines[0], label, LEAF, 0)
            return
        todo = deque([(lines, LEAF, 0)])
        while todo:
            siblings, parent, side = todo.popleft()
            readings = self._read(siblings)
            self.splits += 1
            cuts = self._cuts(siblings, readings)
            column = self._number.setdefault(readings[0].column, len(self._number))
            for i, (line, reading) in enumerate(zip(siblings, readings, strict=True)):
                at = parent, side
                if i < len(cuts):
                    parent, side = self._tree.add(column, cuts[i], *at), 1
                    at = parent, 0
                if reading.label is None:
                    todo.append((line.below, *at))
                else:
                    self._leaf(line, reading.label, *at)

    def counted(self, classes: tuple[str, ...], by_class: bool) -> Tree:
        """The tree, with the counts of every node."""
        # Each leaf of a hostile text may name a class of its own.
        at_most(MOST_CLASSES, len(classes), "classes")
        at_most(MOST_COLUMNS, len(self.levels), "columns")
        at_most(MOST_COUNTS, len(self._tree) * len(classes), "counts")
        number = {label: i for i, label in enumerate(classes)}
        counts = np.zeros((len(self._tree), len(classes)))
        totals = np.zeros(len(self._tree))
        for node, leaf in self.leaves.items():
            own = number[leaf.label]
            totals[node] = leaf.rows
            counts[node, own] = leaf.rows - leaf.wrong
            # With two classes, the other one is the last but own; with none wrong, adding is idle.
            counts[node, len(classes) - 1 - own] += leaf.wrong
        for node, children in reversed(list(enumerate(self._tree.children))):
            if node not in self.leaves:
                counts[node] = counts[children].sum(axis=0)
                totals[node] = totals[children].sum()
        return self._tree.tree(
            Statistics.counting(
                ROWS,
                counts=counts if by_class else None,
                totals=None if by_class else totals,
                distinct=totals.astype(np.int64),
            )
        )

    def _leaf(self, line: _Line, label: str, parent: int, side: int) -> None:
        if self._classes is not None and label not in self._classes:
            known = ", ".join(map(repr, self._classes[:10]))
            raise BadModel(f"line {line.number}: {label!r:.80} is not one of the classes {known}")
        rows, wrong = _counts(line)
        self.leaves[self._tree.add(parent=parent, side=side)] = _Leaf(label, rows, wrong)

    def _read(self, lines: list[_Line]) -> list[_Reading]:
        """Find the one way to read branches that stand beside each other."""
        by_column = []
        for line in lines:
            fits: dict[tuple[str, str], list[_Reading]] = {}
            for reading in self._readings(line):
                kind = "=" if reading.test in ("=", "!=") else reading.value
                fits.setdefault((reading.column, kind), []).append(reading)
            by_column.append(fits)
        common = [key for key in by_column[0] if all(key in fits for fits in by_column)]
        if not common:
            raise BadModel(
                f"line {lines[0].number}: the branches that start here are not of one test of a "
                "known column, or one is missing"
            )
        for line, fits in zip(lines, by_column, strict=True):
            if len(common) > 1 or len(fits[common[0]]) > 1:
                raise BadInput(
                    f"line {line.number} can be read in several ways; the ARFF header would say "
                    "which is meant"
                )
        readings = [fits[common[0]][0] for fits in by_column]
        tests = [reading.test for reading in readings]
        if "!=" in tests:
            raise NotCovered(
                f"line {lines[tests.index('!=')].number}: a test of one value against all others "
                "(-B): the text does not say which values these are"
            )
        if len(lines) == 1 or (tests[0] != "=" and tests != ["<=", ">"]):
            raise BadModel(
                f"line {lines[0].number}: {readings[0].column!r:.80} has the branches "
                f"{', '.join(tests[:5])}: one is missing or appears twice"
            )
        return readings

    def _readings(self, line: _Line) -> list[_Reading]:
        text = line.text
        labels: list[tuple[int, str | None]] = [(len(text), None)]
        if not line.below:
            text = _COUNTED.sub("", line.text)
            if text == line.text:
                raise BadModel(
                    f"line {line.number}: neither a leaf (label and number of rows) nor "
                    "followed by its branches"
                )
            labels = [(m.start(), text[m.end() :]) for m in re.finditer(": ", text)]
        tests = list(_TEST.finditer(text))
        if len(tests) * len(labels) > MAX_READINGS:
            raise BadModel(f"line {line.number}: too many ways to read it")
        found = [
            _Reading(text[: test.start()], test["test"], text[test.end() : end], label)
            for test in tests
            for end, label in labels
            if test.end() < end
        ]
        return [reading for reading in found if self._fits(reading)]

    def _fits(self, reading: _Reading) -> bool:
        if reading.label is not None and reading.label not in (self._classes or (reading.label,)):
            return False
        nominal = reading.test in ("=", "!=")
        if not nominal and not _THRESHOLD.fullmatch(reading.value):
            return False
        if not self._given:
            return bool(reading.column)
        if reading.column not in self.levels:
            return False
        values = self.levels[reading.column]
        return reading.value in values if nominal and values else nominal == bool(values)

    def _cuts(self, lines: list[_Line], readings: list[_Reading]) -> tuple[float, ...]:
        """What to compare codes with, one branch after the other, or the one threshold."""
        first = readings[0]
        values = None if first.test != "=" else tuple(reading.value for reading in readings)
        if values is not None and len(set(values)) != len(values):
            raise BadModel(f"line {lines[0].number}: {first.column!r:.80} has a branch twice")
        known = self.levels.setdefault(first.column, values)
        if known != values:
            said = "numeric" if known is None else ", ".join(map(repr, known[:10]))
            raise BadModel(
                f"line {lines[0].number}: the branches of {first.column!r:.80} are others than its "
                f"values elsewhere ({said})"
            )
        if values is not None:
            return tuple(code + 0.5 for code in range(len(values) - 1))
        if not math.isfinite(float(first.value)):
            raise BadModel(f"line {lines[0].number}: the threshold is not a finite number")
        self.thresholds.append(first.value)
        return (float(first.value),)


def _counts(line: _Line) -> tuple[int, int]:
    """Rows that reach a leaf, and how many of them are of another class than its label."""
    match = _COUNTED.search(line.text)
    if match is None:
        raise BadModel(f"line {line.number}: not a number of rows")
    rows, wrong = (float(number or 0) for number in match.groups())
    if rows != round(rows, 0) or wrong != round(wrong, 0):
        raise NotCovered(
            f"line {line.number}: {rows:g} rows, {wrong:g} of another class: WEKA spread rows with "
            "missing values over the branches, and no whole rows have such counts"
        )
    if not wrong <= rows <= MOST_ROWS:
        raise BadModel(f"line {line.number}: {wrong:g} of {rows:g} rows are of another class")
    return int(rows), int(wrong)
