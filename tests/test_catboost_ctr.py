"""CatBoost's statistics of the target: counts of rows by category, as trees and as findings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import treeleak
from helpers.examples import seeds
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.city_hash import category_hash
from treeleak.core.errors import BadModel, Mismatch, NotCovered
from treeleak.release import read_model, to_release
from treeleak.verification.counts import check_rows
from treeleak.verification.training_rows import match_training

pytestmark = pytest.mark.filterwarnings("ignore")

FILES = Path(__file__).parent / "models" / "catboost-ctr"
TRUTH = json.loads((FILES / "truth.json").read_text())
KINDS = sorted(TRUTH["kinds"])


def coded(release, rows):
    """Rows with texts as the release has them: places of their hashes, or of the texts."""
    out = np.zeros(rows.shape)
    for i, name in enumerate(rows):
        levels = release.levels.get(name)
        if rows[name].dtype.kind in "fi":
            out[:, i] = rows[name]
        elif levels:
            of = {text: code for code, text in enumerate(levels)}
            other = of.get("another", len(levels))
            told = [f"hash {TRUTH['hashes'][str(v)]}" for v in rows[name]]
            out[:, i] = [of.get(h, of.get(v, other)) for h, v in zip(told, rows[name], strict=True)]
    return out


def rows_of(kind):
    data = pd.DataFrame(TRUTH["rows"])
    return data, np.array(TRUTH["targets"][TRUTH["kinds"][kind]])


def changed(kind, change):
    root = json.loads((FILES / f"{kind}.json").read_text())
    change(root)
    return root


def released(root, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(root))
    return to_release(path)


@pytest.mark.parametrize("kind", KINDS)
def test_every_count_is_that_of_the_training_rows(kind):
    release = to_release(FILES / f"{kind}.json")
    X, y = rows_of(kind)
    assert release.not_covered is None
    assert release.n_rows == len(X)
    label = release.class_numbers(y) if release.classes else None
    check = check_rows(release, coded(release, X), label)
    assert check.ok, str(check.first)
    by_class = [tree for tree in release.trees if tree.counts is not None]
    assert bool(by_class) == bool(release.classes)
    # Trees that count no classes stand behind.
    assert all(tree.counts is not None for tree in release.trees[: len(by_class)])
    assert all(tree.totals is not None for tree in release.trees)


def _value(table, value):
    table["hash_map"][table["hash_stride"]] = value


def _more(table):
    for value in range(51, 90):
        table["hash_map"] += [str(value), *[0] * (table["hash_stride"] - 1)]


TAMPERED = {
    "a small value": lambda table: _value(table, "51351402"),
    "a value of no category": lambda table: _value(table, "5135140249301402511"),
    "more values": _more,
    "numbers of rows": lambda table: table["hash_map"].__setitem__(-1, 51),
    "where no value is": lambda table: table["hash_map"].__setitem__(1, 51),
    "a denominator": lambda table: table.update(counter_denominator=51351402),
}


@pytest.mark.parametrize("name", TAMPERED)
@pytest.mark.parametrize("kind", ["binary", "number", "three"])
def test_tables_that_count_no_rows_are_left_over(kind, name, tmp_path):
    def change(root):
        TAMPERED[name](next(iter(root["ctr_data"].values())))

    (tmp_path / "model.json").write_text(json.dumps(changed(kind, change)))
    found = take_inventory(read_model(tmp_path / "model.json"), Context())
    assert any(entry.unknown for entry in found)


def test_hashes_that_are_not_of_their_texts_are_left_over(tmp_path):
    def change(root):
        for entry in root["features_info"]["cat_features_hash"]:
            entry["hash"] = 51351402

    (tmp_path / "model.json").write_text(json.dumps(changed("texts", change)))
    found = take_inventory(read_model(tmp_path / "model.json"), Context())
    assert any(entry.unknown for entry in found)


@pytest.mark.parametrize("kind", ["binary", "number"])
def test_rows_may_have_texts_where_the_file_has_hashes(kind):
    release = to_release(FILES / f"{kind}.json")
    X, y = rows_of(kind)
    matched = match_training(release, X, y if release.classes else None)
    np.testing.assert_array_equal(matched.X.to_numpy(), coded(release, X))
    X.loc[3, "city"] = "elsewhere"
    with pytest.raises(Mismatch, match="city"):
        match_training(release, X, y if release.classes else None)


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("oslo", TRUTH["hashes"]["oslo"]), ("Tech-support", 1150039955),
        ("Married-civ-spouse", 2275057210 - 2**32), ("9th", 840896980),
        ("x" * 60, 1652758251), ("y" * 65, None),
    ],
)  # fmt: skip
def test_texts_are_hashed_as_catboost_does(text, hashed):
    assert category_hash(text) == hashed


def test_an_audit_decides():
    audit = treeleak.audit(FILES / "binary.json", time_limit=60)
    assert audit.reconstruction is not None
    assert audit.reconstruction.X is not None
    assert audit.verdict != "no leak shown"
    assert audit.counts.total["single"] > 0


@pytest.mark.parametrize("gone", ["weights", "tables"])
def test_what_is_left_counts_as_well(gone, tmp_path):
    def change(root):
        for tree in root["oblivious_trees"]:
            if gone == "weights":
                tree["leaf_weights"] = [0 for _ in tree["leaf_weights"]]
        if gone == "tables":
            del root["ctr_data"]

    release = released(changed("binary", change), tmp_path)
    X, y = rows_of("binary")
    assert release.n_rows == len(X)
    assert release.not_covered is None
    assert any(tree.counts is not None for tree in release.trees) == (gone == "weights")
    assert check_rows(release, coded(release, X), release.class_numbers(y)).ok


def test_nothing_that_counts_is_refused(tmp_path):
    def change(root):
        del root["ctr_data"]
        for tree in root["oblivious_trees"]:
            tree["leaf_weights"] = [0 for _ in tree["leaf_weights"]]

    with pytest.raises(NotCovered, match="count"):
        released(changed("binary", change), tmp_path)


def first(root):
    return next(iter(root["ctr_data"].values()))


def renamed(**parts):
    def change(root):
        name = json.dumps({"identifier": [parts], "type": "Borders"})
        root["ctr_data"][name] = first(root)

    return change


def as_it_is(**given):
    return lambda root: first(root).update(given)


def key(text):
    return lambda root: first(root)["hash_map"].__setitem__(0, text)


LIES = [
    (as_it_is(hash_stride=0), "hash_map is no list"),
    (as_it_is(hash_stride=2**40), "hash_map is no list"),
    (as_it_is(hash_map=[1]), "hash_map is no list"),
    (as_it_is(hash_map=["7", -1, 2]), "other than numbers of rows"),
    (as_it_is(hash_map=["7", 10**30, 2]), "other than numbers of rows"),
    (as_it_is(hash_map=["7", 1, 2, "7", 1, 2]), "twice"),
    (key("99999999999999999999"), "more than 64 bits"),
    (key("-3"), "no number of 64 bits"),
    (key(3), "no number of 64 bits"),
    (renamed(combination_element="cat_feature_value", cat_feature_index=99), "of no column"),
    (renamed(combination_element="text"), "of no column"),
    (lambda root: root["ctr_data"].update({"x": {}}), "not named by what it counts"),
    (lambda root: root["ctr_data"].update({"[" * 10**4: {}}), "not named by what it counts"),
    (lambda root: root.update(ctr_data=[1]), "not an object"),
]


@pytest.mark.parametrize(("change", "why"), LIES)
def test_lies_are_named(change, why, tmp_path):
    with pytest.raises(BadModel, match=why):
        released(changed("binary", change), tmp_path)


@pytest.mark.parametrize("text", ["3", "18446744073709551614"])
def test_a_value_that_no_hashes_make_leaves_its_table_out(text, tmp_path):
    def change(root):
        for table in root["ctr_data"].values():
            empty, other = table["hash_map"][0], table["hash_map"][table["hash_stride"]]
            at = table["hash_stride"] if empty == str(2**64 - 1) else 0
            assert other != empty
            table["hash_map"][at] = text

    release = released(changed("binary", change), tmp_path)
    assert any("not used" in str(note) for note in release.notes)


def test_a_combination_of_too_many_ways_is_left_out(tmp_path):
    def change(root):
        name, table = next(
            (n, t) for n, t in root["ctr_data"].items() if len(json.loads(n)["identifier"]) == 1
        )
        described = json.loads(name)
        described["identifier"] *= 30
        root["ctr_data"][json.dumps(described)] = table

    release = released(changed("binary", change), tmp_path)
    assert any("not used" in str(note) for note in release.notes)


LOSSES = ("Logloss", "MultiClass", "RMSE")


@seeds(60, fast=4)
def test_counts_are_those_of_catboost(seeds, tmp_path):
    catboost = pytest.importorskip("catboost", reason="needs CatBoost")
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n, loss = int(rng.integers(30, 150)), LOSSES[seed % 3]
        cities, kinds = TRUTH["rows"]["city"], TRUTH["rows"]["kind"]
        X = pd.DataFrame({"n": rng.normal(size=n).round(1), "city": rng.choice(cities, n),
                          "kind": rng.choice(kinds, n)})  # fmt: skip
        X.loc[rng.random(n) < rng.choice([0, 0.2]), "n"] = np.nan
        y = np.array(np.nan_to_num(X.n) + X.city.map(len) % 3 + rng.normal(size=n))
        y = y if loss == "RMSE" else np.digitize(y, [1.0] if loss == "Logloss" else [0.5, 1.5])
        y[:3] = np.arange(3) % (2 if loss == "Logloss" else 3)
        params = {
            "loss_function": loss, "iterations": 15, "depth": int(rng.integers(1, 6)), "verbose": 0,
            "allow_writing_files": False, "thread_count": 1, "random_seed": seed,
            "one_hot_max_size": int(rng.choice([1, 2, 4])), "model_size_reg": 0,
            "nan_mode": str(rng.choice(["Min", "Max"])),
            "grow_policy": str(rng.choice(["SymmetricTree", "Lossguide", "Depthwise"])),
        }  # fmt: skip
        weight = rng.random(n) + 0.5 if rng.random() < 0.2 else None
        pool = catboost.Pool(X, y, cat_features=["city", "kind"], weight=weight)
        model = catboost.CatBoost(params).fit(pool)
        model.save_model(str(tmp_path / "model.json"), format="json")
        root = json.loads((tmp_path / "model.json").read_text())
        release = to_release(tmp_path / "model.json")
        if "OnlineCtr" not in json.dumps(root):
            continue
        assert release.not_covered is None
        assert release.n_rows == n
        label = y.astype(int) if release.classes else None
        check = check_rows(release, coded(release, X), label)
        assert check.ok, (seed, str(check.first))
        assert not any("not used" in str(note) for note in release.notes), seed
