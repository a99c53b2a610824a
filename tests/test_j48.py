"""J48's texts: those that WEKA printed, and damaged ones."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from treeleak.core.errors import BadInput, BadModel, Mismatch, NotCovered
from treeleak.release import AllRows, Release, to_release
from treeleak.release.readers.j48 import TESTED_ONLY, TWO, read_j48
from treeleak.verification.training_rows import counted, match_training

MODELS = Path(__file__).parent / "models" / "j48"
TREES = ["loans", "loans_unpruned", "loans_one_leaf", "three", "pure"]

WEATHER = """J48 pruned tree
------------------

outlook = sunny
|   humidity <= 75: yes (2.0)
|   humidity > 75: no (4.0/1.0)
outlook = overcast: yes (4.0)
outlook = rainy: yes (5.0/2.0)

Number of Leaves  : \t4

Size of the tree : \t6
"""


def read(name: str) -> tuple[Release, pd.DataFrame, list[str]]:
    """A tree, and the rows of WEKA's table that it was trained on."""
    header, _, lines = (MODELS / f"{name.partition('_')[0]}.arff").read_text().partition("@data\n")
    columns = re.findall(r"^@attribute (\S+)", header, re.MULTILINE)
    rows = pd.DataFrame([line.split(",") for line in lines.splitlines()], columns=columns)
    return to_release(MODELS / f"{name}.txt"), rows[columns[:-1]], list(rows[columns[-1]])


def text_of(*lines: str) -> str:
    return "J48 pruned tree\n------------------\n\n" + "\n".join(lines) + "\n\n"


@pytest.mark.parametrize("name", TREES)
def test_leaves_count_the_rows_that_reach_them(name: str) -> None:
    release, X, y = read(name)
    (tree,) = release.trees
    (found,) = counted(release, X, y).trees
    assert release.n_rows == len(X)
    assert release.sampling == AllRows()
    assert set(release.feature_names) <= set(X)
    assert TESTED_ONLY in release.notes
    if tree.counts is None:
        assert np.array_equal(tree.totals, found.counts.sum(axis=1))
    else:
        assert np.array_equal(tree.counts, found.counts)
    assert np.array_equal(tree.distinct, found.distinct)
    match_training(release, X, y)


def test_a_line_of_several_meanings_is_refused() -> None:
    with pytest.raises(BadInput, match=r"quoted\.txt: line 6 can be read in several ways"):
        to_release(MODELS / "quoted.txt")


def test_splits_on_values_become_tests_of_codes() -> None:
    release = read_j48(WEATHER)
    assert release.feature_names == ("outlook", "humidity")
    assert release.levels == {"outlook": ("sunny", "overcast", "rainy")}
    assert [list(t) for t in release.thresholds] == [[0.5, 1.5], [75.0]]
    assert release.classes == ("yes", "no")
    assert release.float_type == "float64"
    (tree,) = release.trees
    rows = np.array([[0, 75], [0, 75.1], [1, 0], [2, 0]])
    assert tree.counts[tree.apply(rows)].tolist() == [[2, 0], [1, 3], [4, 0], [3, 2]]
    assert tree.counts[0].tolist() == [10, 5]
    assert release.notes == (TESTED_ONLY, TWO)


def test_what_cannot_be_read_says_why_and_where() -> None:
    with pytest.raises(NotCovered, match=r"missing\.txt: line 5: 7.13 rows.*missing values"):
        to_release(MODELS / "missing.txt")
    with pytest.raises(NotCovered, match=r"line \d+: one value against all others \(-B"):
        to_release(MODELS / "loans_binary.txt")
    with pytest.raises(BadModel, match="2 lines say"):
        read_j48(WEATHER + WEATHER)


def test_texts_of_rows_stand_for_codes() -> None:
    release, X, y = read("loans")
    codes = X.assign(job=X["job"].map({v: i for i, v in enumerate(release.levels["job"])}))
    one, other = counted(release, X, y), counted(release, codes, y)
    assert np.array_equal(one.trees[0].counts, other.trees[0].counts)
    with pytest.raises(Mismatch, match="column 'job'"):
        counted(release, X.replace({"job": {"nurse": "baker"}}), y)


BAD = {
    "no tree": ("J48 pruned tree\n------\n\n", "no tree follows"),
    "a jump": (text_of("a <= 1", "|   |   b <= 1: x (1.0)"), "line 5: indented"),
    "an indented start": (text_of("|   a <= 1: x (1.0)"), "line 4: indented"),
    "below a leaf": (
        text_of("a <= 1: x (1.0)", "|   b <= 1: x (1.0)", "|   b > 1: y (1.0)", "a > 1: y (1.0)"),
        "line 4",
    ),
    "one branch": (text_of("a <= 1: x (1.0)"), "line 4.*not of one test"),
    "one value": (text_of("a = 1: x (1.0)"), "line 4.*lacks a branch"),
    "twice": (text_of("a <= 1: x (1.0)", "a <= 1: y (1.0)"), "line 4.*not of one test"),
    "a value twice": (text_of("a = 1: x (1.0)", "a = 1: y (1.0)"), "line 4.*has one twice"),
    "two thresholds": (text_of("a <= 1: x (1.0)", "a > 2: y (1.0)"), "line 4.*not of one test"),
    "two columns": (text_of("a <= 1: x (1.0)", "b > 1: y (1.0)"), "line 4.*not of one test"),
    "no branches": (text_of("a <= 1", "a > 1: y (1.0)"), "line 4: neither a leaf"),
    "no rows": (text_of("a <= 1: x", "a > 1: y (1.0)"), "line 4: "),
    "too many wrong": (text_of("a <= 1: x (1.0/2.0)", "a > 1: y (1.0)"), "line 4: 2 of 1 rows"),
    "too many rows": (text_of("a <= 1: x (1.0E99)", "a > 1: y (1.0)"), "line 4"),
    "endless rows": (text_of("a <= 1: x (1.0E999)", "a > 1: y (1.0)"), "line 4"),
    "NaN rows": (text_of("a <= 1: x (NaN)", "a > 1: y (1.0)"), "line 4: "),
    "NaN": (text_of("a <= NaN: x (1.0)", "a > NaN: y (1.0)"), "line 4"),
    "endless": (text_of("a <= 1E999: x (1.0)", "a > 1E999: y (1.0)"), "line 4.*finite"),
    "two kinds": (
        text_of("a <= 1: x (1.0)", "a > 1", "|   a = p: x (1.0)", "|   a = q: y (1.0)"),
        "line 6.*other values",
    ),
    "other values": (
        text_of(
            "b <= 1", "|   a = p: x (1.0)", "|   a = q: y (1.0)",
            "b > 1", "|   a = p: x (1.0)", "|   a = r: y (1.0)",
        ),
        "line 8.*other values",
    ),
    "lines lost": (WEATHER.replace("outlook = rainy: yes (5.0/2.0)\n", ""), "Number of Leaves: 4"),
    "too many classes": (
        text_of(*(f"a = {i}: {i} (1.0)" for i in range(10_001))), "10,001 classes, more than",
    ),
    "too deep": (
        text_of(*("|   " * d + "a <= 1" for d in range(1002))), "line 1005: indented",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_damaged_texts_are_refused_by_line(what: str) -> None:
    text, message = BAD[what]
    with pytest.raises(BadModel, match=message):
        read_j48(text)
