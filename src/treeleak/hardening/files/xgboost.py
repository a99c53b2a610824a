"""What XGBoost's files (JSON, UBJSON) hold beside what predictions need.

A tree predicts by its children, columns, thresholds, default directions, lists of categories, and
the values of its leaves. XGBoost looks for as many numbers of every other kind as there are nodes,
so zeros take their place. Its files hold no seeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.auditing.inventory.derived import of_xgboost
from treeleak.auditing.inventory.shapes import left_over, without
from treeleak.auditing.inventory.xgboost_shapes import FILE, sizes_of
from treeleak.core.errors import BadModel, NotCovered
from treeleak.hardening.files.document import (
    NOTHING,
    Digits,
    Document,
    Step,
    changed,
    dropped,
    few_digits,
    read_document,
    step,
    zero,
    zeros,
)
from treeleak.release.adapters.boosted import parents_first
from treeleak.release.bounds import MOST_JSON_BYTES, at_most
from treeleak.release.readers.ubj import read_ubj, ubj_bytes
from treeleak.release.readers.xgboost_json import is_booster

SNAPSHOT = (
    "this is XGBoost's copy of a Booster in memory, with the training's parameters: save "
    "the model with save_model first"
)

_BOOSTERS = "learner/gradient_booster", "learner/gradient_booster/gbtree"
"""Trees weighted by dart stand one level deeper."""
_OF_ESTIMATOR = ("_estimator_type", "classes_", "n_classes_", "type")


def read_json_file(path: Path) -> Document:
    """Read a model in JSON."""
    return _checked(read_document(path, is_booster, "model of XGBoost"), path)


def read_ubj_file(path: Path) -> Document:
    """Read a model in UBJSON."""
    at_most(MOST_JSON_BYTES, path.stat().st_size, "bytes")
    try:
        root = read_ubj(path.read_bytes())
    except BadModel as error:
        raise BadModel(f"{path}: {error}") from error
    if not is_booster(root):
        raise BadModel(f"{path}: not a model of XGBoost")
    return _checked(Document(root, ubj_bytes), path)


def _checked(document: Document, path: Path) -> Document:
    if "Model" in document.root:
        raise NotCovered(f"{path}: {SNAPSHOT}")
    return document


def _in_trees(name: str, change: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((f"{place}/model/trees/*{name}", change) for place in _BOOSTERS)


def _pruned(tree: Any) -> Any:
    """Empty the nodes to which no way leads: a tree keeps the thresholds of what it pruned."""
    if not isinstance(tree, Mapping):
        return tree
    try:
        left, right = (
            np.array([int(x) for x in tree[f"{side}_children"]]) for side in ("left", "right")
        )
        reachable = set(parents_first(left, right, "tree").tolist())
        values = tree["split_conditions"]
        gone = [i for i in range(len(values)) if i not in reachable and float(values[i]) != 0]
    except (KeyError, TypeError, ValueError) as error:
        raise BadModel(f"a tree without children or values ({error})") from error
    if not gone:
        return tree
    new = values.copy()
    for i in gone:
        new[i] = 0 if isinstance(new, np.ndarray) else zero(new[i])
    return {**tree, "split_conditions": new}


def _one(value: Any) -> Any:
    return value if value == "1" or not isinstance(value, str) or isinstance(value, Digits) else "1"


def _of_estimator(text: Any) -> Any:
    """Keep of an estimator what it takes to be loaded."""
    try:
        parsed = json.loads(text)
    except (TypeError, ValueError):
        return text
    if not isinstance(parsed, dict) or set(parsed) <= set(_OF_ESTIMATOR):
        return text
    return json.dumps({key: value for key, value in parsed.items() if key in _OF_ESTIMATOR})


def known(root: Any) -> Any:
    """Keep what XGBoost writes."""
    root = few_digits(root)
    left = left_over(root, FILE, sizes_of(root))
    root = without(root, [place for place, _ in left])
    # Gains and values that do not follow from the leaves may be anything.
    odd = {place[-1] for place, _ in of_xgboost(root)} & {"base_weights", "loss_changes"}
    for key in sorted(map(str, odd)):
        for place, change in _in_trees(f"/{key}", zeros):
            root = changed(root, place.split("/"), change)
    return root


STEPS: tuple[Step, ...] = (
    step("hessians", "sums of hessians, which count rows, in each node",
         "SHAP values (pred_contribs), importance by cover", *_in_trees("/sum_hessian", zeros)),
    step("gains", "gain of each split", "importance by gain", *_in_trees("/loss_changes", zeros)),
    step("inner", "values of inner nodes, and of nodes that were pruned",
         "approximate SHAP values", *_in_trees("/base_weights", zeros), *_in_trees("", _pruned)),
    step("scores", "the score of the best round", "best_score",
         ("learner/attributes/best_score", dropped)),
    step("parameters", "weights of classes, and settings of the estimator",
         "training on from this model", ("learner/objective/reg_loss_param/scale_pos_weight", _one),
         ("learner/attributes/scikit_learn", _of_estimator)),
    step("unknown", "all parts that no rule knows: other keys and attributes", NOTHING,
         ("", known)),
)  # fmt: skip
