"""What an archive holds beside its members: bytes that no reader of members shows."""

from __future__ import annotations

import bz2
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from treeleak.core.errors import BadModel
from treeleak.release.readers.packed import header_of

MOST_EXTRA = 36
"""Bytes that programs write beside a member of a zip file: times and sizes."""
_LOCAL, _CENTRAL, _END, _END_64 = 30, 46, 22, 56 + 20
"""Bytes of the headers of a zip file without what they name the length of: of a member, of its
entry in the list of all, of the end, and of the end of a large file."""
_LARGE = 0xFFFFFFFE
_PACKED = (b"\x1f\x8b", b"BZh")
_BLOCK = 1 << 20


def between(path: Path, start: int, infos: Sequence[zipfile.ZipInfo]) -> list[bytes]:
    """List the bytes of a zip file that belong to no member, nor to the list of members.

    ``start``: where that list begins. A member's header may differ from its entry in the list.
    """
    found = []
    with path.open("rb") as file:
        used = []
        for info in infos:
            file.seek(info.header_offset)
            n_name, n_extra = struct.unpack("<26xHH", file.read(_LOCAL))
            file.seek(n_name, os.SEEK_CUR)
            if n_extra > MOST_EXTRA:
                found.append(file.read(n_extra))
            end = info.header_offset + _LOCAL + n_name + n_extra + info.compress_size
            if info.flag_bits & 8:
                file.seek(end)
                signed = file.read(4) == b"PK\x07\x08"
                large = info.file_size > _LARGE or info.compress_size > _LARGE
                end += 4 * signed + (20 if large else 12)
            used.append((info.header_offset, end))
        file.seek(start)
        end = start
        for _ in infos:
            lengths = struct.unpack("<28xHHH12x", file.read(_CENTRAL))
            end += _CENTRAL + sum(lengths)
            file.seek(end)
        if file.read(4) == b"PK\x06\x06":
            end += _END_64
        file.seek(end)
        (n_comment,) = struct.unpack("<20xH", file.read(_END))
        used.append((start, end + _END + n_comment))
        at = 0
        for first, last in (*sorted(used), (path.stat().st_size, 0)):
            if first > at:
                file.seek(at)
                found.append(file.read(min(first - at, _BLOCK)))
            at = max(at, last)
    return found


def padding(raw: IO[bytes], ends: Sequence[int]) -> bytes:
    """Bytes that are not zero between the end of each member of a tar file and the next block."""
    left = b""
    for end in ends:
        raw.seek(end)
        left += raw.read(-end % tarfile.BLOCKSIZE).strip(b"\0")
    return left


def beside_packed(path: Path) -> bytes:
    """Read what a packed file holds beside what it unpacks to.

    It may be several packed files in a row, each with a header of its own, and end in anything.
    """
    found = b""
    with path.open("rb") as file:
        data = file.read(_BLOCK)
        magic = next((m for m in _PACKED if data.startswith(m)), b"")
        while magic and data.lstrip(b"\0"):
            if not data.startswith(magic):
                return found + data.strip(b"\0")
            found += header_of(data)
            data = _next_packed(file, data)
            data += file.read(_BLOCK)
    return found


def _next_packed(file: IO[bytes], data: bytes) -> bytes:
    """Pass over one packed file, in small steps, to the bytes behind it."""
    if data.startswith(b"BZh"):
        bz = bz2.BZ2Decompressor()
        while not bz.eof:
            bz.decompress(data, _BLOCK)
            data = file.read(_BLOCK) if bz.needs_input else b""
            if bz.needs_input and not data:
                break
        return bz.unused_data
    gz = zlib.decompressobj(31)
    while not gz.eof and data:
        gz.decompress(data, _BLOCK)
        data = gz.unconsumed_tail or file.read(_BLOCK if not gz.eof else 0)
    return gz.unused_data


def after(stream: Any, name: str) -> bytes:
    """Bytes behind the end of a tar file that are not zero."""
    left = b""
    while block := stream.read(_BLOCK):
        left += block.strip(b"\0")
        if len(left) > _BLOCK:
            raise BadModel(f"after {name}: more than a MiB behind the last member: not read")
    return left
