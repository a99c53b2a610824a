"""The files of boosting libraries, split into the kinds of parts that rules name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from treeleak.auditing.inventory.known_files import CATBOOST, LIGHTGBM, PARTS, XGBOOST
from treeleak.release.readers.catboost_json import is_catboost, model_from_cbm
from treeleak.release.readers.lightgbm_text import booster_from_text
from treeleak.release.readers.xgboost_json import booster_from_bytes
from treeleak.release.stored import StoredObject

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
_HOLDERS = ("Snapshot", "Learner", "Booster", "Model", "Tree", "Settings")
_VIEWS = ("float_features", "categorical_features", "text_features", "embedding_features")


def laid_out(stored: StoredObject) -> StoredObject:
    """Name the kinds of the parts of a boosted model; any other object stays what it is."""
    if stored.type == XGBOOST:
        return _xgboost(stored)
    if stored.type == LIGHTGBM:
        return _lightgbm(stored)
    if stored.type.startswith(CATBOOST):
        return _catboost(stored)
    return stored


# -------------------------------------------------------------------------------------- XGBoost


def _xgboost(stored: StoredObject) -> StoredObject:
    handle = stored.get("handle")
    if isinstance(handle, bytes):
        stored = StoredObject(stored.type, {**stored.state, **booster_from_bytes(handle).state})
        stored = StoredObject(stored.type, {k: v for k, v in stored.state.items() if k != "handle"})
    return StoredObject(stored.type, _parts_of(stored.state))


def _parts_of(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _part(key, own) for key, own in state.items()}


def _part(name: str, value: Any) -> Any:
    kind = _XGBOOST_PARTS.get(name)
    if kind is None:
        return value
    if isinstance(value, list) and name == "trees":
        return [_part(name, tree) if isinstance(tree, Mapping) else tree for tree in value]
    if not isinstance(value, Mapping):
        return value
    inside = _parts_of(value) if kind in _HOLDERS else dict(value)
    return StoredObject(f"{PARTS}XGBoost{kind}", inside)


# ------------------------------------------------------------------------------------- LightGBM


def _lightgbm(stored: StoredObject) -> StoredObject:
    state, left = dict(stored.state), stored.leftovers
    text = state.pop("_handle", state.pop("handle", None))
    if isinstance(text, str):
        own = booster_from_text(text)
        # What the object says beside its text is the same again.
        state, left = {**state, **own.state}, own.leftovers
    if isinstance(state.get("trees"), list):
        state["trees"] = [StoredObject(f"{PARTS}LightGBMTree", tree) for tree in state["trees"]]
    if isinstance(held := state.get("parameters"), Mapping):
        seeds = {key: own for key, own in held.items() if key.endswith("seed")}
        others = {key: own for key, own in held.items() if key not in seeds}
        told = {**seeds, **({"parameters": others} if others else {})}
        state["parameters"] = StoredObject(f"{PARTS}LightGBMParameters", told)
    return StoredObject(stored.type, state, leftovers=left)


# ------------------------------------------------------------------------------------- CatBoost


def _catboost(stored: StoredObject) -> StoredObject:
    state = dict(stored.state)
    if not is_catboost(state):
        data = state.pop("__model", None)
        if not isinstance(data, bytes):
            return stored
        state |= model_from_cbm(data).state
    columns = state.get("features_info")
    if isinstance(columns, Mapping):
        listed = {key: _columns(own) if key in _VIEWS else own for key, own in columns.items()}
        state["features_info"] = StoredObject(f"{PARTS}CatBoostColumns", listed)
    if isinstance(state.get("model_info"), Mapping):
        state["model_info"] = StoredObject(f"{PARTS}CatBoostInfo", state["model_info"])
    if isinstance(state.get("oblivious_trees"), list):
        state["oblivious_trees"] = [_oblivious(tree) for tree in state["oblivious_trees"]]
    if isinstance(state.get("trees"), list):
        state["trees"] = [_grown(tree) for tree in state["trees"]]
    return StoredObject(stored.type, state)


def _columns(listed: Any) -> Any:
    if not isinstance(listed, list):
        return listed
    return [
        StoredObject(f"{PARTS}CatBoostColumn", own) if isinstance(own, Mapping) else own
        for own in listed
    ]


def _oblivious(tree: Any) -> Any:
    if not isinstance(tree, Mapping):
        return tree
    own = dict(tree)
    if isinstance(own.get("splits"), list):
        own["splits"] = _splits(own["splits"])
    return StoredObject(f"{PARTS}CatBoostTree", own)


def _grown(tree: Any) -> Any:
    """List what nodes hold that hold each other."""
    nodes = list(_nodes(tree))
    if any(not isinstance(node, Mapping) for node in nodes):
        return tree
    leaves = [node for node in nodes if "split" not in node]
    own: dict[str, Any] = {
        # With several classes, each leaf has a list of values. Other trees have all in one list.
        "leaf_values": [v for node in leaves for v in _as_list(node.get("value"))],
        "splits": _splits([node["split"] for node in nodes if "split" in node]),
    }
    if any("weight" in node for node in leaves):
        own["leaf_weights"] = [node.get("weight") for node in leaves]
    for node in nodes:
        known = ("split", "left", "right") if "split" in node else ("value", "weight")
        own |= {str(key): value for key, value in node.items() if key not in known}
    return StoredObject(f"{PARTS}CatBoostTree", own)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _nodes(tree: Any) -> Iterator[Any]:
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Mapping) and "split" in node:
            stack += (node.get("right"), node.get("left"))


def _splits(listed: list[Any]) -> Any:
    """Turn a list of tests into lists of their parts."""
    if not all(isinstance(split, Mapping) for split in listed):
        return listed
    keys = dict.fromkeys(str(key) for split in listed for key in split)
    own = {key: [split[key] for split in listed if key in split] for key in keys}
    return StoredObject(f"{PARTS}CatBoostSplits", own)
