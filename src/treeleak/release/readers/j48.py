"""Trees of WEKA's J48 (C4.5), read from the text that WEKA prints.

A line per branch has ``|   `` for each level above it, the test, and at a leaf ``: label (n/m)``: n
rows reached the leaf, m of them of another class. A nominal column has a branch for each value of
its domain, in this order. Rows with missing values are spread over the branches as fractions.
"""

from __future__ import annotations

import math
import re
from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np

from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.message import static_message
from treeleak.core.output import read_text
from treeleak.core.private import shows_no_value
from treeleak.core.text import listed
from treeleak.release import bounds
from treeleak.release.growing import GrowingTree
from treeleak.release.registry import describe_format, reader
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, UnknownSampling
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.stored import Leftover
from treeleak.release.tree import LEAF, Tree

MAX_DEPTH = 1000
HELD_BACK = static_message(
    "reduced-error pruning: the leaves count only the rows that grew the tree", "j48_held_back"
)
TOTALS = static_message(
    "J48 says how many rows of a leaf are not of its class, but not of which class they are: with "
    "more than two classes only the rows of each leaf are known.",
    "j48_totals",
)
TWO = static_message(
    "The classes are those that leaves name. If there is another one, the counts by class are "
    "wrong. WEKA's whole output would show it.",
    "j48_two",
)
TESTED_ONLY = static_message(
    "Columns that the tree does not test are not in its text, nor in any figure.", "j48_tested_only"
)
UNCHECKED = static_message(
    "The text ends with the tree: nothing shows whether lines are missing.", "weka_report_unchecked"
)
_HEADING = r"^J48 (?:un)?pruned tree[ \t\r]*$"
_HEAD = re.compile(_HEADING.encode() + rb"|^Scheme:[ \t]*weka\.classifiers\.trees\.J48\b", re.M)
_WITH_ROWS_HELD_BACK = re.compile(r"^(?:Options|Scheme):.*\s-R(?:\s|$)", re.MULTILINE)
_NUMBER = r"\d+(?:\.\d+)?(?:E\d+)?"
_COUNTED = re.compile(rf" \(({_NUMBER})(?:/({_NUMBER}))?\)$")
_THRESHOLD = re.compile(r"-?\d+(?:\.\d+)?(?:E-?\d+)?")
_TEST = re.compile(r" (=|!=|<=|>) ")
_SIZES = re.compile(r"^(Number of Leaves|Size of the tree)\s*:\s*(\d{1,18})\s*$", re.MULTILINE)
_CLASS = re.compile(r"^[\d\s.]*\|\s+[a-z]+ = (.+)$")
# Lines of a report: headings, statements, statistics, figures of each class, a list of names.
_FIGURES = re.compile(r"[\d\s.?]+(?:\|.{0,80}|\s\S.{0,80})?")
_LISTED = re.compile(r"\s{2,20}[^\s\d|][^,;|\t]{0,80}")
_REPORT = (
    re.compile(r"\s*|\s*===[\w\s():-]{1,80}===\s*"),
    re.compile(r"(?:Scheme|Options|Relation|Instances|Attributes|Test mode):[^\n,;|]{0,300}"),
    re.compile(r"(?:Number of Leaves|Size of the tree)\s*:\s*\d{1,18}\s*"),
    re.compile(r"Time taken to [a-z ]{1,60}: *[\d.]{1,12} seconds\s*"),
    re.compile(r"[A-Z][A-Za-z()=., \d]{2,60}?(?:\s+-?[\d.]{1,12}){1,2}\s*(?:%|bits.{0,20})?\s*"),
    re.compile(r"\s*(?:(?:[TF]P Rate|Precision|Recall|F-Measure|MCC|(?:ROC|PRC) Area|Class)\s*)+"),
    re.compile(r"\s*Weighted Avg\.[\s\d.?]{0,120}|[\sa-z]{0,400}<-- classified as\s*"),
    _FIGURES,
    _LISTED,
)


@shows_no_value
class _Branch(NamedTuple):
    where: str
    column: str
    test: str
    value: str
    label: str  # Of a leaf.
    rows: int
    wrong: int  # Of another class than the label.
    below: list[_Branch]


describe_format("J48 tree", ".txt", "rows of each leaf, and those that are not of its class")


@reader("J48 tree", lambda head: b"\0" not in head and _HEAD.search(head) is not None)
def _read_file(path: Path, trust_pickle: bool) -> Release:  # noqa: ARG001
    return read_j48(read_text(path, bounds.MOST_TEXT_BYTES))


def read_j48(text: str) -> Release:
    """Read a J48 tree from the text that WEKA prints, alone or within its whole output.

    A nominal column has the codes 0, 1, 2 and so on in the order of its values; a split on it is
    a chain of tests that take one code after the other away.

    Raises
    ------
    BadModel, BadInput, NotCovered
        If the text is damaged, if a line has several meanings, if it says too little of the rows.
    """
    headings = list(re.finditer(_HEADING, text, re.M))
    if len(headings) != 1:
        raise BadModel(f'{len(headings)} lines say "J48 (un)pruned tree", not one')
    before, after = text[: headings[0].start()], text[headings[0].end() :].split("\n")
    root, rest = _nested(after, text.count("\n", 0, headings[0].end()) + 1)
    around = [*before.split("\n"), *rest]
    declared = tuple(dict.fromkeys(found[1] for line in rest if (found := _CLASS.match(line))))
    tree, sizes = _Tree(root), dict(_SIZES.findall("\n".join(rest)))
    leaves, n_leaves = tree.leaves.values(), len(tree.leaves)
    for what, n in (("Number of Leaves", n_leaves), ("Size of the tree", n_leaves + tree.splits)):
        if int(sizes.get(what, n)) != n:
            raise BadModel(f"{what}: {sizes[what]}, but its lines make {n}: some are missing")
    labels, rows, wrong = zip(*((b.label, b.rows, b.wrong) for b in leaves), strict=True)
    classes = declared or tuple(dict.fromkeys(labels))
    if strange := set(labels) - set(classes):
        raise BadModel(f"{min(strange)!r:.80} is not one of the classes {listed(classes[:10])}")
    by_class = len(classes) == 2 or not any(wrong)
    long = [t for t in dict.fromkeys(tree.thresholds) if len(t.partition(".")[2]) == 6]
    rounded = f"WEKA prints 6 digits, so these thresholds may be rounded: {listed(long)}."
    notes = {TESTED_ONLY: True, UNCHECKED: not sizes, rounded: bool(long), TOTALS: not by_class,
             TWO: by_class and any(wrong) and not declared}  # fmt: skip
    held_back = _WITH_ROWS_HELD_BACK.search(before) is not None
    # Lines around the tree that are no report of WEKA, or too many for one.
    odd = [line for line in around if not any(known.fullmatch(line) for known in _REPORT)]
    numbers, names = ([x for x in around if form.fullmatch(x)] for form in (_FIGURES, _LISTED))
    many = len(numbers) > 4 * (len(classes) + 2) or len(names) > 200 + len(tree.levels)
    left = (("lines that WEKA does not print", odd),
            ("more figures or names than of a tree", [*numbers, *names] * many))  # fmt: skip
    return Release(
        trees=(tree.counting(classes, by_class),),
        feature_names=tuple(tree.levels),
        classes=classes,
        sampling=UnknownSampling(HELD_BACK) if held_back else AllRows(),
        n_rows=None if held_back else sum(rows),
        levels={column: values for column, values in tree.levels.items() if values is not None},
        origin="WEKA, J48",
        notes=tuple(note for note, holds in notes.items() if holds),
        leftovers=tuple(Leftover("the text", what, lines) for what, lines in left if lines),
    )


def _indented(line: str) -> int:
    return (len(line) - len(re.sub(r"^(?:\|   )+", "", line))) // 4


def _nested(lines: list[str], start: int) -> tuple[list[_Branch], list[str]]:
    """Nest the branches of the tree by their indentation; also give what follows it."""
    at = 1 + (len(lines) > 1 and set(lines[1].strip()) == {"-"})
    at = next((i for i in range(at, len(lines)) if lines[i].strip()), len(lines))
    levels: list[list[_Branch]] = [[]]
    while at < len(lines) and lines[at].strip():
        where = f"line {start + at}"
        depth = _indented(lines[at])
        if depth > min(MAX_DEPTH, len(levels) - (not levels[0])):
            raise BadModel(f"{where}: indented deeper than {MAX_DEPTH} levels or the line above")
        levels = [*levels, levels[-1][-1].below] if depth == len(levels) else levels[: depth + 1]
        text, label, rows, wrong = lines[at][4 * depth :], "", 0.0, 0.0
        at += 1
        is_leaf = at == len(lines) or _indented(lines[at]) <= depth
        if is_leaf and (counted := _COUNTED.search(text)):
            text, _, label = text[: counted.start()].partition(": ")
            rows, wrong = (float(number or 0) for number in counted.groups())
        if not wrong <= rows <= bounds.MOST_ROWS:
            raise BadModel(f"{where}: {wrong:g} of {rows:g} rows are of another class")
        if rows % 1 or wrong % 1:
            raise NotCovered(f"{where}: {rows:g} rows: those with missing values lie on both sides")
        parts = _TEST.split(text)
        if len(parts) > 3 or ": " in label:
            raise BadInput(f"{where} can be read in several ways: ' = ' or ': ' in a name")
        column, test, value = parts if len(parts) == 3 else (text, "", "")
        if test == "!=":
            raise NotCovered(f"{where}: one value against all others (-B), which are not named")
        branch = _Branch(where, column, test, value, label, int(rows), int(wrong), [])
        levels[depth].append(branch)
    if not levels[0]:
        raise BadModel(f"line {start}: no tree follows the heading")
    return levels[0], list(lines[at:])


class _Tree:
    """The nodes, and what was learnt of their columns on the way."""

    def __init__(self, root: list[_Branch]) -> None:
        self.levels: dict[str, tuple[str, ...] | None] = {}
        self.thresholds: list[str] = []
        self.leaves: dict[int, _Branch] = {}
        self.splits = 0
        self.grown = GrowingTree()
        number: dict[str, int] = {}
        todo = deque([(root, LEAF, 0)])
        while todo:
            branches, parent, side = todo.popleft()
            first = branches[0]
            lone = branches is root and len(root) == 1 and not first.column
            cuts = () if lone else self._cuts(branches)
            column = number.setdefault(first.column, len(number))
            for i, branch in enumerate(branches):
                at = parent, side
                if i < len(cuts):
                    parent, side = self.grown.add(column, cuts[i], *at), 1
                    at = parent, 0
                if bool(branch.label) == bool(branch.below):
                    raise BadModel(f"{branch.where}: neither a leaf nor followed by its branches")
                if branch.below:
                    todo.append((branch.below, *at))
                else:
                    self.leaves[self.grown.add(parent=at[0], side=at[1])] = branch

    def _cuts(self, branches: list[_Branch]) -> tuple[float, ...]:
        """What to compare codes with, one branch after the other, or the one threshold."""
        where, column, test, value, *_ = branches[0]
        values = tuple(b.value for b in branches) if test == "=" else None
        tests = ["="] * len(branches) if values else ["<=", ">"]
        one_test = {(b.column, values or b.value) for b in branches} == {(column, values or value)}
        if not one_test or [b.test for b in branches] != tests:
            raise BadModel(f"{where}: the branches that start here are not of one test")
        if values and len(set(values)) < max(2, len(values)):
            raise BadModel(f"{where}: {column!r:.80} lacks a branch, or has one twice")
        if self.levels.setdefault(column, values) != values:
            raise BadModel(f"{where}: {column!r:.80} has other values elsewhere")
        self.splits += 1
        if values:
            return tuple(code + 0.5 for code in range(len(values) - 1))
        if not _THRESHOLD.fullmatch(value) or not math.isfinite(float(value)):
            raise BadModel(f"{where}: the threshold is not a finite number")
        self.thresholds.append(value)
        return (float(value),)

    def counting(self, classes: tuple[str, ...], by_class: bool) -> Tree:
        """The tree with what its nodes count."""
        # Each leaf of a hostile text may name a class of its own.
        bounds.at_most(bounds.MOST_CLASSES, len(classes), "classes")
        bounds.at_most(bounds.MOST_COLUMNS, len(self.levels), "columns")
        bounds.at_most(bounds.MOST_COUNTS, len(self.grown) * len(classes), "counts")
        number = {label: i for i, label in enumerate(classes)}
        tree, counts = self.grown.tree(Statistics()), np.zeros((len(self.grown), len(classes)))
        for node, leaf in self.leaves.items():
            counts[node, number[leaf.label]] = leaf.rows - leaf.wrong
            # With two classes, the other one is the last but this; with none wrong, adding is idle.
            counts[node, len(classes) - 1 - number[leaf.label]] += leaf.wrong
        counts = tree.summed(counts)
        units = {"counts": counts} if by_class else {"totals": counts.sum(axis=1)}
        return tree.with_counts(ROWS, **units, distinct=counts.sum(axis=1).astype(np.int64))
