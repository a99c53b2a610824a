"""Files of boosting libraries that somebody damaged or made on purpose."""

from __future__ import annotations

import copy
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from treeleak.auditing.inventory.derived import of_lightgbm
from treeleak.auditing.inventory.layouts import laid_out
from treeleak.core.errors import BadInput, BadModel, NotCovered
from treeleak.release import Release, read_model, to_release
from treeleak.release.readers.ubj import read_ubj

MODELS = Path(__file__).parent / "models" / "boosted"
XGBOOST = MODELS / "xgboost-3.2.0"
LIGHTGBM = MODELS / "lightgbm-4.7.0"
CATBOOST = MODELS / "catboost-1.2.10"
FILES = [
    XGBOOST / "softprob.json",
    XGBOOST / "logistic.ubj",
    XGBOOST / "subsample.ubj",
    LIGHTGBM / "categories.txt",
    LIGHTGBM / "multiclass.txt",
    CATBOOST / "rmse.json",
    CATBOOST / "lossguide.json",
]


def outcome(data, path):
    """The release, or the error that says what is wrong."""
    path.write_bytes(data)
    try:
        return to_release(path)
    except (BadInput, NotCovered) as error:
        return error


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_what_is_cut_short_is_refused(file, tmp_path):
    data = file.read_bytes()
    end = data.find(b"end of trees") if file.suffix == ".txt" else len(data) - 2
    for length in np.linspace(0, end - 1, 40).astype(int):
        path = tmp_path / f"cut{file.suffix}"
        found = outcome(data[:length], path)
        assert isinstance(found, BadModel), length
        assert str(path) in str(found)


@pytest.mark.parametrize("lie", [2**62, -1, 2**31, 10**6])
def test_lengths_that_lie_are_refused(lie, tmp_path):
    data = (XGBOOST / "logistic.ubj").read_bytes()
    places = [m.end() for m in re.finditer(rb"#L|SL|[{}]L", data)]
    assert len(places) > 50
    for at in places[:: 7 if lie == 2**62 else 31]:
        changed = data[:at] + struct.pack(">q", lie) + data[at + 8 :]
        found = outcome(changed, tmp_path / "lie.ubj")
        assert isinstance(found, BadModel), at
        assert re.search(r"byte \d+: a length of", str(found))


def test_what_would_take_more_memory_than_there_is_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "large.txt"
    text = (LIGHTGBM / "binary.txt").read_text()
    head, tail = text.split("leaf_value=", 1)
    for data in (head + "leaf_value=" + "0 " * 2**21 + tail, head + "\n" * 2**23 + tail):
        found = outcome(data.encode(), path)
        assert isinstance(found, BadModel)
        assert "not read" in str(found)
    monkeypatch.setattr("treeleak.release.readers.ubj.MOST_SINGLE", 5_000)
    found = outcome(b"{U\x01a[" + b"Z" * 5_000 + b"]}", tmp_path / "large.ubj")
    assert "values outside of arrays" in str(found)


def test_ubj_is_read_as_it_was_meant():
    name = b"U\x01a"
    assert read_ubj(b"{" + name + b"[Z" + b"TFi\xff]}") == {"a": [None, True, False, -1]}
    assert read_ubj(b"{" + name + b"[#U\x02SU\x01xCy}") == {"a": ["x", "y"]}
    array = read_ubj(b"{" + name + b"[$d#U\x02" + struct.pack(">ff", 0.5, -2) + b"}")["a"]
    assert array.tolist() == [0.5, -2]
    assert array.dtype == np.float32
    assert read_ubj(b"{#U\x01" + name + b"D" + struct.pack(">d", 1e300)) == {"a": 1e300}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{U\x01ai\x01U\x01ai\x02}", "appears twice"),
        (b"{U\x01ai\x01", "bytes expected, .* cut short .* save it again"),
        (b"{U\x01ai\x01}}", "1 bytes after"),
        (b"{U\x01a" + b"[" * 200, "nested deeper"),
        (b"{U\x01a[$Z#L" + struct.pack(">q", 2**40) + b"}", "a length of"),
        (b"{U\x01a[$Z#U\x01}", "take no bytes"),
        (b"{U\x01a[$dU\x01}", "does not say its length"),
        (b"{U\x01aH}", "not a kind of value"),
        (b"{U\x02\xff\xfei\x01}", "not UTF-8"),
        (b"{d\x00\x00\x00\x00i\x01}", "in place of a length"),
    ],
)
def test_ubj_that_makes_no_sense_is_refused(data, why):
    with pytest.raises(BadModel, match=why):
        read_ubj(data)


@pytest.mark.parametrize("length", [5, 9, 14])
def test_json_that_was_cut_short_is_said_to_be(length, tmp_path):
    path = tmp_path / "model.json"
    path.write_text('{"learner": ["version", 3]}'[:length])
    with pytest.raises(BadInput, match="ends too early; if a program wrote it, copy or save"):
        read_model(path)
    path.write_text('{"learner": ["version" 3]}')
    with pytest.raises(BadInput, match="delimiter") as refused:
        read_model(path)
    assert "too early" not in str(refused.value)


def changed(file, change):
    """A model of XGBoost or CatBoost in JSON with something else in it."""
    root = json.loads(file.read_text())
    change(root)
    return json.dumps(root).encode()


def trees_of(root):
    return root["learner"]["gradient_booster"]["model"]["trees"]


def in_tree(**lists):
    """Put numbers at places of lists of tree 0."""

    def change(root):
        tree = trees_of(root)[0]
        for name, (at, value) in lists.items():
            tree[name][at] = value

    return change


def cut_list(root):
    trees_of(root)[0]["split_indices"].pop()


LIES = [
    (in_tree(left_children=(0, 0)), "tree 0: a child index outside"),
    (in_tree(left_children=(0, 2)), "tree 0: two ways lead to a node"),
    (in_tree(left_children=(1, 0)), "tree 0: a"),
    (in_tree(left_children=(0, 10**6)), "tree 0, entry 0 of left_children"),
    (in_tree(left_children=(0, 1.5)), "tree 0, entry 0 of left_children"),
    (in_tree(left_children=(0, -1)), "tree 0: a node has one child only"),
    (in_tree(split_indices=(0, 4)), "tree 0, node 0: tests column 4, there are 4"),
    (in_tree(split_indices=(0, -2)), "tree 0, node 0: tests column -2"),
    (in_tree(split_conditions=(0, float("nan"))), "tree 0: node 0: threshold is NaN"),
    (in_tree(default_left=(0, 2)), "tree 0, entry 0 of default_left"),
    (cut_list, r"tree 0: split_indices has \d+ entries for"),
    (lambda root: trees_of(root).append(trees_of(root)[0]), "describes 6 trees, but has"),
    (lambda root: trees_of(root)[1].pop("left_children"), "tree 1: left_children is not a list"),
    (lambda root: root["learner"].pop("objective"), "no objective"),
    (lambda root: root["learner"]["learner_model_param"].update(base_score="[1,2]"), "base_score"),
    (lambda root: root["learner"]["learner_model_param"].update(base_score="nan"), "base_score"),
    (
        lambda root: root["learner"]["learner_model_param"].update(num_feature="9" * 9),
        "num_feature",
    ),
    (lambda root: root["learner"]["learner_model_param"].update(num_class="99999"), "num_class"),
]


@pytest.mark.parametrize(("change", "why"), LIES)
def test_lies_in_an_xgboost_model_are_named(change, why, tmp_path):
    path = tmp_path / "lie.json"
    found = outcome(changed(XGBOOST / "softprob.json", change), path)
    assert isinstance(found, BadModel)
    assert re.search(why, str(found)), found
    assert str(path) in str(found)


def categories_past_the_end(root):
    trees_of(root)[0]["categories_sizes"][0] += 100


def categories_negative(root):
    trees_of(root)[0]["categories"][0] = -5


@pytest.mark.parametrize("change", [categories_past_the_end, categories_negative])
def test_categories_that_lie_are_refused(change, tmp_path):
    found = outcome(changed(XGBOOST / "categories.json", change), tmp_path / "lie.json")
    assert isinstance(found, BadModel)
    assert "categories" in str(found)


def linear(root):
    root["learner"]["gradient_booster"] = {"name": "gblinear", "model": {"weights": [1.0]}}


def vectors(root):
    for tree in trees_of(root):
        tree["tree_param"]["size_leaf_vector"] = "2"


@pytest.mark.parametrize(("change", "why"), [(linear, "gblinear"), (vectors, "multi_output_tree")])
def test_xgboost_models_that_are_not_covered_say_so(change, why, tmp_path):
    found = outcome(changed(XGBOOST / "regression.json", change), tmp_path / "model.json")
    assert isinstance(found, NotCovered)
    assert why in str(found)


def weighted(root):
    for tree in trees_of(root):
        tree["sum_hessian"] = [1.25 * x for x in tree["sum_hessian"]]


def scaled(root):
    root["learner"]["objective"]["reg_loss_param"]["scale_pos_weight"] = "2"


def added_up_wrong(root):
    tree = trees_of(root)[1]
    tree["sum_hessian"][tree["left_children"].index(-1)] += 1


@pytest.mark.parametrize("change", [weighted, scaled, added_up_wrong])
def test_hessians_that_are_no_rows_are_not_taken_for_rows(change, tmp_path):
    found = outcome(changed(XGBOOST / "regression.json", change), tmp_path / "model.json")
    assert isinstance(found, Release)
    assert "weighted" in found.not_covered
    assert all(tree.totals is None for tree in found.trees)
    assert found.n_rows is None


def text(file, *changes):
    """A model of LightGBM with other words in it, each once."""
    out = file.read_text()
    for pattern, new in changes:
        out, n = re.subn(pattern, new, out, count=1)
        assert n == 1
    return out.encode()


LIGHTGBM_LIES = [
    ((r"num_leaves=\d+", "num_leaves=3"), "tree 0: .* entries for 3"),
    ((r"num_leaves=\d+", "num_leaves=99999999999"), "num_leaves"),
    ((r"num_leaves=\d+", "num_leaves=x"), "num_leaves is not a list of numbers"),
    ((r"left_child=\S+", "left_child=0"), "tree 0"),
    ((r"left_child=\S+", "left_child=-900"), "tree 0, entry 0 of left_child"),
    ((r"split_feature=\S+", "split_feature=4"), "tree 0, entry 0 of split_feature"),
    ((r"decision_type=\S+", "decision_type=17"), "tree 0, entry 0 of decision_type"),
    ((r"leaf_count=\S+", "leaf_count=1.5"), "1.5 is not a number of rows"),
    ((r"leaf_count=\S+", "leaf_count=-3"), "-3 is not a number of rows"),
    ((r"cat_boundaries=0 \d+", "cat_boundaries=0 77"), "entry 1 of cat_boundaries"),
    ((r"cat_threshold=\d+", "cat_threshold=0"), "without categories"),
    ((r"num_tree_per_iteration=1", "num_tree_per_iteration=0"), "num_tree_per_iteration"),
    ((r"max_feature_idx=3", "max_feature_idx=999999999"), "max_feature_idx"),
    ((r"Tree=1", "Tree=7"), "Tree=1 was due"),
    ((r"shrinkage=1\n", "shrinkage=1\nleaf_value=3\n"), "appears twice in tree 0"),
    # What would be read past could hold rows.
    ((r"end of trees\n", "end of trees 3 1 4\n"), "'end of trees 3 1 4', 'end of trees' was due"),
    ((r"\nnum_class=", "\ntrees=3 1 4\nnum_class="), "the head holds a key 'trees'"),
    ((r"\nnum_class=", "\nimportances=3 1 4\nnum_class="), "the head holds a key 'importances'"),
    ((r"\n(pandas_categorical:)", r"\n\1[[3, 1, 4]]\n\1"), "'pandas_categorical' appears twice"),
]


@pytest.mark.parametrize(("change", "why"), LIGHTGBM_LIES)
def test_lies_in_a_lightgbm_model_are_named(change, why, tmp_path):
    found = outcome(text(LIGHTGBM / "categories.txt", change), tmp_path / "lie.txt")
    assert isinstance(found, BadModel), found
    assert re.search(why, str(found)), found


@pytest.mark.parametrize("key", ["loss_changes", "base_weights"])
@pytest.mark.parametrize("file", ["regression.json", "softprob.json"])
def test_gains_and_values_that_leaves_do_not_give_are_unknown(file, key, tmp_path):
    root = json.loads((XGBOOST / file).read_text())
    tree = trees_of(root)[1]
    inner = next(v for v, child in enumerate(tree["left_children"]) if child != -1)
    tree[key][inner] = tree[key][inner] * 1.01 + 0.01
    path = tmp_path / "model.json"
    path.write_text(json.dumps(root))
    assert key in {rest.what for rest in laid_out(read_model(path)).leftovers}
    assert not laid_out(read_model(XGBOOST / file)).leftovers


def poisson(root):
    root["learner"]["objective"]["name"] = "count:poisson"


def masked(value):
    def change(root):
        for tree in trees_of(root):
            tree["sum_hessian"] = [value] * len(tree["sum_hessian"])

    return change


def without(key):
    def change(root):
        for tree in trees_of(root):
            del tree[key]

    return change


def zeros(root):
    for tree in trees_of(root):
        for child in tree["right_children"]:
            if child != -1 and tree["left_children"][child] != -1:
                tree["base_weights"][child] = 0.0


@pytest.mark.parametrize(
    "switch",
    [poisson, masked(1.0), masked(0.0), masked(7.0), without("sum_hessian"),
     without("base_weights"), zeros],
)  # fmt: skip
def test_no_file_switches_off_that_gains_follow_from_leaves(switch, tmp_path):
    root = json.loads((XGBOOST / "regression.json").read_text())
    switch(root)
    rng = np.random.default_rng(0)
    for tree in trees_of(root):
        inner = np.array(tree["left_children"]) != -1
        gains = np.where(inner, rng.integers(1, 90, len(inner)), 0.0)
        tree["loss_changes"] = gains.tolist()
    path = tmp_path / "model.json"
    path.write_text(json.dumps(root))
    left = [rest.what for rest in laid_out(read_model(path)).leftovers]
    assert left.count("loss_changes") == len(trees_of(root))


@pytest.mark.parametrize("sign", [False, True])
def test_values_and_gains_that_look_cut_off_are_unknown(sign, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).round(2)
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=4).fit(X, y)
    root = json.loads(model.get_booster().save_raw("json"))
    for tree in trees_of(root):
        inner = np.array(tree["left_children"]) != -1
        value = 5.0 * rng.choice([-1.0, 1.0], len(inner)) if sign else 5.0
        tree["base_weights"] = np.where(inner, value, tree["base_weights"]).tolist()
        tree["loss_changes"] = np.where(inner, rng.uniform(1, 90, len(inner)), 0.0).tolist()
    path = tmp_path / "model.json"
    path.write_text(json.dumps(root))
    left = [rest.what for rest in laid_out(read_model(path)).leftovers]
    grown = sum(len(tree["left_children"]) > 1 for tree in trees_of(root))
    assert left.count("loss_changes") == left.count("base_weights") == grown


@pytest.mark.parametrize(
    "setting",
    [{"tree_method": "exact", "alpha": 0.5}, {"rates": True}, {"max_depth": 1}],
)
def test_gains_and_values_of_honest_settings_are_known(setting, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).round(2)
    y = np.exp(X[:, 0] + X[:, 1] * (X[:, 2] > 0)).round()
    params = {key: value for key, value in setting.items() if key != "rates"}
    schedule = xgboost.callback.LearningRateScheduler(lambda k: 0.3 * 0.97**k)
    callbacks = [schedule] * (params != setting)
    model = xgboost.train(params, xgboost.DMatrix(X, y), 12, callbacks=callbacks)
    model.save_model(tmp_path / "model.json")
    assert not laid_out(read_model(tmp_path / "model.json")).leftovers


@pytest.mark.parametrize("ends", ["[a:b]", "[1:x]", "[2:1]"])
def test_ends_of_columns_that_are_none_are_unknown(ends, tmp_path):
    path = tmp_path / "model.txt"
    path.write_bytes(
        text(LIGHTGBM / "regression.txt", (r"feature_infos=\S+", f"feature_infos={ends}"))
    )
    left = laid_out(read_model(path)).leftovers
    assert ends in [x for rest in left if rest.what == "feature_infos" for x in rest.content]


def test_lightgbm_models_that_are_not_covered_say_so(tmp_path):
    file = LIGHTGBM / "regression.txt"
    found = outcome(text(file, (r"is_linear=0", "is_linear=1")), tmp_path / "model.txt")
    assert isinstance(found, NotCovered)
    assert "linear_tree" in str(found)
    # Zeros count as missing, and go right although they are less than the threshold.
    found = outcome(
        text(file, (r"decision_type=\d+", "decision_type=4"), (r"threshold=\S+", "threshold=0.5")),
        tmp_path / "model.txt",
    )
    assert isinstance(found, NotCovered)
    assert "tree 0, node 0: zeros count as missing" in str(found)
    found = outcome(
        text(file, (r"decision_type=\d+", "decision_type=6"), (r"threshold=\S+", "threshold=0.5")),
        tmp_path / "model.txt",
    )
    assert isinstance(found, Release)


@pytest.mark.parametrize(
    ("change", "kind", "why"),
    [
        ((r"\[bagging_fraction: 1\]\n", ""), "unknown", "parameters of its training"),
        ((r"\[boosting: gbdt\]", "[boosting: goss]"), "unknown", "GOSS"),
        ((r"\[bagging_freq: 0\]", "[bagging_freq: 3]"), "all", ""),
        ((r"internal_count=60", "internal_count=70"), "unknown", "different numbers of rows"),
    ],
)
def test_how_rows_reached_the_trees_is_said_as_far_as_it_is_known(change, kind, why, tmp_path):
    found = outcome(text(LIGHTGBM / "binary.txt", change), tmp_path / "model.txt")
    assert found.sampling.kind == kind
    assert why in getattr(found.sampling, "why", "")


def test_counts_that_do_not_add_up_are_not_used(tmp_path):
    found = outcome(
        text(LIGHTGBM / "binary.txt", (r"internal_count=60 \d+", "internal_count=60 59")),
        tmp_path / "model.txt",
    )
    assert "do not add up" in found.not_covered


def catboost_tree(**given):
    return lambda root: root["oblivious_trees"][0].update(given)


SPLIT = {"split_type": "FloatFeature", "float_feature_index": 0, "border": 0.5}
CATBOOST_LIES = [
    (catboost_tree(splits=[SPLIT] * 60), BadModel, "60 questions"),
    (catboost_tree(splits=[SPLIT] * 20), BadModel, "values for 1048576 leaves"),
    (catboost_tree(splits=[{**SPLIT, "float_feature_index": 9}]), BadModel, "tree 0: a test of no"),
    (catboost_tree(splits=[{**SPLIT, "border": "x"}]), BadModel, "tree 0: a test of no column"),
    (catboost_tree(splits=[{"split_type": "OnlineCtr"}]), BadModel, "8 values for 2 leaves"),
    (catboost_tree(splits=[{"split_type": "Text"}]), NotCovered, "'Text'"),
    (catboost_tree(splits=7), BadModel, "splits is not a list"),
    (catboost_tree(leaf_weights=[1, 2]), BadModel, "2 leaf_weights for 8 leaves"),
    (catboost_tree(leaf_values=[1, "a"] * 4), BadModel, "tree 0: leaf_values is not a list"),
    (lambda root: root.update(scale_and_bias=[1]), BadModel, "scale_and_bias"),
    (lambda root: root.update(oblivious_trees=[]), BadModel, "no list of trees"),
]


@pytest.mark.parametrize(("change", "kind", "why"), CATBOOST_LIES)
def test_lies_in_a_catboost_model_are_named(change, kind, why, tmp_path):
    found = outcome(changed(CATBOOST / "rmse.json", change), tmp_path / "lie.json")
    assert type(found) is kind, found
    assert why in str(found)


@pytest.mark.parametrize("file", [CATBOOST / "rmse.json", CATBOOST / "lossguide.json"])
def test_borders_that_no_tree_tests_are_unknown(file, tmp_path):
    root = json.loads(file.read_text())
    assert not laid_out(read_model(file)).leftovers
    root["features_info"]["float_features"][0]["borders"].append(9.5)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(root))
    assert [rest.content for rest in laid_out(read_model(path)).leftovers] == [[9.5]]


def test_weights_in_a_catboost_model_are_not_taken_for_rows(tmp_path):
    def weighted(root):
        for tree in root["oblivious_trees"]:
            tree["leaf_weights"] = [1.5 * w for w in tree["leaf_weights"]]

    found = outcome(changed(CATBOOST / "rmse.json", weighted), tmp_path / "model.json")
    assert "sums of weights" in found.not_covered
    assert all(tree.totals is None for tree in found.trees)


def test_a_catboost_tree_of_many_levels_is_refused(tmp_path):
    root = json.loads((CATBOOST / "lossguide.json").read_text())
    node = copy.deepcopy(root["trees"][0])
    for _ in range(400):
        node = {
            "split": root["trees"][0]["split"],
            "left": node,
            "right": {"value": 0, "weight": 0},
        }
    root["trees"][0] = node
    found = outcome(json.dumps(root).encode(), tmp_path / "model.json")
    assert isinstance(found, (BadModel, Release))


def test_counts_of_lightgbm_add_up_exactly_and_categories_are_json():
    tree = {"left_child": [-1], "right_child": [-2], "leaf_count": [60_000, 60_000]}
    for total in (120_000, 120_003):
        found = list(of_lightgbm({"trees": [{**tree, "internal_count": [total]}]}))
        assert [value for _, value in found] == [[total]] * (total != 120_000)
    for text in ("[[1, 2, 3", "null", "[]"):
        found = list(of_lightgbm({"trees": [], "pandas_categorical": text}))
        assert [value for _, value in found] == [text] * (text == "[[1, 2, 3")
