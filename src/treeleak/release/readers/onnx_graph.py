"""ONNX models: a graph of operators as messages of Protocol Buffers; onnx is not imported.

What a node computes is not run: an operator is its name, its inputs and outputs, and its
attributes, as ``onnx.proto`` lays them out. Subgraphs stay bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.release.bounds import at_most
from treeleak.release.readers.protobuf import Messages, tables_of
from treeleak.release.registry import describe_format, reader
from treeleak.release.stored import Leftover, StoredObject

MODEL, GRAPH, NODE = "onnx.Model", "onnx.Graph", "onnx.Node"
ENSEMBLES = ("TreeEnsembleClassifier", "TreeEnsembleRegressor")
MOST_BYTES = 2**27
"""Of a file: a node takes some 50 bytes, and ten times as many once its numbers are read."""
MOST_PARTS = 100_000
"""Nodes, tensors and attributes: converters of trees write some ten."""

_TABLES = tables_of("""
Model: 1 ir_version i, 2 producer_name s, 3 producer_version s, 4 domain s, 5 model_version i, 6 doc_string s, 7 graph Graph, 8 opset_import Opset*, 14 metadata_props Entry*
Opset: 1 domain s, 2 version i
Entry: 1 key s, 2 value s
Graph: 1 node Node*, 2 name s, 5 initializer Tensor*, 10 doc_string s, 11 input Value*, 12 output Value*, 13 value_info Value*, 16 metadata_props Entry*
Node: 1 input s*, 2 output s*, 3 name s, 4 op_type s, 5 attribute Attribute*, 6 doc_string s, 7 domain s, 8 overload s, 9 metadata_props Entry*
Attribute: 1 name s, 2 f f, 3 i i, 4 s y, 5 t Tensor, 6 g y, 7 floats f*, 8 ints i*, 9 strings y*, 10 tensors Tensor*, 11 graphs y*, 13 doc_string s, 20 type i, 21 ref_attr_name s
Tensor: 1 dims i*, 2 data_type i, 4 float_data f*, 5 int32_data i*, 6 string_data y*, 7 int64_data i*, 8 name s, 9 raw_data y, 10 double_data d*, 11 uint64_data i*, 12 doc_string s, 13 external_data Entry*, 14 data_location i
Value: 1 name s, 2 type Type, 3 doc_string s, 4 metadata_props Entry*
Type: 1 tensor_type TensorType, 4 sequence_type Sequence, 6 denotation s
TensorType: 1 elem_type i, 2 shape Shape
Shape: 1 dim Dim*
Dim: 1 dim_value i, 2 dim_param s, 3 denotation s
Sequence: 1 elem_type Element
Element: 5 map_type Map
Map: 1 key_type i, 2 value_type MapValue
MapValue: 1 tensor_type TensorType
""")  # noqa: E501
MOST_LOOSE, PER_PART = 32, 6
"""Numbers of steps that are no trees: in all, and for each column and class."""
_FEWEST_CLASSES = 2
"""Of an ensemble with one score, and no labels."""
_LABELS = ("classlabels_strings", "classlabels_int64s")
_HELD = ("f", "i", "s", "t", "g", "floats", "ints", "strings", "tensors", "graphs")
"""Where an attribute has its value, by its type from 1 on."""
_EMPTY: Mapping[str, Any] = {"f": 0.0, "i": 0, "s": b""}
_DTYPES = {1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2",
           11: "<f8", 12: "<u4", 13: "<u8"}  # fmt: skip
_TRUTH, _LAST_TYPE = 9, 32
_PLAIN_NAME = re.compile("[A-Za-z_]{0,32}")
_DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data",
         "string_data")  # fmt: skip
_HEAD = re.compile(rb"(?s)\x08[\x01-\x20](\x12.{0,100}[\x1a\x22\x28\x32\x3a\x42]|[\x3a\x42])")

describe_format(
    "ONNX", ".onnx", "class shares or values of each leaf, thresholds; constants beside"
)


@reader("ONNX", lambda head: _HEAD.match(head) is not None)
def _read_file(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    at_most(MOST_BYTES, path.stat().st_size, "bytes")
    return model_from_onnx(path.read_bytes())


def model_from_onnx(data: bytes) -> StoredObject:
    """Read a model: an object with its ``graph``, which lists its ``nodes``.

    Raises
    ------
    BadModel
        If it is no such model.
    """
    messages = Messages("onnx", _TABLES)
    state = _plain(messages.read("Model", data, "the model"))
    if not isinstance(state.get("graph"), Mapping) or "opset_import" not in state:
        raise BadModel("no ONNX model: no graph, or no opset_import")
    left: list[Leftover] = []
    opsets = [[o.get("domain", ""), o.get("version", 0)] for o in state["opset_import"]]
    state |= {"opset_import": opsets, "graph": _graph(state["graph"], left)}
    return StoredObject(MODEL, state, leftovers=(*messages.leftovers, *left))


def _plain(value: Any) -> Any:
    """Make dictionaries of messages, and of what is kept by keys."""
    if isinstance(value, StoredObject):
        value = value.state
    if isinstance(value, Mapping):
        out = {key: _plain(inner) for key, inner in value.items()}
        if "metadata_props" in out:
            entries = [(e.get("key", ""), e.get("value", "")) for e in out["metadata_props"]]
            out["metadata_props"] = dict(entries) if len(dict(entries)) == len(entries) else entries
        return out
    nested = isinstance(value, list) and bool(value) and isinstance(value[0], StoredObject)
    return [_plain(inner) for inner in value] if nested else value


def _graph(raw: Mapping[str, Any], left: list[Leftover]) -> StoredObject:
    state = {key: raw[key] for key in ("name", "doc_string", "metadata_props") if key in raw}
    for key in ("input", "output", "value_info"):
        values = raw.get(key, [])
        state[key] = _by_name(values, lambda value: _shape(value.get("type", {})), key)
        for each in values:
            _keep(each, ("name", "type"), key, "texts beside its type", left)
            # What sizes stand for, and a name beside a size, are kept.
            shape = each.get("type", {}).get("tensor_type", {}).get("shape", {})
            for dim in shape.get("dim", []):
                used = "dim_value" if "dim_value" in dim else "dim_param"
                _keep(dim, (used,), key, "texts beside a size", left)
    tensors = raw.get("initializer", [])
    state["initializer"] = _by_name(tensors, lambda t: _tensor(t, left), "initializer")
    state["nodes"] = [_node(k, node, left) for k, node in enumerate(raw.get("node", []))]
    _reached(state, left)
    return StoredObject(GRAPH, state)


def _reached(state: Mapping[str, Any], left: list[Leftover]) -> None:
    """Keep what leads to no result of the graph, and names of what no step takes or gives."""
    needed, given, idle = {*state["output"]}, {"", *state["input"], *state["initializer"]}, []
    for node in state["nodes"]:
        given.update(node.get("output", ()))
    for node in reversed(state["nodes"]):
        if needed.isdisjoint(node.get("output", ())):
            idle.append(dict(node.state))
        needed.update(node.get("input", ()))
    odd = sorted((needed | {*state["value_info"]}) - given)
    odd += sorted(({*state["input"]} | {*state["initializer"]}) - needed)
    for what, content in (("steps that lead to no result", idle[::-1]),
                          ("names that no step gives or takes", odd),
                          *_beside_trees(state)):  # fmt: skip
        if content:
            left.append(Leftover("the graph", what, content))


def _beside_trees(state: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """List labels, numbers and names of steps that are no trees, where trees need fewer."""
    nodes: Sequence[StoredObject] = state["nodes"]
    trees = [node for node in nodes if node.name in ENSEMBLES]
    steps = [node for node in nodes if node.name not in ENSEMBLES]
    classes, labels = (
        {x for key in _LABELS for node in group for x in _listed(node.get(key, []))}
        for group in (trees, steps)
    )
    targets = [n for node in trees if isinstance(n := node.get("n_targets"), int)]
    ids = [[x for x in _listed(n.get("class_ids", [])) if isinstance(x, int)] for n in trees]
    scored = [max(some) + 1 for some in ids if some]
    if scored and len(classes) > max(_FEWEST_CLASSES, *scored):
        yield "classes of no leaf", sorted(classes, key=str)
    if len(labels) > max(_FEWEST_CLASSES, len(classes), *targets, 0):
        yield "more labels than there are classes", sorted(labels, key=str)
    beside = (v for node in steps for key, v in node.state.items() if key not in _LABELS)
    numbers = [x for value in beside for x in _listed(value) if isinstance(x, (int, float))]
    tested = [x for node in trees if isinstance(x := node.get("nodes_featureids"), np.ndarray)]
    columns = max((int(x.max()) + 1 for x in tested if x.size and x.dtype.kind == "i"), default=0)
    most = MOST_LOOSE + PER_PART * (columns + len(state["input"]) + len(labels))
    if len(numbers) > most:
        yield "more numbers than columns have in steps", numbers
    named = [*state["output"], *state["value_info"], *(node.get("op_type", "") for node in steps)]
    if len(named) > most:
        yield "more steps and results than columns need", named
    for node in trees:
        for key in ("nodes_treeids", "nodes_nodeids"):
            # Nodes are numbered in each tree, and trees in all.
            numbered = [x for x in _listed(node.get(key, [])) if isinstance(x, int)]
            if len({*numbered}) < max(numbered, default=0) // 2:
                yield "numbers of trees or nodes that leave others out", numbered


def _listed(value: Any) -> Iterator[Any]:
    """List what an attribute holds, of whatever type the file says it is."""
    if isinstance(value, (list, np.ndarray)):
        for one in value if isinstance(value, list) else value.ravel().tolist():
            yield from _listed(one)
    else:
        yield repr(value) if isinstance(value, Mapping) else value


def _node(k: int, raw: Mapping[str, Any], left: list[Leftover]) -> StoredObject:
    attributes = _by_name(raw.get("attribute", []), lambda a: _value(a, left), f"node {k}")
    state = {key: value for key, value in raw.items() if key != "attribute"}
    if twice := state.keys() & attributes.keys():
        raise BadModel(f"node {k}: an attribute called {min(twice)!r:.40}")
    kind = str(state.get("op_type"))
    return StoredObject(f"onnx.{kind}" if kind in ENSEMBLES else NODE, {**state, **attributes})


def _keep(
    raw: Mapping[str, Any], used: Iterable[str], where: str, what: str, left: list[Leftover]
) -> None:
    """Keep what is not used."""
    if odd := {key: value for key, value in raw.items() if key not in used and value}:
        left.append(Leftover(where, what, odd))


def _value(raw: Mapping[str, Any], left: list[Leftover]) -> Any:
    """Give the value of an attribute; what stands beside it in other fields is left over."""
    kind, held = raw.get("type", 0), [key for key in _HELD if key in raw]
    if not (1 <= kind <= len(_HELD) or (kind == 0 and len(held) == 1)):
        raise BadModel(f"an attribute of the type {kind}")
    place = _HELD[kind - 1] if kind else held[0]
    _keep(raw, (place, "name", "type"), "an attribute", "what stands beside its value", left)
    value = raw.get(place, _EMPTY.get(place, []))
    if place in ("floats", "ints"):
        return np.array(value, dtype=np.float32 if place == "floats" else np.int64)
    if place == "strings":
        return np.array([_text(text) for text in value] or [""], dtype=object)[: len(value)]
    if place == "t" and isinstance(value, Mapping):
        return _unnamed(value, raw, left)
    if place == "tensors":
        return [_unnamed(one, raw, left) for one in value]
    return _text(value) if place == "s" else value


def _unnamed(raw: Mapping[str, Any], of: Mapping[str, Any], left: list[Leftover]) -> Any:
    """Give the numbers of an attribute's tensor; a name of its own, which nothing uses, is left."""
    name = raw.get("name", "")
    if name != of.get("name") and not _PLAIN_NAME.fullmatch(name):
        left.append(Leftover("a tensor", "a name that nothing uses", name))
    return _tensor(raw, left)


def _tensor(raw: Mapping[str, Any], left: list[Leftover]) -> Any:
    """Give the numbers of a tensor in its shape, or as they stand there where they fit none."""
    used = ("dims", "data_type", "name", *_DATA)
    _keep(raw, used, "a tensor", "what stands beside its numbers", left)
    dims, kind = raw.get("dims", []), raw.get("data_type", 0)
    held = [key for key in _DATA if raw.get(key)]
    if len(held) > 1 or any(d < 0 for d in dims) or len(dims) > 16:
        return dict(raw)
    value = raw.get(held[0], []) if held else []
    if not 0 <= kind <= _LAST_TYPE:
        left.append(Leftover("a tensor", "a type that there is not", [kind]))
    if isinstance(value, bytes):
        # A truth value is 0 or 1: other bytes would be seen no more.
        odd = kind == _TRUTH and any(byte > 1 for byte in value)
        if kind not in _DTYPES or odd or len(value) % np.dtype(_DTYPES[kind]).itemsize:
            left.append(Leftover("a tensor", "sizes that are not those of its numbers", dims))
            return value
        array = np.frombuffer(value, _DTYPES[kind])
    elif held == ["string_data"]:
        array = np.array([_text(text) for text in value], dtype=object)
    else:
        array = np.array(value, dtype=_DTYPES[kind] if kind in (1, 11) else None)
    # Of an empty tensor, sizes beside a 0 could be any.
    if array.size == prod(dims) and (array.size or sum(dims) <= 1):
        return array.reshape(dims)
    if dims:
        left.append(Leftover("a tensor", "sizes that are not those of its numbers", dims))
    return array


def _shape(kind: Mapping[str, Any]) -> Any:
    """Give the type of an element and the sizes of a tensor, -1 for any; of others what stands."""
    inner = kind.get("tensor_type")
    if not isinstance(inner, Mapping) or len(kind) > 1:
        return dict(kind)
    dims = inner.get("shape", {}).get("dim", [])
    return [inner.get("elem_type", 0), *(d.get("dim_value", d.get("dim_param", -1)) for d in dims)]


def _by_name(
    values: Iterable[Mapping[str, Any]], make: Callable[[Mapping[str, Any]], Any], where: str
) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for value in values:
        name = value.get("name", "")
        if name in out:
            raise BadModel(f"{where}: two are called {name!r:.40}")
        out[name] = make(value)
        at_most(MOST_PARTS, len(out), f"parts of {where}")
    return out


def _text(raw: Any) -> str:
    return raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else str(raw)
