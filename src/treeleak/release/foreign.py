"""Files of other programs, named so that nobody looks for the fault in them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

_XGBOOST = 'trees that XGBoost printed (dump_model): write the model with save_model("model.json")'
_LIGHTGBM = 'a model that LightGBM printed (dump_model): write it with save_model("model.txt")'
_KERAS = "a Keras model (TensorFlow)"
_R = "an R object (saveRDS, save): see docs/release-format.md for how R writes trees and counts"
_STARTS: tuple[tuple[str, str], ...] = (
    (r"\x89HDF\r\n", "an HDF5 file, as Keras writes them"),
    (r"PAR1", "a table (Parquet)"),
    (r"GGUF", "a language model (GGUF)"),
    (r"binf", "a model of XGBoost before 1.0: load it there and save it as JSON"),
    (r"RDX[23]\n|X\n\0\0\0", _R),
    (r"(?s:.{8})\{\s*\"", "a file of tensors (safetensors)"),
    (r"(?s:\x08.\x12|.{0,400}ai\.onnx)", "an ONNX model"),
    (r"(?s:\s*(<\?xml.{0,400})?<PMML)", "a PMML model"),
    (r"\s*(booster\[\d+\]|\[\s*\{\s*\"nodeid\")", _XGBOOST),
    (r"[^\0\n{]*[,;\t][^\0\n{]*\n[^\0]*", "a table, it seems (rows are given with --train)"),
)
_MEMBERS = (
    (r".*/?data\.pkl", "a PyTorch model"),
    (r"model\.weights\.h5", _KERAS),
    (r"model\.ini", "an H2O model (MOJO)"),
    (r".*\.npy", "arrays of NumPy (npz)"),
    (r"\[Content_Types\]\.xml", "an Office document"),
    (r"META-INF/.*", "a Java archive"),
)
_KEYS = (
    ({"tree_info", "feature_names"}, _LIGHTGBM),
    ({"class_name", "config"}, _KERAS),
    ({"nodeid", "split"}, _XGBOOST),
    ({"nbformat", "cells"}, "a notebook"),
)


def name_of_bytes(head: bytes) -> str | None:
    """Name the kind of a file by its first bytes; None if it is unknown."""
    text = head.decode("latin-1")
    return next((name for form, name in _STARTS if re.match(form, text)), None)


def name_of_gzip(head: bytes) -> str | None:
    """Name what is packed, if it is nothing that Python packs so."""
    try:
        text = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, 64)
    except zlib.error:
        return None
    return _R if re.match(rb"RDX[23]\n|[XA]\n", text) else None


def name_of_members(members: Iterable[str]) -> str | None:
    """Name the kind of a zip file by its members; None if it is unknown."""
    names = list(members)
    kinds = (name for form, name in _MEMBERS if any(re.fullmatch(form, m) for m in names))
    return next(kinds, None)


def name_of_json(data: Any) -> str | None:
    """Name the kind of a JSON file by its keys; None if it is unknown."""
    keys = set(data) if isinstance(data, Mapping) else set()
    return next((name for own, name in _KEYS if own <= keys), None)


def no_model(name: str) -> str:
    """Say that a file is one of another program."""
    return f"this is {name}, not a tree model that treeleak reads"
