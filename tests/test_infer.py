"""Schemas inferred from thresholds and rows say no more than these allow."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from helpers.releases import tree_of
from treeleak.core.errors import BadInput, BadSchema
from treeleak.release import to_release
from treeleak.release.check_schema import check_schema, match_levels, reached
from treeleak.release.infer_schema import infer_schema, suggest_schema
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.schema import Binary, Categorical, Numeric, OneHot, Ordinal, Schema


def make_release(thresholds: dict[str, list[float]], **options) -> Release:
    """A release whose trees are stumps, one for each threshold."""
    trees = tuple(
        tree_of((f, t), None, None) for f, cuts in enumerate(thresholds.values()) for t in cuts
    )
    options = {"maybe_missing": frozenset(), "one_hot": {}} | options
    return Release(trees, tuple(thresholds), (), AllRows(), None, **options)


def below(x: float) -> float:
    """The number before another in single precision."""
    return float(np.nextafter(np.float32(x), np.float32(-np.inf)))


@pytest.mark.parametrize(
    ("cuts", "expected"),
    [
        ([below(1)], Binary("a")),
        ([1.0000000180025095e-35], Binary("a")),
        ([below(1), below(4)], Ordinal("a", 0, 4)),
        ([1.0000000180025095e-35, 1.5000000000000002, 3.5000000000000004], Ordinal("a", 0, 4)),
        ([-1.0000000180025095e-35, 0.5000000000000001], Ordinal("a", -1, 1)),
        ([1.0], Numeric("a")),
        ([below(2.0**22), 1e300], Numeric("a")),
    ],
)
def test_thresholds_of_boosted_models_count_as_halfway(cuts, expected):
    assert infer_schema(make_release({"a": cuts})).attributes == (expected,)


TINY = 1.0000000180025095e-35


@pytest.mark.parametrize(
    ("cuts", "ends", "expected"),
    [
        ([TINY], (0, 1), Binary("a")),
        ([TINY], (0, 7), Numeric("a", 0, 7)),
        ([0.5, 0.25], (0, 1), Numeric("a", 0, 1)),
        ([20.5, 36.5], (17, 90), Ordinal("a", 17, 90)),
        ([20.5, 36.5], (17, 90.25), Numeric("a", 17, 90.25)),
        ([-1.5, 0.5], (-9, 2.0**60), Numeric("a", -9, 2.0**60)),
        ([1e300], (3, 8.5), Numeric("a", 3, 8.5)),
        ([0.5, 36.5], (1, 20), Ordinal("a", 0, 37)),
        ([2.25], (5, 20), Numeric("a")),
        ([], (0, 1), Numeric("a", 0, 1)),
    ],
)
def test_ends_that_the_file_holds_are_those_of_the_domain(cuts, ends, expected):
    release = make_release({"a": cuts}, ranges={"a": ends})
    assert infer_schema(release).attributes == (expected,)
    schema, remarks = suggest_schema(release)
    held = [r for r in remarks if "least and the greatest value of 1 columns" in r]
    assert bool(held) == (schema.attributes[0].bounds == ends)
    missing = make_release({"a": cuts}, ranges={"a": ends}, maybe_missing=frozenset("a"))
    assert infer_schema(missing).attributes[0].missing
    check_schema(infer_schema(missing), missing)


@pytest.mark.parametrize(
    ("cuts", "options"),
    [
        ({"a": [0.5], "b": [1.5]}, {}),
        ({"a": [0.5], "b": [-0.5]}, {}),
        ({"a": [0.5], "b": [0.5]}, {"maybe_missing": frozenset("b")}),
        ({"a": [0.5], "b": [0.5]}, {"one_hot": {"g": ("a", "z")}}),
        ({"a": [0.5], "b": [0.5]}, {"one_hot": {"g": ()}}),
        ({"a": [0.5], "b": [0.5]}, {"one_hot": {"g": ("a", "a")}}),
    ],
)
def test_groups_that_something_speaks_against_are_dropped(cuts, options):
    release = make_release(cuts, **({"one_hot": {"g": ("a", "b")}} | options))
    assert [a.name for a in infer_schema(release).attributes] == ["a", "b"]


@pytest.mark.parametrize(
    ("values", "cuts", "expected"),
    [
        ([0, 1, 1], [0.5], Binary("a")),
        ([0.0, 1.0, np.nan], [0.5], Binary("a", missing=True)),
        ([0, 1, 1], [1.5], Ordinal("a", 0, 2)),
        ([3, 7, 4], [1.5, 8.2], Ordinal("a", 1, 9)),
        ([0.5, 2, 1], [1.2], Numeric("a", 0.5, 2)),
        ([np.nan] * 3, [1.5, 2.5], Ordinal("a", 1, 3, missing=True)),
    ],
)
def test_rows_decide_where_there_are_any(values, cuts, expected):
    X = pd.DataFrame({"other": ["x", "y", "z"], "a": values})
    assert infer_schema(make_release({"a": cuts}), X).attributes == (expected,)


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (pd.DataFrame({"b": [1]}), "lack column 'a'"),
        (pd.DataFrame({"a": ["x"]}), "'a' of the rows holds something other"),
        (pd.DataFrame({"a": [np.inf]}), "'a' of the rows holds an infinite"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' appears twice"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused(X, says):
    with pytest.raises(BadInput, match=says):
        infer_schema(make_release({"a": [0.5]}), X)


def test_remarks_name_what_nothing_in_the_model_states():
    release = make_release({"a": [20.5, 36.5], "b": [], "c": [2.25], "d": []}, ranges={"d": (0, 9)})
    ends, kind, *others = suggest_schema(release)[1][1:]
    assert ends.startswith("'a': as narrow as the thresholds allow")
    assert kind.startswith("'b': no tree tests this")
    assert not others
    texts = make_release({"a": [0.5], "b": [0.5]}, levels={"a": ("hash 7", "another")})
    assert suggest_schema(texts)[1][0].startswith("'a': the file holds hashes of texts")
    X = pd.DataFrame({"a": [21, 30], "b": [0, 1], "c": [1.0, 2.5], "d": [0, 9]})
    assert not [r for r in suggest_schema(release, X)[1] if "widen" in r or "no tree" in r]


@pytest.mark.parametrize(
    ("rows", "group", "says"),
    [
        ([[0, 1], [1, 0]], OneHot("a", ("a_1", "a_2")), "exactly one"),
        ([[0, 0], [1, 0]], OneHot("a", ("a_1", "a_2"), at_most_one=True), "at most one"),
        ([[1, 1], [1, 0]], None, ""),
    ],
)
def test_rows_decide_on_the_groups_proposed(rows, group, says):
    X = pd.DataFrame(rows, columns=["a_1", "a_2"])
    schema, remarks = suggest_schema(make_release({"a_1": [0.5], "a_2": []}), X)
    assert schema.attributes == ((group,) if group else (Binary("a_1"), Binary("a_2")))
    assert [says in r for r in remarks] == [True] * bool(group)


@pytest.mark.parametrize(
    ("attribute", "cut"),
    [
        (Binary("a"), 1.0),
        (Binary("a"), -0.5),
        (OneHot("g", ("a",)), 0.5),
        (Ordinal("a", 2, 4), 1.5),
        (Ordinal("a", 2, 4), 4.0),
        (Numeric("a", 0, 1), 1.0),
        (Categorical("a", (3, 5)), 5.5),
    ],
)
def test_a_domain_that_excludes_a_threshold_is_refused(attribute, cut):
    with pytest.raises(BadSchema, match=f"'a'.*<= {cut:g}"):
        check_schema(Schema([attribute]), make_release({"a": [cut]}))


LEVELS = {"job": ("clerk", "nurse", "pilot")}
JOB = Categorical("job", labels=LEVELS["job"])


@pytest.mark.parametrize(
    "labels",
    [
        ("nurse", "clerk", "pilot"),
        ("clerk", "other", "nurse", "pilot"),
        ("other", "nurse", "pilot"),
    ],
)
def test_a_schema_with_other_codes_than_the_model_is_refused(labels):
    release = make_release({"job": [1.5]}, levels=LEVELS)
    with pytest.raises(BadSchema, match=r"'job': code \d stands for .* in the schema"):
        check_schema(Schema([Categorical("job", labels=labels)]), release)
    assert check_schema(Schema([Categorical("job", labels=(*LEVELS["job"], "x"))]), release) == []
    assert check_schema(Schema([Categorical("job", (0, 1, 2))]), release) == []


@given(
    st.permutations(["clerk", "nurse", "pilot", "other", "none"]),
    st.lists(st.integers(-9, 9), min_size=5, max_size=5, unique=True),
    st.integers(3, 5),
    st.lists(st.sampled_from([-0.5, 0.0, 0.5, 1.5, 2.0, 2.5]), min_size=1, max_size=3),
)
def test_a_release_moved_to_other_codes_parts_the_same_labels(labels, values, n, cuts):
    attribute = Categorical("job", tuple(values[:n]), tuple(labels[:n]))
    release = make_release({"b": [1.5], "job": cuts}, levels=LEVELS)
    codes = dict(zip(attribute.labels, attribute.values, strict=True))
    shared = [t for t in LEVELS["job"] if t in codes]
    sides = [[t for t in shared if LEVELS["job"].index(t) <= cut] for cut in cuts]
    schema = Schema([Binary("b"), attribute])
    for cut, left in zip(cuts, sides, strict=True):
        right = [t for t in shared if t not in left]
        apart = left and right and max(map(codes.get, left)) < min(map(codes.get, right))
        if 0 <= cut < 2 and not apart:
            with pytest.raises(BadSchema, match="column 'job'"):
                match_levels(release, schema)
            return
    moved = match_levels(release, schema)
    assert moved.trees[0].threshold[0] == 1.5
    for tree, left in zip(moved.trees[1:], sides, strict=True):
        assert [t for t in shared if codes[t] <= tree.threshold[0]] == left
    again = match_levels(moved, schema)
    assert [t.threshold[0] for t in again.trees] == [t.threshold[0] for t in moved.trees]


def test_an_order_in_which_no_threshold_parts_what_a_test_parts_is_named():
    release = make_release({"job": [0.5, math.inf]}, levels=LEVELS)
    turned = Schema([Categorical("job", labels=("clerk", "pilot", "x", "nurse"))])
    moved = match_levels(release, turned)
    assert moved.levels == {"job": ("clerk", "pilot", "x", "nurse")}
    assert [t.threshold[0] for t in moved.trees] == [0.5, math.inf]
    check_schema(turned, moved)
    mixed = Schema([Categorical("job", labels=("nurse", "clerk", "pilot"))])
    with pytest.raises(BadSchema, match=r"'job'.*\['clerk'\].*order \['clerk', 'nurse', 'pilot'\]"):
        match_levels(release, mixed)
    with pytest.raises(BadSchema, match=r"tests for \['clerk'\], which the schema lacks"):
        match_levels(release, Schema([Categorical("job", labels=("nurse", "pilot"))]))
    for same in (Schema([JOB]), Schema([Categorical("job", (0, 1, 2))]), Schema([Binary("job")])):
        assert match_levels(release, same) is release


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_reached_if_a_possible_row_has_their_leaves(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.integers(-3, 4, 30), "b": rng.integers(0, 3, 30)})
    model = DecisionTreeClassifier(max_depth=3, random_state=seed).fit(X, rng.integers(0, 2, 30))
    release = to_release(model)
    schema = Schema([Ordinal("a", -1, 1), Binary("b")])
    possible = pd.DataFrame([(a, b) for a in (-1, 0, 1) for b in (0, 1)], columns=["a", "b"])
    leaves = set(map(tuple, release.leaves(possible)))
    found = reached(schema, release, X)
    for row, ok in zip(release.leaves(X), found, strict=True):
        assert not ok or tuple(row) in leaves
    assert found[schema.valid(X.to_numpy(), ["a", "b"])].all()
    assert reached(infer_schema(release), release, X).all()
