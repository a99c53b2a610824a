"""Mutations of every input format: none may end in a traceback, a hang, or too much memory.

Each case is a valid file, changed by chance, read and checked as a command does; of a part of those
that still read, the whole audit is made. Cases run in processes of their own, which a watch ends
when they hang; a case that was found is repeated by its name: ``--case "release:123"``.
"""

from __future__ import annotations

import multiprocessing as mp
import random
import resource
import shutil
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rich.table import Table

from experiments.benchmarks.mutation_formats import FORMATS, TIME_LIMIT
from experiments.benchmarks.options import Options
from experiments.benchmarks.tables import CONSOLE
from treeleak.core.errors import TreeleakError

LATE = 5.0
"""Seconds of the processor, past the time limit, after which a case hangs; what waits for nothing
hangs after ten times as long by the clock, however busy the machine."""
MOST_BYTES = 4 << 30
FAULTS = ("traceback", "hang", "over memory", "crash")


@dataclass(frozen=True)
class Case:
    """One mutation, by which it can be repeated."""

    format: str
    seed: int
    index: int
    audits: float

    @property
    def rng(self) -> random.Random:
        """The chance of this case."""
        return random.Random(f"{self.seed}/{self.format}/{self.index}")

    def data(self) -> bytes:
        """The file."""
        own, rng = FORMATS[self.format], self.rng
        seeds = own.seeds()
        return own.mutate(rng, rng.choice(seeds), seeds)


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    case: Case
    end: str
    seconds: float
    megabytes: int
    said: str = ""


@dataclass
class Tally:
    """What became of the cases of a format."""

    ends: Counter[str] = field(default_factory=Counter)
    slowest: Outcome | None = None
    megabytes: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self.ends[outcome.end] += 1
        self.megabytes = max(self.megabytes, outcome.megabytes)
        if self.slowest is None or outcome.seconds > self.slowest.seconds:
            self.slowest = outcome


def run(case: Case, folder: Path) -> Outcome:
    """Read, check and maybe audit one mutation."""
    own = FORMATS[case.format]
    data = case.data()
    rng = random.Random(f"use/{case.seed}/{case.format}/{case.index}")
    path = folder / f"case{own.suffix}"
    path.write_bytes(data)
    start, end, said = time.process_time(), "accepted", ""
    try:
        audit = own.use(path, rng)
        if rng.random() < case.audits:
            end = "audited"
            audit()
    except TreeleakError as error:
        end, said = ("audited" if end == "audited" else "refused"), str(error)
    except MemoryError:
        end, said = "over memory", traceback.format_exc()
    except Exception:
        end, said = "traceback", traceback.format_exc()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    seconds = time.process_time() - start
    if seconds > TIME_LIMIT + LATE and end not in FAULTS:
        end, said = "hang", f"{seconds:.1f} s"
    return Outcome(case, end, seconds, peak, said)


def _work(pipe: Connection, folder: str) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    while (case := pipe.recv()) is not None:
        pipe.send(run(case, Path(folder)))


class _Worker:
    """A process that runs cases one after the other."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="treeleak-mutations-")
        self.pipe, other = mp.Pipe()
        self.process = mp.get_context("fork").Process(
            target=_work, args=(other, self.folder), daemon=True
        )
        self.process.start()
        other.close()
        self.case: Case | None = None
        self.since = 0.0

    def give(self, case: Case) -> None:
        self.case, self.since = case, time.perf_counter()
        self.pipe.send(case)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_all(cases: Iterable[Case], jobs: int, show: Any = print) -> dict[str, Tally]:
    """Run cases in processes, and tell of each that fails."""
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    left, workers = iter(cases), [_Worker() for _ in range(jobs)]

    def note(outcome: Outcome) -> None:
        tallies[outcome.case.format].add(outcome)
        if outcome.end in FAULTS:
            case = outcome.case
            show(f"--seed {case.seed} --case '{case.format}:{case.index}': {outcome.end}")
            show("\n".join(outcome.said.strip().splitlines()[-7:]))

    busy = [w for w in workers if _next(w, left)]
    with suppress(KeyboardInterrupt):
        _watch(busy, left, note)
    return tallies


def _watch(busy: list[_Worker], left: Iterator[Case], note: Callable[[Outcome], None]) -> None:
    """Keep processes at work until no case is left."""
    while busy:
        ready = wait([w.pipe for w in busy], timeout=1.0)
        for i, worker in enumerate(busy):
            seconds = time.perf_counter() - worker.since
            assert worker.case is not None
            if worker.pipe in ready:
                try:
                    note(worker.pipe.recv())
                    continue
                except EOFError:
                    note(Outcome(worker.case, "crash", seconds, 0))
            elif seconds > 10 * (TIME_LIMIT + LATE):
                note(Outcome(worker.case, "hang", seconds, 0))
            else:
                continue
            worker.end()
            busy[i] = _Worker()
            ready = [*ready, busy[i].pipe]
        busy = [w for w in busy if w.pipe not in ready or _next(w, left)]


def _next(worker: _Worker, left: Iterator[Case]) -> bool:
    """Give the next case; end the process where there is none."""
    case = next(left, None)
    if case is None:
        worker.end()
        return False
    worker.give(case)
    return True


def _table(tallies: dict[str, Tally]) -> Table:
    columns = ("mutations", "refused", "accepted", "audited", *FAULTS, "slowest s", "its case")
    out = Table("format", *columns, "most MB")
    for name, tally in tallies.items():
        counts = [tally.ends[end] for end in ("refused", "accepted", "audited", *FAULTS)]
        slowest = tally.slowest
        assert slowest is not None
        shown = [f"{n:,}" for n in (sum(counts), *counts)]
        out.add_row(
            name, *shown, f"{slowest.seconds:.1f}", str(slowest.case.index), f"{tally.megabytes:,}"
        )
    return out


def _repeat(case: Case) -> None:
    folder = Path(tempfile.mkdtemp(prefix="treeleak-mutations-"))
    outcome = run(case, folder)
    CONSOLE.print(f"{folder}: {outcome.end}, {outcome.seconds:.1f} s, {outcome.megabytes} MB")
    CONSOLE.print(outcome.said, markup=False)


def _warm_up(formats: Sequence[str]) -> None:
    """Audit each valid file once: what is compiled and imported for it is no hang of a case."""
    with tempfile.TemporaryDirectory() as folder:
        for name in formats:
            for k, data in enumerate(FORMATS[name].seeds()):
                path = Path(folder) / f"{name}{k}{FORMATS[name].suffix}"
                path.write_bytes(data)
                with suppress(TreeleakError):
                    FORMATS[name].use(path, random.Random(0))()


def main(args: Sequence[str]) -> int:
    """Run what the command line asks for; 1 if anything failed."""
    parser = Options("mutations", __doc__, kept=False)
    parser.add_argument("--number", type=int, default=50_000, help="of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--audits", type=float, default=0.1, help="share that is audited")
    parser.add_argument("--formats", nargs="*", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--case", help="repeat one: FORMAT:INDEX")
    asked = parser.parse_args(args)
    if asked.case:
        name, _, index = asked.case.rpartition(":")
        _repeat(Case(name, asked.seed, int(index), asked.audits))
        return 0
    _warm_up(asked.formats)
    cases = (
        Case(name, asked.seed, index, asked.audits)
        for name in asked.formats
        for index in range(asked.number)
    )
    tallies = run_all(cases, asked.jobs, lambda text: CONSOLE.print(text, markup=False))
    CONSOLE.print(_table(tallies))
    return int(any(tally.ends[fault] for tally in tallies.values() for fault in FAULTS))
