"""Files packed with gzip, bzip2 or xz: unpacked in steps, within a bound."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_R_BYTES, at_most
from treeleak.release.stored import Leftover

PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x5d\0\0")
_STEP = 1 << 20
_FIRST = 100
"""Bytes by which a format is known."""
_MOST_NAME = 100
"""Bytes of the name that a packed file keeps of what it was."""
_MOST_MEMORY = 1 << 28
"""Of the unpacking of xz: R's strongest takes a quarter of it."""


@dataclass(frozen=True)
class Unpacked:
    """What a file holds, and what stands beside it."""

    data: bytearray
    left: tuple[Leftover, ...]


def unpacked(path: Path, wanted: Callable[[bytes], bool]) -> Unpacked | None:
    """Unpack a file, or read one that is not packed.

    Returns None where the first bytes are not those that are wanted. Raises BadModel: damaged, or
    larger than any model is.
    """
    with path.open("rb") as file:
        block = file.read(_STEP)
        head, data, behind = block, bytearray(), b""
        if not head.startswith(PACKED):
            if not wanted(head[:_FIRST]):
                return None
            while block:
                _grow(data, block)
                block = file.read(_STEP)
            return Unpacked(data, ())
        unpacking = _unpacking(head)
        try:
            while not unpacking.eof:
                grown = unpacking.decompress(block, _STEP)
                _grow(data, grown)
                if len(data) >= _FIRST and not wanted(bytes(data[:_FIRST])):
                    return None
                block = getattr(unpacking, "unconsumed_tail", b"")
                if not block and getattr(unpacking, "needs_input", True):
                    block = file.read(_STEP)
                    if not block and not grown:
                        raise EOFError("it ends too soon")
            behind = (unpacking.unused_data + file.read(_STEP)).strip(b"\0")
        except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
            if wanted(bytes(data[:_FIRST])):
                raise BadModel(
                    f"damaged, cut short or changed on its way: copy it again ({error})"
                ) from error
        if not wanted(bytes(data[:_FIRST])):
            return None
    beside = (("in its header", header_of(head)), ("behind the packed data", behind))
    left = tuple(Leftover("the file", where, content) for where, content in beside if content)
    return Unpacked(data, left)


def first_bytes(head: bytes) -> bytes:
    """Unpack the first bytes of a file, as far as its format is known by them."""
    try:
        return bytes(_unpacking(head).decompress(head, _FIRST))
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error):
        return b""


def _unpacking(head: bytes) -> Any:
    if head.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(zlib.MAX_WBITS | 16)
    if head.startswith(b"BZh"):
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(memlimit=_MOST_MEMORY)


def _grow(data: bytearray, more: bytes) -> None:
    data += more
    at_most(MOST_R_BYTES, len(data), "bytes")


def header_of(data: bytes) -> bytes:
    """Read extra fields and a comment in the header of a packed file, and a name if it is long."""
    if not data.startswith(b"\x1f\x8b"):
        return b""
    flags, rest, extra, comment = data[3], data[10:], b"", b""
    if flags & 4:
        n = 2 + int.from_bytes(rest[:2], "little")
        extra, rest = rest[2:n], rest[n:]
    name, _, rest = rest.partition(b"\0") if flags & 8 else (b"", b"", rest)
    if flags & 16:
        comment = rest.partition(b"\0")[0]
    return extra + (name if len(name) > _MOST_NAME else b"") + comment
