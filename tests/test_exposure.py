"""What an audit says of columns, groups and rows, and what of it may leave the house."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.documents import valid
from helpers.tables import compas_sample
from treeleak.auditing.assessors.counts import LeafWords
from treeleak.auditing.assessors.people import labels_of
from treeleak.core.message import ELSEWHERE
from treeleak.release import to_release
from treeleak.schema import Binary, Numeric, OneHot, Schema

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


@pytest.fixture(scope="module")
def data():
    X, y, compas = compas_sample(60)
    return X, y, compas.schema


@pytest.fixture(scope="module")
def audited(data):
    X, y, schema = data
    forest = RandomForestClassifier(40, bootstrap=False, random_state=0).fit(X, y)
    return treeleak.audit(forest, X, y, schema=schema)


# ------------------------------------------------------------------------------------ editions


CANARIES = [f"canary-{k:03d}" for k in range(40)]


def with_canary(encode):
    """Rows with one column whose every value is somebody's own, and an audit of a deep tree."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"flag": rng.integers(2, size=40), "sex": rng.integers(2, size=40)})
    for name, column in encode.items():
        X[name] = column
    y = np.array(["often", "seldom"])[rng.integers(2, size=40)]
    y[:3] = "rarity"
    return X, y


@pytest.mark.parametrize("trees", [1, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["one-hot", "numbers"])
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.slow
def test_a_releasable_edition_holds_no_canary(kind, trees, told):
    if kind == "one-hot":
        encode = dict(zip(CANARIES, np.eye(40), strict=True))
        canaries = [*CANARIES, "rarity"]
    else:
        values = 918_273.5 + 1_000 * np.arange(40)
        encode, canaries = {"number": values}, [f"{v:.1f}" for v in values]
    X, y = with_canary(encode)
    forest = RandomForestClassifier(trees, bootstrap=False, random_state=0).fit(X, y)
    found = treeleak.audit(forest, *((X, y) if told else ()), time_limit=20)
    document = valid(json.loads(found.to_json()))
    assert document["edition"] == "releasable"
    text = found.to_json()
    assert not [c for c in canaries if c in text]
    internal = valid(json.loads(found.to_json(edition="internal")))
    assert internal["edition"] == "internal"
    assert len(internal["reconstruction"]["rows"]["values"]) == 40
    if kind == "one-hot":
        assert all(c in json.dumps(internal) for c in canaries)


@pytest.mark.slow
def test_a_releasable_edition_names_no_leaf(data):
    X, y, schema = data
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    found = treeleak.audit(tree, X, y, schema=schema)
    named = [e.name for e in found.uncertainty.exposed]
    assert named[0] in found.headline or any(named[0] in f.text for f in found.findings)
    document = valid(json.loads(found.to_json()))
    assert document["uncertainty"]["exposed"] == []
    assert not any(f"{named[0]} " in f["text"] for f in document["findings"])
    assert found.counts.total["smallest"] == 1
    assert document["counts"]["total"]["smallest"] is None
    assert document["counts"]["total"]["single"] == found.counts.total["single"]
    assert document["measurement"]["individual"]["all"]["worst"] is None


@pytest.mark.slow
def test_a_ruling_tells_no_count_of_one_leaf(audited):
    limits = {"smallest_leaf": 1, "single_leaves": 0.5, "left_to_know": 0.5}
    ruling = treeleak.judge(audited, treeleak.Policy("mild", limits))
    document = valid(json.loads(replace(audited, ruling=ruling).to_json()))
    found = {c["key"]: c for c in document["ruling"]["checks"]}
    assert found["smallest_leaf"]["state"] == "met"
    assert found["smallest_leaf"]["found"] == "fewer than 10"
    assert found["single_leaves"]["found"].endswith("%")
    assert found["left_to_know"]["found"] == "neither one tree nor rules"


@pytest.mark.slow
def test_why_rows_do_not_fit_is_told_without_a_count(data):
    X, y, schema = data
    forest = RandomForestClassifier(5, bootstrap=False, random_state=0).fit(X, y)
    found = treeleak.audit(forest, 1 - X, y, schema=schema, time_limit=5, on_mismatch="report")
    assert "tree 0" in found.mismatch
    document = valid(json.loads(found.to_json()))
    assert "tree 0" not in found.to_json()
    assert document["mismatch"].startswith("the model did not count these rows")
    reasons = {p["part"]: p["reason"] for p in document["not_assessed"]}
    assert reasons["measurement"] == ELSEWHERE


# --------------------------------------------------------------------------------- what is said


def test_a_group_of_columns_is_named_without_its_categories():
    members = ("work_self_inc", "work_self_not", "work_state")
    schema = Schema(
        [
            OneHot(" | ".join(members), members),
            OneHot("a | b", ("a", "b")),
            OneHot("c | d", ("c", "d")),
            OneHot("country", ("country_A", "country_B")),
            Binary("x"),
            Numeric("n"),
        ]
    )
    assert list(labels_of(schema)) == [
        "work", "one of 2 columns", "one of 2 columns (3)", "country", "x", "n"
    ]  # fmt: skip


@given(st.integers(0, 10_000))
def test_words_of_a_leaf_hold_for_its_rows_and_no_others(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"flag": rng.integers(2, size=30), "size": rng.normal(size=30).round(2)})
    y = rng.integers(2, size=30)
    tree = DecisionTreeClassifier(max_depth=4, random_state=seed).fit(X, y)
    release = to_release(tree)
    words = LeafWords(release, Schema([Binary("flag"), Numeric("size")]))
    leaves = release.trees[0].apply(X.to_numpy(dtype=release.float_type))
    for leaf in release.trees[0].leaves:
        said = words.say(0, int(leaf))
        python = " and ".join(
            f"({part.replace(' = ', ' == ').replace('≤', '<=')})" for part in said.split("; ")
        )
        # Words are rounded to six digits.
        inside = X.eval(python) if said != "anywhere" else pd.Series(True, index=X.index)
        np.testing.assert_array_equal(inside, leaves == leaf)


@pytest.mark.slow
def test_what_was_given_counts_in_no_figure(data):
    X, y, schema = data
    forest = RandomForestClassifier(3, bootstrap=False, random_state=0).fit(X, y)
    known = X.iloc[:20].assign(label=y.iloc[:20])
    found = treeleak.audit(forest, X, y, schema=schema, known_rows=known, time_limit=20)
    assert found.exposure.recovered.n_rows == 40
    assert len(found.exposure.rows) == 40
    groups = found.exposure.groups
    assert groups["rows"].sum() == 60
    errors = found.measurement.pairs.errors
    assert np.isnan(errors).sum() == 20
    mean = groups["error"] * [np.isfinite(errors[y.to_numpy() == c]).sum() for c in (0, 1)]
    assert mean.sum() / 40 == pytest.approx(found.measurement.error)


def test_small_groups_are_one_line_without_figures(audited):
    groups = pd.DataFrame(
        {
            "column": ["a"] * 4 + ["b"] * 2,
            "group": [*"wxyz", "u", "v"],
            "rows": [3, 12, 20, 25, 30, 30],
            "error": 0.1,
            "exact": 0.5,
            "guess": 0.2,
        }
    )
    of_a, of_b = np.repeat(np.arange(4), [3, 12, 20, 25]), np.arange(60) % 2
    members = np.column_stack([of_a[:, None] == np.arange(4), of_b[:, None] == np.arange(2)])
    behind = replace(audited.exposure.behind, groups=members)
    found = replace(audited, exposure=replace(audited.exposure, groups=groups, behind=behind))
    told = valid(json.loads(found.to_json()))["exposure"]["groups"]
    # The one small group alone would follow from the rest: the next smallest goes with it.
    assert [g["group"] for g in told] == ["y", "z", told[2]["group"], "u", "v"]
    assert told[2]["group"].startswith("groups under 10 rows, and")
    assert told[2]["rows"] is None
    assert [g["group"] for g in found.to_dict("internal")["exposure"]["groups"]] == list("wxyzuv")
