"""What tells one state of a file or a folder from another."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path


def state_of(path: Path) -> tuple[tuple[int, ...], ...]:
    """Take place, size and time of a file, or of all files in a folder: cheap to take twice."""
    states = (file.lstat() for _, file in _files(path))
    return tuple((s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in states)


def sha256_of(path: Path) -> str:
    """Hash a file; of a folder, the names and hashes of its files. Links are not followed."""
    if not path.is_dir():
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    whole = hashlib.sha256()
    for name, file in _files(path):
        regular = file.is_file() and not file.is_symlink()
        whole.update(
            f"{name}\0{sha256_of(file) if regular else ''}\n".encode("utf-8", "surrogateescape")
        )
    return whole.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        yield "", path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            yield file.relative_to(path).as_posix(), file
