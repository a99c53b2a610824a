"""What CatBoost's JSON files hold beside what predictions need.

A tree predicts by its splits and the values of its leaves; of the parameters of the training,
predictions ask for the loss only. CatBoost's own reader of numbers is not exact in the last digit,
so every number keeps its text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treeleak.auditing.inventory.catboost_shapes import INFO, shape_of, sizes_of
from treeleak.auditing.inventory.shapes import FEW, Shape, Sizes, left_over, without
from treeleak.hardening.files.document import (
    DROPPED,
    NOTHING,
    Change,
    Digits,
    Document,
    changed,
    dropped,
    few_digits,
    read_document,
    step,
    zero,
    zeros,
)
from treeleak.release.readers.catboost_json import is_catboost

RESULTS, OPTIONS, SEED = "training", "output_options", "random_seed"
_WIDE = {
    "columns": 10**5,
    "outputs": 10**4,
    "classes": 10**4,
    "rounds": 10**5,
    "few": FEW,
    "two": 2,
}
"""Sizes of a model in binary form, whose notes alone are looked at."""


def read_json_file(path: Path) -> Document:
    """Read a model in JSON."""
    return read_document(path, is_catboost, "model of CatBoost")


def _no_weights(tree: Any) -> Any:
    """Empty the numbers of rows of a tree, whose nodes may hold each other.

    They become zeros: CatBoost breaks down when it writes some trees that have none.
    """
    if not isinstance(tree, Mapping):
        return tree
    new = dict(tree)
    if "leaf_weights" in new:
        new["leaf_weights"] = zeros(new["leaf_weights"])
    if isinstance(weight := new.get("weight"), Digits) and float(weight) != 0:
        new["weight"] = zero(weight)
    for side in ("left", "right"):
        if side in new:
            new[side] = _no_weights(new[side])
    return tree if all(new[key] is tree[key] for key in new) else new


def without_seed(params: Any) -> Any:
    """Drop the seeds from the parameters of the training."""
    if not isinstance(params, Mapping):
        return params
    flat = params.get("flat_params")
    held = {SEED, "random_state"} & {*params, *(flat if isinstance(flat, Mapping) else ())}
    if not held:
        return params
    new = {key: value for key, value in params.items() if key != SEED}
    if isinstance(flat, Mapping):
        new["flat_params"] = {k: v for k, v in flat.items() if k not in (SEED, "random_state")}
    return new


def only_loss(params: Any) -> Any:
    """Keep the loss, by which predictions become probabilities."""
    if not isinstance(params, Mapping):
        return DROPPED
    flat = params.get("flat_params")
    flat = flat if isinstance(flat, Mapping) else {}
    reduced = {key: params[key] for key in ("loss_function",) if key in params}
    reduced["flat_params"] = {key: value for key, value in flat.items() if key == "loss_function"}
    return params if reduced == params else reduced


def in_params(change: Change) -> Change:
    """Change parameters, which some versions write as a text."""

    def of_text(params: Any) -> Any:
        if not isinstance(params, str):
            return change(params)
        try:
            parsed = json.loads(params)
        except ValueError:
            return DROPPED
        new = change(parsed)
        if new is parsed or new is DROPPED:
            return params if new is parsed else DROPPED
        return json.dumps(new, separators=(",", ":"))

    return of_text


def known(value: Any, shape: Shape, sizes: Sizes) -> Any:
    """Keep what CatBoost writes, and of odd parameters the loss."""
    value = few_digits(value)
    places = [place for place, _ in left_over(value, shape, sizes)]
    for place in places:
        if place[-1:] == ("params",):
            value = changed(value, list(map(str, place)), in_params(only_loss))
    return without(value, [place for place in places if place[-1:] != ("params",)])


STEPS = (
    step("counts", "numbers of rows in each leaf",
         "SHAP values and importance of columns without a data set",
         ("trees/*", _no_weights), ("oblivious_trees/*", _no_weights)),
    step("scores", "scores on training and validation rows after each round",
         "evals_result_, best_score_", (f"model_info/{RESULTS}", dropped)),
    step("seeds", "seeds of the training", "training the same model again",
         ("model_info/params", in_params(without_seed))),
    step("parameters", "all other parameters of the training but for the loss",
         "get_all_params, training on from this model",
         ("model_info/params", in_params(only_loss)), (f"model_info/{OPTIONS}", dropped)),
    step("unknown", "all parts that no rule knows: other keys and notes", NOTHING,
         ("model_info", lambda info: known(info, INFO, _WIDE)),
         ("", lambda root: known(root, shape_of(root), sizes_of(root)))),
)  # fmt: skip
"""Measures for JSON and cbm, which hold the same things at different places."""
