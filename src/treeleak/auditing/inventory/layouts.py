"""The files of boosting libraries, split into the kinds of parts that rules name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from treeleak.auditing.inventory import catboost_shapes, derived, xgboost_shapes
from treeleak.auditing.inventory.known_classes import CATBOOST, LIGHTGBM, PARTS, XGBOOST, is_name
from treeleak.auditing.inventory.shapes import (
    Accounted,
    Place,
    Shape,
    Sizes,
    left_over,
    without,
)
from treeleak.release.readers.catboost_json import is_catboost, model_from_cbm, trainings
from treeleak.release.readers.lightgbm_text import booster_from_text
from treeleak.release.readers.xgboost_json import booster_from_bytes
from treeleak.release.stored import Leftover, StoredObject

_XGBOOST_PARTS: Mapping[str, Any] = {
    "attributes": "Attributes",
    "learner_model_param": "Settings",
    "objective": "Settings",
    "tree_param": "Settings",
    "gbtree_model_param": "Settings",
    "gradient_booster": "Booster",
    "gbtree": "Booster",
    "model": "Model",
    "cats": "Categories",
    "trees": "Tree",
    "learner": "Learner",
    "Model": "Snapshot",
}
"""By the name of a part: its kind. In objects of the same kind names mean the same."""
UNNAMED = "(no plain name)"
_XGBOOST_ROOT = ("version", "learner", "Config", "Model")
_CATBOOST_ROOT = (
    "features_info", "model_info", "oblivious_trees", "trees", "scale_and_bias", "ctr_data",
)  # fmt: skip
_HOLDERS = ("Snapshot", "Learner", "Booster", "Model", "Tree", "Settings")
_VIEWS = ("float_features", "categorical_features", "text_features", "embedding_features")


def laid_out(stored: StoredObject) -> StoredObject:
    """Name the kinds of the parts of a boosted model; any other object stays what it is.

    What its library does not write so is left over.
    """
    if stored.type == XGBOOST:
        return _xgboost(stored)
    if stored.type == LIGHTGBM:
        return _lightgbm(stored)
    if stored.type.startswith(CATBOOST):
        return _catboost(stored)
    if stored.type.startswith(PARTS) and not isinstance(stored, Accounted):
        # No file says so: only parts that were held against their shape are called this.
        return StoredObject("unknown", stored.state, stored.args)
    return stored


def _accounted(
    document: Mapping[str, Any], shape: Shape, sizes: Sizes, of: str
) -> tuple[Mapping[str, Any], tuple[Leftover, ...]]:
    """Part a document into what its shape accounts for, and what is left over."""
    found = list(left_over(document, shape, sizes))
    return without(document, [place for place, _ in found]), _left(found, of)


def _left(found: Iterable[tuple[Place, Any]], of: str) -> tuple[Leftover, ...]:
    """Name what is left over by its place."""
    return tuple(
        Leftover(
            of + "".join("[*]" if isinstance(key, int) else f".{key}" for key in place[:-1]),
            last if is_name(last := str(place[-1])) else UNNAMED,
            # Keys may hold as much as values.
            value if is_name(last) else {last: value},
        )
        for place, value in found
    )


# -------------------------------------------------------------------------------------- XGBoost


def _xgboost(stored: StoredObject) -> StoredObject:
    handle, state, left = stored.get("handle"), dict(stored.state), stored.leftovers
    if isinstance(handle, bytes):
        del state["handle"]
        booster = booster_from_bytes(handle)
        state, left = {**state, **booster.state}, booster.leftovers
    document = {key: state.pop(key) for key in _XGBOOST_ROOT if key in state}
    sizes = xgboost_shapes.sizes_of(document)
    accounted, more = _accounted(document, xgboost_shapes.FILE, sizes, stored.name)
    more += _left(derived.of_xgboost(accounted), stored.name)
    return StoredObject(stored.type, {**_parts_of(accounted), **state}, leftovers=(*left, *more))


def _parts_of(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _part(key, value) for key, value in state.items()}


def _part(name: str, value: Any) -> Any:
    kind = _XGBOOST_PARTS.get(name)
    if kind is None:
        return value
    if isinstance(value, list) and name == "trees":
        return [_part(name, tree) if isinstance(tree, Mapping) else tree for tree in value]
    if not isinstance(value, Mapping):
        return value
    inside = _parts_of(value) if kind in _HOLDERS else dict(value)
    return Accounted(f"{PARTS}XGBoost{kind}", inside)


# ------------------------------------------------------------------------------------- LightGBM


def _lightgbm(stored: StoredObject) -> StoredObject:
    state, left = dict(stored.state), stored.leftovers
    text = state.pop("_handle", state.pop("handle", None))
    if isinstance(text, str):
        booster = booster_from_text(text)
        # What the object says beside its text is the same again.
        state, left = {**state, **booster.state}, booster.leftovers
    left = (*left, *_left(derived.of_lightgbm(state), stored.name))
    if isinstance(state.get("trees"), list):
        state["trees"] = [Accounted(f"{PARTS}LightGBMTree", tree) for tree in state["trees"]]
    if isinstance(held := state.get("parameters"), Mapping) and "trees" in state:
        seeds = {key: value for key, value in held.items() if key.endswith("seed")}
        others = {key: value for key, value in held.items() if key not in seeds}
        parameters = {**seeds, **({"parameters": others} if others else {})}
        state["parameters"] = Accounted(f"{PARTS}LightGBMParameters", parameters)
    return StoredObject(stored.type, state, leftovers=left)


# ------------------------------------------------------------------------------------- CatBoost


def _catboost(stored: StoredObject) -> StoredObject:
    state, left = dict(stored.state), stored.leftovers
    if not is_catboost(state):
        data = state.pop("__model", None)
        if not isinstance(data, bytes):
            return stored
        parsed = model_from_cbm(data)
        state, left = {**state, **parsed.state}, parsed.leftovers
    document = {key: state.pop(key) for key in _CATBOOST_ROOT if key in state}
    if isinstance(info := document.get("model_info"), Mapping):
        *former, document["model_info"] = trainings(info)
    else:
        former = []
    shape, sizes = catboost_shapes.shape_of(document), catboost_shapes.sizes_of(document)
    accounted, more = _accounted(document, shape, sizes, stored.name)
    more += _left(derived.of_catboost(accounted), stored.name)
    parts = dict(accounted)
    if isinstance(columns := parts.get("features_info"), Mapping):
        listed = {
            key: _columns(value) if key in _VIEWS else value for key, value in columns.items()
        }
        parts["features_info"] = Accounted(f"{PARTS}CatBoostColumns", listed)
    if isinstance(parts.get("model_info"), Mapping):
        infos = [parts["model_info"]]
        for own in former:
            of_former, rest = _accounted({"model_info": own}, shape, sizes, stored.name)
            infos.append(of_former.get("model_info", {}))
            more = (*more, *rest)
        listed_infos = [Accounted(f"{PARTS}CatBoostInfo", held) for held in infos]
        parts["model_info"] = listed_infos if former else listed_infos[0]
    if isinstance(parts.get("oblivious_trees"), list):
        parts["oblivious_trees"] = [_oblivious(tree) for tree in parts["oblivious_trees"]]
    if isinstance(parts.get("trees"), list):
        parts["trees"] = [_grown(tree) for tree in parts["trees"]]
    return StoredObject(stored.type, {**parts, **state}, leftovers=(*left, *more))


def _columns(listed: Any) -> Any:
    if not isinstance(listed, list):
        return listed
    return [
        Accounted(f"{PARTS}CatBoostColumn", column) if isinstance(column, Mapping) else column
        for column in listed
    ]


def _oblivious(tree: Any) -> Any:
    if not isinstance(tree, Mapping):
        return tree
    entry = dict(tree)
    if isinstance(entry.get("splits"), list):
        entry["splits"] = _splits(entry["splits"])
    return Accounted(f"{PARTS}CatBoostTree", entry)


def _grown(tree: Any) -> Any:
    """List what nodes hold that hold each other."""
    nodes = list(derived.nodes(tree))
    if any(not isinstance(node, Mapping) for node in nodes):
        return tree
    leaves = [node for node in nodes if "split" not in node]
    entry: dict[str, Any] = {
        # With several classes, each leaf has a list of values. Other trees have all in one list.
        "leaf_values": [v for node in leaves for v in _as_list(node.get("value"))],
        "splits": _splits([node["split"] for node in nodes if "split" in node]),
    }
    if any("weight" in node for node in leaves):
        entry["leaf_weights"] = [node.get("weight") for node in leaves]
    for node in nodes:
        known = ("split", "left", "right") if "split" in node else ("value", "weight")
        entry |= {str(key): value for key, value in node.items() if key not in known}
    return Accounted(f"{PARTS}CatBoostTree", entry)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _splits(listed: list[Any]) -> Any:
    """Turn a list of tests into lists of their parts."""
    if not all(isinstance(split, Mapping) for split in listed):
        return listed
    keys = dict.fromkeys(str(key) for split in listed for key in split)
    arrays = {key: [split[key] for split in listed if key in split] for key in keys}
    return Accounted(f"{PARTS}CatBoostSplits", arrays)
