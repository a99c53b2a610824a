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
_END, _END64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_HAS_DESCRIPTOR = 0x08
_SYSTEMS, _VERSIONS, _MANY = (0, 3), (20, 45), 0xFFFF
_SECONDS, _BYTES_A_SECOND = 120, 1 << 20
"""How long it may take to write the members one after the other."""
_LOOSE, _FREE = 2, 64
"""How much longer than by zlib's fastest way a compressed stream may be, and bytes beside."""
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
        if stated := _odd_statements(info):
            yield Leftover("the archive", "statements of a member that say nothing of it", stated)
        if (rest := _behind_stream(file, info, content)) is not None:
            yield Leftover("the archive", "bytes after the content of a member", rest)
    infos = archive.infolist()
    dates = [info.date_time for info in infos]
    longest = _SECONDS + size // _BYTES_A_SECOND
    if dates != sorted(dates) or (dates and _seconds(dates[-1]) - _seconds(dates[0]) > longest):
        yield Leftover("the archive", "times of members, not one after the other", tuple(dates))
    if len({info.external_attr for info in infos}) > 1:
        rights = tuple(info.external_attr for info in infos)
        yield Leftover("the archive", "rights of members that differ", rights)
    if (record := _odd_end(archive, file, central, size)) is not None:
        yield Leftover("the archive", "end of the list of members", record)
    used.append((archive.start_dir, _end_of_directory(file, central, size, archive)))
    at = 0
    for start, end in [*sorted(used), (size, size)]:
        if start < at:
            raise BadModel("parts of the archive overlap")
        if start > at:
            yield Leftover("the archive", "bytes that belong to no member", _read(file, at, start))
        at = max(at, end)


def _seconds(date: tuple[int, int, int, int, int, int]) -> int:
    year, month, day, hour, minute, second = date
    return (((year * 12 + month) * 31 + day) * 24 + hour) * 3600 + minute * 60 + second


def _odd_statements(info: zipfile.ZipInfo) -> tuple[int, ...] | None:
    """What the list of members says of a member, where no zip file of Python's says it."""
    usual = (
        info.create_system in _SYSTEMS
        and info.create_version in _VERSIONS
        and info.extract_version in _VERSIONS
        and info.flag_bits in (0, _HAS_DESCRIPTOR)
        and info.external_attr & 0xFFFF == 0
        and not (info.reserved or info.volume or info.internal_attr)
    )
    header = (info.create_system, info.create_version, info.extract_version, info.flag_bits)
    more = (info.reserved, info.volume, info.internal_attr, info.external_attr)
    return None if usual else (*header, *more)


def _odd_end(archive: zipfile.ZipFile, file: IO[bytes], at: int, size: int) -> bytes | None:
    """The record behind the list of members, where it is none of so many members there."""
    file.seek(at)
    end = file.read(size - at)
    n, start = len(archive.infolist()), archive.start_dir
    wide = end.startswith(b"PK\x06\x06")
    least = _END64_BYTES + _LOCATOR64_BYTES if wide else 0
    most = (min(n, _MANY), min(n, _MANY), min(at - start, _IN_EXTRA), min(start, _IN_EXTRA))
    usual = _END.pack(b"PK\x05\x06", 0, 0, *most, len(archive.comment))
    if wide:
        parts = (_END64_BYTES - 12, 45, 45, 0, 0, n, n, at - start, start)
        usual = (
            _END64.pack(b"PK\x06\x06", *parts) + _LOCATOR64.pack(b"PK\x06\x07", 0, at, 1) + usual
        )
    known = end.startswith(usual) or (least == 0 and n == 0)
    return None if known else end[: least + _END_BYTES]


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
    if fields[0] not in _VERSIONS or (flags, method, time, date) != (
        info.flag_bits,
        info.compress_type,
        *listed,
    ):
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
        plain = zlib.decompress(_read(file, start, start + info.compress_size), -zlib.MAX_WBITS)
        if over <= 0 and info.compress_size > _LOOSE * len(zlib.compress(plain, 1)) + _FREE:
            # Empty blocks, say.
            unused += _read(file, start, start + info.compress_size)
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
