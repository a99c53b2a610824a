"""What the benchmarks share: a store in which one run is one record, and DRAFT's tables.

A record is one line of JSON: the parameters of the run ("case"), the version of the code, the
outcome, the peak memory of the process, and the versions of everything underneath. Records are
appended as soon as they exist, so a benchmark that was stopped goes on where it was; a record
stands for a run if all parameters are equal, and of several, the last.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from rich.console import Console
from rich.progress import track

import treeleak
from treeleak.datasets import Dataset, load_draft
from treeleak.reconstruction import versions

__all__ = [
    "DATASETS",
    "FOLDER",
    "Record",
    "Store",
    "draft",
    "flat",
    "seed_range",
    "use_tables_beside",
]

DATASETS = ("compas", "adult", "default_credit")
FOLDER = Path(".benchmarks")
BESIDE = Path("../shared/data")

# A process that was killed gives no answer.
_LONGEST = 3600.0
# Seconds.
_LOG_EVERY = 60.0

Record = dict[str, Any]
Case = TypeVar("Case")
"""A frozen dataclass of plain values: the parameters of one run."""


class Store:
    """The records of one benchmark.

    Parameters
    ----------
    path : Path
        Need not exist. Lines that are no records, such as one that was cut off, are named on
        stderr and skipped.
    fresh : bool
        Use no record from before; what is in the file stays there.
    """

    def __init__(self, path: Path, fresh: bool = False) -> None:
        self.path = path
        self._records = {} if fresh else _read(path)

    def collect(
        self,
        cases: Iterable[Case],
        run: Callable[[Case], Record],
        warm: Callable[[Case], Case],
        apart: Callable[[Case], bool] = lambda _: True,
        at_once: int = 1,
    ) -> list[Record]:
        """Run what the store lacks, and return the records of all cases.

        Parameters
        ----------
        cases : iterable of Case
        run : callable
            The outcome of a case; a function of a module.
        warm : callable
            A small case that is run before each of these, to compile what it will use.
        apart : callable
            Whether a case has a process of its own, and so a peak memory of its own. For the
            others, ``peak_mb`` is that of all runs so far.
        at_once : int
            Processes in which cases run side by side; if more than one, ``apart`` is not asked,
            and each process warms up once.
        """
        cases = list(cases)
        todo = [c for c in dict.fromkeys(cases) if _key(asdict(c)) not in self._records]  # type: ignore[call-overload]
        done = _one_by_one(todo, run, warm, apart)
        if at_once > 1 and todo:
            done = _side_by_side(todo, run, warm, at_once)
        for record in _watched(done, len(todo)):
            self._records[_key(record["case"])] = record
            _append(self.path, record)
        return [self._records[_key(asdict(c))] for c in cases]  # type: ignore[call-overload]


def flat(records: Iterable[Record]) -> pd.DataFrame:
    """Parameters and outcomes as columns, one row per record."""
    return pd.DataFrame([{**r["case"], **{k: r[k] for k in r if k != "case"}} for r in records])


@cache
def draft(name: str) -> Dataset:
    """One of DRAFT's tables, from the folder beside the project if it is there."""
    home = None if os.environ.get("TREELEAK_DATA") or not BESIDE.exists() else BESIDE
    return load_draft(name, home)


def use_tables_beside() -> None:
    """Let studies find tables beside the project too, if no other folder is named."""
    if not os.environ.get("TREELEAK_DATA") and BESIDE.exists():
        os.environ["TREELEAK_DATA"] = str(BESIDE)


def seed_range(text: str) -> range:
    """Read ``first-last``, or one number."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _one_by_one(
    todo: list[Case],
    run: Callable[[Case], Record],
    warm: Callable[[Case], Case],
    apart: Callable[[Case], bool],
) -> Iterator[Record]:
    for first in dict.fromkeys(warm(c) for c in todo if not apart(c)):
        run(first)
    for case in todo:
        if apart(case):
            yield from _side_by_side([case], run, warm, 1)
        else:
            yield _recorded(run, case)


def _side_by_side(
    todo: list[Case], run: Callable[[Case], Record], warm: Callable[[Case], Case], at_once: int
) -> Iterator[Record]:
    # Spawned, not forked: the memory of this process is not in the child's peak.
    context = multiprocessing.get_context("spawn")
    # Python 3.11's ProcessPoolExecutor may wait for ever when it is closed at once.
    with context.Pool(at_once) as pool:
        done = pool.imap_unordered(_unpacked, [(run, case, warm(case)) for case in todo])
        for _ in todo:
            yield done.next(timeout=_LONGEST)


def _watched(records: Iterable[Record], total: int) -> Iterator[Record]:
    """Show how many are done, and how long the rest may take; in a log, once a minute."""
    console = Console(stderr=True)
    if console.is_terminal:
        yield from track(records, "running", total, console=console)
        return
    start = told = time.perf_counter()
    for n, record in enumerate(records, 1):
        yield record
        now = time.perf_counter()
        if now - told >= _LOG_EVERY or (n == total and now - start >= _LOG_EVERY):
            gone, left = (now - start) / 60, (now - start) / n * (total - n) / 60
            console.print(f"{n} of {total} runs, {gone:.0f} min gone, about {left:.0f} min left")
            told = now


def _unpacked(given: tuple[Callable[[Any], Record], Any, Any]) -> Record:
    return _recorded(*given)


@cache
def _warmed(run: Callable[[Case], Record], case: Case) -> None:
    run(case)


def _recorded(run: Callable[[Case], Record], case: Case, warm: Case | None = None) -> Record:
    code = _code_version()
    if warm is not None:
        _warmed(run, warm)
    outcome = run(case)
    return {
        "case": asdict(case),  # type: ignore[call-overload]
        "code": code,
        **outcome,
        "peak_mb": _peak_mb(),
        "versions": dict(versions()),
    }


def _peak_mb() -> float:
    status = Path("/proc/self/status")
    # Linux hands ru_maxrss on to the program that a process starts; this one it does not.
    if status.exists() and (found := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@cache
def _code_version() -> str:
    """The commit, with a mark if files differ from it."""
    ask = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(
        ask, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or treeleak.__version__


def _key(case: dict[str, Any]) -> str:
    return json.dumps(case, sort_keys=True)


def _read(path: Path) -> dict[str, Record]:
    records = {}
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            records[_key(record["case"])] = record
        except (ValueError, KeyError, TypeError):
            sys.stderr.write(f"{path}, line {number}: not a record, skipped\n")
    return records


def _append(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        # A run that was stopped while it wrote leaves half a line.
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(record).encode() + b"\n")
        file.flush()
