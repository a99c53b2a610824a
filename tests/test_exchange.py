"""The release file: nothing is lost in it, and nothing hostile gets through it."""

from __future__ import annotations

import functools
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.documents import check_damaged, check_unreadable, put
from helpers.examples import examples
from helpers.releases import assert_same, in_unit
from treeleak.core.errors import BadInput, BadModel
from treeleak.release import bounds
from treeleak.release.bounds import MOST_JSON_LISTS, MOST_JSON_VALUES
from treeleak.release.ensemble import Ensemble
from treeleak.release.noise.laws import (
    ROUNDINGS,
    CountNoise,
    DiscreteLaplace,
    Gaussian,
    LabelNoise,
    Laplace,
)
from treeleak.release.readers.release_file import (
    read_release,
    release_from_dict,
    release_to_dict,
    write_release,
)
from treeleak.release.release import Release
from treeleak.release.sampling import (
    AllRows,
    Bootstrap,
    Disjoint,
    HeldBack,
    Sampling,
    Subsample,
    UnknownSampling,
)
from treeleak.release.statistics import COUNTS, DISTINCT, QUANTITIES, NodeStatistic, Statistics
from treeleak.release.tree import CategorySets, Tree

ROOT = Path(__file__).parent.parent
PUBLISHED = json.loads(
    (ROOT / "src/treeleak/formats/release.schema.json").read_text(encoding="utf-8")
)

REAL = [q for q in QUANTITIES.values() if q not in (*COUNTS, DISTINCT)]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SIZES = st.floats(1e-9, 1e9)
ROUNDED = st.sampled_from(ROUNDINGS)
NOISES = st.one_of(
    st.none(),
    st.builds(DiscreteLaplace, SIZES),
    st.builds(Laplace, SIZES, ROUNDED),
    st.builds(Gaussian, st.floats(1e-9, 1e5), ROUNDED),
    st.just(LabelNoise("majority")),
    st.builds(LabelNoise, st.sampled_from(["permute-and-flip", "exponential"]), SIZES),
)
SEEDS = st.none() | st.integers(0, 2**32 - 1)


@st.composite
def trees(
    draw: st.DrawFn,
    n_columns: int,
    n_classes: int,
    numbers: st.SearchStrategy,
    labels: bool,
    added_up: tuple[str, ...] = (),
) -> Tree:
    # Nodes split one after the other, so children stand behind their parents.
    n_splits = draw(st.integers(0, 4 if n_columns else 0))
    n = 2 * n_splits + 1
    feature, left, right = (np.full(n, -1) for _ in range(3))
    threshold, missing_left = np.full(n, np.nan), np.zeros(n, dtype=bool)
    leaves = [0]
    for k in range(n_splits):
        node = leaves.pop(draw(st.integers(0, len(leaves) - 1)))
        feature[node] = draw(st.integers(0, n_columns - 1))
        threshold[node] = draw(st.floats(allow_nan=False))
        missing_left[node] = draw(st.booleans())
        left[node], right[node] = 2 * k + 1, 2 * k + 2
        leaves += [2 * k + 1, 2 * k + 2]
    rows = st.integers(0, 10**6)
    counts = draw(st.none() | st.lists(numbers, min_size=n * n_classes, max_size=n * n_classes))
    if labels:
        named = draw(st.none() | st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))
        counts = None if named is None else np.eye(n_classes)[named].ravel().tolist()
    totals = draw(st.none() | st.lists(rows, min_size=n, max_size=n))
    distinct = draw(st.none() | st.lists(st.integers(0, 2**40), min_size=n, max_size=n))
    if {"counts", "totals"} <= set(added_up) and counts is not None:
        totals = None
    told = {
        "counts": None if counts is None else np.array(counts, dtype=float).reshape(n, n_classes),
        "totals": None if totals is None else np.array(totals, dtype=float),
        "distinct": None if distinct is None else np.array(distinct, dtype=np.int64),
    }
    for name in added_up:
        for node in np.flatnonzero(left >= 0)[::-1] if told[name] is not None else ():
            told[name][node] = told[name][left[node]] + told[name][right[node]]
    inner = np.flatnonzero(left >= 0)
    strict = np.isin(np.arange(n), draw(some_of(inner)))
    sets = {v: draw(st.sets(st.integers(0, 2**31 - 1), min_size=1)) for v in draw(some_of(inner))}
    threshold[list(sets)] = np.nan
    categories = None
    if sets:
        pairs = sorted((int(v), c) for v, own in sets.items() for c in own)
        categories = CategorySets(*np.array(pairs, dtype=np.int64).T)
    tree = Tree(
        feature, threshold, left, right, missing_left, strict=strict if strict.any() else None,
        categories=categories, output=draw(st.none() | st.just(0)),
    ).with_counts(**told)  # fmt: skip
    some = draw(some_of(range(n)))
    counted = [e if e.per_class else partly(e, some) for e in tree.statistics]
    more = [draw(statistic(q, n, n_classes)) for q in draw(some_of(REAL))]
    return replace(tree, statistics=Statistics((*counted, *more)))


def partly(entry: NodeStatistic, absent: list[int]) -> NodeStatistic:
    """The same without some nodes: what they count is not told."""
    gone = np.isin(np.arange(entry.n_nodes), absent)
    return replace(
        entry, values=np.where(gone, 0, entry.values), present=~gone if gone.any() else None
    )


def some_of(choices) -> st.SearchStrategy[list]:
    return st.lists(st.sampled_from(list(choices)), unique=True) if len(choices) else st.just([])


@st.composite
def statistic(draw: st.DrawFn, quantity, n: int, n_classes: int) -> NodeStatistic:
    shape = (n, n_classes) if draw(st.booleans()) else (n,)
    size = int(np.prod(shape))
    real = st.floats(-1e100, 1e100)
    values = np.array(draw(st.lists(real, min_size=size, max_size=size))).reshape(shape)
    absent = np.isin(np.arange(n), draw(some_of(range(n))))
    values[absent] = 0.0
    return NodeStatistic(quantity, values, ~absent if absent.any() else None)


ENSEMBLES = st.builds(
    Ensemble,
    st.text(max_size=5),
    st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=3).map(tuple),
    st.none() | st.floats(0, 1e100),
)


SHARES = st.floats(0, 1e7, exclude_min=True)
HELD = st.none() | st.builds(HeldBack, st.integers(0, 2**32 - 1), SHARES, st.booleans())


def borders_of(columns: list[str]) -> st.SearchStrategy[dict[str, tuple[float, ...]]]:
    cuts = st.lists(FINITE, min_size=1, max_size=3, unique=True).map(sorted).map(tuple)
    return st.dictionaries(st.sampled_from(columns), cuts) if columns else st.just({})


def ranges_of(columns: list[str]) -> st.SearchStrategy[dict[str, tuple[float, float]]]:
    ends = st.lists(FINITE, min_size=2, max_size=2).map(sorted).map(tuple)
    return st.dictionaries(st.sampled_from(columns), ends) if columns else st.just({})


def levels_of(columns: list[str]) -> st.SearchStrategy[dict[str, tuple[str, ...]]]:
    texts = st.lists(st.text(max_size=3), min_size=1, max_size=3, unique=True).map(tuple)
    return st.dictionaries(st.sampled_from(columns), texts) if columns else st.just({})


@st.composite
def releases(draw: st.DrawFn) -> Release:
    columns = draw(st.lists(st.text(max_size=5), max_size=4, unique=True))
    label = st.text(max_size=3) | st.integers() | FINITE | st.booleans()
    classes = draw(st.lists(label, max_size=3, unique=True))
    n_trees = draw(st.integers(1, 3))
    units = ["rows", "draws", "weights", "none", *(["labels"] if classes else [])]
    counts_are = draw(st.sampled_from(units))
    noise = draw(NOISES)
    rows = st.integers(0 if noise is None else -5, 10**6)
    added_up: tuple[str, ...] = () if noise is not None else ("totals", "distinct")
    if added_up and counts_are in ("rows", "draws"):
        added_up = ("counts", *added_up)
    numbers = FINITE | rows if counts_are in ("weights", "none") else rows
    if isinstance(noise, CountNoise) and not noise.whole:
        numbers = st.floats(-1e8, 1e8)
    some = st.lists(st.sampled_from(columns), unique=True) if columns else st.just([])
    sampling: Sampling = draw(
        st.one_of(
            st.builds(AllRows, HELD),
            st.just(Disjoint()),
            st.builds(Subsample, SEEDS, st.just(()), SEEDS, st.text(max_size=5)),
            st.builds(UnknownSampling, st.text(max_size=5)),
            st.builds(
                lambda n, seeds, seed, rule, w: Bootstrap(
                    n, tuple(seeds), seed, rule, None if w is None else tuple(w)
                ),
                SEEDS,
                st.just([]) | st.lists(SEEDS, min_size=n_trees, max_size=n_trees),
                SEEDS,
                st.text(max_size=5),
                st.none() | st.lists(st.floats(0, 1e300), max_size=3),
            ),
        )
    )
    drawn = [
        draw(trees(len(columns), len(classes), numbers, counts_are == "labels", added_up))
        for _ in range(n_trees)
    ]
    return Release(
        trees=in_unit(drawn, counts_are, sampling),
        feature_names=tuple(columns),
        classes=tuple(classes),
        sampling=sampling,
        n_rows=draw(st.none() | st.integers(0, 10**9)),
        noise=noise,
        not_covered=draw(st.none() | st.text(max_size=5)),
        maybe_missing=frozenset(draw(some)),
        one_hot=draw(st.dictionaries(st.text(max_size=3), some.map(tuple), max_size=2)),
        levels=draw(levels_of(columns)),
        borders=draw(borders_of(columns)),
        ranges=draw(ranges_of(columns)),
        thresholds_are=draw(st.sampled_from(["midpoints", "neighbours", "values", "unknown"])),
        float_type=draw(st.sampled_from(["float32", "float64"])),
        origin=draw(st.text(max_size=5)),
        notes=tuple(draw(st.lists(st.text(max_size=5), max_size=2))),
        ensemble=draw(st.none() | ENSEMBLES),
    )


@examples(60, fast=4)
@given(releases())
def test_nothing_is_lost_on_the_way(tmp_path_factory: pytest.TempPathFactory, release: Release):
    path = tmp_path_factory.mktemp("release", numbered=True) / "release.json"
    write_release(release, path)
    assert_same(read_release(path), release)
    text = path.read_text(encoding="utf-8")
    assert_same(read_release(text), release)
    described = release_to_dict(release)
    assert not re.search(r"NaN|Infinity", json.dumps(described["trees"]))
    jsonschema.validate(described, PUBLISHED)


def stump() -> dict:
    return {
        "format": "treeleak-release",
        "version": 2,
        "columns": ["a", "b"],
        "classes": ["no", "yes"],
        "counts_are": "rows",
        "sampling": {"kind": "all"},
        "trees": [
            {"feature": [-1], "threshold": [None], "left": [-1], "right": [-1]},
            {
                "feature": [1, -1, -1],
                "threshold": [0.5, None, None],
                "left": [1, -1, -1],
                "right": [2, -1, -1],
                "counts": [[2, 3], [2, 0], [0, 3]],
            },
        ],
    }


@pytest.mark.parametrize(
    ("counts_are", "kind", "unit"),
    [
        ("rows", "all", "rows"),
        ("none", "all", "rows"),
        ("weights", "all", "rows"),
        ("rows", "bootstrap", "rows"),
        ("draws", "bootstrap", "draws"),
        ("none", "bootstrap", "draws"),
        ("none", "subsample", "draws"),
    ],
)
def test_totals_alone_are_counts_of_something(counts_are: str, kind: str, unit: str):
    bare = {"feature": [-1], "threshold": [None], "left": [-1], "right": [-1]}
    told = {"counts_are": counts_are, "sampling": {"kind": kind}, "trees": [bare | {"totals": [6]}]}
    release = release_from_dict(stump() | told)
    (entry,) = release.trees[0].statistics
    assert (entry.quantity.name, entry.values.tolist()) == (unit, [6])
    again = release_to_dict(release)
    assert again["counts_are"] == unit
    assert again["trees"][0]["totals"] == [6]
    assert_same(release_from_dict(again), release)


def test_unknown_ways_of_drawing_rows_are_not_written_as_something_else():
    release = release_from_dict(stump())
    object.__setattr__(release, "sampling", Sampling())
    with pytest.raises(BadInput, match="no place"):
        release_to_dict(release)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("version",), 1, "version 1; this program reads version 2"),
        (("version",), 2.0, "version 2.0"),
        (("classes",), [1, 1.0], "two classes"),
        (("classes",), [10**400, 1], "class label 1000"),
        (("classes",), [1], "tree 1, node 0: counts"),
        (("maybe_missing",), ["z"], "column 'z'"),
        (("one_hot",), {"g": ["z"]}, "column 'z'"),
        (("levels",), {"z": ["x"]}, "levels name 'z': no such column"),
        (("borders",), {"a": [2, 1]}, "borders of column 'a': not ascending"),
        (("ranges",), {"z": [1, 2]}, "ranges name 'z': no such column"),
        (("ranges",), {"a": [1, math.inf]}, "ranges: a[1] is inf, must be a number"),
        (("ranges",), {"a": [2, 1]}, "range of column 'a': not two numbers, the least first"),
        (("sampling",), {"kind": "all", "n_draws": 3}, "n_draws"),
        (("sampling",), {"kind": "bootstrap", "tree_seeds": [1]}, "1 tree_seeds for 2 trees"),
        (("sampling",), {"kind": "bootstrap", "n_draws": -1}, "n_draws is -1, must be a whole"),
        (
            ("sampling",),
            {"kind": "bootstrap", "row_weights": [1, -1]},
            "row_weights[1] is -1, must be a number of 0 or more",
        ),
        (("noise",), {"law": "magic"}, "noise: law is 'magic'"),
        (("noise",), {"law": "discrete-laplace", "epsilon": 0}, "noise: epsilon is 0"),
        (("noise",), {"law": "discrete-laplace", "epsilon": math.nan}, "noise: epsilon is nan"),
        (("noise",), {"law": "laplace", "epsilon": 1e-300}, "noise: epsilon is 1e-300"),
        (("noise",), {"law": "gaussian", "sigma": 1e6}, "noise: sigma is 1000000.0"),
        (
            ("noise",),
            {"law": "label", "rule": "exponential"},
            "noise: scale is 0.0, must be from 1e-09",
        ),
        (("noise",), {"law": "label", "rule": "exponential", "scale": 0}, "noise: scale is 0"),
        (("noise",), {"law": "label", "rule": "majority", "scale": -1}, "noise: scale is -1"),
        (("counts_are",), "labels", "tree 1, node 1: counts name not exactly one class"),
        (("trees", 1, "feature", 0), 2, "tree 1, node 0: feature is 2"),
        (("trees", 1, "feature", 0), -1, "tree 1, node 0: half a leaf"),
        (("trees", 1, "feature", 2), 0, "tree 1, node 2: half a leaf"),
        (("trees", 1, "feature", 1), 1.0, "tree 1, node 1: feature is 1.0"),
        (("trees", 1, "left", 0), 10**8, "tree 1, node 0: left is 100000000"),
        (("trees", 1, "left", 0), 0, "tree 1, node 0: left is 0"),
        (("trees", 1, "right", 0), 1, "tree 1: "),
        (("trees", 1, "right"), [2, -1], "right has 2 entries for 3 nodes"),
        (("trees", 1, "threshold", 0), None, "tree 1, node 0: half a leaf"),
        (("trees", 1, "threshold", 0), 10**400, "tree 1, node 0: threshold is 1000"),
        (("trees", 1, "threshold", 0), math.inf, "tree 1, node 0: threshold is inf"),
        (
            ("trees", 1, "counts", 2),
            [1, 2, 3],
            "tree 1, node 2: counts is [1.0, 2.0, 3.0], must be a list of 2 numbers",
        ),
        (("trees", 1, "counts", 2), [1, math.nan], "tree 1, node 2: counts"),
        (("trees", 1, "counts", 2), [1, 0.5], "tree 1, node 2: counts hold 0.5"),
        (("trees", 1, "counts", 2), [1e300, 1], "tree 1, node 2: counts hold 1e+300"),
        (("trees", 1, "totals"), [10**9, 1, 1], "tree 1, node 0: totals hold 1e+09"),
        (("trees", 1, "counts", 0), [2, 4], "tree 1, node 0: counts hold [2. 4.]"),
        (("trees", 1, "counts", 2), [-2, 1], "tree 1, node 2: counts are negative"),
        (("trees", 1, "totals"), [6, 1, 2], "tree 1, node 0: totals hold 6.0"),
        (("trees", 1, "totals"), [6, 1, 5], "the counts of all classes are 5"),
        (("trees", 1, "distinct"), [6, 1, 2], "tree 1, node 0: distinct hold 6"),
    ],
)
def test_a_file_that_is_wrong_somewhere_says_where(path: tuple, value: object, says: str):
    with pytest.raises(BadModel, match=re.escape(says)):
        release_from_dict(put(stump(), path, value))


def test_a_cycle_beside_the_root_is_refused():
    data = stump()
    data["trees"] = [
        {
            "feature": [-1, 0, 0, -1, -1],
            "threshold": [None, 1, 1, None, None],
            "left": [-1, 2, 1, -1, -1],
            "right": [-1, 3, 4, -1, -1],
        }
    ]
    with pytest.raises(BadModel, match=r"tree 0: .*cycle"):
        release_from_dict(data)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Expecting value"),
        ("[]", "of an unknown kind"),
        ("[" * 100_000, "recursion"),
        ('{"format": "a", "n": {}, "format": "b"}', "appears twice"),
        ('{"format": NaN}', "NaN is not JSON"),
        ('{"n": ' + "9" * 5_000 + "}", "digits"),
        ('{"format": "treeleak-release", "version": 2, "columns": ["a"', "delimiter"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str, says: str):
    check_damaged(read_release, tmp_path, text, says)


def test_files_that_are_absent_binary_or_huge_are_named(tmp_path: Path):
    check_unreadable(read_release, tmp_path)


def guide_example() -> str:
    guide = (ROOT / "docs/release-format.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", guide, flags=re.DOTALL)
    return example


def test_the_example_of_the_guide_counts_the_rows_it_shows():
    release = read_release(guide_example())
    jsonschema.validate(json.loads(guide_example()), PUBLISHED)
    guide = (ROOT / "docs/release-format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d) \| (\w+) \|$", guide, flags=re.MULTILINE)
    assert len(rows) == release.n_rows
    X = np.array([[float(age), float(smoker)] for age, smoker, _ in rows])
    y = np.array([release.classes.index(label) for *_, label in rows])
    check_counts(release, X, y)


def check_counts(release: Release, X: np.ndarray, y: np.ndarray) -> None:
    for t, tree in enumerate(release.trees):
        counts = np.zeros((tree.n_nodes, len(release.classes)))
        np.add.at(counts, (tree.apply(X), y), 1)
        for node in np.flatnonzero(~tree.is_leaf)[::-1]:
            counts[node] = counts[tree.left[node]] + counts[tree.right[node]]
        np.testing.assert_array_equal(tree.counts, counts, err_msg=f"tree {t}")


R_SCRIPT = """
source("{script}")
train <- read.csv("{folder}/train.csv", check.names = FALSE)
X <- train[, names(train) != "label"]
y <- factor(train$label)
suppressMessages(library({package}))
{fit}
write_release(fit, X, y, "{folder}/release.json")
"""
FITS = {
    "ranger": "fit <- ranger(x = X, y = y, num.trees = 5, replace = {replace},"
    " sample.fraction = {fraction}, keep.inbag = {inbag}, min.node.size = 1,"
    " probability = {probability}, seed = 1)",
    "randomForest": "set.seed(1); fit <- randomForest(X, y, ntree = 5, replace = {replace},"
    " sampsize = {fraction} * nrow(X), keep.inbag = {inbag}, nodesize = 1)",
}
PACKAGES = pytest.mark.parametrize(
    "package", [pytest.param("ranger", marks=pytest.mark.slow), "randomForest"]
)
"""The first takes more than a second to load."""


@functools.cache
def has_r_package(rscript: str, name: str) -> bool:
    code = f'quit(status = !requireNamespace("{name}", quietly = TRUE))'
    return not subprocess.run([rscript, "-e", code], check=False, capture_output=True).returncode


def run_r(folder: Path, package: str, **options: str) -> subprocess.CompletedProcess[str]:
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("Rscript is not installed")
    for needed in (package, "jsonlite"):
        if not has_r_package(rscript, needed):
            pytest.skip(f"the R package {needed} is not installed")
    defaults = {"replace": "FALSE", "inbag": "TRUE", "probability": "FALSE", "fraction": "1"}
    code = R_SCRIPT.format(
        script=ROOT / "examples/export_ranger.R",
        folder=folder,
        package=package,
        fit=FITS[package].format(**(defaults | options)),
    )
    (folder / "run.R").write_text(code, encoding="utf-8")
    command = [rscript, "--vanilla", str(folder / "run.R")]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def r_training_set(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"bmi: raw": rng.random(60), "smoker": rng.integers(0, 2, 60)})
    X["é"] = rng.integers(0, 9, 60) / 3
    y = rng.integers(0, 3, 60)
    X.assign(label=np.array(["a", "b", "c"])[y]).to_csv(folder / "train.csv", index=False)
    return X.to_numpy(dtype=float), y


@pytest.mark.parametrize(
    ("package", "probability"),
    [
        *(pytest.param("ranger", p, marks=pytest.mark.slow) for p in ("FALSE", "TRUE")),
        ("randomForest", "FALSE"),
    ],
)
def test_forests_from_r_arrive_with_their_counts(tmp_path: Path, package: str, probability: str):
    X, y = r_training_set(tmp_path)
    done = run_r(tmp_path, package, probability=probability)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "release.json").read_text(encoding="utf-8")
    jsonschema.validate(json.loads(text), PUBLISHED)
    release = read_release(tmp_path / "release.json")
    assert release.feature_names == ("bmi: raw", "smoker", "é")
    assert release.classes == ("a", "b", "c")
    assert release.sampling == AllRows()
    assert release.n_rows == 60
    assert package in release.origin
    assert len(release.trees) == 5
    assert sum(tree.n_nodes for tree in release.trees) > 50
    check_counts(release, X, y)


@PACKAGES
def test_forests_from_r_that_hide_their_draws_are_not_exported(tmp_path: Path, package: str):
    r_training_set(tmp_path)
    done = run_r(tmp_path, package, inbag="FALSE")
    assert done.returncode != 0
    assert "keep.inbag = TRUE" in done.stderr


def chain(depth: int) -> dict:
    """A tree in which every left child is a leaf."""
    inner = [(0, k + 0.5, 2 * k + 1, 2 * k + 2) for k in range(depth)]
    nodes = [n for test in inner for n in (test, (-1, None, -1, -1))] + [(-1, None, -1, -1)]
    return dict(
        zip(("feature", "threshold", "left", "right"), zip(*nodes, strict=True), strict=True)
    )


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("columns", [f"c{i}" for i in range(bounds.MOST_COLUMNS + 1)], "100,001 columns, more"),
        ("classes", list(range(bounds.MOST_CLASSES + 1)), "10,001 classes, more than 10,000"),
        ("trees", [None] * (bounds.MOST_TREES + 1), "50,001 trees, more than 50,000: not read"),
        ("trees", [chain(bounds.MOST_LEVELS + 1)], "10,001 levels or more below the root"),
    ],
)
def test_what_is_larger_than_any_model_is_refused(key: str, value: list, says: str):
    data = stump() | {key: value}
    for tree in data["trees"] if key == "trees" and value[0] is not None else ():
        tree.update({k: list(v) for k, v in tree.items()})
    with pytest.raises(BadModel, match=re.escape(says)):
        release_from_dict(data)


@pytest.mark.parametrize(
    ("sign", "most", "says"),
    [("[", MOST_JSON_LISTS, "lists and objects"), (",", MOST_JSON_VALUES, "values")],
)
def test_json_is_measured_before_it_is_parsed(sign: str, most: int, says: str):
    # A parser would have something else to say of it.
    with pytest.raises(BadModel, match=f"{says}, more than {most:,}: not read"):
        read_release(json.dumps(stump()) + sign * most)
