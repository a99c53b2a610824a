"""Mutations of every input format: none may end in a traceback, a hang, or too much memory.

Each case is a valid file, changed by chance, read and checked as a command does; of a part of those
that still read, the whole audit is made. Cases run in processes of their own, which a watch ends
when they hang; a case that was found is repeated by its name: ``--case "release:123"``.
"""

from __future__ import annotations

import atexit
import random
import resource
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from experiments.benchmarks.frame import CONSOLE, Lost, in_processes, options, show
from experiments.benchmarks.mutation_formats import FORMATS, TIME_LIMIT
from treeleak.core.errors import TreeleakError

LATE = 5.0
"""Seconds of the processor, past the time limit, after which a case hangs."""
_WAITED = 60
"""What waits for nothing hangs after so many times as long by the clock: on a processor that many
others share, a new process needs a minute to begin."""
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


@cache
def _own_folder() -> Path:
    """Make the folder of this process, and bound its memory."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    folder = tempfile.TemporaryDirectory(prefix="treeleak-mutations-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def work(case: Case) -> Outcome:
    """Run a case in a process of many."""
    return run(case, _own_folder())


def _table(outcomes: dict[str, list[Outcome]]) -> bool:
    lines = []
    for name, own in outcomes.items():
        ends, slowest = Counter(o.end for o in own), max(own, key=lambda o: o.seconds)
        lines.append({
            "format": name, "mutations": len(own),
            **{end: ends[end] for end in ("refused", "accepted", "audited", *FAULTS)},
            "slowest s": slowest.seconds, "its case": slowest.case.index,
            "most MB": max(o.megabytes for o in own), "met": not any(ends[f] for f in FAULTS),
        })  # fmt: skip
    return show("mutations; floor: no fault", lines)


def _warm_up(formats: Sequence[str], audits: bool) -> None:
    """Read or audit each valid file once: what is compiled for it is no hang of a case."""
    with tempfile.TemporaryDirectory() as folder:
        for name in formats:
            for k, data in enumerate(FORMATS[name].seeds()):
                path = Path(folder) / f"{name}{k}{FORMATS[name].suffix}"
                path.write_bytes(data)
                with suppress(TreeleakError):
                    audit = FORMATS[name].use(path, random.Random(0))
                    if audits:
                        audit()


def main(args: Sequence[str]) -> int:
    """Run what the command line asks for; 1 if anything failed."""
    given = options(
        "mutations", __doc__, args, number=50_000, seed=0, jobs=2, audits=0.1,
        formats=list(FORMATS), case=str,
    )  # fmt: skip
    if given.case:
        name, _, index = given.case.rpartition(":")
        folder = Path(tempfile.mkdtemp(prefix="treeleak-mutations-"))
        outcome = run(Case(name, given.seed, int(index), given.audits), folder)
        CONSOLE.print(f"{folder}: {outcome.end}, {outcome.seconds:.1f} s, {outcome.megabytes} MB")
        CONSOLE.print(outcome.said, markup=False)
        return 0
    _warm_up(given.formats, given.audits > 0)
    cases = (
        Case(name, given.seed, index, given.audits)
        for name in given.formats
        for index in range(given.number)
    )
    outcomes: defaultdict[str, list[Outcome]] = defaultdict(list)
    longest = _WAITED * (TIME_LIMIT + LATE)
    with suppress(KeyboardInterrupt):
        for case, found in in_processes(work, cases, given.jobs, longest=longest):
            lost = isinstance(found, Lost)
            outcome = Outcome(case, found.why, longest, 0) if lost else found
            # What was said of thousands of files that end well is not kept.
            outcomes[case.format].append(replace(outcome, said=""))
            if outcome.end in FAULTS:
                where = f"--seed {case.seed} --case '{case.format}:{case.index}'"
                CONSOLE.print(f"{where}: {outcome.end}", markup=False)
                CONSOLE.print("\n".join(outcome.said.strip().splitlines()[-7:]), markup=False)
    return int(not _table(outcomes))
