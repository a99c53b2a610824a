"""Old binary and printed forms of boosted models say what the files of the same models say.

``tools/make_boosted_models.py`` writes the files. No library is needed to read them.
"""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest

import treeleak
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.evidence import LossSums, evidence_for
from treeleak.release import read_model, to_release
from treeleak.release.readers.xgboost_binary import CONFIG
from treeleak.release.statistics import HESSIAN, VALUE

STORED = Path(__file__).parent / "models"
PRINTED, BOOSTED = STORED / "printed", STORED / "boosted"
OLD = sorted(PRINTED.glob("*/*.model"))
TREES = sorted(
    path for path in (PRINTED / "xgboost-3.2.0").iterdir() if path.name.endswith(".printed.json")
)  # fmt: skip
DUMPS = sorted((PRINTED / "lightgbm-4.7.0").glob("*.json"))
FILES = [OLD[0], OLD[-1], *TREES[:3], *DUMPS[:2]]


def id_of(path):
    return f"{path.parent.name}/{path.name}"


def truth_of(path):
    """Rows, and what the library predicts for them, shape (n_rows, n_outputs)."""
    told = json.loads((path.parent / "truth.json").read_text())[path.name.split(".")[0]]
    return np.array(told["rows"], dtype=np.float32), np.array(told["margin"])


def twin_of(path):
    """The file of the same model in the library's JSON."""
    return path.parent / f"{path.name.split('.')[0]}.json"


def columns_of(release, rows):
    """Rows with the columns that a model names, in its order."""
    names = ["age", "sex at birth", "c", "d"]
    named = set(release.feature_names) <= set(names)
    return rows[:, [names.index(name) for name in release.feature_names]] if named else rows


def margins(release, rows):
    out = np.tile(np.array(release.ensemble.base_scores), (len(rows), 1))
    rows = columns_of(release, rows)
    for tree in release.trees:
        out[:, tree.output or 0] += tree.statistics.get(VALUE).values[tree.apply(rows)]
    return out


def unknown_parts(path):
    stored = read_model(path)
    found = take_inventory(stored, Context(release=to_release(stored)))
    return [entry.names for entry in found if entry.unknown]


def same_trees(one, other, rows):
    for a, b in zip(one.trees, other.trees, strict=True):
        at, there = a.apply(columns_of(one, rows)), b.apply(columns_of(other, rows))
        for quantity in (VALUE, HESSIAN):
            pair = (tree.statistics.get(quantity) for tree in (a, b))
            values, others = (entry.values for entry in pair)
            np.testing.assert_array_equal(values[at], others[there])
        if a.totals is not None or b.totals is not None:
            np.testing.assert_array_equal(a.totals[at], b.totals[there])


# ------------------------------------------------------------------------- the old binary form


@pytest.mark.parametrize("path", OLD, ids=id_of)
def test_a_binary_model_predicts_what_its_library_did(path):
    rows, margin = truth_of(path)
    release = to_release(path)
    np.testing.assert_allclose(margins(release, rows), margin, rtol=2e-6, atol=2e-6)
    # Poisson regression cuts values off (max_delta_step): these, and gains, follow from nothing.
    cut_off = [("loss_changes", "base_weights")] if path.stem == "poisson" else []
    assert unknown_parts(path) == cut_off
    if release.sampling.kind == "all" and release.n_rows is not None:
        assert release.n_rows == len(rows)
        for tree in release.trees:
            if tree.totals is not None:
                counts = np.bincount(tree.apply(rows), minlength=tree.n_nodes)
                np.testing.assert_array_equal(tree.totals[tree.leaves], counts[tree.leaves])


@pytest.mark.parametrize("path", [p for p in OLD if twin_of(p).exists()], ids=id_of)
def test_a_binary_model_says_what_json_says(path):
    rows, _ = truth_of(path)
    old, new = to_release(path), to_release(twin_of(path))
    same_trees(old, new, rows)
    assert old.ensemble.base_scores == new.ensemble.base_scores
    assert old.ensemble.fitting == new.ensemble.fitting
    assert (old.sampling, old.n_rows, old.classes) == (new.sampling, new.n_rows, new.classes)
    learner, twin = (read_model(p).get("learner") for p in (path, twin_of(path)))
    model = "gbtree" if path.name.startswith("dart") else "model"
    (a, b) = (held["gradient_booster"][model] for held in (learner, twin))
    (a, b) = (held.get("model", held)["trees"] for held in (a, b))
    for tree, other in zip(a, b, strict=True):
        for key in set(tree) & set(other) - {"id", "tree_param"}:
            np.testing.assert_array_equal(
                np.asarray(tree[key], dtype=np.float32), np.asarray(other[key], dtype=np.float32)
            )


def test_a_binary_model_is_read_under_any_name_and_from_memory(tmp_path):
    path = PRINTED / "xgboost-1.2.1" / "logistic.model"
    data = path.read_bytes()
    (tmp_path / "model.ubj").write_bytes(data)
    assert to_release(tmp_path / "model.ubj").n_rows == 40
    param = {"grow_colmaker": {"train_param": {"subsample": "0.5"}}}
    held = {"learner": {"gradient_booster": {"updater": param}}}
    settings = json.dumps(held).encode()
    (tmp_path / "memory").write_bytes(CONFIG + struct.pack("<q", len(data)) + data + settings)
    assert "subsample" in str(to_release(tmp_path / "memory").sampling.why)
    assert unknown_parts(tmp_path / "memory") == []


def _leaves(tree, key, value):
    for k, left in enumerate(tree["left_children"]):
        if left == -1:
            tree[key][k] = value


REPEATED = {
    **{key: lambda tree, key=key: _leaves(tree, key, 1) for key in (
        "split_indices", "default_left", "loss_changes")},
    "parents": lambda tree: tree["parents"].reverse(),
    "sum_hessian": lambda tree: tree["sum_hessian"].__setitem__(0, 51.35),
    "id": lambda tree: tree.update(id=51),
    "base_weights": lambda tree: _leaves(tree, "base_weights", 51.35),
    "leaf_child_counts": lambda tree: tree.update(leaf_child_counts=[51] * len(tree["parents"])),
    "num_deleted": lambda tree: tree["tree_param"].update(num_deleted="51"),
    "num_feature": lambda tree: tree["tree_param"].update(num_feature="51"),
    "categories_nodes": lambda tree: tree.update(
        categories_nodes=[51, 35], categories_segments=[14, 2], categories_sizes=[0, 0]),
}  # fmt: skip


@pytest.mark.parametrize("key", REPEATED)
def test_what_repeats_the_rest_of_a_tree_is_left_over_where_it_does_not(key, tmp_path):
    root = json.loads((PRINTED / "xgboost-3.2.0" / "softprob.json").read_text())
    for tree in root["learner"]["gradient_booster"]["model"]["trees"]:
        REPEATED[key](tree)
    (tmp_path / "model.json").write_text(json.dumps(root))
    found = take_inventory(read_model(tmp_path / "model.json"), Context())
    assert {name for entry in found if entry.unknown for name in entry.names} >= {key}


def _first_leaf(root):
    node = root["tree_info"][0]["tree_structure"]
    while "left_child" in node:
        node = node["left_child"]
    return node


def _other_numbers(root):
    """Exchange the numbers of two leaves."""
    node = root["tree_info"][0]["tree_structure"]
    while "left_child" in node["left_child"]:
        node = node["left_child"]
    other = root["tree_info"][0]["tree_structure"]
    while "right_child" in other:
        other = other["right_child"]
    one = node["left_child"]
    one["leaf_index"], other["leaf_index"] = other["leaf_index"], one["leaf_index"]


OF_DUMPS = {
    "right_child": _other_numbers,
    "internal_count": lambda root: _first_leaf(root).update(leaf_count=51),
    "internal_weight": lambda root: _first_leaf(root).update(leaf_weight=51.35),
    "importances": lambda root: root["feature_importances"].update(
        dict.fromkeys(root["feature_importances"], 5135)),
    "feature_infos": lambda root: root["feature_infos"][root["feature_names"][0]].update(
        min_value=51, max_value=35),
    "pandas_categorical": lambda root: root.update(pandas_categorical=[[51, 35], [14, 2]] * 9),
}  # fmt: skip


@pytest.mark.parametrize("key", OF_DUMPS)
def test_what_a_dump_says_twice_is_left_over_where_it_differs(key, tmp_path):
    root = json.loads((PRINTED / "lightgbm-4.7.0" / "multiclass.json").read_text())
    OF_DUMPS[key](root)
    (tmp_path / "model.json").write_text(json.dumps(root))
    found = take_inventory(read_model(tmp_path / "model.json"), Context())
    assert {name for entry in found if entry.unknown for name in entry.names} >= {key}


def test_numbers_of_printed_nodes_that_xgboost_does_not_give_are_left_over(tmp_path):
    for number, odd in ((1, False), (5135, True)):
        leaves = [{"nodeid": number, "leaf": 1}, {"nodeid": 2, "leaf": 2}]
        test = {"nodeid": 0, "depth": 0, "split": "f0", "split_condition": 1}
        root = test | {"yes": number, "no": 2, "missing": 2, "children": leaves}
        (tmp_path / "model.json").write_text(json.dumps([root]))
        found = take_inventory(read_model(tmp_path / "model.json"), Context())
        assert any(entry.unknown for entry in found) == odd


@pytest.mark.parametrize("settings", [{}, {"learner": {}}, {"learner": {"metrics": []}}])
def test_metrics_beside_those_of_the_settings_are_found(settings, tmp_path):
    data = (PRINTED / "xgboost-1.2.1" / "logistic.model").read_bytes()
    rows = b"5.1,3.5,1.4;4.9,3.0,1.4"
    sizes = (struct.pack("<Q", len(text)) + text for text in (b"rmse;", rows))
    data = data.replace(*sizes)
    assert rows in data
    held = CONFIG + struct.pack("<q", len(data)) + data + json.dumps(settings).encode()
    (tmp_path / "memory").write_bytes(held)
    assert unknown_parts(tmp_path / "memory")


@pytest.mark.parametrize("at", [60, 140, "end"])
def test_bytes_that_no_model_uses_are_found(at, tmp_path):
    data = (PRINTED / "xgboost-1.7.6" / "squared.model").read_bytes()
    place = len(data) if at == "end" else at
    if at == 140:
        place = data.index(b"gbtree") + 6 + 60
    (tmp_path / "m").write_bytes(data[:place] + b"secret" + data[place + 6 * (at != "end") :])
    left = read_model(tmp_path / "m").leftovers
    assert any(b"secret" in bytes(one.content) for one in left)
    assert unknown_parts(tmp_path / "m")


@pytest.mark.parametrize(
    ("form", "place", "value", "why"),
    [
        ("<i", 177, 10**9, "trees"),
        ("<i", 177, -1, "not read"),
        ("<I", 8, 2**31, "columns"),
        ("<i", 12, -7, "classes"),
        ("<Q", 140, 2**63, "bytes of objective expected"),
        ("<i", 341, 2**31 - 1, "nodes"),
        ("<i", 341, 0, "0 nodes"),
        ("<i", 357, 4, "leaves of 4 numbers"),
    ],
)
def test_numbers_that_lie_are_refused(form, place, value, why, tmp_path):
    data = bytearray((PRINTED / "xgboost-1.7.6" / "logistic.model").read_bytes())
    struct.pack_into(form, data, place, value)
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(BadModel, match=rf"{why}.*XGBoost 1\.7.*pip install.*save_model"):
        read_model(tmp_path / "m")


# ------------------------------------------------------------------------------ printed trees


@pytest.mark.parametrize("path", TREES, ids=id_of)
def test_printed_trees_say_what_json_says(path):
    rows, margin = truth_of(path)
    printed, whole = to_release(path), to_release(twin_of(path))
    same_trees(printed, whole, rows)
    assert unknown_parts(path) == []
    assert (printed.sampling, printed.n_rows) == (whole.sampling, whole.n_rows)
    assert evidence_for(printed) == evidence_for(whole)
    if path.name.startswith("squared"):
        # Targets are open: where predictions begin is nowhere printed.
        assert printed.ensemble.fitting is None
        off = margins(printed, rows) - margin
        np.testing.assert_allclose(off, off[0, 0], atol=1e-5)
        return
    np.testing.assert_allclose(margins(printed, rows), margin, rtol=1e-6, atol=1e-6)
    assert evidence_for(printed) == LossSums
    assert (printed.ensemble.fitting, printed.ensemble.learning_rate) == (
        whole.ensemble.fitting, whole.ensemble.learning_rate,
    )  # fmt: skip


def test_names_of_columns_are_those_that_trees_test():
    names = {"age", "sex at birth", "c", "d"}
    assert set(to_release(PRINTED / "xgboost-3.2.0" / "share.printed.json").feature_names) <= names
    plain = to_release(PRINTED / "xgboost-3.2.0" / "logistic.printed.json").feature_names
    assert plain == to_release(PRINTED / "xgboost-3.2.0" / "logistic.json").feature_names


@pytest.mark.parametrize("path", TREES, ids=id_of)
def test_trees_without_statistics_are_trees_alone(path, tmp_path):
    bare = tmp_path / "m.json"
    bare.write_text(re.sub(r'\s*, "(gain|cover)": [-\d.e]+', "", path.read_text()))
    release = to_release(bare)
    assert "without statistics" in release.not_covered
    rows, _ = truth_of(path)
    whole = to_release(twin_of(path))
    for tree, other in zip(release.trees, whole.trees, strict=True):
        at = tree.apply(columns_of(release, rows)), other.apply(rows)
        values = [t.statistics.get(VALUE).values[a] for t, a in zip((tree, other), at, strict=True)]
        np.testing.assert_array_equal(*values)
    with pytest.raises(NotCovered):
        evidence_for(release)


CHANGES = [
    ('"no": 2', '"no": 1', "leads to no node"),
    ('"no": 2', '"no": 99', "leads to no node"),
    ('"yes": 1, "no": 2, "missing": 1', '"yes": 0, "no": 2, "missing": 2', "another order"),
    ('"nodeid": 0', '"nodeid": 5', "two nodes of a number|no root"),
    ('"depth": 1', '"depth": 7', "no depth"),
    (', "cover"', ', "covers"', "some nodes have a cover"),
    ('"leaf": ', '"leaf": "x", "y": ', "neither a number nor categories"),
    ('"split": "', '"split": 1, "x": "', "no depth, or no column"),
]


@pytest.mark.parametrize(("old", "new", "why"), CHANGES)
def test_printed_trees_that_cannot_be_are_refused(old, new, why, tmp_path):
    text = (PRINTED / "xgboost-3.2.0" / "logistic.printed.json").read_text()
    assert old in text
    (tmp_path / "m.json").write_text(text.replace(old, new, 1))
    with pytest.raises(BadModel, match=why):
        read_model(tmp_path / "m.json")


def test_what_stands_between_printed_trees_is_found(tmp_path):
    text = (PRINTED / "xgboost-3.2.0" / "logistic.printed.json").read_text()
    for changed in (text + "\n\n", re.sub(r"(\d\.\d{6})", r"\g<1>000000000", text, count=1)):
        (tmp_path / "m").write_text(changed)
        assert read_model(tmp_path / "m").leftovers
    # Printed anew by another program, it holds nothing more.
    (tmp_path / "m").write_text(json.dumps(json.loads(text), indent=1))
    assert not read_model(tmp_path / "m").leftovers


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("booster[0]:\nbias:\n0.5\nweight:\n1\n", "printed as text.*save_model"),
        ('[{"bias": [0.5], "weight": [1]}]', "linear model"),
        ("booster[0]:\n0:[f1] yes=2,no=1\n\t1:leaf=1\n\t2:leaf=2\n", "save_model"),
    ],
)
def test_printed_models_that_are_not_read_say_so(text, why, tmp_path):
    (tmp_path / "m").write_text(text)
    with pytest.raises((BadModel, NotCovered), match=why):
        read_model(tmp_path / "m")


# ------------------------------------------------------------------------- LightGBM's dumps


@pytest.mark.parametrize("path", DUMPS, ids=id_of)
def test_a_dump_of_lightgbm_says_what_its_text_says(path):
    twin = BOOSTED / path.parent.name / f"{path.stem}.txt"
    dump, text = read_model(path), read_model(twin)
    assert dump.leftovers == ()
    assert unknown_parts(path) == []
    assert set(text.state) - set(dump.state) <= {"tree_sizes"}
    assert dump.get("feature_infos") == text.get("feature_infos")
    for own, other in zip(dump.get("trees"), text.get("trees"), strict=True):
        assert set(own) == set(other)
        for key, value in own.items():
            # A gain has all its digits in a dump, and six in a text.
            np.testing.assert_allclose(
                value, other[key], rtol=1e-5 if key == "split_gain" else 1e-15
            )
    truth = json.loads((twin.parent / "truth.json").read_text())[twin.name]
    rows = np.array(truth["rows"], dtype=float)
    np.testing.assert_allclose(
        margins(to_release(path), rows), truth["margin"], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("rounds", [3, 20])
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("objective", ["binary", "regression", "poisson", "multiclass"])
def test_rows_of_a_dump_are_those_of_its_text(objective, drawn, rounds, tmp_path):
    lightgbm = pytest.importorskip("lightgbm", reason="needs LightGBM")
    rng = np.random.default_rng(3)
    X = rng.integers(0, 4, (120, 4)).astype(float)
    s = X @ [1.0, -2.0, 0.5, 1.0] + rng.normal(size=120)
    y = {"binary": s > 0, "multiclass": np.digitize(s, [-1, 1])}.get(objective, np.abs(s).round(1))
    params = {"objective": objective, "num_leaves": 8, "min_data_in_leaf": 3, "verbose": -1,
              "lambda_l2": 0.5, "num_threads": 1}  # fmt: skip
    params |= {"num_class": 3} if objective == "multiclass" else {}
    params |= {"bagging_fraction": 0.5, "bagging_freq": 1} if drawn else {}
    model = lightgbm.train(params, lightgbm.Dataset(X, y), rounds)
    model.save_model(tmp_path / "m.txt")
    (tmp_path / "m.json").write_text(json.dumps(model.dump_model()))
    text, dump = to_release(tmp_path / "m.txt"), to_release(tmp_path / "m.json")
    if drawn:
        assert dump.sampling.kind == "unknown"
        return
    if rounds == 20 or objective in ("binary", "regression"):
        assert (dump.sampling, dump.n_rows) == (text.sampling, 120)
        assert evidence_for(dump) == evidence_for(text)
        assert dump.ensemble.fitting == text.ensemble.fitting


def test_leaves_that_are_no_plain_steps_are_seen_in_a_dump(tmp_path):
    lightgbm = pytest.importorskip("lightgbm", reason="needs LightGBM")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 3)), rng.integers(0, 2, 150)
    params = {"objective": "binary", "verbose": -1, "num_threads": 1}
    for more in ({"path_smooth": 2.0}, {"lambda_l1": 0.5}, {"monotone_constraints": [1, 0, 0]}):
        model = lightgbm.train(params | more, lightgbm.Dataset(X, y), 5)
        (tmp_path / "m.json").write_text(json.dumps(model.dump_model()))
        assert to_release(tmp_path / "m.json").ensemble.fitting is None


LIES = [
    (("tree_info", 0, "num_leaves"), 2**40, "num_leaves is"),
    (("tree_info", 0, "num_leaves"), 2, "below num_leaves"),
    (("tree_info", 0, "tree_structure", "split_index"), 1, "two nodes of the number"),
    (("tree_info", 0, "tree_structure", "left_child"), None, "a node without a number"),
    (("tree_info", 0, "tree_structure", "threshold"), "0||4294967295", "words of categories|kind"),
    (("tree_info", 0, "tree_structure", "missing_type"), "x", "missing values go"),
    (("tree_info", 0, "tree_structure", "missing_type"), {}, "missing values go"),
    (("tree_info", 0, "tree_structure", "missing_type"), [], "missing values go"),
    (("tree_info", 0, "tree_index"), 5, "no tree of number 0"),
    (("tree_info", 0, "num_cat"), [[51, 35], [14, 2]], "num_cat is not"),
    (("tree_info", 0, "tree_structure", "threshold"), "3||1||1", "another order"),
    (("average_output",), [[51, 35], [14, 2]], "average_output is"),
    (("feature_names", 0), "a\nTree=0", "feature_names is"),
    (("objective",), "binary\nparameters:", "objective is"),
    (("feature_infos", "Column_0", "values"), {}, "no description"),
    (("feature_infos", "Column_0", "min_value"), "x", "other than numbers"),
]


@pytest.mark.parametrize(("place", "value", "why"), LIES)
def test_lies_in_a_dump_of_lightgbm_are_named(place, value, why, tmp_path):
    root = json.loads((PRINTED / "lightgbm-4.7.0" / "categories.json").read_text())
    at = root
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    if "||" in str(value):
        at["decision_type"] = "=="
    (tmp_path / "m.json").write_text(json.dumps(root))
    with pytest.raises(BadModel, match=why):
        read_model(tmp_path / "m.json")


def test_digits_in_an_exponent_that_changes_nothing_are_found(tmp_path):
    text = (PRINTED / "lightgbm-4.7.0" / "regression.json").read_text()
    (tmp_path / "m.json").write_text(text.replace('"num_cat": 0', '"num_cat": 0e5135140249', 1))
    assert unknown_parts(tmp_path / "m.json")


def test_keys_that_lightgbm_does_not_write_are_found(tmp_path):
    root = json.loads((PRINTED / "lightgbm-4.7.0" / "regression.json").read_text())
    for at in (root, root["tree_info"][0], root["tree_info"][0]["tree_structure"],
               root["feature_infos"]):  # fmt: skip
        at["patients"] = [1.5, 2.5]
        (tmp_path / "m.json").write_text(json.dumps(root))
        assert any("patients" in one.what for one in read_model(tmp_path / "m.json").leftovers)
        assert unknown_parts(tmp_path / "m.json")
        del at["patients"]


# ----------------------------------------------------------------------------------- all forms


@pytest.mark.parametrize("path", FILES, ids=id_of)
def test_what_is_cut_short_is_refused(path, tmp_path):
    data = path.read_bytes()
    for length in np.linspace(1, len(data) - 10, 25).astype(int):
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises((BadInput, NotCovered)):
            to_release(tmp_path / "cut")


@pytest.mark.parametrize(
    ("path", "why"), [(OLD[0], "old binary"), (TREES[0], "printed"), (TREES[1], "printed"),
                      (DUMPS[0], "printed")], ids=str,
)  # fmt: skip
def test_what_to_publish_instead_is_said(path, why, tmp_path):
    with pytest.raises(BadInput, match=f"{why}.*save_model.*harden that file"):
        treeleak.harden(path, tmp_path / "out")


def test_types_of_columns_that_are_no_words_are_left_over(tmp_path):
    root = json.loads((PRINTED / "xgboost-3.2.0" / "softprob.json").read_text())
    root["learner"]["feature_types"] = [{"a": 51}] * 4
    (tmp_path / "model.json").write_text(json.dumps(root))
    found = take_inventory(read_model(tmp_path / "model.json"), Context())
    assert any(entry.unknown for entry in found)
