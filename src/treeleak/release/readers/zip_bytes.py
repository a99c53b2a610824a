"""Every byte of a zip file accounted for: what belongs to no member's content is left over."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from treeleak.core.errors import BadModel
from treeleak.release.stored import Leftover

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL_BYTES, _END_BYTES, _END64_BYTES, _LOCATOR64_BYTES = 46, 22, 56, 20
_HAS_DESCRIPTOR = 0x08
_ZIP64, _IN_EXTRA = 1, 0xFFFFFFFF


def unused_bytes(archive: zipfile.ZipFile, file: IO[bytes]) -> Iterator[Leftover]:
    """List what stands in a zip file beside the content of its members.

    ``file`` (binary file): the same. Raises BadModel if members overlap, or are called one thing in
    one place and another elsewhere, or hold more than they state.
    """
    size = file.seek(0, os.SEEK_END)
    if archive.comment:
        yield Leftover("the archive", "its comment", archive.comment)
    central = archive.start_dir
    used = []
    for info in archive.infolist():
        central += _CENTRAL_BYTES + len(info.orig_filename.encode()) + len(info.extra)
        central += len(info.comment)
        if info.comment:
            yield Leftover("the archive", "comment of a member", info.comment)
        if info.extra:
            yield Leftover("the archive", "extra field of a member", info.extra)
        start, content, end, odd = _local(file, info)
        used.append((start, end))
        if odd:
            yield Leftover("the archive", "fields before a member", odd)
        if (rest := _behind_stream(file, info, content)) is not None:
            yield Leftover("the archive", "bytes after the content of a member", rest)
    used.append((archive.start_dir, _end_of_directory(file, central, size, archive)))
    at = 0
    for start, end in [*sorted(used), (size, size)]:
        if start < at:
            raise BadModel("parts of the archive overlap")
        if start > at:
            yield Leftover("the archive", "bytes that belong to no member", _read(file, at, start))
        at = max(at, end)


def _local(file: IO[bytes], info: zipfile.ZipInfo) -> tuple[int, int, int, bytes]:
    """Find where a member begins, its content, and its end; and what says more before it."""
    file.seek(info.header_offset)
    mark, *fields = _LOCAL.unpack(file.read(_LOCAL.size))
    flags, n_name, n_extra = fields[1], fields[-2], fields[-1]
    name, extra = file.read(n_name), file.read(n_extra)
    if mark != b"PK\x03\x04" or name != info.orig_filename.encode():
        raise BadModel("a member has two names, or none")
    odd = b"" if _is_plain(info, fields, extra) else repr(fields).encode() + extra
    content = info.header_offset + _LOCAL.size + n_name + n_extra
    end = content + info.compress_size
    if flags & _HAS_DESCRIPTOR:
        file.seek(end)
        descriptor = file.read(24)
        wide = 8 if extra else 4
        sizes = info.compress_size.to_bytes(wide, "little") + info.file_size.to_bytes(
            wide, "little"
        )
        plain = info.CRC.to_bytes(4, "little") + sizes
        for known in (b"PK\x07\x08" + plain, plain):
            if descriptor.startswith(known):
                end += len(known)
                break
    return info.header_offset, content, end, odd


def _is_plain(info: zipfile.ZipInfo, fields: list[int], extra: bytes) -> bool:
    """Say whether the fields before a member say what the list of members says, and no more."""
    flags, method, time, date, crc, packed, size = fields[1:8]
    year, month, day, hour, minute, second = info.date_time
    listed = (hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day)
    if (flags, method, time, date) != (info.flag_bits, info.compress_type, *listed):
        return False
    later = bool(flags & _HAS_DESCRIPTOR)
    if crc != info.CRC and not (later and crc == 0):
        return False
    real = info.file_size.to_bytes(8, "little") + info.compress_size.to_bytes(8, "little")
    if (packed, size) == (_IN_EXTRA, _IN_EXTRA):
        # Where sizes come later, zeros stand for them here, too.
        head = struct.pack("<2H", _ZIP64, len(real))
        return extra == head + real or (later and extra == head + bytes(len(real)))
    sizes = (packed, size)
    known = sizes == (info.compress_size, info.file_size) or (later and sizes == (0, 0))
    return known and not extra


def _behind_stream(file: IO[bytes], info: zipfile.ZipInfo, start: int) -> bytes | None:
    """What stands in a member behind the end of its compressed stream.

    zipfile hands over no more than the size that a member states, and drops the rest without a
    word. Raises BadModel if there is more.
    """
    over = info.compress_size - info.file_size
    unused = b""
    if info.compress_type == zipfile.ZIP_DEFLATED:
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        data, over = _read(file, start, start + info.compress_size), -info.file_size
        while data and not stream.eof and over <= 0:
            over += len(stream.decompress(data, 1 << 20))
            data = stream.unconsumed_tail
        unused = stream.unused_data
    if over > 0:
        raise BadModel(f"{info.filename} holds more than the size that it states")
    return unused or None


def _end_of_directory(file: IO[bytes], at: int, size: int, archive: zipfile.ZipFile) -> int:
    """Step over the records behind the list of members."""
    file.seek(at)
    if file.read(4) == b"PK\x06\x06":
        at += _END64_BYTES + _LOCATOR64_BYTES
    return min(at + _END_BYTES + len(archive.comment), size)


def _read(file: IO[bytes], start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)
