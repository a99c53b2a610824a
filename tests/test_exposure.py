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


@pytest.mark.slow
def test_columns_groups_and_rows_are_those_of_one_matching(data):
    X, y, schema = data
    X = X.assign(region=["north", "south", "west"] * 20, score=np.arange(60.0))
    forest = RandomForestClassifier(3, max_depth=3, bootstrap=False, random_state=0)
    forest.fit(X[list(schema.columns)], y)
    found = treeleak.audit(forest, X, y, schema=schema, groups=["region", "score", "age"])
    pairs, exposed = found.measurement.pairs, found.exposure
    true, rebuilt = found.truth.X, found.reconstruction.X
    names = labels_of(schema)
    differs = rebuilt[true.columns].to_numpy() != true.iloc[pairs.true].to_numpy()
    wrong = pd.DataFrame(differs, columns=true.columns)
    by_name = pd.DataFrame({n: wrong[list(a.columns)].any(axis=1) for n, a in names.items()})
    assert 0 < by_name.to_numpy().mean() < 0.5
    np.testing.assert_allclose(exposed.columns["right"], 1 - by_name.mean())
    for name, attribute in names.items():
        most = true[list(attribute.columns)].value_counts().iloc[0]
        assert exposed.columns.loc[name, "majority"] == pytest.approx(most / 60)
        assert exposed.columns.loc[name, "others"] == 60 - most
    rows = exposed.rows.set_index("row")
    assert len(rows) == 60
    np.testing.assert_array_equal(rows["matched"].sort_index(), pairs.true)
    np.testing.assert_array_equal(rows["wrong"].sort_index(), by_name.sum(axis=1))
    order = list(zip(~rows["proved"], -rows["sure"], strict=True))
    assert order == sorted(order)
    errors = pd.Series(wrong.mean(axis=1).to_numpy(), index=pairs.true).sort_index()
    groups = exposed.groups.set_index(["column", "group"])
    assert groups.loc["class", "rows"].sum() == 60
    assert list(dict.fromkeys(exposed.groups["column"])) == ["class", "region", "score", "age"]
    for k, region in enumerate(["north", "south", "west"]):
        line = groups.loc[("region", region)]
        assert line["rows"] == 20
        assert line["error"] == pytest.approx(errors[errors.index % 3 == k].mean())
        assert line["exact"] == pytest.approx((errors[errors.index % 3 == k] == 0).mean())
        assert line["error"] < line["guess"]
    assert list(groups.loc["score"].index) == [
        "lowest quarter", "second quarter", "third quarter", "highest quarter"
    ]  # fmt: skip
    assert set(groups.loc["age"].index) <= {c for c in X if c.startswith("age")}
    assert groups["rows"].sum() == 4 * 60


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
def test_without_training_rows_only_what_the_attack_expects_is_told(data):
    X, y, schema = data
    forest = RandomForestClassifier(3, bootstrap=False, random_state=0).fit(X, y)
    exposed = treeleak.audit(forest, schema=schema).exposure
    unknown = ["right", "guess", "majority", "others"]
    assert exposed.columns[unknown].isna().all(axis=None)
    assert exposed.columns[["expected", "proved"]].notna().all(axis=None)
    assert exposed.groups.empty
    assert exposed.rows[["matched", "wrong"]].isna().all(axis=None)


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


def test_figures_come_as_a_table(audited):
    table = audited.to_frame().set_index(["part", "figure"])["value"]
    assert table["verdict", "verdict"] == audited.verdict
    assert table["counts", "total: single"] == audited.counts.total["single"]
    assert table["measurement", "error"] == audited.measurement.error
    assert table["exposure", "recovered: proved"] == audited.exposure.recovered.proved
    right = audited.exposure.columns.loc["age", "right"]
    assert table["exposure", "columns: age: right"] == pytest.approx(right)
    error = audited.exposure.groups.set_index("group").loc["0", "error"]
    assert table["exposure", "groups: class, 0: error"] == pytest.approx(error)
    share = audited.article29.singling_out.success.share
    assert table["article29", "singling_out: success: share"] == share
    few = audited.to_frame("internal").shape[0] - len(table)
    assert few > 0
    assert table.index.is_unique
    assert not any("rows: " in figure or "leaves" in figure for part, figure in table.index
                   if part == "exposure")  # fmt: skip


@pytest.mark.slow
def test_tables_may_be_arrays_lists_and_series(data):
    # Few rows and columns: the attack and its guesses end long before the time is up.
    X, y = data[0][list(data[2].columns)].iloc[:25, :5], data[1].iloc[:25]
    forest = RandomForestClassifier(3, max_depth=3, bootstrap=False, random_state=0)
    forest.fit(X.to_numpy(), y)
    renamed = Schema([treeleak.Binary(f"x{i}") for i in range(X.shape[1])])
    forms = [
        (X.to_numpy(), y.to_numpy(), X.to_numpy()[::-1]),
        (X, y, X.iloc[::-1]),
        (X.to_numpy().tolist(), y.tolist(), X.to_numpy()[::-1].tolist()),
        (X.to_numpy(), pd.DataFrame({"y": y}), X.to_numpy()[::-1]),
    ]
    tables = []
    for rows, labels, control in forms:
        found = treeleak.audit(
            forest, rows, labels, schema=renamed, control=control, sensitive=["x0"],
            groups=["x1"], time_limit=300,
        )  # fmt: skip
        table = found.to_frame()
        tables.append(table[~table["figure"].isin(["seconds"])])
        assert len(found.article29.inference) == 1
        assert set(found.exposure.groups["column"]) == {"class", "x1"}
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])
