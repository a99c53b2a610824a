"""scikit-learn models as OHDSI's PatientLevelPrediction writes them: trees as lists in JSON.

What is read is what a skops archive of the same model holds, so that adapters and inventory know
it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import BadModel
from treeleak.release.bounds import MOST_NODES, MOST_TREES, at_most
from treeleak.release.readers.lightgbm_text import booster_from_text
from treeleak.release.stored import Leftover, StoredObject

IMPORTANCE = "covariateImportance.csv"
_TREE, _FOREST, _BOOSTED = "decision-tree", "rf", "adaboost"
_CLASSES = {
    _TREE: "sklearn.tree._classes.DecisionTreeClassifier",
    _FOREST: "sklearn.ensemble._forest.RandomForestClassifier",
    _BOOSTED: "sklearn.ensemble._weight_boosting.AdaBoostClassifier",
}
_NODES = (
    ("left_child", "<i8"), ("right_child", "<i8"), ("feature", "<i8"), ("threshold", "<f8"),
    ("impurity", "<f8"), ("n_node_samples", "<i8"), ("weighted_n_node_samples", "<f8"),
    ("missing_go_to_left", "u1"),
)  # fmt: skip
"""Fields of a node; the last one since scikit-learn 1.3."""
_LIGHTGBM = re.compile(r"\s*tree\n(version|num_class)")
_ARRAYS = ("classes_", "estimator_weights_", "estimator_errors_", "oob_decision_function_")
OF_TREE = ("max_depth", "node_count", "nodes", "values", "nodes_dtype")


def is_ohdsi(data: Any) -> bool:
    """Say whether a JSON document is a model of such a bundle."""
    if not isinstance(data, Mapping):
        return False
    kind = data.get("meta")
    return (isinstance(kind, str) and kind in _CLASSES) or _booster_text(data) is not None


def _booster_text(data: Mapping[str, Any]) -> str | None:
    """Find the text of a LightGBM model that stands in a setting."""
    values = [*data.values()]
    values += [v for inner in values if isinstance(inner, Mapping) for v in inner.values()]
    return next((v for v in values if isinstance(v, str) and _LIGHTGBM.match(v)), None)


def model_from_ohdsi(data: Mapping[str, Any]) -> StoredObject:
    """Make of a document what a skops archive of the model would hold.

    Raises
    ------
    BadModel
        If the trees are no such trees.
    """
    if (text := _booster_text(data)) is not None:
        booster = booster_from_text(text.lstrip())
        # What stands beside the text is no part of the model.
        around = {"booster": booster, **_without(data, text)}
        return StoredObject("builtins.dict", {"value": around}) if len(around) > 1 else booster
    kind = str(data["meta"])
    if kind == _TREE:
        return _tree(data, 0)
    trees = data.get("estimators_")
    if not isinstance(trees, list) or not trees:
        raise BadModel("no trees (estimators_)")
    at_most(MOST_TREES, len(trees), "trees")
    read = [_tree(tree, t) for t, tree in enumerate(trees)]
    state = _state(data, {"meta", "params", "estimators_"})
    state["estimators_"] = read
    # What each tree says of the columns, a forest of scikit-learn says, too.
    for name in ("n_features_in_", "n_outputs_"):
        if state.get(name) is None and read[0].get(name) is not None:
            state[name] = read[0].get(name)
    return StoredObject(_CLASSES[kind], state)


def _tree(data: Any, t: int) -> StoredObject:
    inner = data.get("tree_") if isinstance(data, Mapping) else None
    if not isinstance(inner, Mapping):
        raise BadModel(f"tree {t}: no tree_")
    state = _state(data, {"meta", "params", "tree_"})
    nodes, values = _nodes(inner, t), _values(inner, t)
    n_classes = state.get("n_classes_")
    n_classes = n_classes if isinstance(n_classes, int) else values.shape[2]
    args = (state.get("n_features_in_"), np.array([n_classes]), state.get("n_outputs_", 1))
    tree_state = {
        "max_depth": inner.get("max_depth"), "node_count": inner.get("node_count", len(nodes)),
        "nodes": nodes, "values": values,
    }  # fmt: skip
    odd = {key: value for key, value in inner.items() if key not in OF_TREE}
    more = (Leftover(f"tree {t}", "what a tree does not hold", odd),) * bool(odd)
    state["tree_"] = StoredObject("sklearn.tree._tree.Tree", tree_state, args)
    return StoredObject(_CLASSES[_TREE], state, leftovers=more)


def _state(data: Mapping[str, Any], taken: set[str]) -> dict[str, Any]:
    """Bring parameters and fitted attributes into one, as an object has them."""
    params = data.get("params", {})
    if not isinstance(params, Mapping):
        raise BadModel("params: must be an object")
    state = {str(key): value for key, value in params.items()}
    rest = {str(key): value for key, value in data.items() if key not in taken}
    if isinstance(base := state.get("estimator"), (str, Mapping)):
        state["estimator"] = None
        rest["estimator"] = base
    for key, value in rest.items():
        if key in _ARRAYS and isinstance(value, list):
            state[key] = np.array(value)
        elif key == "feature_importances_":
            # What was emptied says nothing.
            if not isinstance(value, list) or any(value):
                state[key] = np.array(value) if _numbers(value) else value
        elif key in ("meta", "estimator") and isinstance(value, str):
            continue
        else:
            state[key] = value
    return state


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, (int, float)) for x in value)


def _nodes(inner: Mapping[str, Any], t: int) -> NDArray[Any]:
    rows = inner.get("nodes")
    if not isinstance(rows, list) or not rows:
        raise BadModel(f"tree {t}: no nodes")
    at_most(MOST_NODES, len(rows), "nodes")
    widths = {len(row) if isinstance(row, list) else 0 for row in rows}
    width = widths.pop()
    if widths or width not in (len(_NODES) - 1, len(_NODES)):
        raise BadModel(f"tree {t}: nodes of other fields than scikit-learn's")
    table = np.empty(len(rows), dtype=list(_NODES[:width]))
    try:
        for (name, _), column in zip(_NODES, zip(*rows, strict=True), strict=False):
            table[name] = np.array(column)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadModel(f"tree {t}: nodes are no numbers ({error})") from error
    return table


def _values(inner: Mapping[str, Any], t: int) -> NDArray[Any]:
    try:
        values = np.array(inner.get("values"), dtype=float)
    except (ValueError, TypeError) as error:
        raise BadModel(f"tree {t}: values are no numbers ({error})") from error
    if values.ndim != 3:
        raise BadModel(f"tree {t}: values of the shape {values.shape}: must have three dimensions")
    return values


def _without(value: Any, text: str) -> dict[str, Any]:
    """What a document holds beside a text."""
    out: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping) and text in inner.values():
            out |= {f"{key}.{k}": v for k, v in _without(inner, text).items()}
        elif inner is not text:
            out[str(key)] = inner
    return out


# ------------------------------------------------------------------------------- its bundle


def with_names(files: Mapping[str, Any], models: Sequence[str]) -> dict[str, Any]:
    """Name the columns of models in a bundle after its list of covariates."""
    out = dict(files)
    listed = next((v for k, v in files.items() if k.rpartition("/")[2] == IMPORTANCE), None)
    for name in models:
        model = files[name]
        if isinstance(model, StoredObject) and isinstance(listed, StoredObject):
            columns = _names(listed, model.get("n_features_in_"))
            if columns is not None and model.get("feature_names_in_") is None:
                state = {**model.state, "feature_names_in_": columns}
                out[name] = replace(model, state=state)
    return out


def _names(listed: StoredObject, n_columns: Any) -> NDArray[Any] | None:
    """Names in the order of the columns; None where the list does not name all of them."""
    header, cells = listed.get("columns", ()), listed.get("cells")
    if not {"columnId", "covariateName"} <= set(header) or not isinstance(cells, np.ndarray):
        return None
    numbers, texts = (cells[:, header.index(k)] for k in ("columnId", "covariateName"))
    try:
        places = np.array([float(x) for x in numbers])
    except ValueError:
        return None
    # R counts from 1.
    order = np.argsort(places, kind="stable")
    if not np.array_equal(places[order], np.arange(1, len(places) + 1)) or len(places) != n_columns:
        return None
    names = np.array([str(text) for text in texts[order]], dtype=object)
    return names if len(set(names)) == len(names) else None
