"""Ways to hide a table in a model's file, and whether the gate lets them pass.

A line for each way. Every one must be refused or found.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import pickle
import struct
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import skops.io
from sklearn.ensemble import BaggingClassifier
from sklearn.kernel_approximation import RBFSampler, SkewedChi2Sampler
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    LabelEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection
from sklearn.tree import DecisionTreeClassifier

import treeleak
from experiments.benchmarks.frame import floor, options, show
from experiments.benchmarks.hidden_rows_boosted import boosted_ways
from treeleak.auditing import Policy, judge
from treeleak.core.errors import TreeleakError
from treeleak.release import to_release
from treeleak.release.readers.release_file import release_to_dict

Hide = Callable[[Any, pd.DataFrame, Path], None]
Member = dict[str, bytes]


@dataclass(frozen=True)
class Way:
    """A way to hide a table."""

    name: str
    ending: str
    """Of the file."""
    hide: Hide
    """Gets a clean, fitted tree, its table, and where to write the file."""


def clean(n_rows: int = 40) -> tuple[DecisionTreeClassifier, pd.DataFrame, Any, Any]:
    """A shallow tree, which gives little away by itself; its table, labels and schema."""
    data = treeleak.datasets.load_compas()
    X = data.X.sample(n_rows, random_state=1)
    y = data.y[X.index]
    return DecisionTreeClassifier(max_depth=2, random_state=None).fit(X, y), X, y, data.schema


# --------------------------------------------------------------------------- forms of a table


def _lists(X: pd.DataFrame) -> list[list[int]]:
    return [[int(v) for v in row] for row in X.to_numpy()]


def _csv(X: pd.DataFrame) -> str:
    return str(X.to_csv(index=False, header=False))


def _bits(X: pd.DataFrame) -> list[str]:
    return ["".join(map(str, row)) for row in _lists(X)]


def _raw(X: pd.DataFrame) -> bytes:
    return X.to_numpy(dtype=np.float64).tobytes()


# ------------------------------------------------------------------------------ ways to hide it


def _attribute(name: str, make: Callable[[pd.DataFrame], Any]) -> Hide:
    return _attributes(lambda X: {name: make(X)})


def _attributes(make: Callable[[pd.DataFrame], Mapping[str, Any]]) -> Hide:
    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        vars(model).update(make(X))
        skops.io.dump(model, path)

    return hide


def _step(make: Callable[[pd.DataFrame], Any]) -> Hide:
    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        skops.io.dump(make_pipeline(make(X), model), path)

    return hide


def _members(model: Any) -> Member:
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(model))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _archived(change: Callable[[Member, pd.DataFrame], None]) -> Hide:
    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        members = _members(model)
        change(members, X)
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return hide


def _described(change: Callable[[dict[str, Any], pd.DataFrame], None]) -> Hide:
    def edit(members: Member, X: pd.DataFrame) -> None:
        schema = json.loads(members["schema.json"])
        change(schema, X)
        members["schema.json"] = json.dumps(schema, indent=2).encode()

    return _archived(edit)


def _text(change: Callable[[str, pd.DataFrame], str]) -> Hide:
    def edit(members: Member, X: pd.DataFrame) -> None:
        members["schema.json"] = change(members["schema.json"].decode(), X).encode()

    return _archived(edit)


def _zipped(change: Callable[[zipfile.ZipFile, pd.DataFrame], None]) -> Hide:
    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, content in _members(model).items():
                archive.writestr(name, content)
            change(archive, X)

    return hide


def _bytes(change: Callable[[bytes, pd.DataFrame], bytes]) -> Hide:
    return _pickled(lambda model, X: change(skops.io.dumps(model), X))


def _values(schema: dict[str, Any]) -> dict[str, Any]:
    """Attributes of the tree, as the archive describes them."""
    return dict.__getitem__(schema["content"], "content")  # type: ignore[no-any-return]


def _json(value: Any) -> dict[str, Any]:
    return {
        "__class__": "str", "__module__": "builtins", "__loader__": "JsonNode",
        "content": json.dumps(value), "is_json": True,
    }  # fmt: skip


def _nodes(change: Callable[[np.ndarray[Any, Any], pd.DataFrame], None]) -> Hide:
    """Change the record array of the tree."""

    def edit(members: Member, X: pd.DataFrame) -> None:
        for name, content in members.items():
            if not name.endswith(".npy"):
                continue
            array = np.load(io.BytesIO(content)).copy()
            if "left_child" in (array.dtype.names or ()):
                change(array, X)
                file = io.BytesIO()
                np.lib.format.write_array(file, array)
                members[name] = file.getvalue()

    return _archived(edit)


def _pad(nodes: np.ndarray[Any, Any], X: pd.DataFrame) -> None:
    raw = nodes.view(np.uint8).reshape(len(nodes), -1)
    raw[:, -7:] = np.resize(np.packbits(X.to_numpy(dtype=np.uint8)), (len(nodes), 7))


def _at_leaves(nodes: np.ndarray[Any, Any], X: pd.DataFrame) -> None:
    leaf = nodes["left_child"] == -1
    nodes["threshold"][leaf] = np.resize(X.to_numpy(dtype=float), leaf.sum()) + np.arange(
        leaf.sum()
    )


def _in_header(members: Member, X: pd.DataFrame) -> None:
    name = next(n for n in members if n.endswith(".npy"))
    array = np.load(io.BytesIO(members[name]))
    said = repr(np.lib.format.header_data_from_array_1_0(array)).encode()
    header = said + b" # " + _csv(X).replace("\n", ";").encode() + b"\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header))
    members[name] = start + header + array.tobytes()


def _gap(content: bytes, X: pd.DataFrame) -> bytes:
    """Put bytes between the members and the list of them."""
    at = content.rfind(b"PK\x05\x06")
    directory = int.from_bytes(content[at + 16 : at + 20], "little")
    hidden = _raw(X)
    end = bytearray(content[at:])
    end[16:20] = (directory + len(hidden)).to_bytes(4, "little")
    return content[:directory] + hidden + content[directory:at] + bytes(end)


def _in_a_member(hide: Callable[[bytes, bytes, Any], bytes], method: int = 8) -> Hide:
    """Write a member of another content than it states.

    ``hide``: gets the content, what to hide, and a compressor; returns the member's bytes.
    """

    def write(model: Any, X: pd.DataFrame, path: Path) -> None:
        local, directory = b"", b""
        members = _members(model)
        for name, content in members.items():
            squeeze = zlib.compressobj(wbits=-15)
            packed = hide(content, _raw(X) if name == "schema.json" else b"", squeeze)
            sizes = struct.pack("<LLL", zlib.crc32(content), len(packed), len(content))
            said = struct.pack("<HHHHH", 20, 0, method, 0, 33) + sizes
            entry = said + struct.pack("<HH", len(name), 0)
            directory += b"PK\x01\x02" + struct.pack("<H", 20) + entry
            directory += struct.pack("<HHHLL", 0, 0, 0, 0, len(local)) + name.encode()
            local += b"PK\x03\x04" + entry + name.encode() + packed
        n = len(members)
        end = struct.pack("<HHHHLLH", 0, 0, n, n, len(directory), len(local), 0)
        path.write_bytes(local + directory + b"PK\x05\x06" + end)

    return write


def _extra(archive: zipfile.ZipFile, X: pd.DataFrame) -> None:
    info = zipfile.ZipInfo("0.bin")
    data = _raw(X)[:8000]
    info.extra = struct.pack("<HH", 0x7777, len(data)) + data
    archive.writestr(info, b"")


def _wide_sizes(archive: zipfile.ZipFile, X: pd.DataFrame) -> None:
    """Write bytes where sizes of more than four gigabytes would stand."""
    info = zipfile.ZipInfo("0.bin")
    info.extra = struct.pack("<HH", 1, 24) + _raw(X)[:24]
    archive.writestr(info, b"")


def _before_members(content: bytes, X: pd.DataFrame) -> bytes:
    """Write bytes over the time, the checksum and the sizes before each member."""
    changed, hidden = bytearray(content), _raw(X)
    at = content.find(b"PK\x03\x04")
    for k in range(content.count(b"PK\x03\x04")):
        changed[at + 10 : at + 22] = hidden[12 * k : 12 * k + 12]
        at = content.find(b"PK\x03\x04", at + 4)
    return bytes(changed)


def _encoder(X: pd.DataFrame) -> LabelEncoder:
    encoder = LabelEncoder()
    encoder.classes_ = X.to_numpy() * 2 + 3
    return encoder


def _base64(X: pd.DataFrame) -> str:
    """The table in as few letters as can be."""
    return base64.b64encode(np.packbits(X.to_numpy(dtype=np.uint8)).tobytes()).decode()


def _encoded(X: pd.DataFrame, n: int, size: int = 64) -> np.ndarray[Any, Any]:
    """Texts with letters of the table in each."""
    text = (_base64(X) * n)[: n * size]
    return np.array([f"{k}_{text[k * size : k * size + size]}" for k in range(n)], dtype=object)


def _payloads(X: pd.DataFrame) -> np.ndarray[Any, Any]:
    """Numbers that are none, with six bytes of the table in each."""
    raw = np.packbits(X.to_numpy(dtype=np.uint8))
    raw = np.resize(raw, (len(raw) // 6, 6))
    out = np.full(len(raw), np.nan).view(np.uint8).reshape(-1, 8)
    out[:, :6] = raw
    return out.view(np.float64).ravel()


def _generator(X: pd.DataFrame) -> np.random.RandomState:
    """A generator whose state holds the table and nothing else."""
    state = np.zeros(624, np.uint32)
    raw = np.packbits(X.to_numpy(dtype=np.uint8))
    state.view(np.uint8)[: len(raw)] = raw
    generator = np.random.RandomState(0)
    generator.set_state(("MT19937", state, 624))
    return generator


def _fitted(make: Callable[[], Any], name: str, hide: Callable[[pd.DataFrame], Any]) -> Hide:
    """A step that was fitted, with something else in an attribute."""

    def fit(X: pd.DataFrame) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = make().fit(X)
        setattr(step, name, hide(X))
        return step

    return _step(fit)


def _deep(X: pd.DataFrame) -> DecisionTreeClassifier:
    """A tree that tells threes of rows apart."""
    return DecisionTreeClassifier().fit(X, np.arange(len(X)) // 3)


def _directions(nodes: np.ndarray[Any, Any], X: pd.DataFrame) -> None:
    nodes["missing_go_to_left"] = np.resize(np.packbits(X.to_numpy(dtype=np.uint8)), len(nodes))


def _comment_of_member(archive: zipfile.ZipFile, X: pd.DataFrame) -> None:
    archive.infolist()[0].comment = _csv(X).encode()


def _class_of_array(members: Member, X: pd.DataFrame) -> None:
    """A matrix of floats under the name of a setting."""
    schema = json.loads(members["schema.json"])
    file = io.BytesIO()
    np.save(file, X.to_numpy(dtype=float))
    members["77.npy"] = file.getvalue()
    _values(schema)["max_features"] = {
        "__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode",
        "type": "numpy", "file": "77.npy",
    }  # fmt: skip
    members["schema.json"] = json.dumps(schema, indent=2).encode()


# ------------------------------------------------------------------- pickles, JSON, other texts


def _pickled(change: Callable[[Any, pd.DataFrame], bytes]) -> Hide:
    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        path.write_bytes(change(model, X))

    return hide


def _popped(model: Any, X: pd.DataFrame) -> bytes:
    """Push the table, remember it, and throw it away."""
    content = pickle.dumps(model, protocol=2)
    raw = _raw(X)
    return content[:2] + b"B" + struct.pack("<L", len(raw)) + raw + b"0" + content[2:]


def _under_result(model: Any, X: pd.DataFrame) -> bytes:
    content = pickle.dumps(model, protocol=2)
    text = _csv(X).encode()
    return content[:2] + b"X" + struct.pack("<L", len(text)) + text + content[2:]


def _overwritten(model: Any, X: pd.DataFrame) -> bytes:
    """Give the model two states: the first holds the table."""
    content = pickle.dumps(model, protocol=2)
    text = _csv(X).encode()
    first = b"}X" + struct.pack("<L", 1) + b"t" + b"X" + struct.pack("<L", len(text)) + text + b"s"
    at = content.index(b"\x81") + 1
    while content[at : at + 1] in (b"q", b"r"):
        at += 2 if content[at : at + 1] == b"q" else 5
    return content[:at] + first + b"b" + content[at:]


def _with_state(model: Any, X: pd.DataFrame) -> bytes:
    model.table = _lists(X)
    return pickle.dumps(model)


def _behind_zlib(model: Any, X: pd.DataFrame, path: Path) -> None:
    joblib.dump(model, path, compress=3)
    path.write_bytes(path.read_bytes() + _raw(X))


def _inserted(make: Callable[[pd.DataFrame], bytes]) -> Hide:
    """Put opcodes behind the first of a pickle of protocol 2."""

    def change(model: Any, X: pd.DataFrame) -> bytes:
        content = pickle.dumps(model, protocol=2)
        return content[:2] + make(X) + content[2:]

    return _pickled(change)


def _all_bits(X: pd.DataFrame) -> list[int]:
    return [value for row in _lists(X) for value in row]


def _noted_type(model: Any, X: pd.DataFrame) -> bytes:
    model.tree_ = model.tree_
    model.max_features = np.zeros(1, np.dtype("f8", metadata={"rows": _lists(X)}))
    return pickle.dumps(model)


def _wrapper_fields(model: Any, X: pd.DataFrame, path: Path) -> None:
    """Give the wrapper that joblib writes before an array one field more."""
    joblib.dump(model, path, protocol=3)
    content, text = path.read_bytes(), _csv(X).encode()
    at = content.index(b"u", content.index(b"numpy_array_alignment_bytes") + 27)
    more = b"X" + struct.pack("<L", 1) + b"n" + b"X" + struct.pack("<L", len(text)) + text
    path.write_bytes(content[:at] + more + content[at:])


def _padding(model: Any, X: pd.DataFrame, path: Path) -> None:
    """Write over the bytes by which joblib aligns arrays."""
    joblib.dump(model, path)
    content, hidden = path.read_bytes(), _raw(X)
    at = content.index(b"\xff" * 3, content.index(b"numpy_array_alignment_bytes"))
    path.write_bytes(content[:at] + hidden[:3] + content[at + 3 :])


def _numbers(X: pd.DataFrame) -> list[int]:
    """A whole number for each row."""
    return [int(bits, 2) for bits in _bits(X)]


def _settings_of_steps(X: pd.DataFrame) -> list[StandardScaler]:
    """A step for each row, which has a number as a setting."""
    return [StandardScaler(copy=number) for number in _numbers(X)]


def _nested(X: pd.DataFrame) -> Any:
    """Bagging in bagging, each with a row as a setting."""
    inner: Any = DecisionTreeClassifier()
    for row in _lists(X)[:30]:
        inner = BaggingClassifier(estimator=inner, max_samples=row)
    return inner


def _settings(X: pd.DataFrame) -> dict[str, Any]:
    """A row in each of many settings."""
    names = ["max_depth", "min_samples_split", "min_samples_leaf", "max_leaf_nodes", "ccp_alpha"]
    rows = _lists(X)
    return {name: rows[2 * k] + rows[2 * k + 1] for k, name in enumerate(names)}


def _words(X: pd.DataFrame) -> dict[str, Any]:
    """A word of letters a and b in each of many settings."""
    names = [
        "criterion", "splitter", "max_depth", "min_samples_split", "min_samples_leaf",
        "max_features", "max_leaf_nodes", "ccp_alpha", "monotonic_cst", "class_weight",
    ]  # fmt: skip
    letters = "".join("ab"[bit] for bit in _all_bits(X))
    return {name: letters[60 * k : 60 * k + 60] for k, name in enumerate(names)}


def _search(value: Callable[[pd.DataFrame], Any]) -> Hide:
    """A search that lists the rows among its results."""

    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        y = model.predict(X)
        search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}, cv=2).fit(X, y)
        search.cv_results_["param_max_depth"] = value(X)
        skops.io.dump(search, path)

    return hide


def _candidates(model: Any, X: pd.DataFrame, path: Path) -> None:
    """Candidates of a search that its grid does not have."""
    search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 2]}, cv=2)
    search.fit(X, model.predict(X))
    numbers = _numbers(X)
    results = {"param_max_depth": np.array(numbers, dtype=object)}
    search.cv_results_ = {**results, "params": [{"max_depth": number} for number in numbers]}
    skops.io.dump(search, path)


def _typed(kind: str, text: Callable[[pd.DataFrame], str]) -> Hide:
    """Put a text where a key of another type stands."""

    def change(schema: dict[str, Any], X: pd.DataFrame) -> None:
        key = _node(kind, "builtins", "Type", 1 << 20)
        listed = _node("list", "builtins", "List", 1 << 20, content=[key])
        own = _node("dict", "builtins", "Dict", 1 << 20, key_types=listed)
        _values(schema)["class_weight"] = {**own, "content": {text(X): _json(1)}}

    return _described(change)


def _times(model: Any, X: pd.DataFrame, path: Path) -> None:
    """A time of day for each member."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, content) in zip(_numbers(X), _members(model).items(), strict=False):
            time = (2020, 1, 1, number % 24, number // 24 % 60, 0)
            archive.writestr(zipfile.ZipInfo(name, time), content)


def _rights(archive: zipfile.ZipFile, X: pd.DataFrame) -> None:
    for info, number in zip(archive.infolist(), _numbers(X), strict=False):
        info.external_attr, info.internal_attr = number << 16, number


def _release(change: Callable[[dict[str, Any], pd.DataFrame], None]) -> Hide:
    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        document = release_to_dict(to_release(model))
        change(document, X)
        path.write_text(json.dumps(document))

    return hide


RULES: Mapping[str, Any] = {
    "format": "treeleak-rules", "version": 1, "columns": ["a", "b"], "classes": [0, 1],
    "rules": [{"if": [{"column": "a", "is": 1}], "then": 1, "counts": [20, 25]}],
    "default": {"then": 0, "counts": [30, 20]}, "notes": [],
}  # fmt: skip
J48 = """J48 pruned tree
------------------

a <= 0.5: no (30.0/10.0)
a > 0.5: yes (45.0/20.0)

Number of Leaves  : \t2

Size of the tree : \t3
"""


def _rules(change: Callable[[dict[str, Any], pd.DataFrame], None]) -> Hide:
    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:  # noqa: ARG001
        document = json.loads(json.dumps(RULES))
        change(document, X)
        path.write_text(json.dumps(document))

    return hide


def _j48(change: Callable[[str, pd.DataFrame], str]) -> Hide:
    return lambda model, X, path: path.write_text(change(J48, X)) and None  # noqa: ARG005


def _set(
    key: str, make: Callable[[pd.DataFrame], Any]
) -> Callable[[dict[str, Any], pd.DataFrame], None]:
    return lambda document, X: document.update({key: make(X)})


def _put(key: str, make: Callable[[pd.DataFrame], Any]) -> Hide:
    """Put a description of a value among the attributes."""
    return _described(lambda schema, X: _values(schema).update({key: make(X)}))


def ways() -> Iterator[Way]:
    """List the ways."""
    every = {"skops": _SKOPS, "pkl": _PICKLE, "json": _JSON, "txt": _OTHER}
    for ending, own in every.items():
        yield from (Way(name, ending, hide) for name, hide in own.items())
    yield from (Way(*way) for way in boosted_ways())


def _node(name: str, module: str, loader: str, k: int, **more: Any) -> dict[str, Any]:
    """Describe an object as skops does."""
    return {
        "__class__": name, "__module__": module, "__loader__": f"{loader}Node", "__id__": k, **more,
    }  # fmt: skip


def _state(content: dict[str, Any]) -> dict[str, Any]:
    keys = _node("list", "builtins", "List", 8, content=[_node("str", "builtins", "Type", 9)])
    return _node("dict", "builtins", "Dict", 6, content=content, key_types=keys)


def _mean(loader: str, content: Any) -> dict[str, Any]:
    return _node("mean", "numpy", loader, 7, content=content)


_SKOPS: Mapping[str, Hide] = {
    "attribute: list of lists": _attribute("table_", _lists),
    "attribute: text of a CSV file": _attribute("table_", _csv),
    "attribute: bytes": _attribute("table_", _raw),
    "attribute: dictionary of truth values": _attribute(
        "table_", lambda X: {f"r{i}": [bool(v) for v in row] for i, row in enumerate(_lists(X))}
    ),
    "attribute: array": _attribute("table_", lambda X: X.to_numpy(dtype=float)),
    "attribute: array of objects": _attribute("table_", lambda X: X.to_numpy(dtype=object)),
    "attribute: set of texts": _attribute("table_", lambda X: set(_bits(X))),
    "attribute: keys of a dictionary": _attribute("table_", lambda X: dict.fromkeys(_bits(X))),
    "attribute: records of numpy": _attribute("table_", lambda X: X.to_records(index=False)),
    "many attributes, each a truth value": _attributes(
        lambda X: {f"a{i}": bool(v) for i, v in enumerate(X.to_numpy().ravel()[:300])}
    ),
    "names of attributes": _attributes(lambda X: {f"a{bits}": None for bits in _bits(X)}),
    "harmless name: mean_": _attribute("mean_", lambda X: X.to_numpy(dtype=float)),
    "harmless name: oob_decision_function_": _attribute(
        "oob_decision_function_", lambda X: X.to_numpy(dtype=float)
    ),
    "harmless name: cv_results_": _attribute("cv_results_", lambda X: {"params": _lists(X)}),
    "harmless name: train_score_": _attribute("train_score_", lambda X: X.to_numpy(float).ravel()),
    "harmless name: categories_": _attribute("categories_", lambda X: [*X.to_numpy(dtype=float)]),
    "harmless name: coef_": _attribute("coef_", lambda X: X.to_numpy(dtype=float)),
    "harmless name: _metadata_request": _attribute("_metadata_request", lambda X: {"x": _lists(X)}),
    "version of scikit-learn": _put("_sklearn_version", lambda X: _json(_csv(X))),
    "setting: class_weight": _attribute("class_weight", lambda X: dict(enumerate(_bits(X)))),
    "setting: random_state": _attribute("random_state", _lists),
    "setting: criterion": _attribute("criterion", _csv),
    "setting: array": _archived(_class_of_array),
    "setting: scalers with a row in each": _attribute(
        "splitter", lambda X: [StandardScaler(copy=row) for row in _lists(X)]
    ),
    "setting: trees with a row in each": _attribute(
        "criterion", lambda X: [DecisionTreeClassifier(class_weight=row) for row in _lists(X)]
    ),
    "setting: an encoder of the table": _attribute("criterion", _encoder),
    "fields before members": _bytes(_before_members),
    "wide sizes of a member": _zipped(_wide_sizes),
    "long names of columns": _attribute(
        "feature_names_in_", lambda X: np.array([",".join(_bits(X[[c]])) for c in X], dtype=object)
    ),
    "labels of classes": _attribute("classes_", lambda X: np.array([*_bits(X)], dtype=object)),
    "FunctionTransformer: kw_args": _step(
        lambda X: FunctionTransformer(None, kw_args={"table": _lists(X)})
    ),
    "FunctionTransformer: arguments of a partial": _step(
        lambda X: FunctionTransformer(functools.partial(np.clip, a_min=_lists(X), a_max=None))
    ),
    "padding between fields": _nodes(_pad),
    "thresholds of leaves": _nodes(_at_leaves),
    "header of an array": _archived(_in_header),
    "extra member": _archived(lambda m, X: m.update({"extra.csv": _csv(X).encode()})),
    "extra member with a usual name": _archived(lambda m, X: m.update({"99.npy": _raw(X)})),
    "extra key of the description": _described(lambda s, X: s.update({"note": _lists(X)})),
    "extra key within": _put("max_depth", lambda X: {**_json(2), "note": _csv(X)}),
    "class of a value": _put("max_depth", lambda X: {**_json(2), "__class__": _csv(X)}),
    "mark of a value": _put(
        "max_depth", lambda X: {**_json(2), "__id__": int("1" + "".join(_bits(X)))}
    ),
    "blanks within a value": _put(
        "max_depth",
        lambda X: {**_json(2), "content": "2" + "".join(" \t"[int(b)] for b in "".join(_bits(X)))},
    ),
    "function with content": _put("criterion", lambda X: _mean("Function", _lists(X))),
    "method of an object": _put(
        "criterion", lambda X: _mean("Method", {"func": "f", "obj": _json(_lists(X))})
    ),
    "loader that nobody knows": _put("criterion", lambda X: _mean("My", _lists(X))),
    "slice": _put(
        "criterion",
        lambda X: _node(
            "slice", "builtins", "Slice", 3, content={"start": _csv(X), "stop": None, "step": None}
        ),
    ),
    "object of a class of one's own": _put(
        "splitter",
        lambda X: _node("Note", "mine", "Object", 5, content=_state({"x": _json(_lists(X))})),
    ),
    "key that appears twice": _text(
        lambda t, X: t.replace("{", '{"protocol": ' + json.dumps(_csv(X)) + ",", 1)
    ),
    "blanks between values": _text(
        lambda t, X: t + "".join(" \t"[int(b)] for b in "".join(_bits(X)))
    ),
    "comment of the archive": _zipped(lambda z, X: setattr(z, "comment", _csv(X).encode()[:60000])),
    "comment of a member": _zipped(_comment_of_member),
    "extra field of a member": _zipped(_extra),
    "member that appears twice": _zipped(lambda z, X: z.writestr("schema.json", _csv(X))),
    "name of a member": _zipped(lambda z, X: z.writestr("".join(_bits(X))[:400], b"")),
    "folder": _zipped(lambda z, X: z.writestr("".join(_bits(X))[:200] + "/", b"")),
    "bytes before the archive": _bytes(lambda b, X: b"PK\x03\x04" + _raw(X) + b),
    "bytes behind the archive": _bytes(lambda b, X: b + _raw(X)),
    "bytes between members and their list": _bytes(_gap),
    "bytes behind a compressed stream": _in_a_member(
        lambda content, hidden, squeeze: squeeze.compress(content) + squeeze.flush() + hidden
    ),
    "compressed content beyond its size": _in_a_member(
        lambda content, hidden, squeeze: squeeze.compress(content + hidden) + squeeze.flush()
    ),
    "content beyond its size": _in_a_member(lambda content, hidden, _: content + hidden, method=0),
    "settings: a row in each": _attributes(_settings),
    "settings: a word in each": _attributes(_words),
    "settings nested one in the other": _step(
        lambda X: FunctionTransformer(None, inverse_func=_nested(X))
    ),
    "steps with a number each": _attribute("class_weight", _settings_of_steps),
    "seeds: a text": _attribute(
        "random_state", lambda X: "".join("ab"[b] for b in _all_bits(X))[:60]
    ),
    "search: a matrix as a column of choices": _search(lambda X: X.to_numpy(dtype=float)),
    "search: a longer column of choices": _search(_numbers),
    "search: choices that the grid does not have": _candidates,
    "key of a truth value": _typed("bool", _csv),
    "key of a number": _typed("int", lambda X: "".join(_bits(X))),
    "key of None": _typed("NoneType", lambda X: "".join(_bits(X))),
    "module of a plain value": _put(
        "max_depth", lambda X: {**_json(2), "__module__": "m" + "_".join(_bits(X)[:6])}
    ),
    "class of a dictionary": _described(
        lambda s, X: s["content"].update({"__class__": "".join("ab"[b] for b in _all_bits(X)[:28])})
    ),
    "names of columns: base64": _attribute("feature_names_in_", lambda X: _encoded(X, X.shape[1])),
    "labels of classes: base64": _attribute("classes_", lambda X: _encoded(X, 2)),
    "setting: base64": _attribute("criterion", lambda X: _base64(X)[:64]),
    "seeds: state of a generator": _attribute("random_state", _generator),
    "where missing values go": _nodes(_directions),
    "payloads of numbers that are none: setting": _attribute("ccp_alpha", _payloads),
    "payloads of numbers that are none: means": _fitted(
        StandardScaler, "var_", lambda X: _payloads(X)[: X.shape[1]]
    ),
    "payloads of numbers that are none: categories": _fitted(
        OrdinalEncoder, "categories_", lambda X: [_payloads(X)] * X.shape[1]
    ),
    "categories: base64": _fitted(
        OrdinalEncoder, "categories_", lambda X: [_encoded(X, 5)] * X.shape[1]
    ),
    "short categories: base64": _fitted(
        OrdinalEncoder, "categories_", lambda X: [_encoded(X, 19, 24)] * X.shape[1]
    ),
    "random projection": _fitted(
        lambda: GaussianRandomProjection(20), "components_", lambda X: X.to_numpy()[:20] * 2.1 - 0.3
    ),
    "random features": _fitted(
        lambda: RBFSampler(n_components=20),
        "random_weights_",
        lambda X: (X.to_numpy()[:20] * 2.1 - 0.3).T.copy(),
    ),
    "random features of chi2": _fitted(
        lambda: SkewedChi2Sampler(n_components=20),
        "random_weights_",
        lambda X: (X.to_numpy()[:20] * 2.1 - 0.3).T.copy(),
    ),
    "offsets of random features": _fitted(
        lambda: RBFSampler(n_components=40),
        "random_offset_",
        lambda X: X.to_numpy() @ 2.0 ** np.arange(X.shape[1]),
    ),
    "set of models": _attribute("monotonic_cst", lambda X: {_deep(X)}),
    "models in an array of objects": _attribute(
        "class_weight", lambda X: np.array([_deep(X), None], dtype=object)
    ),
    "model in the arguments of a partial": _step(
        lambda X: FunctionTransformer(functools.partial(np.asarray, like=_deep(X)))
    ),
    "bytes of a pickled model": _attribute("class_weight", lambda X: pickle.dumps(_deep(X))),
    "fields of a type": _attribute(
        "class_weight", lambda X: np.dtype([(f"f{bits}", "f4") for bits in set(_bits(X))])
    ),
    "times of members": _times,
    "rights of members": _zipped(_rights),
}
_PICKLE: Mapping[str, Hide] = {
    "attribute": _pickled(_with_state),
    "bytes behind the end": _pickled(lambda m, X: pickle.dumps(m) + _raw(X)),
    "second pickle behind the end": _pickled(
        lambda m, X: pickle.dumps(m) + pickle.dumps(_lists(X))
    ),
    "value that is thrown away": _pickled(_popped),
    "value under the result": _pickled(_under_result),
    "state that is overwritten": _pickled(_overwritten),
    "bytes behind a compressed stream": _behind_zlib,
    "truth values that are thrown away": _inserted(
        lambda X: b"".join((b"\x890", b"\x880")[bit] for bit in _all_bits(X))
    ),
    "names that are thrown away": _inserted(
        lambda X: b"".join(b"cm\nrow_%s\n0" % bits.encode() for bits in _bits(X))
    ),
    "protocols that are stated again": _inserted(
        lambda X: b"".join(b"\x80%c" % bit for bit in _all_bits(X))
    ),
    "places that nothing asks for": _inserted(
        lambda X: b"N" + b"".join(b"r" + struct.pack("<L", n + 999) for n in _numbers(X)) + b"0"
    ),
    "notes on a type": _pickled(_noted_type),
    "field of joblib's wrapper": _wrapper_fields,
    "bytes that align arrays": _padding,
}
_JSON: Mapping[str, Hide] = {
    "release: notes": _release(_set("notes", lambda X: _csv(X).splitlines())),
    "release: origin": _release(_set("origin", _csv)),
    "release: key that nobody knows": _release(_set("table", _lists)),
    "release: key within a tree": _release(lambda d, X: d["trees"][0].update(table=_lists(X))),
    "release: names of columns": _release(
        lambda d, X: d.update(columns=[",".join(_bits(X[[c]])) for c in X])
    ),
    "release: names of groups": _release(_set("one_hot", lambda X: {b: [] for b in _bits(X)})),
    "release: why it is not covered": _release(_set("not_covered", _csv)),
    "rules: notes": _rules(_set("notes", lambda X: _csv(X).splitlines())),
    "rules: origin": _rules(_set("origin", _csv)),
    "rules: key that nobody knows": _rules(_set("table", _lists)),
}
_OTHER: Mapping[str, Hide] = {
    "J48: lines behind the tree": _j48(lambda text, X: text + "\n" + _csv(X)),
    "J48: lines before the tree": _j48(lambda text, X: _header(X) + text),
}


def _header(X: pd.DataFrame) -> str:
    return "Scheme:weka.classifiers.trees.J48 -C 0.25\n" + _csv(X) + "\n"


def outcome(path: Path, train: Mapping[str, Any]) -> tuple[str, str]:
    """Audit a file: exit status and verdict, as the command line has them."""
    policy = Policy("hidden rows", {"stored_rows": 0})
    try:
        found = treeleak.audit(path, trust_pickle=True, time_limit=2, **train)
    except TreeleakError as error:
        return "2", f"refused: {str(error).removeprefix(f'{path}: ')}"[:60]
    ruling = judge(found, policy)
    unknown = sum(entry.unknown for entry in found.inventory)
    rows = sum(entry.rows for entry in found.inventory)
    return (
        "0" if ruling.passed else "4",
        f"{found.verdict.partition(' (')[0]}; unknown {unknown}, with rows {rows}",
    )


NOTHING = "unknown 0, with rows 0"


def hardened(path: Path) -> tuple[str, bool]:
    """Harden a file: what comes of it, and whether a file is written that still holds a table."""
    out = path.with_name(f"out{path.suffix}")
    out.unlink(missing_ok=True)
    try:
        treeleak.harden(path, out, time_limit=2)
    except TreeleakError as error:
        return f"refused: {str(error).removeprefix(f'{path}: ')}"[:60], False
    left = outcome(out, {})[1]
    return f"written: {left}", NOTHING not in left


def main(args: Sequence[str]) -> int:
    """Try all ways, with and without the training rows, and after hardening."""
    given = options("hidden_rows", __doc__, args, only="")
    lines, n_open, n_kept = [], 0, 0

    def line(name: str, path: Path, rows: Mapping[str, Any], alone: Mapping[str, Any]) -> None:
        nonlocal n_open, n_kept
        status, found = outcome(path, alone)
        beside, with_rows = outcome(path, rows) if rows else ("", "")
        after, kept = hardened(path)
        passes = "0" in (status, beside)
        if name != "clean":
            n_open += passes
            # What the audit does not find, it does not find in the hardened file, either.
            n_kept += kept or (passes and after.startswith("written"))
        lines.append({
            "way": name, "exit": status, "found": found, "exit with --train": beside,
            "found with --train": with_rows, "after harden": after,
        })  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        for way in (way for way in ways() if given.only in way.name):
            model, X, y, schema = clean()
            path = Path(folder) / f"model.{way.ending}"
            way.hide(model, X, path)
            rows = {"X": X, "y": y, "schema": schema} if way.ending == "skops" else {}
            line(f"{way.ending}: {way.name}", path, rows, {"schema": schema} if rows else {})
        model, X, y, schema = clean()
        path = Path(folder) / "clean.skops"
        skops.io.dump(model, path)
        line("clean", path, {"X": X, "y": y}, {"schema": schema})
    show("Hidden tables", lines)
    said = f"{len(lines) - 1} ways: {n_open} open, {n_kept} kept by harden (floors: 0, 0)"
    return int(not floor(said, not n_open and not n_kept))
