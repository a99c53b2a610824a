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

import re
from collections.abc import Sequence
from pathlib import Path

from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.core.listed import listed
from treeleak.core.message import own_words
from treeleak.release.readers.arff import ARFFHeader, columns_and_classes, read_arff_header, text_of
from treeleak.release.readers.j48_tree import TreeBuilder, nested_lines
from treeleak.release.readers.weka_report import (
    PRUNED_WITH_ROWS_HELD_BACK,
    checked_size,
    confusion_classes,
    left_over,
)
from treeleak.release.registry import reader
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, UnknownSampling

# Digits behind the point with which WEKA prints a threshold at most.
DIGITS = 6
HELD_BACK = own_words(
    "reduced-error pruning: the leaves count only the rows that the tree was grown on",
    "j48_held_back",
)
TOTALS = own_words(
    "J48 says how many rows of a leaf are not of its class, but not of which class they are: with "
    "more than two classes only the rows of each leaf are known.",
    "j48_totals",
)
TWO = own_words(
    "The classes are those that leaves name. If there is another one, the counts by class are "
    "wrong. An ARFF header, or WEKA's whole output, would show it.",
    "j48_two",
)
TESTED_ONLY = own_words(
    "Columns that the tree does not test are not in its text, and are missing from every figure. "
    "An ARFF header, in Python (read_j48), would name them.",
    "j48_tested_only",
)
_HEADING = re.compile(r"^J48 (?:un)?pruned tree[ \t]*$", re.MULTILINE)
_HEAD = re.compile(
    rb"^J48 (?:un)?pruned tree[ \t\r]*$|^Scheme:[ \t]*weka\.classifiers\.trees\.J48\b", re.MULTILINE
)


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
    text, where = text_of(source)
    header = None if arff is None else read_arff_header(arff)
    try:
        return _release(text, header, target)
    except (BadInput, NotCovered) as error:
        raise type(error)(f"{where}{error}") from error


@reader("J48 tree", lambda head: b"\0" not in head and _HEAD.search(head) is not None)
def _read_file(path: Path, trust_pickle: bool) -> Release:  # noqa: ARG001
    return read_j48(path)


def _release(text: str, header: ARFFHeader | None, target: str | None) -> Release:
    headings = list(_HEADING.finditer(text))
    if not headings:
        raise BadModel('not a J48 tree: no line says "J48 pruned tree" or "J48 unpruned tree"')
    if len(headings) > 1:
        raise NotCovered(f"the text holds {len(headings)} J48 trees; one is read")
    before, after = text[: headings[0].start()], text[headings[0].end() :]
    start = text.count("\n", 0, headings[0].end()) + 1
    lines, rest = nested_lines(after.split("\n"), start)

    attributes, classes = columns_and_classes(header, target)
    classes = classes or confusion_classes(rest)
    tree = TreeBuilder(attributes, classes)
    tree.grow(lines)
    notes = ["" if header else TESTED_ONLY, checked_size(tree, rest), _rounded(tree.thresholds)]

    leaves = tree.leaves.values()
    known = classes or tuple(dict.fromkeys(leaf.label for leaf in leaves))
    exact = not any(leaf.wrong for leaf in leaves)
    by_class = exact or len(known) == 2
    if not by_class:
        notes.append(TOTALS)
    elif not exact and classes is None:
        notes.append(TWO)
    held_back = PRUNED_WITH_ROWS_HELD_BACK.search(before) is not None
    return Release(
        trees=(tree.counted(known, by_class),),
        feature_names=tuple(tree.levels),
        classes=known,
        sampling=UnknownSampling(HELD_BACK) if held_back else AllRows(),
        n_rows=None if held_back else sum(leaf.rows for leaf in leaves),
        levels={c: v for c, v in tree.levels.items() if v is not None},
        origin="WEKA, J48",
        notes=tuple(note for note in notes if note),
        leftovers=tuple(left_over([*before.split("\n"), *rest], len(tree.levels), len(known))),
    )


def _rounded(thresholds: Sequence[str]) -> str:
    """Name the thresholds that may have had more digits: with ``-B``, WEKA prints all of them."""
    long = [t for t in dict.fromkeys(thresholds) if len(t.partition(".")[2]) == DIGITS]
    if not long:
        return ""
    return (
        f"WEKA prints {DIGITS} digits: thresholds may be rounded, and a value within the rounding "
        f"may lie on the wrong side ({listed(long)})."
    )
