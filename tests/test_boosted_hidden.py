"""Files of boosting libraries: whatever is hidden there is found, and ordinary ones are known."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.zoo import settings
from helpers.boosted import needs
from helpers.examples import examples, spread
from helpers.hidden_rows import BOOSTED, clean
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.auditing.inventory.shapes import word
from treeleak.core.errors import BadModel, Mismatch, NotCovered, TreeleakError
from treeleak.evidence import evidence_for
from treeleak.hardening.formats import format_of
from treeleak.release import read_model, to_release
from treeleak.release.readers.json_layout import odd_layout
from treeleak.release.readers.lightgbm_text import odd_lines
from treeleak.verification.training_rows import match_training

STORED = Path(__file__).parent / "models" / "boosted"


def unknown(model, n_rows=60):
    return [e for e in take_inventory(model, Context(n_rows, drawn=None)) if e.unknown]


# ------------------------------------------------------------------------------- hidden tables


@pytest.mark.parametrize("way", spread(BOOSTED, fast=14), ids=lambda way: way.name)
def test_no_way_to_hide_a_table_is_taken_for_harmless(way, tmp_path):
    for library in ("xgboost", "lightgbm", "catboost"):
        needs(library)
    path = tmp_path / f"model.{way.ending}"
    way.hide(None, clean()[1], path)
    try:
        assert unknown(read_model(path, trust_pickle=True))
    except TreeleakError:
        return
    kind = format_of(path)
    content = kind.steps[-1].apply(kind.read(path))
    assert kind.steps[-1].apply(content) is content
    path.write_bytes(content.to_bytes())
    try:
        left = read_model(path)
        to_release(left)
    except BadModel:
        return  # predictions rested on it: harden writes nothing
    assert not unknown(left)


def test_bytes_that_catboost_does_not_read_are_found(tmp_path):
    needs("catboost")
    path = tmp_path / "model.cbm"
    path.write_bytes((STORED / "catboost-1.2.2" / "logloss.cbm").read_bytes())
    assert not unknown(read_model(path))
    path.write_bytes(path.read_bytes() + clean()[1].to_numpy(float).tobytes())
    assert unknown(read_model(path))


@examples(200, fast=30)
@given(st.sampled_from(["xgboost-3.2.0/softprob.json", "catboost-1.2.10/rmse.json",
                        "lightgbm-4.7.0/binary.txt"]), st.data())  # fmt: skip
def test_every_line_and_blank_that_is_put_into_a_text_is_noticed(tmp_path_factory, name, data):
    text = (STORED / name).read_text()
    added = data.draw(st.sampled_from(["\n", "  ", " \t ", "\n\n\n", "[x: 1]\n", "7"]))
    cut = data.draw(st.integers(0, len(text)))
    path = tmp_path_factory.mktemp("text") / Path(name).name
    path.write_text(text[:cut] + added + text[cut:])
    try:
        stored = read_model(path)
    except TreeleakError:
        return
    quotes = len(re.findall(r'(?<!\\)"', text[:cut]))
    inside = quotes % 2 or added == "7" or added == "\n"
    # A digit may make another number, a line break or blanks in a name another name.
    assert unknown(stored) or inside


@pytest.mark.parametrize("name", ["xgboost-3.2.0/softprob.json", "catboost-1.2.10/rmse.json"])
def test_a_line_of_a_kind_that_stands_once_is_indented_as_the_others(tmp_path, name):
    path = tmp_path / "model.json"
    for indent in (None, 1, 2, "\t"):
        document = json.loads((STORED / name).read_text())
        path.write_text(json.dumps(document, indent=indent))
        assert not unknown(read_model(path))
    for added in (" ", "  ", "\t"):
        path.write_text("{\n" + added + json.dumps(document, indent="\t")[2:])
        assert unknown(read_model(path))


@examples(50, fast=10)
@given(st.recursive(
    st.integers(-9, 9) | st.floats(-5, 5) | st.text("ab{}[]:,\"", max_size=4) | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=2), inner,
                                                               max_size=4), max_leaves=12),
    st.sampled_from([None, 0, 1, 2, 4, "\t"]))  # fmt: skip
def test_usual_layouts_are_not_odd(document, indent):
    assert not list(odd_layout(json.dumps([document], indent=indent)))
    assert not list(odd_layout(json.dumps([document], separators=(",", ":"))))


OLD = """tree
version=v2
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=binary sigmoid:1
feature_names=a w
feature_infos=[-2.8092433827607572:2.9750612058481698] 1:0:3:2
tree_sizes=304

Tree=0
num_leaves=3
num_cat=1
split_feature=0 1
split_gain=3.10333 2.92196
threshold=-0.75626719162793776 0
decision_type=2 1
left_child=1 -1
right_child=-2 -3
leaf_value=-0.047619047619047616 -0.011111111111111106 0.051851851851851864
leaf_count=21 36 27
internal_value=0 0.0833333
internal_count=84 48
cat_boundaries=0 1
cat_threshold=1
shrinkage=0.1



feature importances:
a=1
w=1

pandas_categorical:[["east", "north", "south", "w e"]]
"""


def test_files_of_lightgbm_2_are_read_and_gains_need_sums_that_these_lack(tmp_path):
    path = tmp_path / "old.txt"
    text = OLD.replace(
        "tree_sizes=304",
        f"tree_sizes={len(OLD[OLD.index('Tree=') : OLD.index('feature imp')]) - 1}",
    )
    path.write_text(text)
    release = to_release(path)
    assert release.trees[0].totals[0] == 84
    assert not odd_lines(text.split("\n"))
    odd = {name for entry in unknown(read_model(path)) for name in entry.names}
    assert odd == {"internal_value", "split_gain"}
    kind = format_of(path)
    content = kind.read(path)
    for step in kind.steps:
        content = step.apply(content)
    path.write_bytes(content.to_bytes())
    assert not unknown(read_model(path))
    path.write_text(text.replace("version=v2\n", ""))
    with pytest.raises(BadModel, match=r"before 2\.0.*lightgbm<3"):
        read_model(path)


@pytest.mark.parametrize("n", [9, pytest.param(1_900_000, marks=[pytest.mark.slow])])
def test_bits_of_many_categories_and_a_tree_of_one_leaf_are_read(n, tmp_path):
    path = tmp_path / "model.txt"
    words = " ".join(["0"] * (n - 1) + ["1"])
    path.write_text(OLD.replace("cat_boundaries=0 1", f"cat_boundaries=0 {n}").replace(
        "cat_threshold=1", f"cat_threshold={words}"))  # fmt: skip
    assert to_release(path).trees[0].categories.value.tolist() == [32 * (n - 1)]
    one = re.sub(r"num_leaves=3(.|\n)*?shrinkage", "num_leaves=1\nnum_cat=0\nleaf_value=0.5\n"
                 "leaf_count=\nshrinkage", OLD)  # fmt: skip
    path.write_text(one)
    assert to_release(path).trees[0].n_nodes == 1


@pytest.mark.parametrize(("major", "minor", "named"), [
    (0, 0, "before 1.0"), (1, 0, r"XGBoost 1\.0"), (1, 5, r"XGBoost 1\.5"), (2, 0, r"XGBoost 2\.0"),
])  # fmt: skip
@pytest.mark.parametrize("mark", [b"", b"binf", b"CONFIG-offset:" + bytes(8) + b"binf"])
def test_old_binary_models_name_who_wrote_them(major, minor, named, mark, tmp_path):
    header = struct.pack("<fIiiiII", 0.5, 4, 0, 0, 0, major, minor).ljust(136, b"\0")
    path = tmp_path / "model.bin"
    path.write_bytes(mark + header + struct.pack("<Q", 15) + b"binary:logistic" + bytes(100))
    with pytest.raises(BadModel, match=f"{named}.*pip install.*save_model"):
        read_model(path)


# ------------------------------------------------------------------------------ ordinary models


def table(rng, n=60):
    X = pd.DataFrame(rng.normal(size=(n, 5)).round(2), columns=list("abcde"))
    X["f"], X["g"] = rng.integers(0, 5, n), rng.integers(0, 3, n)
    X.loc[::9, "b"] = np.nan
    y = (X.a + rng.normal(size=n) > 0).astype(int).to_numpy()
    return X, y


ORDINARY = [
    (library, *setting)
    for library in ("xgboost", "lightgbm", "catboost")
    for setting in settings.SETTINGS[library]
]


@pytest.mark.parametrize("groups", ["[[0, 1], [2, 3]]", [("a", "b"), ("c",)], [["a", "b"]]])
def test_groups_of_columns_that_may_meet_in_a_tree_are_known(groups, tmp_path):
    needs("xgboost")
    from xgboost import XGBClassifier

    X, y = table(np.random.default_rng(0))
    model = XGBClassifier(n_estimators=2, max_depth=2, interaction_constraints=groups).fit(X, y)
    settings.dump(model, tmp_path / "model", "pkl")
    assert not unknown(read_model(tmp_path / "model.pkl", trust_pickle=True))


NOT_OF_LEAVES = {
    ("xgboost", "poisson"): {"base_weights", "loss_changes"},
    ("lightgbm", "quantile"): {"internal_value", "split_gain"},
}
"""Where values were cut off (max_delta_step), or set anew: then nothing in the file gives these."""


@pytest.mark.parametrize(("library", "name", "rows", "params"), spread(ORDINARY, fast=12))
@pytest.mark.filterwarnings("ignore")
def test_nothing_in_an_ordinary_model_is_unknown(library, name, rows, params, tmp_path):
    needs(library)
    make, data = settings.MAKERS[library], settings.table(rows)
    for form in ({"_save": "pkl"}, {}):
        stored = read_model(make({**params, **form}, data, tmp_path / name), trust_pickle=True)
        found = {key for e in unknown(stored) for key in e.names}
        assert found == NOT_OF_LEAVES.get((library, name), set())


# ------------------------------------------------------------------------------ what is counted


def test_poisson_counts_rows_in_its_first_tree(tmp_path):
    needs("xgboost")
    from xgboost import XGBRegressor

    X, _ = table(np.random.default_rng(0))
    y = np.random.default_rng(1).poisson(2, len(X))
    model = XGBRegressor(objective="count:poisson", n_estimators=1, max_depth=3).fit(X, y)
    assert to_release(model).trees[0].totals[0] == len(X)
    gamma = XGBRegressor(objective="reg:gamma", n_estimators=1, max_depth=3).fit(X, y + 1)
    assert "depends on its target" in to_release(gamma).not_covered


def test_what_a_model_says_of_its_training_is_named(tmp_path):
    needs("xgboost")
    from xgboost import XGBRegressor

    X, y = table(np.random.default_rng(0))
    model = XGBRegressor(n_estimators=2, subsample=0.8, sampling_method="uniform",
                         tree_method="approx", num_parallel_tree=2)  # fmt: skip
    drawn = to_release(model.fit(X, y))
    with pytest.raises(NotCovered, match=r"subsample 0\.8") as refused:
        evidence_for(drawn)
    assert 'bootstrap="none"' not in str(refused.value)


def test_weights_of_trees_beside_them_are_read(tmp_path):
    root = json.loads((STORED / "xgboost-3.2.0" / "dart.json").read_text())
    before = to_release(STORED / "xgboost-3.2.0" / "dart.json")
    booster = root["learner"]["gradient_booster"]
    weights = booster["weight_drop"]
    root["learner"]["gradient_booster"] = {"name": "dart", "model": {
        **booster["gbtree"]["model"], "weight_drop": weights}}  # fmt: skip
    (tmp_path / "model.json").write_text(json.dumps(root))
    after = to_release(tmp_path / "model.json")
    for one, other in zip(before.trees, after.trees, strict=True):
        for a, b in zip(one.statistics, other.statistics, strict=True):
            np.testing.assert_array_equal(a.values, b.values)
    assert not unknown(read_model(tmp_path / "model.json"))


@pytest.mark.parametrize("library", ["xgboost", "catboost"])
def test_rows_of_weight_are_not_called_so_many_people(library):
    needs(library)
    rng = np.random.default_rng(0)
    X, weight = rng.integers(0, 2, (33, 4)), rng.integers(1, 4, 33)
    y = X[:, 0] * 2 + X[:, 1] + rng.normal(size=33)
    if library == "xgboost":
        from xgboost import XGBRegressor as Model

        model = Model(n_estimators=3, max_depth=3)
    else:
        from catboost import CatBoostRegressor as Model

        model = Model(iterations=3, depth=2, verbose=False, allow_writing_files=False)
    release = to_release(model.fit(X, y, sample_weight=weight))
    assert release.n_rows == weight.sum()
    assert any("weighted rows" in note for note in release.notes)
    with pytest.raises(Mismatch, match="counts rows by their weights"):
        match_training(release, X, y)


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), [1, 2, 3], 5, {"a": 1}, "a b,c;9", "x,x"])
def test_a_word_is_no_number_and_no_list(value):
    assert not word(value, {})
    assert all(word(one, {}) for one in (None, "", True, "gbtree", "hist,approx"))


@pytest.mark.parametrize("lost", ["categories_nodes", "parents", "base_weights", "sum_hessian"])
def test_arrays_that_are_gone_end_no_inventory(tmp_path, lost):
    root = json.loads((STORED / "xgboost-3.2.0" / "softprob.json").read_text())
    for tree in root["learner"]["gradient_booster"]["model"]["trees"]:
        tree.pop(lost, None)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(root))
    assert not unknown(read_model(path))
    assert to_release(path).trees
