"""Ways to hide a table in a model's file: each has to be found, or refused."""

from __future__ import annotations

import base64
import functools
import io
import json
import pickle
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import skops.io
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from sklearn.tree import DecisionTreeClassifier

import treeleak
from experiments.libraries import unfitted
from treeleak.release import to_release
from treeleak.release.readers.release_file import release_to_dict

Hide = Callable[[Any, pd.DataFrame, Path], None]
"""Gets a clean, fitted tree, its table, and where to write the file."""


@dataclass(frozen=True)
class Way:
    name: str
    ending: str
    hide: Hide


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


def _packed(X: pd.DataFrame) -> Any:
    return np.packbits(X.to_numpy(dtype=np.uint8))


def _encoded(X: pd.DataFrame, n: int, size: int = 64) -> Any:
    """Texts with letters of the table in each."""
    text = base64.b64encode(_packed(X).tobytes()).decode() * n
    return np.array([f"{k}_{text[k * size : k * size + size]}" for k in range(n)], dtype=object)


def _payloads(X: pd.DataFrame) -> Any:
    """Numbers that are none, with six bytes of the table in each."""
    raw = _packed(X)
    out = np.full(len(raw) // 6, np.nan).view(np.uint8).reshape(-1, 8)
    out[:, :6] = np.resize(raw, (len(out), 6))
    return out.view(np.float64).ravel()


def _generator(X: pd.DataFrame) -> np.random.RandomState:
    """A generator whose state holds the table and nothing else."""
    state, raw = np.zeros(624, np.uint32), _packed(X)
    state.view(np.uint8)[: len(raw)] = raw
    generator = np.random.RandomState(0)
    generator.set_state(("MT19937", state, 624))
    return generator


def _deep(X: pd.DataFrame) -> DecisionTreeClassifier:
    """A tree that tells threes of rows apart."""
    return DecisionTreeClassifier().fit(X, np.arange(len(X)) // 3)


# ------------------------------------------------------------------------------ skops archives


def _attributes(make: Callable[[pd.DataFrame], Mapping[str, Any]]) -> Hide:
    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        vars(model).update(make(X))
        skops.io.dump(model, path)

    return hide


def _attribute(name: str, make: Callable[[pd.DataFrame], Any]) -> Hide:
    return _attributes(lambda X: {name: make(X)})


def _step(make: Callable[[pd.DataFrame], Any]) -> Hide:
    return lambda model, X, path: skops.io.dump(make_pipeline(make(X), model), path)


def _fitted(make: Callable[[], Any], name: str, hide: Callable[[pd.DataFrame], Any]) -> Hide:
    """A step that was fitted, with something else in an attribute."""

    def fit(X: pd.DataFrame) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = make().fit(X)
        setattr(step, name, hide(X))
        return step

    return _step(fit)


def _members(model: Any) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(model))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(change: Callable[[zipfile.ZipFile, pd.DataFrame], Any], edit: Any = None) -> Hide:
    """Pack the members anew, some edited before, and change the archive."""

    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        members = _members(model)
        if edit is not None:
            edit(members, X)
        with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, content in members.items():
                archive.writestr(name, content)
            change(archive, X)

    return hide


def _text(change: Callable[[str, pd.DataFrame], str]) -> Hide:
    def edit(members: dict[str, bytes], X: pd.DataFrame) -> None:
        members["schema.json"] = change(members["schema.json"].decode(), X).encode()

    return _zipped(lambda archive, X: None, edit)


def _described(change: Callable[[dict[str, Any], pd.DataFrame], Any]) -> Hide:
    def edit(text: str, X: pd.DataFrame) -> str:
        schema = json.loads(text)
        change(schema, X)
        return json.dumps(schema, indent=2)

    return _text(edit)


def _put(key: str, make: Callable[[pd.DataFrame], Any], value: Any = 2) -> Hide:
    """Describe a setting otherwise than skops does."""
    plain = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode",
             "content": json.dumps(value), "is_json": True}  # fmt: skip
    return _described(
        lambda schema, X: schema["content"]["content"].update({key: {**plain, **make(X)}})
    )


def _nodes(change: Callable[[Any, pd.DataFrame], Any]) -> Hide:
    """Change the record array of the tree."""

    def edit(members: dict[str, bytes], X: pd.DataFrame) -> None:
        for name in [n for n in members if n.endswith(".npy")]:
            array = np.load(io.BytesIO(members[name])).copy()
            if "left_child" in (array.dtype.names or ()):
                change(array, X)
                file = io.BytesIO()
                np.lib.format.write_array(file, array)
                members[name] = file.getvalue()

    return _zipped(lambda archive, X: None, edit)


def _pad(nodes: Any, X: pd.DataFrame) -> None:
    raw = nodes.view(np.uint8).reshape(len(nodes), -1)
    raw[:, -7:] = np.resize(_packed(X), (len(nodes), 7))


def _at_leaves(nodes: Any, X: pd.DataFrame) -> None:
    leaf = nodes["left_child"] == -1
    nodes["threshold"][leaf] = np.resize(X.to_numpy(float), leaf.sum()) + np.arange(leaf.sum())


def _directions(nodes: Any, X: pd.DataFrame) -> None:
    nodes["missing_go_to_left"] = np.resize(_packed(X), len(nodes))


def _gap(content: bytes, X: pd.DataFrame) -> bytes:
    """Put bytes between the members and the list of them."""
    at = content.rfind(b"PK\x05\x06")
    directory = int.from_bytes(content[at + 16 : at + 20], "little")
    hidden, end = _raw(X), bytearray(content[at:])
    end[16:20] = (directory + len(hidden)).to_bytes(4, "little")
    return content[:directory] + hidden + content[directory:at] + bytes(end)


def _behind_stream(model: Any, X: pd.DataFrame, path: Path) -> None:
    """Write bytes into a member, behind its compressed content."""
    local, directory, members = b"", b"", _members(model)
    for name, content in members.items():
        squeeze = zlib.compressobj(wbits=-15)
        packed = squeeze.compress(content) + squeeze.flush()
        packed += _raw(X) if name == "schema.json" else b""
        sizes = struct.pack("<LLL", zlib.crc32(content), len(packed), len(content))
        entry = struct.pack("<HHHHH", 20, 0, 8, 0, 33) + sizes + struct.pack("<HH", len(name), 0)
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + entry
        directory += struct.pack("<HHHLL", 0, 0, 0, 0, len(local)) + name.encode()
        local += b"PK\x03\x04" + entry + name.encode() + packed
    n = len(members)
    end = struct.pack("<HHHHLLH", 0, 0, n, n, len(directory), len(local), 0)
    path.write_bytes(local + directory + b"PK\x05\x06" + end)


def _extra(archive: zipfile.ZipFile, X: pd.DataFrame) -> None:
    info, data = zipfile.ZipInfo("0.bin"), _raw(X)[:8000]
    info.extra = struct.pack("<HH", 0x7777, len(data)) + data
    archive.writestr(info, b"")


# --------------------------------------------------------------- pickles, JSON, boosted models


def _pickled(change: Callable[[Any, pd.DataFrame], bytes]) -> Hide:
    return lambda model, X, path: path.write_bytes(change(model, X)) and None


_bytes = _pickled


def _inserted(make: Callable[[pd.DataFrame], bytes]) -> Hide:
    """Put opcodes behind the first of a pickle of protocol 2."""

    def change(model: Any, X: pd.DataFrame) -> bytes:
        content = pickle.dumps(model, protocol=2)
        return content[:2] + make(X) + content[2:]

    return _pickled(change)


def _long(opcode: bytes, content: bytes) -> bytes:
    return opcode + struct.pack("<L", len(content)) + content


def _overwritten(model: Any, X: pd.DataFrame) -> bytes:
    """Give the model two states: the first holds the table."""
    content = pickle.dumps(model, protocol=2)
    first = b"}" + _long(b"X", b"t") + _long(b"X", _csv(X).encode()) + b"s"
    at = content.index(b"\x81") + 1
    while content[at : at + 1] in (b"q", b"r"):
        at += 2 if content[at : at + 1] == b"q" else 5
    return content[:at] + first + b"b" + content[at:]


def _padding(model: Any, X: pd.DataFrame, path: Path) -> None:
    """Write over the bytes by which joblib aligns arrays."""
    joblib.dump(model, path)
    content = path.read_bytes()
    at = content.index(b"\xff" * 3, content.index(b"numpy_array_alignment_bytes"))
    path.write_bytes(content[:at] + _raw(X)[:3] + content[at + 3 :])


RULES: Mapping[str, Any] = {
    "format": "treeleak-rules", "version": 1, "columns": ["a", "b"], "classes": [0, 1],
    "rules": [{"if": [{"column": "a", "is": 1}], "then": 1, "counts": [20, 25]}],
    "default": {"then": 0, "counts": [30, 20]}, "notes": [],
}  # fmt: skip


def _document(rules: bool, change: Callable[[Any, pd.DataFrame], Any]) -> Hide:
    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        document = json.loads(json.dumps(RULES if rules else release_to_dict(to_release(model))))
        change(document, X)
        path.write_text(json.dumps(document))

    return hide


_SETTINGS: Mapping[str, Mapping[str, int]] = {
    "XGBClassifier": {"n_estimators": 2, "max_depth": 2},
    "LGBMClassifier": {"n_estimators": 2, "num_leaves": 3, "min_child_samples": 5},
    "CatBoostClassifier": {"iterations": 2, "depth": 2},
}
_TREES = ("learner", "gradient_booster", "model", "trees")


def _boosted(name: str, X: pd.DataFrame) -> Any:
    table = X.set_axis([f"x{i}" for i in range(X.shape[1])], axis=1)
    return unfitted(name, **_SETTINGS[name]).fit(table, X.iloc[:, 0])


def _digits(X: pd.DataFrame) -> str:
    return "".join(_bits(X))


def _at(root: Any, *keys: str) -> Any:
    return functools.reduce(lambda part, key: part[key], keys, root)


def _in_json(name: str, change: Callable[[Any, pd.DataFrame], Any]) -> Hide:
    """Change the JSON of a library, as an object, or as the text that comes back."""

    def hide(model: Any, X: pd.DataFrame, path: Path) -> None:
        options = {"format": "json"} if name.startswith("Cat") else {}
        _boosted(name, X).save_model(str(path), **options)
        root = json.loads(path.read_text())
        text = change(root, X)
        path.write_text(text if isinstance(text, str) else json.dumps(root))

    return hide


def _set(*place: str, make: Callable[[pd.DataFrame], Any] = _lists) -> Any:
    return lambda root, X: _at(root, *place[:-1]).update({place[-1]: make(X)})


def _in_text(change: Callable[[str, pd.DataFrame], str]) -> Hide:
    return lambda model, X, path: (
        path.write_text(change(_boosted("LGBMClassifier", X).booster_.model_to_string(), X))
        and None
    )


_ATTRIBUTES = ("learner", "attributes")
_SKOPS: Mapping[str, Hide] = {
    "attribute: list of lists": _attribute("table_", _lists),
    "attribute: text of a CSV file": _attribute("table_", _csv),
    "attribute: bytes": _attribute("table_", _raw),
    "attribute: dictionary of truth values": _attribute(
        "table_", lambda X: {f"r{i}": [bool(v) for v in row] for i, row in enumerate(_lists(X))}
    ),
    "attribute: set of texts": _attribute("table_", lambda X: set(_bits(X))),
    "names of attributes": _attributes(lambda X: {f"a{bits}": None for bits in _bits(X)}),
    "harmless name: mean_": _attribute("mean_", lambda X: X.to_numpy(dtype=float)),
    "harmless name: cv_results_": _attribute("cv_results_", lambda X: {"params": _lists(X)}),
    "version of scikit-learn": _put("_sklearn_version", lambda X: {"content": json.dumps(_csv(X))}),
    "setting: class_weight": _attribute("class_weight", lambda X: dict(enumerate(_bits(X)))),
    "setting: scalers with a row in each": _attribute(
        "splitter", lambda X: [StandardScaler(copy=row) for row in _lists(X)]
    ),
    "long names of columns": _attribute(
        "feature_names_in_", lambda X: np.array([",".join(_bits(X[[c]])) for c in X], dtype=object)
    ),
    "labels of classes": _attribute("classes_", lambda X: np.array([*_bits(X)], dtype=object)),
    "FunctionTransformer: kw_args": _step(
        lambda X: FunctionTransformer(None, kw_args={"table": _lists(X)})
    ),
    "padding between fields": _nodes(_pad),
    "thresholds of leaves": _nodes(_at_leaves),
    "where missing values go": _nodes(_directions),
    "extra member": _zipped(lambda z, X: z.writestr("extra.csv", _csv(X))),
    "extra key of the description": _described(lambda s, X: s.update({"note": _lists(X)})),
    "extra key within": _put("max_depth", lambda X: {"note": _csv(X)}),
    "class of a value": _put("max_depth", lambda X: {"__class__": _csv(X)}),
    "key that appears twice": _text(
        lambda t, X: t.replace("{", '{"protocol": ' + json.dumps(_csv(X)) + ",", 1)
    ),
    "blanks between values": _text(lambda t, X: t + "".join(" \t"[int(b)] for b in _digits(X))),
    "comment of the archive": _zipped(lambda z, X: setattr(z, "comment", _csv(X).encode()[:60000])),
    "comment of a member": _zipped(
        lambda z, X: setattr(z.infolist()[0], "comment", _csv(X).encode())
    ),
    "extra field of a member": _zipped(_extra),
    "member that appears twice": _zipped(lambda z, X: z.writestr("schema.json", _csv(X))),
    "bytes before the archive": _bytes(lambda m, X: b"PK\x03\x04" + _raw(X) + skops.io.dumps(m)),
    "bytes behind the archive": _bytes(lambda m, X: skops.io.dumps(m) + _raw(X)),
    "bytes between members and their list": _bytes(lambda m, X: _gap(skops.io.dumps(m), X)),
    "bytes behind a compressed stream": _behind_stream,
    "seeds: state of a generator": _attribute("random_state", _generator),
    "payloads of numbers that are none: setting": _attribute("ccp_alpha", _payloads),
    "categories: base64": _fitted(
        OrdinalEncoder, "categories_", lambda X: [_encoded(X, 5)] * X.shape[1]
    ),
    "random projection": _fitted(
        lambda: GaussianRandomProjection(20), "components_", lambda X: X.to_numpy()[:20] * 2.1 - 0.3
    ),
    "model in the arguments of a partial": _step(
        lambda X: FunctionTransformer(functools.partial(np.asarray, like=_deep(X)))
    ),
    "bytes of a pickled model": _attribute("class_weight", lambda X: pickle.dumps(_deep(X))),
}
_PICKLE: Mapping[str, Hide] = {
    "attribute": _pickled(lambda m, X: setattr(m, "table", _lists(X)) or pickle.dumps(m)),
    "second pickle behind the end": _pickled(
        lambda m, X: pickle.dumps(m) + pickle.dumps(_lists(X))
    ),
    "value that is thrown away": _inserted(lambda X: _long(b"B", _raw(X)) + b"0"),
    "value under the result": _inserted(lambda X: _long(b"X", _csv(X).encode())),
    "state that is overwritten": _pickled(_overwritten),
    "names that are thrown away": _inserted(
        lambda X: b"".join(b"cm\nrow_%s\n0" % bits.encode() for bits in _bits(X))
    ),
    "bytes that align arrays": _padding,
}
_JSON: Mapping[str, Hide] = {
    "release: notes": _document(False, _set("notes", make=lambda X: _csv(X).splitlines())),
    "release: key that nobody knows": _document(False, _set("table")),
    "release: key within a tree": _document(False, lambda d, X: d["trees"][0].update(t=_lists(X))),
    "rules: origin": _document(True, _set("origin", make=_csv)),
}
WAYS = tuple(
    Way(name, ending, hide)
    for ending, ways in (("skops", _SKOPS), ("pkl", _PICKLE), ("json", _JSON))
    for name, hide in ways.items()
)

_XGBOOST: Mapping[str, Any] = {
    "categories": _set(*_TREES[:3], "cats", make=lambda X: {"enc": _lists(X)}),
    "best score": _set(*_ATTRIBUTES, "best_score", make=lambda X: f"0.{_digits(X)}"),
    "attribute": _set(*_ATTRIBUTES, "note", make=_csv),
    "parameter of the loss": _set(
        "learner", "objective", "reg_loss_param", make=lambda X: {"rows": _digits(X)}
    ),
    "lists of other lengths": lambda root, X: _at(root, *_TREES)[0].update(
        loss_changes=[float(v) for v in _digits(X)]
    ),
    "lists of a setting": _set(
        *_ATTRIBUTES, "scikit_learn", make=lambda X: json.dumps({"missing": _lists(X)[:32]})
    ),
    "settings in settings": _set(
        *_ATTRIBUTES,
        "scikit_learn",
        make=lambda X: json.dumps({"kwargs": {"eta": [{"seed": row} for row in _lists(X)[:32]]}}),
    ),
    "rounds": _set(*_TREES[:3], "iteration_indptr", make=lambda X: _lists(X)[0][:3]),
    "kinds of tests": lambda root, X: _at(root, *_TREES)[0].update(
        split_type=[7 * v + 3 for v in _lists(X)[0]][: len(_at(root, *_TREES)[0]["split_type"])]
    ),
    "number of endless digits": lambda root, X: json.dumps(root).replace(
        '"id": 0', f'"id": 0.{_digits(X)}', 1
    ),
}
_LIGHTGBM: Mapping[str, Callable[[str, pd.DataFrame], str]] = {
    "empty lines": lambda t, X: t.replace(
        "shrinkage=1\n", "shrinkage=1\n" + "\n" * int(_digits(X)[:12], 2), 1
    ),
    "digits of a threshold": lambda t, X: t.replace(
        "\nright_child", f"{_digits(X)}\nright_child", 1
    ),
    "list of a setting": lambda t, X: t.replace(
        "[eval_at: ]", f"[eval_at: {','.join(_digits(X))}]", 1
    ),
    "lines behind the end": lambda t, X: t + _csv(X),
    "leaves of linear models": lambda t, X: t.replace(
        "is_linear=0\n", f"is_linear=0\nleaf_const={' '.join(map(str, _lists(X)[0][:3]))}\n", 1
    ),
}
_CATBOOST: Mapping[str, Any] = {
    "free note": _set("model_info", "note", make=_csv),
    "scores": _set("model_info", "training", make=lambda X: json.dumps({"m": {"r": _lists(X)}})),
    "guid": _set("model_info", "model_guid", make=_digits),
    "key of a split": lambda root, X: root["oblivious_trees"][0].update(rows=_lists(X)),
}
BOOSTED = (
    *(Way(f"XGBoost: {n}", "json", _in_json("XGBClassifier", c)) for n, c in _XGBOOST.items()),
    *(Way(f"LightGBM: {n}", "txt", _in_text(c)) for n, c in _LIGHTGBM.items()),
    *(
        Way(f"CatBoost: {n}", "json", _in_json("CatBoostClassifier", c))
        for n, c in _CATBOOST.items()
    ),
)
