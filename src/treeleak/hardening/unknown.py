"""Drop from an archive whatever no rule knows."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from treeleak.auditing.inventory.inventory import unknown_places
from treeleak.auditing.inventory.known_classes import known_class
from treeleak.hardening.archive import NONE, Archive, walk
from treeleak.release.readers.npy import odd_header, parse_npy, plain_records, write_npy
from treeleak.release.readers.skops_archive import read_with_sources
from treeleak.release.readers.skops_layout import (
    SCHEMA,
    Node,
    is_mark,
    laid_out,
    odd_text,
)
from treeleak.release.stored import StoredObject

# Of what these hold, predictions need what names them below and nothing else; that predictions
# stayed the same is checked at the end.
_TREES = (
    "RandomForest", "ExtraTree", "DecisionTree", "Bagging", "GradientBoosting", "AdaBoost",
    "IsolationForest",
)  # fmt: skip
_NEEDED = (
    "estimators_", "tree_", "classes_", "n_classes_", "n_outputs_", "n_features_in_",
    "estimators_features_", "init_", "_loss", "loss", "learning_rate",
)  # fmt: skip


def without_unknown(archive: Archive) -> Archive:
    """Drop members, keys, attributes and bytes that no rule knows.

    What a class does not know by name is dropped with its name. What has a known name, but not the
    type or size that goes with it, becomes None in a model of trees; elsewhere it stays, for the
    predictions may rest on it.
    """
    data = dict(archive.data)
    model, schema, sources, unread = read_with_sources(archive.to_bytes())
    for node, key in unread:
        del node[key]
    changed = _drop_attributes(model, sources) or bool(unread)
    for _, node in walk(schema):
        changed |= _plain_value(node)
    named = {str(node["file"]) for _, node in walk(schema) if "file" in node} | {SCHEMA}
    for name in named & data.keys():
        if name.endswith(".npy"):
            data[name] = _plain_array(data[name], name)
    changed |= any(odd_text(data[SCHEMA].decode(), json.loads(data[SCHEMA])))
    if changed:
        data[SCHEMA] = laid_out(schema).encode()
    if data.keys() == named and all(data[n] is archive.data[n] for n in data):
        return archive
    infos = tuple(info for info in archive.infos if info.filename in named)
    return replace(archive, infos=infos, data={n: d for n, d in data.items() if n in named})


def _plain_value(node: Node) -> bool:
    """Describe a value as skops does: nothing in its text, class or mark but itself."""
    before = dict(node)
    if node.get("__loader__") == "JsonNode":
        content = {"content": json.dumps(json.loads(node["content"]))}
        node |= {**NONE, **content, "__class__": "str" if node.get("__class__") else ""}
    if "__id__" in node and not is_mark(node["__id__"]):
        del node["__id__"]
    return before != node


def _drop_attributes(model: StoredObject, sources: list[tuple[StoredObject, Node]]) -> bool:
    nodes = {id(stored): node for stored, node in sources}
    dropped: set[tuple[int, str]] = set()
    for holders in unknown_places(model):
        for owner, name in holders:
            node = nodes.get(id(owner))
            values = {} if node is None else node.get("content", {}).get("content", {})
            known = known_class(owner.type)
            if not isinstance(values, dict) or name not in values:
                if (id(owner), name) in dropped:
                    break
                continue
            if known is None or node is None:
                continue
            if not known.holds(name):
                at = list(values).index(name)
                del values[name]
                types = node["content"].get("key_types", {}).get("content", [])
                if len(types) > at:
                    del types[at]
            elif owner.name.startswith(_TREES) and name not in _NEEDED:
                values[name] = dict(NONE)
            else:
                continue
            dropped.add((id(owner), name))
            break
    return bool(dropped)


def _plain_array(content: bytes, name: str) -> bytes:
    """The same array, with nothing beside it: in its header, fields, leaves and flags."""
    array = parse_npy(content, name)
    clean = plain_records(array)
    fields = array.dtype.names or ()
    if {"left_child", "threshold"} <= set(fields):
        leaf = clean["left_child"] == -1
        at_leaves = clean["threshold"][leaf]
        if len(np.unique(at_leaves)) > 1:
            clean["threshold"][leaf] = -2.0
        if "missing_go_to_left" in fields:
            clean["missing_go_to_left"] = clean["missing_go_to_left"] != 0
    if clean.tobytes() == array.tobytes() and not odd_header(content, array):
        return content
    return write_npy(clean)
