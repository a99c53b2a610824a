"""UBJSON, written as XGBoost writes it; the counterpart of the reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel

_ARRAYS = {
    "i1": b"i", "u1": b"U", "i2": b"I", "i4": b"l", "i8": b"L", "f4": b"d", "f8": b"D",
}  # fmt: skip
_CONSTANTS = {None: b"Z", True: b"T", False: b"F"}


def ubj_bytes(value: Any) -> bytes:
    """Write a value that was read from UBJSON."""
    parts: list[bytes] = []
    _append(value, parts)
    return b"".join(parts)


def _append(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, np.ndarray):
        kind = _ARRAYS[value.dtype.str[1:]]
        big = np.ascontiguousarray(value, value.dtype.newbyteorder(">"))
        parts += (b"[$", kind, b"#", _length(len(value)), big.tobytes())
    elif isinstance(value, Mapping):
        parts.append(b"{")
        for key, item in value.items():
            parts.append(_text(key))
            _append(item, parts)
        parts.append(b"}")
    elif isinstance(value, list):
        parts += (b"[#", _length(len(value)))
        for item in value:
            _append(item, parts)
    elif isinstance(value, str):
        parts += (b"S", _text(value))
    elif value is None or isinstance(value, bool):
        parts.append(_CONSTANTS[value])
    elif isinstance(value, int):
        parts.append(_whole(value))
    elif isinstance(value, float):
        parts += (b"d", np.array(value, ">f4").tobytes())
    else:
        raise BadModel(f"a {type(value).__name__} in UBJSON")


def _whole(value: int) -> bytes:
    for kind, dtype in ((b"i", ">i1"), (b"I", ">i2"), (b"l", ">i4"), (b"L", ">i8")):
        # XGBoost takes the next larger type for the ends of one.
        if np.iinfo(dtype).min < value < np.iinfo(dtype).max:
            return kind + np.array(value, dtype).tobytes()
    raise BadModel("a whole number beyond 64 bits")


def _length(n: int) -> bytes:
    return b"L" + np.array(n, ">i8").tobytes()


def _text(text: str) -> bytes:
    raw = text.encode()
    return _length(len(raw)) + raw
