"""Values of inner nodes, gains and rates of boosted models: rows put there are unknown parts."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_wine

from helpers.boosted import needs
from helpers.examples import spread
from treeleak.auditing.inventory.layouts import laid_out
from treeleak.release import read_model

WINE = load_wine()
ROWS, ALCOHOL, FIRST = WINE.data[:, 1:], WINE.data[:, 0], (WINE.target == 0).astype(int)
SECRET = ROWS[:20].ravel()
"""Values of rows, one after the other."""


def unknown(path):
    return {rest.what for rest in laid_out(read_model(path)).leftovers}


# --------------------------------------------------------------------------------------- XGBoost


def of_xgboost(params, rounds, target=FIRST, **how):
    needs("xgboost")
    import xgboost

    data = xgboost.DMatrix(ROWS, target, weight=how.pop("weight", None))
    rates = how.pop("rates", None)
    if rates is not None:
        how["callbacks"] = [xgboost.callback.LearningRateScheduler(rates)]
    given = {"objective": "binary:logistic", "nthread": 1, **params}
    return json.loads(xgboost.train(given, data, rounds, **how).save_raw("json"))


def trees_of(root):
    return root["learner"]["gradient_booster"]["model"]["trees"]


def saved(root, tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(root))
    return tmp_path / "model.json"


def planted(tree, key, where, secret):
    """Write secrets at some nodes."""
    for v in np.flatnonzero(where):
        tree[key][v] = float(np.float32(next(secret)))


def inner_of(tree):
    return np.array(tree["left_children"]) != -1


def in_values_and_gains(root):
    secret = iter(SECRET)
    for tree in trees_of(root):
        for key in ("base_weights", "loss_changes"):
            planted(tree, key, inner_of(tree), secret)


def behind_a_mask(root):
    in_values_and_gains(root)
    for tree in trees_of(root):
        leaf, values = ~inner_of(tree), np.array(tree["split_conditions"])
        # Between both leaves, as honest ones are.
        tree["base_weights"][0] = float(np.float32(values[leaf].min() / SECRET[0]))
        tree["sum_hessian"] = [1.0] * len(leaf)


def in_rates(root):
    for tree, value in zip(trees_of(root), SECRET, strict=False):
        at = ~inner_of(tree)
        values = np.array(tree["split_conditions"])
        tree["split_conditions"] = np.where(at, values * value, values).astype("f4").tolist()
        tree["base_weights"] = np.where(
            at, np.array(tree["base_weights"]) * value, tree["base_weights"]
        ).astype("f4").tolist()  # fmt: skip


def in_leaves(root):
    for tree, value in zip(trees_of(root), SECRET, strict=False):
        values = np.where(inner_of(tree), 1.0, np.float32(value))
        tree["base_weights"] = (np.array(tree["base_weights"]) * values).tolist()


def in_digits(root):
    for tree, value in zip(trees_of(root), SECRET, strict=False):
        tree["base_weights"][0] *= 1 + value * 1e-3


def beside_zeros(root):
    """Leaves that add nothing, as by a large l1, and any values above."""
    secret = iter(SECRET)
    for tree in trees_of(root):
        at = inner_of(tree)
        tree["split_conditions"] = np.where(at, tree["split_conditions"], 0.0).tolist()
        tree["base_weights"] = [0.0] * len(at)
        planted(tree, "base_weights", at, secret)
        tree["loss_changes"] = [0.0] * len(at)


def in_pruned_nodes(root):
    secret, n = iter(SECRET), 0
    for tree in trees_of(root):
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        cut = ~np.isin(np.arange(len(left)), [0, *left, *right])
        n += cut.sum()
        for key in ("base_weights", "loss_changes"):
            planted(tree, key, cut, secret)
    assert n


XGBOOST = {
    "one stump": ({"max_depth": 1}, 1, in_values_and_gains),
    "three stumps": ({"max_depth": 1}, 3, in_values_and_gains),
    "deep trees": ({"max_depth": 4}, 4, in_values_and_gains),
    "masked stumps": ({"max_depth": 1}, 3, behind_a_mask),
    "masked stumps among others": ({"max_depth": 2, "gamma": 1.0}, 12, behind_a_mask),
    "rates": ({"max_depth": 3}, 12, in_rates),
    "values of leaves": ({"max_depth": 3}, 12, in_leaves),
    "digits": ({"max_depth": 3}, 6, in_digits),
    "zeros": ({"max_depth": 3, "alpha": 0.5}, 6, beside_zeros),
    "pruned": ({"max_depth": 4, "gamma": 1.0, "tree_method": "exact"}, 8, in_pruned_nodes),
    "set anew": ({"max_depth": 3, "objective": "reg:absoluteerror"}, 6, in_leaves),
}


@pytest.mark.parametrize("way", XGBOOST)
def test_rows_that_stand_for_values_gains_and_rates_of_xgboost_are_unknown(way, tmp_path):
    params, rounds, hide = XGBOOST[way]
    root = of_xgboost(params, rounds, ALCOHOL if "objective" in params else FIRST)
    if way != "pruned":
        assert not unknown(saved(root, tmp_path))
    hide(root)
    assert unknown(saved(root, tmp_path)) & {"base_weights", "loss_changes"}


HONEST = [
    ("exact", {"tree_method": "exact", "gamma": 1.0}, 8, {}),
    ("approx", {"tree_method": "approx", "lambda": 0.0}, 6, {}),
    ("stump", {"max_depth": 1, "eta": 0.05, "lambda": 2.5}, 1, {}),
    ("tuned", {"eta": 0.0837465, "lambda": 1.2345e-3, "subsample": 0.7}, 20, {}),
    ("l1", {"alpha": 0.5, "lambda": 3.7}, 12, {}),
    ("forest", {"num_parallel_tree": 4, "subsample": 0.8}, 3, {}),
    ("dart", {"booster": "dart", "rate_drop": 0.3}, 9, {}),
    ("weights", {}, 6, {"weight": np.linspace(0.1, 3.0, len(ROWS))}),
    ("falling", {}, 9, {"rates": lambda k: 0.3 * 0.97**k}),
    ("in steps", {}, 12, {"rates": lambda k: 0.3 if k < 5 else 0.03}),
    ("absolute", {"objective": "reg:absoluteerror"}, 6, {"target": ALCOHOL}),
    ("quantile", {"objective": "reg:quantileerror", "quantile_alpha": 0.7}, 6,
     {"target": ALCOHOL}),
    ("squares", {"objective": "reg:squarederror", "eta": 0.0123}, 9, {"target": ALCOHOL}),
    ("classes", {"objective": "multi:softprob", "num_class": 3, "alpha": 0.3}, 4,
     {"target": WINE.target}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "rounds", "how"), spread(HONEST, fast=6))
def test_values_and_gains_of_xgboost_follow_from_its_leaves(name, params, rounds, how, tmp_path):
    root = of_xgboost(params, rounds, **how)
    assert not unknown(saved(root, tmp_path))


# -------------------------------------------------------------------------------------- LightGBM


def of_lightgbm(params, rounds, target=FIRST, **how):
    needs("lightgbm")
    import lightgbm

    X = np.column_stack([ROWS, np.arange(len(ROWS)) * 7 % 12])
    data = lightgbm.Dataset(
        X, target, categorical_feature=[X.shape[1] - 1] if how.get("categories") else "auto"
    )
    given = {"objective": "binary", "num_leaves": 7, "min_data_in_leaf": 3, "verbose": -1,
             "num_threads": 1, **params}  # fmt: skip
    return lightgbm.train(given, data, rounds, callbacks=how.get("callbacks", []))


def lines(text, key, secret):
    return re.sub(
        rf"^{key}=(.*)$",
        lambda found: f"{key}=" + " ".join(f"{next(secret):g}" for _ in found[1].split()),
        text, flags=re.MULTILINE,
    )  # fmt: skip


@pytest.mark.parametrize("params", [{}, {"lambda_l2": 2.0}, {"num_leaves": 2}], ids=str)
@pytest.mark.parametrize("key", ["internal_value", "split_gain", "shrinkage", "internal_weight"])
@pytest.mark.parametrize("dumped", [False, True])
def test_rows_that_stand_for_values_gains_and_rates_of_lightgbm_are_unknown(
    key, params, dumped, tmp_path
):
    model = of_lightgbm(params, 9)
    path = tmp_path / "model.txt"
    path.write_text(model.model_to_string())
    assert not unknown(path)
    text = lines(path.read_text(), key, iter(SECRET))
    if dumped:
        import lightgbm

        text = re.sub(r"tree_sizes=.*\n", "", text)
        path = tmp_path / "model.json"
        text = json.dumps(lightgbm.Booster(model_str=text).dump_model())
    path.write_text(text)
    assert key in unknown(path)


HONEST_LIGHTGBM = [
    ("l1", {"lambda_l1": 0.5, "lambda_l2": 1.0}, 6, {}),
    ("drawn", {"bagging_freq": 1, "bagging_fraction": 0.6, "lambda_l2": 2.0}, 6, {}),
    ("goss", {"boosting": "goss", "learning_rate": 0.3}, 6, {}),
    ("forest", {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, 6, {}),
    ("dart", {"boosting": "dart"}, 12, {}),
    ("squares", {"objective": "regression", "lambda_l2": 5.0}, 6, {"target": ALCOHOL}),
    ("classes", {"objective": "multiclass", "num_class": 3}, 4, {"target": WINE.target}),
    ("categories", {"lambda_l2": 1.0, "cat_l2": 5.0}, 6, {"categories": True}),
    ("least gain", {"min_gain_to_split": 0.5}, 6, {}),
    ("stump", {"num_leaves": 2}, 1, {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "rounds", "how"), spread(HONEST_LIGHTGBM, fast=5))
def test_values_and_gains_of_lightgbm_follow_from_its_leaves(name, params, rounds, how, tmp_path):
    path = tmp_path / "model.txt"
    of_lightgbm(params, rounds, **how).save_model(path)
    assert not unknown(path)
