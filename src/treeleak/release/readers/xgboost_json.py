"""XGBoost's own files, JSON, UBJSON and the old binary form, read as data without XGBoost.

All hold the same, but for names, which the old form lacks. What an object of Python keeps of itself
(in a pickle, or live) is the same again, beside the parameters of its training: an object with the
keys ``Model`` and ``Config``.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.core.output import read_text
from treeleak.release.bounds import MOST_JSON_BYTES, at_most
from treeleak.release.checked_json import read_json
from treeleak.release.readers.json_layout import odd_layout
from treeleak.release.readers.ubj import is_ubj, read_ubj, ubj_bytes
from treeleak.release.readers.xgboost_binary import document_of, is_old_binary
from treeleak.release.registry import HEAD_BYTES, describe_format, reader
from treeleak.release.stored import Leftover, StoredObject

BOOSTER = "xgboost.core.Booster"
MOST_LISTS = 2**22
"""Each becomes an array; a tree has some fifteen."""
NO_FORM = "neither JSON nor UBJSON, nor XGBoost's old binary form"
_JSON = re.compile(rb'\{\s*"(learner|Config|Model)"\s*:')


def booster_from_bytes(data: bytes) -> StoredObject:
    """Read a model in the memory of XGBoost: JSON or UBJSON.

    Raises
    ------
    BadModel
    """
    if is_ubj(data[:8]):
        root = read_ubj(data)
        booster = booster_from_dict(root)
        # What is written anew from its values holds nothing beside them.
        same = ubj_bytes(root) == data
        left = () if same else (Leftover("the file", "bytes that XGBoost does not write", data),)
        return replace(booster, leftovers=left)
    at_most(MOST_JSON_BYTES, len(data), "bytes")
    if is_old_binary(data[:HEAD_BYTES]):
        document, odd = document_of(data)
        return replace(booster_from_dict(document), leftovers=odd)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadModel(NO_FORM) from error
    if not text.lstrip().startswith("{"):
        raise BadModel(NO_FORM)
    return _booster_from_text(text)


def _booster_from_text(text: str) -> StoredObject:
    booster = read_json(text, booster_from_dict, constants=True)
    return replace(booster, leftovers=tuple(odd_layout(text)))


def booster_from_dict(root: Any) -> StoredObject:
    """Take what a file says, with arrays for lists of numbers.

    Raises
    ------
    BadModel
        If it is no model of XGBoost.
    """
    if not is_booster(root):
        raise BadModel("not a model of XGBoost: it has no learner")
    return StoredObject(BOOSTER, _with_arrays(root, itertools.count(1)))


def is_booster(root: Any) -> bool:
    """Say whether this is what XGBoost writes."""
    if isinstance(root, Mapping) and isinstance(root.get("Model"), Mapping):
        root = root["Model"]
    return isinstance(root, Mapping) and isinstance(root.get("learner"), Mapping)


describe_format(
    "XGBoost UBJSON", ".ubj", "sums of hessians and gain of each node, values, thresholds"
)


@reader("XGBoost UBJSON", is_ubj)
def _read_ubj(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    at_most(MOST_JSON_BYTES, path.stat().st_size, "bytes")
    return booster_from_bytes(path.read_bytes())


describe_format(
    "XGBoost JSON", ".json", "sums of hessians and gain of each node, values, thresholds"
)


@reader("XGBoost JSON", lambda head: _JSON.match(_start(head)) is not None)
def _read_json(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    return _booster_from_text(read_text(path, MOST_JSON_BYTES))


describe_format("XGBoost's old binary form", ".model .bin", "numbers and sums in nodes")


@reader("XGBoost's old binary form", is_old_binary)
def _read_binary(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    at_most(MOST_JSON_BYTES, path.stat().st_size, "bytes")
    return booster_from_bytes(path.read_bytes())


def _start(head: bytes) -> bytes:
    return head.removeprefix(codecs.BOM_UTF8).lstrip()


def _with_arrays(value: Any, lists: Iterator[int]) -> Any:
    if isinstance(value, dict):
        return {key: _with_arrays(item, lists) for key, item in value.items()}
    if not isinstance(value, list) or not value:
        return value
    at_most(MOST_LISTS, next(lists), "lists")
    types = set(map(type, value))
    try:
        if types <= {int, bool}:
            return np.array(value, dtype=np.int64)
        if types <= {int, float}:
            return np.array(value, dtype=float)
    except OverflowError as error:
        raise BadModel("a whole number beyond 64 bits") from error
    return [_with_arrays(item, lists) for item in value]
