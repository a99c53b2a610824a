"""Trees of WEKA's J48 (C4.5), read from the text that WEKA prints.

What J48 prints, and so what can be read:

- A line per branch: ``|   `` for each level above it, the test, and at a leaf ``: label (n/m)``: n
  rows reached the leaf, m of them of another class than its label. A nominal column has a branch
  for each value of its domain, in the order of the domain.
- Names, values and labels stand there as they are, without quotes. Where ``=`` or ``:`` in them
  lets a line be read in several ways, an ARFF header or the branches beside it must decide.
- Rows with missing values are spread over the branches as fractions, which no whole rows make.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

import numpy as np

from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.private import dataclass
from treeleak.core.text_files import read_text
from treeleak.release.bounds import (
    MOST_CLASSES,
    MOST_COLUMNS,
    MOST_COUNTS,
    MOST_ROWS,
    MOST_TEXT_BYTES,
    at_most,
)
from treeleak.release.registry import reader
from treeleak.release.stored import Leftover
from treeleak.release.tree import LEAF, AllRows, Release, Tree, UnknownSampling

__all__ = ["ARFFHeader", "read_arff_header", "read_j48"]

MAX_DEPTH = 1000
# More ways to read one line than any honest name allows.
MAX_READINGS = 100
# Digits behind the point with which WEKA prints a threshold at most.
DIGITS = 6

HELD_BACK = "reduced-error pruning: the leaves count only the rows that the tree was grown on"
TOTALS = (
    "J48 says how many rows of a leaf are not of its class, but not of which class they are: with "
    "more than two classes only the rows of each leaf are known."
)
TWO = (
    "The classes are those that leaves name, as the text says no more: if there is another one, "
    "the counts by class are wrong. An ARFF header, or WEKA's whole output, would tell."
)
TESTED_ONLY = (
    "Columns that the tree does not test are not in its text, and are missing from every figure. "
    "An ARFF header, in Python (read_j48), would name them."
)
UNCHECKED = "The text ends with the tree: whether lines are missing cannot be checked."

_INDENT = "|   "
_HEADING = re.compile(r"^J48 (?:un)?pruned tree[ \t]*$", re.MULTILINE)
_HEAD = re.compile(
    rb"^J48 (?:un)?pruned tree[ \t\r]*$|^Scheme:[ \t]*weka\.classifiers\.trees\.J48\b", re.MULTILINE
)
_HELD_BACK = re.compile(r"^(?:Options|Scheme):.*\s-R(?:\s|$)", re.MULTILINE)
_NUMBER = r"\d+(?:\.\d+)?(?:E\d+)?"
_COUNTED = re.compile(rf" \(({_NUMBER})(?:/({_NUMBER}))?\)$")
_THRESHOLD = re.compile(r"-?\d+(?:\.\d+)?(?:E-?\d+)?")
_TEST = re.compile(r" (?P<test>=|!=|<=|>) ")
# Lines of a report: headings, statements, statistics, figures of each class, a list of names.
_FIGURES = re.compile(r"[\d\s.?]+(?:\|.{0,80}|\s\S.{0,80})?")
_LISTED = re.compile(r"\s{2,20}[^\s\d|][^,;|\t]{0,80}")
_REPORT = (
    re.compile(r"\s*"),
    re.compile(r"\s*===[\w\s():-]{1,80}===\s*"),
    re.compile(r"(?:Scheme|Options|Relation|Instances|Attributes|Test mode):[^\n,;|]{0,300}"),
    re.compile(r"Number of Leaves\s*:\s*\d{1,18}\s*|Size of the tree\s*:\s*\d{1,18}\s*"),
    re.compile(r"Time taken to [a-z ]{1,60}: *[\d.]{1,12} seconds\s*"),
    re.compile(r"[A-Z][A-Za-z()=., \d]{2,60}?(?:\s+-?[\d.]{1,12}){1,2}\s*(?:%|bits.{0,20})?\s*"),
    re.compile(
        r"\s*(?:(?:TP Rate|FP Rate|Precision|Recall|F-Measure|MCC|ROC Area|PRC Area|Class)\s*)+"
    ),
    re.compile(r"\s*Weighted Avg\.[\s\d.?]{0,120}"),
    re.compile(r"[\sa-z]{0,400}<-- classified as\s*"),
    _FIGURES,
    _LISTED,
)
MOST_LISTED = 200
_CLASS = re.compile(r"^[\d\s.]*\|\s+[a-z]+ = (.+)$")


@dataclass(frozen=True)
class ARFFHeader:
    """What the header of an ARFF file says of the columns.

    Attributes
    ----------
    attributes : mapping of str to tuple of str, or None
        In order: the values of a nominal attribute, None for any other.
    """

    attributes: Mapping[str, tuple[str, ...] | None]


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


def read_j48(
    source: str | Path, arff: str | Path | None = None, target: str | None = None
) -> Release:
    """Read the text of a J48 tree.

    Parameters
    ----------
    source : str or Path
        The file, or its text (a ``str`` with a line break): the model alone or WEKA's whole output.
    arff : str or Path, optional
        ARFF file, or its text, whose header gives the columns in order, also those that the tree
        does not test, the values of the nominal ones, and the classes. Without it the columns are
        those that the tree tests, and the classes those that the confusion matrix or else the
        leaves name.
    target : str, optional
        The class attribute; without it, the last one.

    Returns
    -------
    Release
        Of one tree. A nominal column has the codes 0, 1, 2 and so on in the order of its values
        (:attr:`Release.levels`), and a split on it is a chain of tests that take one code after the
        other away.

    Raises
    ------
    BadModel
        If the text is no J48 tree or is damaged, naming the line.
    BadInput
        If a line can be read in several ways, and if the header does not fit.
    NotCovered
        If the counts are fractions or a split is of one nominal value against the others.
    """
    text, where = _text(source)
    header = None if arff is None else read_arff_header(arff)
    try:
        return _release(text, header, target)
    except (BadInput, NotCovered) as error:
        raise type(error)(f"{where}{error}") from error


@reader("J48 tree", lambda head: b"\0" not in head and _HEAD.search(head) is not None)
def _read_file(path: Path, trust_pickle: bool) -> Release:  # noqa: ARG001
    return read_j48(path)


def _text(source: str | Path) -> tuple[str, str]:
    if isinstance(source, str) and "\n" in source:
        at_most(MOST_TEXT_BYTES, len(source), "letters")
        return source.replace("\r\n", "\n"), ""
    return read_text(source, MOST_TEXT_BYTES), f"{source}: "


def _release(text: str, header: ARFFHeader | None, target: str | None) -> Release:
    headings = list(_HEADING.finditer(text))
    if not headings:
        raise BadModel('no J48 tree: no line says "J48 pruned tree" or "J48 unpruned tree"')
    if len(headings) > 1:
        raise NotCovered(f"the text holds {len(headings)} J48 trees; one is read")
    before, after = text[: headings[0].start()], text[headings[0].end() :]
    start = text.count("\n", 0, headings[0].end()) + 1
    lines, rest = _lines(after.split("\n"), start)

    attributes, classes = _columns_and_classes(header, target)
    classes = classes or _confusion_classes(rest)
    tree = _Builder(attributes, classes)
    tree.grow(lines)
    notes = ["" if header else TESTED_ONLY, _checked_size(tree, rest), _rounded(tree.thresholds)]

    leaves = tree.leaves.values()
    known = classes or tuple(dict.fromkeys(leaf.label for leaf in leaves))
    exact = not any(leaf.wrong for leaf in leaves)
    by_class = exact or len(known) == 2
    if not by_class:
        notes.append(TOTALS)
    elif not exact and classes is None:
        notes.append(TWO)
    held_back = _HELD_BACK.search(before) is not None
    return Release(
        trees=(tree.counted(known, by_class),),
        feature_names=tuple(tree.levels),
        classes=known,
        sampling=UnknownSampling(HELD_BACK) if held_back else AllRows(),
        counts_are="rows" if by_class else "none",
        n_rows=None if held_back else sum(leaf.rows for leaf in leaves),
        levels={c: v for c, v in tree.levels.items() if v is not None},
        origin="WEKA, J48",
        notes=tuple(note for note in notes if note),
        leftovers=tuple(_left_over([*before.split("\n"), *rest], len(tree.levels), len(known))),
    )


def _left_over(lines: Sequence[str], n_columns: int, n_classes: int) -> Iterator[Leftover]:
    """List the lines around the tree that are no report of WEKA, or too many for one."""
    odd = [line for line in lines if not any(known.fullmatch(line) for known in _REPORT)]
    if odd:
        yield Leftover("the text", "lines that WEKA does not print", odd)
    numbers = [line for line in lines if _FIGURES.fullmatch(line)]
    names = [line for line in lines if _LISTED.fullmatch(line)]
    if len(numbers) > 4 * (n_classes + 2) or len(names) > MOST_LISTED + n_columns:
        yield Leftover("the text", "more figures or names than of a tree", [*numbers, *names])


def _columns_and_classes(
    header: ARFFHeader | None, target: str | None
) -> tuple[dict[str, tuple[str, ...] | None] | None, tuple[str, ...] | None]:
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


def _lines(after: Sequence[str], start: int) -> tuple[list[_Line], list[str]]:
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


class _Builder:
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
        self._feature: list[int] = []
        self._cut: list[float] = []
        self._children: list[list[int]] = []

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
                    parent, side = self._node(column, cuts[i], *at), 1
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
        at_most(MOST_COUNTS, len(self._feature) * len(classes), "counts")
        number = {label: i for i, label in enumerate(classes)}
        counts = np.zeros((len(self._feature), len(classes)))
        totals = np.zeros(len(self._feature))
        for node, leaf in self.leaves.items():
            own = number[leaf.label]
            totals[node] = leaf.rows
            counts[node, own] = leaf.rows - leaf.wrong
            # With two classes, the other one is the last but own; with none wrong, adding is idle.
            counts[node, len(classes) - 1 - own] += leaf.wrong
        for node in reversed(range(len(self._feature))):
            if node not in self.leaves:
                counts[node] = counts[self._children[node]].sum(axis=0)
                totals[node] = totals[self._children[node]].sum()
        children = np.array(self._children)
        return Tree(
            feature=np.array(self._feature),
            threshold=np.array(self._cut),
            left=children[:, 0],
            right=children[:, 1],
            missing_left=np.zeros(len(self._feature), dtype=bool),
            counts=counts if by_class else None,
            totals=None if by_class else totals,
            distinct=totals.astype(np.int64),
        )

    def _node(self, feature: int, cut: float, parent: int, side: int) -> int:
        node = len(self._feature)
        self._feature.append(feature)
        self._cut.append(cut)
        self._children.append([LEAF, LEAF])
        if parent != LEAF:
            self._children[parent][side] = node
        return node

    def _leaf(self, line: _Line, label: str, parent: int, side: int) -> None:
        if self._classes is not None and label not in self._classes:
            known = ", ".join(map(repr, self._classes[:10]))
            raise BadModel(f"line {line.number}: {label!r:.80} is none of the classes {known}")
        rows, wrong = _counts(line)
        self.leaves[self._node(LEAF, math.nan, parent, side)] = _Leaf(label, rows, wrong)

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
                "(-B): which values these are, the text does not say"
            )
        if len(lines) == 1 or (tests[0] != "=" and tests != ["<=", ">"]):
            raise BadModel(
                f"line {lines[0].number}: {readings[0].column!r:.80} has the branches "
                f"{', '.join(tests[:5])}: one is missing or stands twice"
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
            raise BadModel(f"line {lines[0].number}: the threshold is no finite number")
        self.thresholds.append(first.value)
        return (float(first.value),)


def _counts(line: _Line) -> tuple[int, int]:
    """Rows that reach a leaf, and how many of them are of another class than its label."""
    match = _COUNTED.search(line.text)
    if match is None:
        raise BadModel(f"line {line.number}: no number of rows")
    rows, wrong = (float(number or 0) for number in match.groups())
    if rows != round(rows, 0) or wrong != round(wrong, 0):
        raise NotCovered(
            f"line {line.number}: {rows:g} rows, {wrong:g} of another class: WEKA spread rows with "
            "missing values over the branches, and no whole rows have such counts"
        )
    if not wrong <= rows <= MOST_ROWS:
        raise BadModel(f"line {line.number}: {wrong:g} of {rows:g} rows are of another class")
    return int(rows), int(wrong)


def _confusion_classes(rest: Sequence[str]) -> tuple[str, ...] | None:
    """List the classes, in order, as the first confusion matrix behind the tree names them."""
    classes: list[str] = []
    for line in rest:
        match = _CLASS.match(line)
        if match:
            classes.append(match[1])
        elif classes:
            break
    return tuple(classes) or None


def _checked_size(tree: _Builder, rest: Sequence[str]) -> str:
    told = dict(
        re.findall(
            r"^(Number of Leaves|Size of the tree)\s*:\s*(\d{1,18})\s*$",
            "\n".join(rest),
            re.MULTILINE,
        )
    )
    n_leaves = len(tree.leaves)
    for what, found in (
        ("Number of Leaves", n_leaves),
        ("Size of the tree", n_leaves + tree.splits),
    ):
        if what in told and int(told[what]) != found:
            raise BadModel(f"{what}: {told[what]}, but its lines make {found}: some are missing")
    return "" if told else UNCHECKED


def _rounded(thresholds: Sequence[str]) -> str:
    """Name the thresholds that may have had more digits: with ``-B``, WEKA prints all of them."""
    long = [t for t in dict.fromkeys(thresholds) if len(t.partition(".")[2]) == DIGITS]
    if not long:
        return ""
    more = f" and {len(long) - 5} more" if len(long) > 5 else ""
    return (
        f"WEKA prints {DIGITS} digits: thresholds may be rounded, and a value within the rounding "
        f"may lie on the wrong side ({', '.join(long[:5])}{more})."
    )


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
    text, where = _text(source)
    attributes: dict[str, tuple[str, ...] | None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        word = line.split(None, 1)[0].lower() if line.strip() else ""
        if word == "@data":
            break
        if word == "@attribute":
            name, values = _attribute(line.split(None, 1)[1:], f"{where}line {number}")
            if name in attributes:
                raise BadInput(f"{where}line {number}: attribute {name!r:.80} stands twice")
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
        raise BadInput(f"{where}: the values of {name!r:.80} are no list, or one stands twice")
    return name, values


def _bare(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if word[0] in "'\"" else word
