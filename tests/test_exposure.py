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
from helpers import valid
from treeleak.audit.exposure import check_names, labels_of
from treeleak.audit.releasable import ELSEWHERE, hidden_groups, speaks_of_none
from treeleak.errors import BadInput
from treeleak.schema import Binary, Numeric, OneHot, Schema


@pytest.fixture(scope="module")
def data():
    compas = treeleak.datasets.load_compas()
    X = compas.X.sample(60, random_state=3)
    return X, compas.y[X.index], compas.schema


@pytest.fixture(scope="module")
def audited(data):
    X, y, schema = data
    forest = RandomForestClassifier(40, bootstrap=False, random_state=0).fit(X, y)
    return treeleak.audit(forest, X, y, schema=schema)


# ------------------------------------------------------------------------------------ editions


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 12))
def test_nothing_hidden_follows_from_the_rest(rows, threshold):
    hidden = hidden_groups(rows, threshold)
    assert all(h for n, h in zip(rows, hidden, strict=True) if 0 < n < threshold)
    assert not any(h for n, h in zip(rows, hidden, strict=True) if n == 0)
    together = [n for n, h in zip(rows, hidden, strict=True) if h]
    # The rest and the total tell the sum of what is hidden: it must be of several, and large.
    if sum(h == 0 for n, h in zip(rows, hidden, strict=True) if n):
        assert not together or (len(together) > 1 and sum(together) >= threshold)
    if not any(0 < n < threshold for n in rows):
        assert not any(hidden)


@pytest.mark.parametrize(
    ("text", "names", "fit"),
    [
        ("no schema given: rebuilt under what the model alone says", (), True),
        ("of these rows, 81% do", (), True),
        ("of these rows, 81.5 % do", (), True),
        ("tree 3, node 5: counts 1", (), False),
        ("lost: 'age'", (), False),
        ("lost: age", ("age",), False),
        ("lost: average", ("age",), True),
        ("in c++ (a)", ("c++",), False),
    ],
)
def test_texts_that_name_something_are_told_from_others(text, names, fit):
    assert speaks_of_none(text, names) == fit


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


@pytest.mark.parametrize("trees", [1, 10])
@pytest.mark.parametrize("kind", ["one-hot", "numbers"])
@pytest.mark.parametrize("told", [True, False])
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
    internal = valid(json.loads(found.to_json("internal")))
    assert internal["edition"] == "internal"
    assert len(internal["reconstruction"]["rows"]["values"]) == 40
    if kind == "one-hot":
        assert all(c in json.dumps(internal) for c in canaries)


def test_a_releasable_edition_names_no_leaf(data):
    X, y, schema = data
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    found = treeleak.audit(tree, X, y, schema=schema)
    named = [e.name for e in found.uncertainty.exposed]
    assert named[0] in found.headline_of("internal") or any(
        named[0] in f.text for f in found.findings
    )
    document = valid(json.loads(found.to_json()))
    assert document["uncertainty"]["exposed"] == []
    assert not any(f"{named[0]} " in f["text"] for f in document["findings"])
    assert found.counts.total["smallest"] == 1
    assert document["counts"]["total"]["smallest"] is None
    assert document["counts"]["total"]["single"] == found.counts.total["single"]
    assert document["measurement"]["individual"]["all"]["worst"] is None


def test_a_ruling_tells_no_count_of_one_leaf(audited):
    limits = {"smallest_leaf": 1, "single_leaves": 0.5, "left_to_know": 0.5}
    ruling = treeleak.judge(audited, treeleak.Policy("mild", limits))
    document = valid(json.loads(replace(audited, ruling=ruling).to_json()))
    found = {c["key"]: c for c in document["ruling"]["checks"]}
    assert found["smallest_leaf"]["state"] == "met"
    assert found["smallest_leaf"]["found"] == "fewer than 10"
    assert found["single_leaves"]["found"].endswith("%")
    assert found["left_to_know"]["found"] == "neither one tree nor rules"


def test_why_rows_do_not_fit_is_told_without_a_count(data):
    X, y, schema = data
    forest = RandomForestClassifier(5, bootstrap=False, random_state=0).fit(X, y)
    found = treeleak.audit(forest, 1 - X, y, schema=schema, time_limit=5)
    assert "tree 0" in found.mismatch
    document = valid(json.loads(found.to_json()))
    assert "tree 0" not in found.to_json()
    assert document["mismatch"].startswith("the model did not count these rows")
    reasons = {p["part"]: p["reason"] for p in document["not_assessed"]}
    assert reasons["measurement"] == ELSEWHERE


# --------------------------------------------------------------------------------- what is said


def test_rows_are_proved_probable_or_open(audited):
    found, rebuilt = audited.exposure.recovered, audited.reconstruction
    assert found.n_rows == 60
    assert found.proved + found.probable + found.open == pytest.approx(1)
    assert found.proved == pytest.approx(rebuilt.share_proved_rows)
    tested = rebuilt.confidence.drop(columns=list(rebuilt.free_columns))
    sure = (tested >= 0.9).all(axis=1)
    assert found.open == pytest.approx((~(rebuilt.proved | sure)).mean())


def test_a_wrong_name_names_the_nearest():
    check_names(["age"], ["age", "sex"], "groups")
    with pytest.raises(BadInput, match="groups: no column 'agee'; did you mean 'age'"):
        check_names(["agee"], ["age", "sex"], "groups")


def test_groups_and_sensitive_columns_need_training_rows(data):
    X, y, _ = data
    tree = DecisionTreeClassifier().fit(X, y)
    with pytest.raises(BadInput, match="groups without training rows"):
        treeleak.audit(tree, groups=["age"])
    with pytest.raises(BadInput, match="no column 'priorz'"):
        treeleak.audit(tree, X, y, sensitive=["priorz"])


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
