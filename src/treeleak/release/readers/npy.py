"""Members of an archive in numpy's own format."""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.errors import BadModel, TreeleakError


def parse_npy(data: bytes, name: str) -> NDArray[Any]:
    """Read an ``.npy`` member: header first, and memory only for what is there.

    Raises BadModel if the header promises anything but the bytes that follow it.
    """
    file = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            version = np.lib.format.read_magic(file)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, fortran, dtype = read(file)
    except TreeleakError:
        raise
    except Exception as error:
        # numpy has the header read by Python's own parser, which raises what it likes.
        raise BadModel(f"array {name}: no readable header ({error})") from error
    if dtype.hasobject or any(n < 0 for n in shape):
        raise BadModel(f"array {name}: type {dtype}, shape {shape}")
    if math.prod(shape) * dtype.itemsize != len(data) - file.tell() or dtype.itemsize == 0:
        raise BadModel(f"array {name}: shape {shape} does not fit its {len(data)} bytes")
    return np.ndarray(shape, dtype, buffer=data, offset=file.tell(), order="F" if fortran else "C")


def odd_header(data: bytes, array: NDArray[Any]) -> bool:
    """Say whether the header of an array says more than type and shape."""
    header = data[: len(data) - array.nbytes]
    file = io.BytesIO()
    described = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": bool(array.flags.f_contiguous and not array.flags.c_contiguous),
        "shape": array.shape,
    }
    write = np.lib.format.write_array_header_1_0
    if header[6:7] == b"\x02":
        write = np.lib.format.write_array_header_2_0
    write(file, described)
    titled = any(len(field) > 2 for field in (array.dtype.fields or {}).values())
    # Versions of numpy leave more or less room behind the header.
    said, due = (raw[8:].lstrip(b" ").rstrip(b" \n") for raw in (header, file.getvalue()))
    start = 2 if write is np.lib.format.write_array_header_1_0 else 4
    return titled or said[start:] != due[start:] or len(header) > len(due) + 256


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
