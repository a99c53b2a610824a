"""Members of an archive in numpy's own format."""

from __future__ import annotations

import io
import math
import warnings
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import BadModel, TreeleakError

_Header: TypeAlias = tuple[tuple[int, ...], bool, "np.dtype[Any]", int]
"""Shape, whether columns come first, type, and bytes."""
_USUAL = b"\x93NUMPY\x01\x00"
_ALIGNED, _ROOM = 16, 64
"""To how many bytes headers are filled up, and how much room versions of numpy leave in them."""
_SHORT, _KEPT = 512, 256
"""Bytes of the headers that are kept, and how many are. The trees of a forest have few that differ,
and to read one takes longer than all else about an array."""


def parse_npy(data: bytes, name: str) -> NDArray[Any]:
    """Read an ``.npy`` member: header first, and memory only for what is there.

    Raises BadModel if the header promises anything but the bytes that follow it.
    """
    try:
        shape, fortran, dtype, start = _header(data)
    except TreeleakError:
        raise
    except Exception as error:
        # numpy has the header read by Python's own parser, which raises what it likes.
        raise BadModel(f"array {name}: no readable header ({error})") from error
    if dtype.hasobject or any(n < 0 for n in shape):
        raise BadModel(f"array {name}: type {dtype}, shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(data) - start or dtype.itemsize == 0:
        raise BadModel(f"array {name}: shape {shape} does not fit its {len(data)} bytes")
    return np.ndarray(shape, dtype, buffer=data, offset=start, order="F" if fortran else "C")


def _header(data: bytes) -> _Header:
    end = len(_USUAL) + 2 + int.from_bytes(data[len(_USUAL) : len(_USUAL) + 2], "little")
    if data.startswith(_USUAL) and end <= min(len(data), _SHORT):
        return _short_header(data[:end])
    return _read_header(data)


def _read_header(data: bytes) -> _Header:
    file = io.BytesIO(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        return *read(file), file.tell()


_short_header = lru_cache(_KEPT)(_read_header)


def odd_header(data: bytes, array: NDArray[Any]) -> bool:
    """Say whether the header of an array says more than type and shape."""
    header = data[: len(data) - array.nbytes]
    fortran = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
    odd = _odd_if_short if len(header) <= _SHORT else _is_odd
    return odd(header, array.dtype, fortran, array.shape)


def _is_odd(header: bytes, dtype: np.dtype[Any], fortran: bool, shape: tuple[int, ...]) -> bool:
    file = io.BytesIO()
    described = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": fortran,
        "shape": shape,
    }
    write = np.lib.format.write_array_header_1_0
    if header[6:7] == b"\x02":
        write = np.lib.format.write_array_header_2_0
    write(file, described)
    titled = any(len(field) > 2 for field in (dtype.fields or {}).values())
    # Versions of numpy leave more or less room behind the header.
    stored, due = (raw[8:].lstrip(b" ").rstrip(b" \n") for raw in (header, file.getvalue()))
    start = 2 if write is np.lib.format.write_array_header_1_0 else 4
    wide = header[6:7] == b"\x02" and len(header) <= 0xFFFF
    uneven = len(header) % _ALIGNED > 0 or abs(len(header) - len(file.getvalue())) > _ROOM
    return titled or wide or uneven or stored[start:] != due[start:]


_odd_if_short = lru_cache(_KEPT)(_is_odd)


def plain_records(array: NDArray[Any]) -> NDArray[Any]:
    """Copy records with zeros in the bytes between their fields.

    numpy leaves there what was in memory before, whenever it copies records.
    """
    if not array.dtype.names:
        return array
    raw = np.zeros(array.size * array.dtype.itemsize, np.uint8)
    out = raw.view(array.dtype).reshape(array.shape)
    for name in array.dtype.names:
        out[name] = array[name]
    return out


def write_npy(array: NDArray[Any]) -> bytes:
    """Write an array and nothing else, not even between its fields."""
    file = io.BytesIO()
    np.lib.format.write_array(file, plain_records(np.asarray(array)), allow_pickle=False)
    return file.getvalue()
