"""The files in a folder or an archive, with bounds: nothing of an archive is taken at its word.

Members are written to a private folder under numbers, never under their own names, so no name can
lead anywhere. A member that is an archive itself is opened, too.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from treeleak.core.errors import BadModel, cause
from treeleak.core.private import dataclass
from treeleak.core.signals import private_folder
from treeleak.release.containers.unaccounted import (
    MOST_EXTRA,
    after,
    beside_packed,
    between,
    padding,
)

MOST_MEMBERS = 10_000
"""Files and folders; each is opened and looked at."""
MOST_LEVELS = 20
"""Of folders in folders."""
MOST_ARCHIVES = 2
"""An archive, and archives in it."""
MOST_NAME = 500
"""Letters."""
FREE_BYTES, MOST_GROWTH, MOST_BYTES = 64 << 20, 40, 8 << 30
"""What an archive may unpack to: this much, or so many times its own size; never more than all."""
_BLOCK = 1 << 20
_PLAIN_HEADERS = frozenset(("path", "size", "mtime", "atime", "ctime", "uid", "gid"))
_DAMAGED = (
    EOFError, OSError, struct.error, RuntimeError, ValueError, tarfile.TarError, zlib.error,
    zipfile.BadZipFile, NotImplementedError,
)  # fmt: skip
_PACKED = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open))


@dataclass(frozen=True)
class Member:
    """A file in a folder or an archive."""

    name: str
    """Path in it, with slashes."""
    path: Path
    """Where it can be read now."""
    link: bool = False
    """Whether it only points elsewhere: it is not followed."""


def is_archive(path: Path) -> bool:
    """Say whether a file is a tar file, packed or not, or a zip file that is no skops archive."""
    try:
        return _is_tar(path) or _is_zip(path)
    except _DAMAGED:
        return False


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return False
    # A file that ends too early is for the reader of models to name.
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
    return "schema.json" not in names


def _is_tar(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(512)
    if head[257:262] == b"ustar":
        return True
    for magic, opened in _PACKED:
        if head.startswith(magic):
            with opened(path, "rb") as packed:
                return bool(packed.read(512)[257:262] == b"ustar")
    return False


@contextmanager
def members_of(source: Path) -> Iterator[tuple[Member, ...]]:
    """List the files in a folder or an archive, those in archives in it too, for a while.

    Raises
    ------
    BadModel
        Naming the member that is damaged, too large, or none that a folder should hold.
    """
    with private_folder() as scratch:
        unpacking = _Unpacking(scratch)
        found = unpacking.folder(source) if source.is_dir() else unpacking.archive(source, "", 1)
        found += unpacking.empty_folders(found)
        yield tuple(sorted(found, key=lambda member: member.name))


class _Unpacking:
    """One source on its way: what was written so far, against its bounds."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._names: set[str] = set()
        self._written = 0

    def folder(self, source: Path) -> list[Member]:
        found: list[Member] = []
        waiting = [(source, "", 0)]
        while waiting:
            folder, prefix, level = waiting.pop()
            if level > MOST_LEVELS:
                raise BadModel(f"{prefix}: more than {MOST_LEVELS} folders in each other: not read")
            with os.scandir(folder) as entries:
                for entry in sorted(entries, key=lambda e: e.name):
                    name = prefix + entry.name
                    self._count(name)
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if stat.S_ISDIR(mode):
                        waiting.append((Path(entry.path), f"{name}/", level + 1))
                    elif stat.S_ISREG(mode):
                        found += self._looked_into(Member(name, Path(entry.path)), 0)
                    else:
                        found.append(Member(name, Path(entry.path), link=True))
        return found

    def archive(self, path: Path, prefix: str, depth: int) -> list[Member]:
        """Unpack an archive; what its members are called begins with ``prefix``."""
        allowed = min(FREE_BYTES + MOST_GROWTH * path.stat().st_size, MOST_BYTES)
        unpack = self._zip if _is_zip(path) else self._tar
        try:
            unpacked = unpack(path, prefix, self._written + allowed)
        except BadModel:
            raise
        except _DAMAGED as error:
            what = prefix.rstrip("/") or "the archive"
            raise BadModel(
                f"{what}: damaged, cut short or changed on its way: copy it again ({cause(error)})"
                if isinstance(error, OSError) and error.strerror
                else f"{what}: damaged, cut short or changed on its way: copy it again ({error})"
            ) from error
        return [inner for member in unpacked for inner in self._looked_into(member, depth)]

    def empty_folders(self, found: Sequence[Member]) -> list[Member]:
        """Give the names of folders without files as content: names can hold rows, too."""
        filled = {
            "/".join(parts[:k])
            for parts in (member.name.split("/") for member in found)
            for k in range(1, len(parts) + 1)
        }
        # An archive may begin with the folder that all its members are in.
        if not (names := sorted({name.rstrip("/") for name in self._names} - {"", *filled})):
            return []
        content = "\n".join(names).encode("utf-8", "replace")
        name = "(empty folders)"
        self._count(name)
        return [self._write(name, io.BytesIO(content), None, MOST_BYTES)]

    def _looked_into(self, member: Member, depth: int) -> list[Member]:
        if not is_archive(member.path):
            return [member]
        if depth >= MOST_ARCHIVES:
            raise BadModel(f"{member.name}: an archive in an archive in an archive: not read")
        return self.archive(member.path, f"{member.name}/", depth + 1)

    def _zip(self, path: Path, prefix: str, most: int) -> list[Member]:
        found = []
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_MEMBERS:
                raise BadModel(f"{len(infos):,} members, more than {MOST_MEMBERS:,}: not read")
            for info in infos:
                name = self._checked(prefix, info.orig_filename)
                kind = stat.S_IFMT(info.external_attr >> 16)
                if info.is_dir():
                    continue
                if kind not in (0, stat.S_IFREG):
                    raise BadModel(f"{name}: a link or a device in an archive: not read")
                if info.flag_bits & 1:
                    raise BadModel(f"{name}: has a password: unpack the archive first")
                try:
                    with archive.open(info) as file:
                        found.append(self._write(name, file, info.file_size, most))
                except _DAMAGED as error:
                    raise _damaged(name, error) from error
            beside = [archive.comment, *(info.comment for info in infos)]
            beside += [info.extra for info in infos if len(info.extra) > MOST_EXTRA]
            beside += between(path, archive.start_dir, infos)
        return found + self._beside(prefix, beside, most)

    def _tar(self, path: Path, prefix: str, most: int) -> list[Member]:
        with path.open("rb") as file:
            head = file.read(6)
        opened: Any = next((o for magic, o in _PACKED if head.startswith(magic)), Path.open)
        found = []
        ends: list[int] = []
        beside: list[bytes] = []
        name = prefix.rstrip("/") or "the archive"
        with (
            opened(path, "rb") as raw,
            # Even headers are read through the bound, whatever sizes they state.
            tarfile.open(fileobj=_Bounded(raw, most, name), mode="r|") as archive,
        ):
            while True:
                try:
                    info = archive.next()
                except _DAMAGED as error:
                    raise _damaged(f"after {name}", error) from error
                if info is None:
                    break
                name = self._checked(prefix, info.name)
                if info.isdir():
                    continue
                if not info.isreg() or info.issparse():
                    raise BadModel(f"{name}: a link or a device in an archive: not read")
                content = archive.extractfile(info)
                if content is None:
                    raise BadModel(f"{name}: nothing to read")
                try:
                    found.append(self._write(name, content, info.size, most))
                except _DAMAGED as error:
                    raise _damaged(name, error) from error
                if not info.pax_headers.keys() <= _PLAIN_HEADERS:
                    beside.append(repr(info.pax_headers).encode())
                if info.size % tarfile.BLOCKSIZE:
                    ends.append(info.offset_data + info.size)
            # What stands behind the end belongs to no member.
            beside.append(after(archive.fileobj, name))
        with opened(path, "rb") as raw:
            beside.append(padding(raw, ends))
        beside.append(beside_packed(path))
        return found + self._beside(prefix, beside, most)

    def _beside(self, prefix: str, parts: list[bytes], most: int) -> list[Member]:
        """Write what an archive holds beside its members, as one more of them."""
        if not (content := b"".join(parts)):
            return []
        name = f"{prefix}(beside the members)"
        self._count(name)
        return [self._write(name, io.BytesIO(content), None, most)]

    def _checked(self, prefix: str, name: str) -> str:
        """Refuse names that lead elsewhere, or that two readers could take for different ones."""
        windows = PureWindowsPath(name)
        outside = windows.drive or windows.root or PurePosixPath(name).is_absolute()
        if outside or ".." in windows.parts or "\0" in name or len(name) > MOST_NAME:
            raise BadModel(f"{name!r:.80}: a name that leads out of the archive: not read")
        if len(windows.parts) > MOST_LEVELS:
            raise BadModel(f"{name!r:.80}: more than {MOST_LEVELS} folders in each other: not read")
        plain = prefix + "/".join(part for part in windows.parts if part != ".")
        self._count(plain)
        return plain

    def _count(self, name: str) -> None:
        if name in self._names:
            raise BadModel(f"{name!r:.80}: two members of this name: not read")
        self._names.add(name)
        if len(self._names) > MOST_MEMBERS:
            raise BadModel(f"more than {MOST_MEMBERS:,} files and folders: not read")

    def _write(self, name: str, file: IO[bytes], stated: int | None, most: int) -> Member:
        """Write a member to the private folder, as long as it stays within its bounds."""
        if stated is not None and self._written + stated > most:
            raise BadModel(f"{name}: unpacks to more than such an archive may hold: not read")
        place = self._scratch / str(len(self._names))
        n = 0
        with place.open("wb") as out:
            while block := file.read(_BLOCK):
                n += len(block)
                if self._written + n > most:
                    raise BadModel(f"{name}: unpacks to more than such an archive may hold")
                out.write(block)
        if stated is not None and n != stated:
            raise BadModel(f"{name}: cut short: {n:,} of {stated:,} bytes: copy it again")
        self._written += n
        return Member(name, place)


class _Bounded(io.RawIOBase):
    """A stream that ends with an error where more comes out of it than may."""

    def __init__(self, raw: Any, most: int, name: str) -> None:
        self._raw, self._left, self._name = raw, most + (64 << 20), name

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        block: bytes = self._raw.read(min(size if size >= 0 else _BLOCK, self._left + 1))
        self._left -= len(block)
        if self._left < 0:
            raise BadModel(f"{self._name}: unpacks to more than such an archive may hold: not read")
        return block


def _damaged(name: str, error: Exception) -> BadModel:
    if isinstance(error, BadModel):
        return error
    return BadModel(f"{name}: damaged, cut short or changed on its way: copy it again ({error})")
