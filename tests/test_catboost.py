"""CatBoost's models: trees, leaves, sums and counts as CatBoost itself has them."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import treeleak
from treeleak.auditing.assessors.structure import count_parameters
from treeleak.auditing.findings.finding import NO_LEAK
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.errors import BadInput, BadModel
from treeleak.release import snapshot, to_release
from treeleak.release.statistics import WEIGHTS

catboost = pytest.importorskip(
    "catboost", reason="needs CatBoost: pip install 'treeleak[catboost]'"
)

pytestmark = pytest.mark.filterwarnings("ignore")

LOSSES = ("Logloss", "RMSE", "MultiClass", "MAE", "MultiClassOneVsAll", "Poisson", "CrossEntropy")


def some_rows(rng, n, kinds, missing):
    """Columns of few numbers, of many, and of categories."""
    columns = {}
    for i, kind in enumerate(kinds):
        if kind == "c":
            columns[f"c{i}"] = rng.choice(list("pqrs"), n)
        else:
            own = rng.integers(-2, 3, n) if kind == "int" else rng.normal(size=n)
            own = np.where(rng.random(n) < missing, np.nan, own).astype(np.float32)
            columns[f"c{i}"] = own.astype(float)
    return pd.DataFrame(columns)


def some_model(seed):
    """A model of random options, with its rows and others to try it on."""
    rng = np.random.default_rng(seed)
    loss = LOSSES[seed % len(LOSSES)]
    kinds = ["float", *rng.choice(["c", "int", "float"], rng.integers(0, 4))]
    n, missing = int(rng.integers(20, 100)), float(rng.choice([0, 0.2]))
    X = some_rows(rng, n, kinds, missing)
    n_classes = 3 if loss.startswith("Multi") else 2
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    params = {
        "loss_function": loss, "verbose": 0, "allow_writing_files": False, "thread_count": 1,
        "random_seed": seed, "iterations": int(rng.integers(1, 6)),
        "depth": int(rng.integers(1, 5)),
        "learning_rate": float(rng.choice([0.1, 1.0])), "one_hot_max_size": 10,
        "nan_mode": str(rng.choice(["Min", "Max"])),
        "grow_policy": str(rng.choice(["SymmetricTree"] * 2 + ["Lossguide", "Depthwise"])),
    }  # fmt: skip
    cats = [c for c, kind in zip(X.columns, kinds, strict=True) if kind == "c"]
    weight = rng.random(n) + 0.5 if rng.random() < 0.2 else None
    pool = catboost.Pool(X, y, cat_features=cats, weight=weight)
    model = catboost.CatBoost(params).fit(pool)
    tried = some_rows(rng, 200, kinds, 0.2 if missing else 0.0)
    for i, borders in model.get_borders().items():
        name = f"c{i}"
        if name not in cats and len(borders):
            at = rng.choice(np.array(borders, np.float32), 90)
            at[30:60] = np.nextafter(at[30:60], np.float32(9))
            tried.loc[:89, name] = at
    return model, params, X, tried, cats, weight


HASHES = {}


def test_the_same_stands_in_every_form(tmp_path):
    model, *_ = some_model(0)
    model.save_model(str(tmp_path / "model.cbm"))
    model.save_model(str(tmp_path / "model.json"), format="json")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    first = to_release(model)
    for end in ("json", "cbm", "pkl"):
        release = to_release(tmp_path / f"model.{end}", trust_pickle=True)
        assert release.classes == first.classes
        for a, b in zip(first.trees, release.trees, strict=True):
            np.testing.assert_array_equal(a.threshold, b.threshold)
            np.testing.assert_array_equal(a.totals, b.totals)


@pytest.mark.parametrize(
    "more",
    [
        {"class_weights": [1, 3]},
        {"class_weights": {0: 2.0, 1: 0.3}},
        {"scale_pos_weight": 0.7, "leaf_estimation_iterations": 10},
        {"auto_class_weights": "Balanced", "l2_leaf_reg": 0.1},
        {"auto_class_weights": "SqrtBalanced", "leaf_estimation_iterations": 4},
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_weights_of_classes_leave_rows_in_the_first_tree(more, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (int(rng.integers(20, 200)), 3)).astype(float)
    y = (X[:, 0] + rng.normal(size=len(X)) > 2.2).astype(int)
    model = catboost.CatBoostClassifier(4, depth=3, verbose=0, allow_writing_files=False, **more)
    release = to_release(model.fit(X, y))
    assert release.not_covered is None
    assert release.n_rows == len(X)
    first, *others = release.trees
    at = first.apply(X.astype("float32"))
    np.testing.assert_array_equal(
        first.totals[first.leaves], np.bincount(at, minlength=first.n_nodes)[first.leaves]
    )
    assert all(tree.totals is None for tree in others)
    w = np.array(release.ensemble.fitting.class_weights)
    assert release.ensemble.fitting.l2 == pytest.approx(
        model.get_all_params()["l2_leaf_reg"] * w[y].mean(), rel=1e-5
    )
    for tree in release.trees:
        sums = np.bincount(tree.apply(X.astype("float32")), w[y], tree.n_nodes)
        held = tree.statistics.get(WEIGHTS).values
        np.testing.assert_allclose(held[tree.leaves], sums[tree.leaves], rtol=1e-6)


@pytest.mark.parametrize("kind", ["CatBoostClassifier", "CatBoostRegressor"])
@pytest.mark.parametrize("seed", range(4))
def test_whole_weights_show_in_l2(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (int(rng.integers(30, 150)), 3)).astype(float)
    y = X[:, 0] + rng.normal(size=len(X))
    y = (y > 1.5).astype(int) if kind == "CatBoostClassifier" else y
    model = getattr(catboost, kind)(5, depth=3, verbose=0, allow_writing_files=False)
    assert to_release(model.fit(X, y)).n_rows == len(X)
    weights = rng.integers(1, 4, len(X))
    weighted = to_release(model.fit(X, y, sample_weight=weights))
    assert weighted.n_rows == weights.sum()
    assert weighted.ensemble.fitting.l2 == pytest.approx(3 * weights.mean())


def test_weights_of_rows_are_not_taken_for_weights_of_classes():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (60, 2)).astype(float)
    for weights in ([], [1, 3]):
        model = catboost.CatBoostClassifier(
            2, verbose=0, allow_writing_files=False, class_weights=weights or None
        )
        release = to_release(model.fit(X, X[:, 0] > 2, sample_weight=rng.random(60) + 0.5))
        assert "weights of rows or classes" in release.not_covered
        assert release.n_rows is None


def test_several_numbers_in_a_leaf_are_not_read_and_no_leak_is_not_said():
    X = np.random.default_rng(1).integers(0, 2, (60, 2)).astype(float)
    model = catboost.CatBoostRegressor(
        iterations=2, loss_function="MultiRMSE", verbose=0, allow_writing_files=False
    )
    release = to_release(model.fit(X, X))
    assert release.n_rows == 60
    assert release.n_targets == 2
    splits = sum(tree.n_nodes - len(tree.leaves) for tree in release.trees)
    leaves = sum(len(tree.leaves) for tree in release.trees)
    assert count_parameters(release) == 2 * splits + 2 * leaves + len(release.trees)
    audit = treeleak.audit(release, time_limit=20)
    assert audit.reconstruction.status in ("unique", "feasible")
    assert "holds more evidence" in dict(audit.not_assessed)["reconstruction"]
    assert audit.verdict != NO_LEAK


def test_a_damaged_binary_model_is_refused(tmp_path):
    model, *_ = some_model(0)
    path = tmp_path / "model.cbm"
    model.save_model(str(path))
    data = path.read_bytes()
    for damaged in (data[:200], data[:40] + b"\xff" * 40 + data[80:], b"CBM1" + b"\0" * 100):
        path.write_bytes(damaged)
        with pytest.raises(BadModel, match=r"model\.cbm: CatBoost does not read it"):
            to_release(path)


def test_a_model_that_is_not_fitted_says_so():
    with pytest.raises(BadInput, match="not fitted"):
        to_release(catboost.CatBoostClassifier())


@pytest.mark.parametrize("policy", ["SymmetricTree", "Lossguide", "Depthwise"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_inventory_knows_every_part_of_trees_of_several_classes(policy, n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % n_classes
    model = catboost.CatBoostClassifier(
        iterations=3, grow_policy=policy, verbose=0, allow_writing_files=False
    ).fit(X, y)
    assert not [e for e in take_inventory(snapshot(model), Context(60)) if e.unknown]


@pytest.mark.parametrize(("device", "fitted"), [("CPU", True), ("GPU", False)])
def test_sums_of_a_gpu_are_not_taken_for_exact(device, fitted, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 3))
    model = catboost.CatBoostClassifier(
        iterations=3, depth=2, verbose=0, allow_writing_files=False
    ).fit(X, X[:, 0])
    model.save_model(str(tmp_path / "model.json"), format="json")
    data = json.loads((tmp_path / "model.json").read_text())
    data["model_info"]["params"]["task_type"] = device
    (tmp_path / "model.json").write_text(json.dumps(data))
    release = to_release(tmp_path / "model.json")
    assert (release.ensemble.fitting is not None) == fitted
    assert any("GPU" in str(note) for note in release.notes) != fitted


@pytest.mark.parametrize("how", ["sum_models", "init_model"])
def test_trees_of_each_training_are_a_part_also_where_both_saw_as_many_rows(how, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (80, 3)).astype(float)
    y = (X @ [1, 2, -1] + rng.normal(size=80) > 3).astype(int)
    settings = {"iterations": 4, "depth": 2, "verbose": 0, "allow_writing_files": False}
    settings |= {"thread_count": 1}
    first = catboost.CatBoostClassifier(**settings, learning_rate=0.3).fit(X[:40], y[:40])
    second = catboost.CatBoostClassifier(**settings, learning_rate=0.1)
    if how == "sum_models":
        model = catboost.sum_models([first, second.fit(X[40:], y[40:])], weights=[1, 0.5])
    else:
        model = second.fit(X[40:], y[40:], init_model=first)
    model.save_model(str(tmp_path / "m.json"), format="json")
    release = to_release(tmp_path / "m.json")
    assert "2 trainings" in release.not_covered
    assert [part.place for part in release.parts] == ["trees 0 to 3", "trees 4 to 7"]
    for part, rows in zip(release.parts, (X[:40], X[40:]), strict=True):
        assert part.release.n_rows == 40
        for tree in part.release.trees:
            counts = np.bincount(tree.apply(rows.astype(np.float32)), minlength=tree.n_nodes)
            np.testing.assert_array_equal(tree.totals[tree.leaves], counts[tree.leaves])
    rates = [part.release.ensemble.learning_rate for part in release.parts]
    np.testing.assert_allclose(rates, [0.3, 0.1], rtol=1e-6)
    fitted = [part.release.ensemble.fitting is not None for part in release.parts]
    assert fitted == [how == "init_model", False]
