"""Runs of benchmarks: one run is one record, kept in the store that studies have, too.

A record holds the parameters of the run ("case"), the results version, the outcome, the peak
memory of the process, and the versions of everything underneath. It is kept as soon as it exists,
so a benchmark that was stopped goes on where it was; it stands for a run if all parameters are
equal, and of several versions, the last.
"""

from __future__ import annotations

import multiprocessing
import re
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from experiments.progress import watched
from experiments.results_version import RESULTS_VERSION, VERSION
from experiments.store import FOLDER, Run, Store, key_of, store_file
from treeleak.reconstruction import versions

# A process that was killed gives no answer.
_LONGEST = 3600.0

Record = dict[str, Any]
Case = TypeVar("Case")
"""A frozen dataclass of plain values: the parameters of one run."""


class Records:
    """The records of one benchmark.

    Parameters
    ----------
    name : str
        Of the benchmark.
    fresh : bool
        Use no record from before; what is run replaces it.
    folder : Path
        Where the store lies, or is made.

    Raises
    ------
    BadInput
        If the store is damaged, or a record was changed.
    """

    def __init__(self, name: str, fresh: bool = False, folder: Path = FOLDER) -> None:
        self._name, self._kept = name, Store(store_file(folder))
        runs = [] if fresh else self._kept.runs(name)
        self._records = {
            self._key(r.parameters): {"case": r.parameters, VERSION: r.version, **r.record}
            for r in runs
        }

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
        todo = [c for c in dict.fromkeys(cases) if self._key(asdict(c)) not in self._records]  # type: ignore[call-overload]
        done = _one_by_one(todo, run, warm, apart)
        if at_once > 1 and todo:
            done = _side_by_side(todo, run, warm, at_once)
        start = time.perf_counter()
        with watched(len(todo)) as told:
            for n, record in enumerate(done, 1):
                self._keep(record)
                told(n, len(todo), time.perf_counter() - start)
        return [self._records[self._key(asdict(c))] for c in cases]  # type: ignore[call-overload]

    def _keep(self, record: Record) -> None:
        self._records[self._key(record["case"])] = record
        outcome = {k: v for k, v in record.items() if k != "case"}
        self._kept.add(Run(self._name, record["case"], record[VERSION], outcome), again=True)

    def _key(self, case: Mapping[str, Any]) -> str:
        """Name a run whatever its version."""
        return key_of(self._name, case)


def flat(records: Iterable[Record]) -> pd.DataFrame:
    """Parameters and outcomes as columns, one row per record."""
    return pd.DataFrame([{**r["case"], **{k: r[k] for k in r if k != "case"}} for r in records])


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


def _unpacked(given: tuple[Callable[[Any], Record], Any, Any]) -> Record:
    return _recorded(*given)


@cache
def _warmed(run: Callable[[Case], Record], case: Case) -> None:
    run(case)


def _recorded(run: Callable[[Case], Record], case: Case, warm: Case | None = None) -> Record:
    if warm is not None:
        _warmed(run, warm)
    outcome = run(case)
    return {
        "case": asdict(case),  # type: ignore[call-overload]
        VERSION: RESULTS_VERSION,
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
