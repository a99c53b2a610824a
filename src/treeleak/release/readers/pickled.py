"""Pickle and joblib files: refused, or on request taken apart in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.core.signals import private_folder
from treeleak.release.readers.skops_archive import read_archive, read_value
from treeleak.release.registry import describe_format, reader
from treeleak.release.stored import Leftover, StoredObject
from treeleak.release.unsupported_formats import HOW_TO_SAVE

_BOUNDED = Path(__file__).with_name("bounded.py")
_GROWTH = 100
"""Bytes of memory, and of what is written, for each byte of a file."""


@dataclass(frozen=True)
class Worker:
    """A module, or a package, that reads hostile files, and what it may take."""

    script: Path
    memory: int
    """Bytes, and more for each byte of the file."""
    written: int
    """The same of what it writes."""
    seconds: int
    """Of the processor's time, for a small file."""
    seconds_per_mib: int


def refused_by(worker: Worker, source: Path, out: Path, seconds: int, **environment: str) -> str:
    """Let a script read ``source`` and write ``out``; say why it did not, or nothing.

    Raises TimeoutError if it takes longer than ``seconds``.
    """
    size = source.stat().st_size
    bounds = (
        worker.memory + _GROWTH * size,
        worker.seconds + worker.seconds_per_mib * (size >> 20),
        worker.written + _GROWTH * size,
    )
    try:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-I", *map(str, (_BOUNDED, *bounds, worker.script, source, out))],
            cwd=out.parent,
            env={k: v for k, v in os.environ.items() if k == "SYSTEMROOT"}
            | {"OPENBLAS_NUM_THREADS": "1"}
            | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error
    if done.returncode == 0 and out.is_file():
        return ""
    errors = done.stderr.strip().splitlines()
    # Without a last word, the system ended it.
    return errors[-1] if errors else "it takes more time or memory than its size explains"


WORKER = Worker(Path(__file__).with_name("unpickling"), 2 << 30, 2 << 30, 20, 2)
SECONDS = 600

# Protocols 2 to 5; the compressions of joblib (zlib, gzip, bz2, lzma, xz, lz4); the text of
# protocols 0 and 1, which starts with a class.
_MAGIC = re.compile(
    rb"\x80[\x02-\x05]|\x78[\x01\x5e\x9c\xda]|\x1f\x8b|BZh|\x5d\x00\x00|\xfd7zXZ|\x04\x22\x4d\x18"
    rb"|\(?[ci][A-Za-z_][\w.]*\n\w+\n",
    re.DOTALL,
)
# What Python says of data that ends too soon.
_CUT = re.compile(
    r"EOFError|end-of-stream|truncated|cut short|Ran out of input|exhausted|does not fit its shape"
)


def is_pickle(head: bytes) -> bool:
    """Say whether a file is a pickle or joblib file, by its first bytes."""
    return _MAGIC.match(head) is not None


describe_format(
    "pickle or joblib",
    ".pkl .joblib",
    "all that an object holds: as skops, maybe the training table",
    "--trust-pickle",
)


@reader("pickle or joblib", is_pickle)
def read_pickle(path: Path, trust_pickle: bool = False) -> StoredObject:
    """Read the object in a pickle or joblib file.

    No class that the file names is imported, so a file of any scikit-learn version is readable
    without that version, and a call that the file asks for is recorded, not made.

    ``trust_pickle``: open the file at all. Raises BadModel: refused without
    ``trust_pickle``, or damaged.
    """
    _check_trusted(trust_pickle)
    with _unpickled(path) as out:
        stored = read_archive(out)
    return replace(stored, leftovers=_unread(stored.leftovers))


def read_pickled_values(path: Path, trust_pickle: bool) -> Any:
    """Read arrays, lists and other plain values in a pickle file, as :func:`read_pickle` does.

    Raises BadModel: refused without ``trust_pickle``, or damaged.
    """
    return read_pickled(path, trust_pickle)[0]


def read_pickled(path: Path, trust_pickle: bool) -> tuple[Any, tuple[Leftover, ...]]:
    """Read whatever a pickle file holds, and what is left over in it, as :func:`read_pickle` does.

    Raises BadModel: refused without ``trust_pickle``, or damaged.
    """
    _check_trusted(trust_pickle)
    with _unpickled(path) as out:
        value, left = read_value(out)
    return value, _unread(left)


def _unread(leftovers: tuple[Leftover, ...]) -> tuple[Leftover, ...]:
    """What the pickle left unread: the archive is the worker's own, and holds nothing else."""
    what = "values that the model does not hold"
    return tuple(replace(left, where="the pickle", what=what) for left in leftovers)


def _check_trusted(trust_pickle: bool) -> None:
    if not trust_pickle:
        raise BadModel(
            "a pickle or joblib file can run any code when it is opened. "
            "If you know who made it, allow it with --trust-pickle (trust_pickle=True), "
            "or save the model with skops instead"
        )


@contextmanager
def _unpickled(path: Path) -> Iterator[Path]:
    """Let the worker turn a pickle into an archive, and name no path of it in errors."""
    with private_folder() as folder:
        out = folder / "model.zip"
        try:
            why = refused_by(WORKER, path.resolve(), out, SECONDS)
        except TimeoutError as error:
            raise BadModel(f"not read within {SECONDS} seconds") from error
        if why:
            cut = "cut short or changed on its way: copy it again, or save the model again"
            other = f"load it where it was made, and {HOW_TO_SAVE}"
            raise BadModel(f"not a readable pickle: {cut if _CUT.search(why) else other} ({why})")
        try:
            yield out
        except BadModel as error:
            raise BadModel(str(error).removeprefix(f"{out}: ")) from error
