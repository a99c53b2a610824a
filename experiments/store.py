"""One store for all runs: a run is kept by its content, once, and never lost once it is done.

A run is a study's name, its parameters and the results version that it ran with. The store is one
SQLite file: several processes may write at once, a process that is killed takes only its own
unfinished runs with it, and every record carries a checksum.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import math
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadInput
from treeleak.core.output import write_file
from treeleak.core.private import dataclass

FOLDER = Path("results")
"""Where runs, tables and figures are kept, unless another folder is named."""

_WAIT = 60.0
"""Seconds to wait for others that write."""
_MOST_TEXT, _MOST_MEMORY = 2**26, 2**27
"""Bytes of runs that are read from a file, and that unpacking it may take."""
_MOST_VERSIONS = 2**31
_TABLE = """
CREATE TABLE IF NOT EXISTS results (
    study TEXT NOT NULL, parameters TEXT NOT NULL, version INTEGER NOT NULL,
    record TEXT NOT NULL, checksum TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (study, parameters, version)
) WITHOUT ROWID
"""
_KEEP = "INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?)"
_REPLACE = "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)"
_LATEST = """
INSERT INTO results VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (study, parameters, version) DO UPDATE
SET record = excluded.record, checksum = excluded.checksum, at = excluded.at WHERE excluded.at > at
"""

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run that is done; its values are plain."""

    study: str
    parameters: Mapping[str, Any]
    version: int
    """Results version."""
    record: Mapping[str, Any]
    """What came out."""


def key_of(study: str, parameters: Mapping[str, Any]) -> str:
    """Name a run by its content, whatever its version."""
    return _text([study, parameters])


class Store:
    """The runs of all studies and benchmarks, in one file, which is made if it is not there.

    Raises BadInput if the file is no store, or damaged: it is named, and left as it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"{self.path}: {error.strerror or error}") from error
        with self._open() as base:
            base.execute(_TABLE)
            (found,) = base.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise BadInput(self._damaged(found))

    def add(self, run: Run, again: bool = False) -> bool:
        """Keep a run; False if it is there already, which stays unless this is done ``again``."""
        with self._open() as base:
            done = base.execute(_REPLACE if again else _KEEP, _line(run, time.time()))
            return done.rowcount == 1

    def runs(self, study: str, version: int | None = None) -> list[Run]:
        """All runs of a study, of one results version or of any; of equal ones the latest.

        A higher version is later, whenever it ran. Raises BadInput if a record was changed since it
        was written: the run is named.
        """
        return [run for run, _ in self._dated(study, version)]

    def write(self, path: str | os.PathLike[str], studies: Iterable[str]) -> int:
        """Write the latest runs of some studies (``kept_as``) for other stores; say how many.

        Lines of JSON, compressed as xz; the same runs give the same file. Raises BadInput if a
        record was changed since it was written, or the file cannot be written.
        """
        runs = [dated for study in sorted(set(studies)) for dated in self._dated(study, None)]
        lines = sorted(_text([r.study, r.parameters, r.version, r.record, at]) for r, at in runs)
        text = "".join(f"{line}\n" for line in lines)
        write_file(path, lzma.compress(text.encode()))
        return len(lines)

    def read(self, path: str | os.PathLike[str]) -> int:
        """Add the runs that another store wrote, of equal ones the latest; say how many.

        Raises BadInput if the file is not there, or holds anything but runs: then none is added.
        """
        try:
            text = _unpacked(Path(path))
            lines = [_line(*_dated_run(json.loads(line))) for line in text.splitlines()]
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or error}") from error
        except (lzma.LZMAError, ValueError, RecursionError) as error:
            raise BadInput(f"{path}: not the runs of a store ({error})") from error
        with self._open() as base:
            before = base.total_changes
            base.executemany(_LATEST, lines)
            return base.total_changes - before

    def _dated(self, study: str, version: int | None) -> list[tuple[Run, float]]:
        """Runs, and when each was made."""
        query = "SELECT parameters, version, record, checksum, at FROM results WHERE study = ?"
        more, given = ("", (study,)) if version is None else (" AND version = ?", (study, version))
        query += f"{more} ORDER BY version, at"
        found: dict[str, tuple[Run, float]] = {}
        with self._open() as base:
            lines: Iterable[tuple[Any, ...]] = base.execute(query, given)
            for parameters, own, record, checksum, at in lines:
                self._check(study, parameters, record, checksum)
                run = Run(study, json.loads(parameters), own, json.loads(record))
                found.pop(parameters, None)
                found[parameters] = run, at
        return list(found.values())

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction: no connection outlives it, or crosses a process."""
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT)) as base, base:
                yield base
        except sqlite3.DatabaseError as error:
            raise BadInput(self._damaged(str(error))) from error

    def _check(self, study: str, parameters: str, record: str, checksum: str) -> None:
        if _checksum(record) != checksum:
            raise BadInput(self._damaged(f"the run {study} {parameters} was changed"))

    def _damaged(self, why: str) -> str:
        return (
            f"{self.path}: the store cannot be used ({why}). Move it away to begin a new one; "
            "what is in it stays as it is"
        )


def store_file(folder: Path) -> Path:
    """Say where the store of a folder lies."""
    return folder / "runs.sqlite"


def _line(run: Run, at: float) -> tuple[Any, ...]:
    """Write a run as the table has it."""
    record = _text(run.record)
    return run.study, _text(run.parameters), run.version, record, _checksum(record), at


def _unpacked(path: Path) -> str:
    """Unpack a file, however large it says it is."""
    packed = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    with path.open("rb") as file:
        text = packed.decompress(file.read(_MOST_TEXT), _MOST_TEXT)
    if not packed.eof:
        cut = "it is cut off" if packed.needs_input else f"more than {_MOST_TEXT:,} bytes"
        raise ValueError(cut)
    if packed.unused_data:
        raise ValueError("something stands behind its end")
    return text.decode()


def _dated_run(line: Any) -> tuple[Run, float]:
    match line:
        case [str(study), dict(parameters), int(version), dict(record), float(at)]:
            # To JSON, lone surrogates are text and any whole number will do; not to a store.
            _ = study.encode()
            if 1 <= version < _MOST_VERSIONS:
                return Run(study, parameters, version, record), at
    raise ValueError(f"not a run: {str(line)[:60]}")


def _text(value: Any) -> str:
    """Write plain values in one way; NaN and infinity become null and texts."""
    return json.dumps(_plain(value), sort_keys=True, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
