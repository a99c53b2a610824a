"""XGBoost's own files, JSON and UBJSON, read as data; XGBoost is not imported.

Both hold the same. What an object of Python keeps of itself (in a pickle, or live) is the same
again, beside the parameters of its training: an object with the keys ``Model`` and ``Config``.
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.release.bounds import MOST_JSON_BYTES, at_most
from treeleak.release.checked_json import read_json
from treeleak.release.readers.ubj import is_ubj, read_ubj
from treeleak.release.registry import reader
from treeleak.release.stored import StoredObject

BOOSTER = "xgboost.core.Booster"
MOST_LISTS = 2**22
"""Each becomes an array; a tree has some fifteen."""
_JSON = re.compile(rb'\{\s*"(learner|Config|Model)"\s*:')


def booster_from_bytes(data: bytes) -> StoredObject:
    """Read a model in the memory of XGBoost: JSON or UBJSON.

    Raises
    ------
    BadModel
    """
    if is_ubj(data[:8]):
        return booster_from_dict(read_ubj(data))
    at_most(MOST_JSON_BYTES, len(data), "bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadModel("neither JSON nor UBJSON: written by XGBoost before 1.0") from error
    if not text.lstrip().startswith("{"):
        raise BadModel("neither JSON nor UBJSON: written by XGBoost before 1.0")
    return read_json(text, booster_from_dict, constants=True)


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


@reader("XGBoost UBJSON", is_ubj)
def _read_ubj(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    at_most(MOST_JSON_BYTES, path.stat().st_size, "bytes")
    return booster_from_dict(read_ubj(path.read_bytes()))


@reader("XGBoost JSON", lambda head: _JSON.match(_start(head)) is not None)
def _read_json(path: Path, trust_pickle: bool) -> StoredObject:  # noqa: ARG001
    return read_json(path, booster_from_dict, constants=True)


def _start(head: bytes) -> bytes:
    return head.removeprefix(codecs.BOM_UTF8).lstrip()


def _with_arrays(value: Any, lists: Iterator[int]) -> Any:
    if isinstance(value, dict):
        return {key: _with_arrays(own, lists) for key, own in value.items()}
    if not isinstance(value, list) or not value:
        return value
    at_most(MOST_LISTS, next(lists), "lists")
    kinds = set(map(type, value))
    try:
        if kinds <= {int, bool}:
            return np.array(value, dtype=np.int64)
        if kinds <= {int, float}:
            return np.array(value, dtype=float)
    except OverflowError as error:
        raise BadModel("a whole number beyond 64 bits") from error
    return [_with_arrays(own, lists) for own in value]
