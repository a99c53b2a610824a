"""Files that people give instead of a tree model: one of each kind, and what must be said of it."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import skops.io
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

_X, _Y = np.eye(4)[np.arange(24) % 4], np.arange(24) % 2


def _forest() -> Any:
    return RandomForestClassifier(3, random_state=0).fit(_X, _Y)


def _zip(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def _locked() -> bytes:
    """A zip file with the mark of a password on its member."""
    data = bytearray(_zip({"model.pkl": b"\x00" * 40}))
    for head, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(head) + flags] |= 1
    return bytes(data)


def _tar(members: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def _old_torch() -> bytes:
    return pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2) + pickle.dumps(1001, protocol=2)


_LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 99\n"
_PICKLED: Callable[[Any], bytes] = pickle.dumps

OTHER_FILES: Mapping[str, tuple[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "lfs.pkl": ("git lfs pull", lambda: _LFS),
        "dvc.pkl": ("dvc pull", lambda: b"outs:\n- md5: a\n  path: model.pkl\n"),
        "annex.pkl": ("git annex get", lambda: b"/annex/objects/SHA256E-s9--0.pkl\n"),
        "page.pkl": ("web page", lambda: b"\n<!DOCTYPE html>\n<html><body>Not Found</body></html>"),
        "table.csv": ("--train", lambda: b"age,sex\n18,0\n"),
        "table.parquet": ("--train", lambda: b"PAR1\x15\x00"),
        "empty.pkl": ("the file is empty", lambda: b""),
        "frame.pkl": ("a table (DataFrame", lambda: _PICKLED(pd.DataFrame({"a": [1]}))),
        "array.pkl": ("numbers (an array", lambda: _PICKLED(_X)),
        "number.pkl": ("a float", lambda: _PICKLED(0.5)),
        "list.pkl": ("a list", lambda: _PICKLED(["age", "sex"])),
        "linear.pkl": ("a linear model", lambda: _PICKLED(LogisticRegression().fit(_X, _Y))),
        "linear.skops": (
            "a linear model",
            lambda: skops.io.dumps(LogisticRegression().fit(_X, _Y)),
        ),
        "vectors.pkl": ("a support vector machine", lambda: _PICKLED(SVC().fit(_X, _Y))),
        "neighbours.pkl": (
            "training rows themselves",
            lambda: _PICKLED(KNeighborsClassifier().fit(_X, _Y)),
        ),
        "bayes.pkl": ("naive Bayes", lambda: _PICKLED(GaussianNB().fit(_X, _Y))),
        "network.pkl": (
            "a neural network",
            lambda: _PICKLED(MLPClassifier((2,), tol=10.0).fit(_X, _Y)),
        ),
        "scaler.pkl": ("prepares columns", lambda: _PICKLED(StandardScaler().fit(_X))),
        "cut.pkl": ("cut short", lambda: _cut(_PICKLED(_forest()))),
        "cut.pkl.gz": ("cut short", lambda: _cut(gzip.compress(_PICKLED(_forest()), mtime=0))),
        "cut.pkl.bz2": ("cut short", lambda: _cut(bz2.compress(_PICKLED(_forest())))),
        "cut.skops": ("cut short", lambda: _cut(skops.io.dumps(_forest()))),
        "locked.zip": ("a password", _locked),
        "packed.zip": ("an archive without", lambda: _zip({"run/model.pkl": _PICKLED(1)})),
        "other.zip": ("an archive without", lambda: _zip({"notes.txt": b"a"})),
        "packed.tar": ("an archive without", lambda: _tar({"model.pkl": b"a"})),
        "packed.tar.gz": (
            "an archive without",
            lambda: gzip.compress(_tar({"m.pkl": b"a"}), mtime=0),
        ),
        "packed.zst": ("zstd -d", lambda: b"\x28\xb5\x2f\xfd\x24\x01"),
        "packed.7z": ("7-Zip", lambda: b"7z\xbc\xaf\x27\x1c\x00\x04"),
        "keras.h5": ("HDF5", lambda: b"\x89HDF\r\n\x1a\n\x00\x00"),
        "model.keras": ("Keras", lambda: _zip({"config.json": b"{}", "model.weights.h5": b""})),
        "keras.json": (
            "Keras",
            lambda: json.dumps({"class_name": "Sequential", "config": {}}).encode(),
        ),
        "model.pt": ("PyTorch", lambda: _zip({"model/data.pkl": b"", "model/version": b"3"})),
        "old.pt": ("PyTorch", _old_torch),
        "model.onnx": ("ONNX", lambda: b"\x08\x08\x3a\x00\x42\x02\x10\x0f"),
        "model.pmml": ("PMML", lambda: b'<?xml version="1.0"?>\n<PMML version="4.4"/>'),
        "model.safetensors": ("safetensors", lambda: (9).to_bytes(8, "little") + b'{"w":{}}'),
        "model.rds": ("saveRDS", lambda: gzip.compress(b"A\n3\n262658\n197888\n", mtime=0)),
        "weka.model": ("Java", lambda: b"\xac\xed\x00\x05sr\x00\x1e"),
        "mojo.zip": ("H2O", lambda: _zip({"model.ini": b"[info]"})),
        "MLmodel": ("MLflow", lambda: b"artifact_path: model\nflavors:\n  sklearn:\n"),
        "config.json": ("JSON of an unknown kind", lambda: b'{"n_estimators": 100}'),
        "script.py": ("Python script", lambda: b"import pandas as pd\nfrom sklearn import svm\n"),
        "old_joblib.pkl": ("joblib before 0.10", lambda: b"ZF0x1f00x\x9c"),
        "notes.txt": ("text", lambda: b"the model of last week"),
        "picture.png": ("a picture", lambda: b"\x89PNG\r\n\x1a\n\x00"),
        "paper.pdf": ("PDF", lambda: b"%PDF-1.7\n"),
        "base.sqlite": ("SQLite", lambda: b"SQLite format 3\x00"),
        "noise.bin": ("not a model file", lambda: bytes(range(200, 256)) + b"\x00\x01"),
    }
)
"""By name: words that must be in what is said, and what makes the file."""

FOLDERS: Mapping[str, tuple[str, Mapping[str, bytes]]] = MappingProxyType(
    {
        "empty": ("empty folder", {}),
        "mlflow": ("model.pkl", {"MLmodel": b"flavors:\n", "model.pkl": b"a", "conda.yaml": b""}),
        "tensorflow": ("TensorFlow", {"saved_model.pb": b"a"}),
        "models": ("rf.joblib", {"rf.joblib": b"a", "notes.txt": b"b"}),
        "others": ("no model file", {"notes.txt": b"b"}),
    }
)
"""By name of the folder: the same, and the files in it."""
