"""What WEKA prints around a tree: figures to check it by, and lines that are none of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from treeleak.core.errors import BadModel
from treeleak.core.message import own_words
from treeleak.release.readers.j48_tree import TreeBuilder
from treeleak.release.stored import Leftover

UNCHECKED = own_words(
    "The text ends with the tree: whether lines are missing cannot be checked.",
    "weka_report_unchecked",
)
PRUNED_WITH_ROWS_HELD_BACK = re.compile(r"^(?:Options|Scheme):.*\s-R(?:\s|$)", re.MULTILINE)
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


def left_over(lines: Sequence[str], n_columns: int, n_classes: int) -> Iterator[Leftover]:
    """List the lines around the tree that are no report of WEKA, or too many for one."""
    odd = [line for line in lines if not any(known.fullmatch(line) for known in _REPORT)]
    if odd:
        yield Leftover("the text", "lines that WEKA does not print", odd)
    numbers = [line for line in lines if _FIGURES.fullmatch(line)]
    names = [line for line in lines if _LISTED.fullmatch(line)]
    if len(numbers) > 4 * (n_classes + 2) or len(names) > MOST_LISTED + n_columns:
        yield Leftover("the text", "more figures or names than of a tree", [*numbers, *names])


def confusion_classes(rest: Sequence[str]) -> tuple[str, ...] | None:
    """List the classes, in order, as the first confusion matrix behind the tree names them."""
    classes: list[str] = []
    for line in rest:
        match = _CLASS.match(line)
        if match:
            classes.append(match[1])
        elif classes:
            break
    return tuple(classes) or None


def checked_size(tree: TreeBuilder, rest: Sequence[str]) -> str:
    """Hold the tree against the figures behind it; say so if there are none."""
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
