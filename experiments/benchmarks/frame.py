"""What benchmarks share: options, runs in processes, runs that are kept, tables, floors.

A benchmark is a list of cases, a function from a case to figures, tables of these, and floors. A
run that is kept is one record in the store that studies have, too: the parameters of the case, the
results version, the outcome, the peak memory of the process, and the versions of everything
underneath. It is kept as soon as it exists, so a benchmark that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from itertools import product
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from experiments.progress import watched
from experiments.results_version import RESULTS_VERSION, VERSION, say_versions
from experiments.shown import render_tables
from experiments.store import FOLDER, Run, Store, key_of, store_file
from experiments.study import Table
from treeleak.core.errors import BadInput
from treeleak.reconstruction import versions

CONSOLE = Console(width=360, highlight=False)
"""Wide enough for the widest table: no figure is cut short."""
Record = dict[str, Any]
Given = argparse.Namespace

_LONGEST = 3600.0
"""Seconds after which a run hangs."""


# ------------------------------------------------------------------------------------ options


class _Format(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def options(
    name: str,
    doc: str,
    args: Sequence[str],
    *,
    parts: Iterable[str] = (),
    kept: bool = False,
    **more: Any,
) -> Given:
    """Read the options of a benchmark, whose runs may be kept in a store.

    Of ``parts``, one can be asked for alone; ``given.parts`` lists those that are. ``more`` options
    by their default: False for a flag, a type (or a list of one) for no default, a range for
    ``first-last``, a list for several values (of these, if they are words), a tuple for one of
    several words, of which the first is the default.
    """
    out = argparse.ArgumentParser(f"python -m experiments run {name}", description=doc,
                                  formatter_class=_Format)  # fmt: skip
    if parts:
        out.add_argument("--part", choices=[*parts, "all"], default="all", help=" ")
    if kept:
        out.add_argument("--fresh", action="store_true", help="do not use stored runs")
        out.add_argument("--out", type=Path, default=FOLDER, metavar="DIR", help="of the store")
    for key, default in more.items():
        words = isinstance(default, (list, tuple)) and isinstance((*default, 0)[0], str)
        asked: dict[str, Any] = {"type": type(default), "default": default, "help": " "}
        if default is False:
            asked = {"action": "store_true", "help": " "}
        elif isinstance(default, type):
            asked = {"type": default}
        elif isinstance(default, range):
            shown = f"{default.start}-{default.stop - 1}"
            asked = {"type": seed_range, "default": default, "help": f"as {shown}"}
        elif isinstance(default, list) and isinstance(default[0], type):
            asked = {"type": default[0], "nargs": "+"}
        elif isinstance(default, list):
            asked |= {"nargs": "+", "type": type(default[0])}
        elif isinstance(default, tuple):
            asked |= {"type": str, "default": default[0]}
        if words:
            asked["choices"] = default
        out.add_argument(f"--{key.replace('_', '-')}", **asked)
    given = out.parse_args(args)
    if parts:
        given.parts = list(parts) if given.part == "all" else [given.part]
    return given


def seed_range(text: str) -> range:
    """Read ``first-last``, or one number."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


# ---------------------------------------------------------------------------------- processes


@dataclass(frozen=True)
class Lost:
    """Stands for the result of a process that died or hung."""

    why: str


def in_processes(
    work: Callable[[Any], Any],
    cases: Iterable[Any],
    jobs: int = 1,
    *,
    apart: bool = False,
    longest: float = _LONGEST,
) -> Iterator[tuple[Any, Any]]:
    """Work on cases in processes, each anew if they are ``apart``; gives them as they end.

    An error of one ends all; a process that dies, or takes longer than it may, ends by itself.
    """
    # Spawned, not forked: the memory of this process is not in the child's peak.
    context = multiprocessing.get_context("spawn")
    left, idle, busy = iter(cases), [], {}
    try:
        while True:
            while len(busy) < jobs and (case := next(left, None)) is not None:
                pipe, process = idle.pop() if idle else _started(context, work)
                pipe.send(case)
                busy[pipe] = process, case, time.monotonic()
            if not busy:
                return
            ready = wait(list(busy), timeout=1.0)
            for pipe, (process, case, since) in list(busy.items()):
                if pipe not in ready and time.monotonic() - since <= longest:
                    continue
                found: Any = Lost("hang")
                if pipe in ready:
                    try:
                        found = pipe.recv()
                    except (EOFError, OSError):
                        found = Lost("crash")
                del busy[pipe]
                if apart or isinstance(found, Lost):
                    process.kill()
                    process.join()
                else:
                    idle.append((pipe, process))
                if isinstance(found, Exception):
                    raise found
                yield case, found
    finally:
        for process in (*(p for _, p in idle), *(p for p, *_ in busy.values())):
            process.kill()
            process.join()


def _started(context: Any, work: Callable[[Any], Any]) -> tuple[Any, Any]:
    pipe, other = context.Pipe()
    process = context.Process(target=_serve, args=(other, work), daemon=True)
    process.start()
    other.close()
    return pipe, process


def _serve(pipe: Any, work: Callable[[Any], Any]) -> None:
    with suppress(EOFError):
        while True:
            case = pipe.recv()
            try:
                pipe.send(work(case))
            except Exception as error:
                pipe.send(error)


# ----------------------------------------------------------------------------- runs that are kept


def collect(
    name: str,
    cases: Iterable[Any],
    run: Callable[[Any], Record],
    warm: Callable[[Any], Any],
    given: Given,
    *,
    apart: bool = False,
    at_once: int = 1,
) -> list[Record]:
    """Run the cases that the store lacks, and return the records of all.

    Cases are frozen dataclasses of plain values; ``warm`` makes a small one of a case, which runs
    before, once in each process, to compile what it will use. ``given.fresh``: no record from
    before is used. ``apart``: each has a process, and so a peak memory, of its own. Raises BadInput
    if the store is damaged, a record was changed, or a process died.
    """
    store, cases = Store(store_file(given.out)), list(cases)
    records: dict[str, Record] = {}
    for r in [] if given.fresh else store.runs(name):
        records[key_of(name, r.parameters)] = {"case": r.parameters, VERSION: r.version, **r.record}
    todo = [c for c in dict.fromkeys(cases) if key_of(name, asdict(c)) not in records]
    work, pairs = partial(_recorded, run), [(case, warm(case)) for case in todo]
    done: Iterable[tuple[Any, Any]] = ((pair, work(pair)) for pair in pairs)
    if apart or at_once > 1:
        done = in_processes(work, pairs, at_once, apart=apart)
    start = time.perf_counter()
    with watched(len(todo)) as told:
        for n, ((case, _), record) in enumerate(done, 1):
            if isinstance(record, Lost):
                raise BadInput(f"{name}: {case}: {record.why}")
            records[key_of(name, asdict(case))] = record
            outcome = {k: v for k, v in record.items() if k != "case"}
            store.add(Run(name, asdict(case), record[VERSION], outcome), again=True)
            told(n, len(todo), time.perf_counter() - start)
    return [records[key_of(name, asdict(c))] for c in cases]


@cache
def _warmed(run: Callable[[Any], Record], case: Any) -> None:
    run(case)


def _recorded(run: Callable[[Any], Record], pair: tuple[Any, Any]) -> Record:
    case, warm = pair
    _warmed(run, warm)
    return {
        "case": asdict(case), VERSION: RESULTS_VERSION, **run(case), "peak_mb": peak_mb(),
        "versions": dict(versions()),
    }  # fmt: skip


def peak_mb() -> float:
    """Peak memory of this process."""
    status = Path("/proc/self/status")
    # Linux hands ru_maxrss on to the program that a process starts; this one it does not.
    if status.exists() and (found := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def flat(records: Iterable[Record], numbers: Iterable[str] = ()) -> pd.DataFrame:
    """Parameters and outcomes as columns, one row per record; figures as numbers, or missing."""
    runs = pd.DataFrame([{**r["case"], **{k: r[k] for k in r if k != "case"}} for r in records])
    # Runs that were kept before a figure was measured lack it.
    runs = runs.reindex(columns=[*runs.columns, *(f for f in numbers if f not in runs)])
    return runs.astype(dict.fromkeys(numbers, float))


# ------------------------------------------------------------------------------ tables and floors


def show(title: str, lines: pd.DataFrame | Iterable[Mapping[str, Any]], note: str = "") -> bool:
    """Print a table; say whether all floors are met that its column ``met`` speaks of."""
    frame = lines if isinstance(lines, pd.DataFrame) else pd.DataFrame(list(lines))
    met = [bool(v) for v in frame.get("met", []) if v is not None]
    if "met" in frame:
        words = {True: verdict(True), False: verdict(False), None: ""}
        frame = frame.assign(met=[words[v if v is None else bool(v)] for v in frame["met"]])
    for name in frame.select_dtypes(bool).columns:
        frame[name] = frame[name].map({True: "yes", False: "no"})
    render_tables([Table("shown", title, frame, note)], CONSOLE)
    return all(met)


def said_of(runs: pd.DataFrame) -> str:
    """Say what was run: seeds, time limits, results versions."""
    parts = []
    if "seed" in runs:
        parts.append(f"seeds {runs.seed.min()} to {runs.seed.max()}")
    if "time_limit" in runs:
        limits = " / ".join(f"{t:g}" for t in runs.time_limit.unique())
        parts.append(f"time limit {limits} s")
    return "; ".join([", ".join(parts), say_versions(runs[VERSION])])


def verdict(met: bool) -> str:
    """Say whether a floor is met."""
    return "met" if met else "NOT met"


def floor(what: str, met: Any) -> bool:
    """Print a sentence that ends with whether its floor is met; give that."""
    CONSOLE.print(f"{what}: {verdict(bool(met))}", markup=False, soft_wrap=True)
    return bool(met)


def statuses(values: pd.Series) -> str:
    """Count statuses in words."""
    return " ".join(f"{n} {status}" for status, n in values.value_counts().items())


def mean(values: pd.Series) -> float:
    """Give the mean; it is missing where any is."""
    return float(values.mean(skipna=False))


_ASKED: Mapping[str, tuple[Callable[[pd.Series], float], str]] = {
    "mean": (mean, "<= {} in the mean"),
    "median": (lambda x: float(x.median(skipna=False)), "<= {} in the median"),
    "most": (lambda x: float(x.max(skipna=False)), "<= {}"),
    "least": (lambda x: float(x.min(skipna=False)), ">= {}"),
}


@dataclass(frozen=True)
class Floor:
    """Bounds of figures of some runs; a run that lacks a figure meets none.

    ``mean`` and ``median`` bound these from above, ``most`` and ``least`` every run. ``of_guess``
    bounds the mean error by a share of the mean of ``guess``.
    """

    mean: Mapping[str, float] = field(default_factory=dict)
    median: Mapping[str, float] = field(default_factory=dict)
    most: Mapping[str, float] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    of_guess: float | None = None

    def __str__(self) -> str:
        said = [
            f"{name} {how.format(f'{bound:g}')}"
            for kind, (_, how) in _ASKED.items()
            for name, bound in getattr(self, kind).items()
        ]
        guess = [] if self.of_guess is None else [f"error <= {self.of_guess:g} of a guess"]
        return ", ".join([*guess, *said])

    def missed(self, runs: pd.DataFrame) -> list[str]:
        """Name the figures that are beyond their bounds."""
        out = []
        for kind, (of, _) in _ASKED.items():
            for name, bound in getattr(self, kind).items():
                value = of(runs[name].astype(float))
                if not (value >= bound if kind == "least" else value <= bound):
                    out.append(f"{name} {bound:g}")
        if self.of_guess is not None and not mean(runs.error) <= self.of_guess * runs.guess.mean():
            out.append(f"{self.of_guess:g} of a guess")
        return out

    def judge(self, runs: pd.DataFrame) -> bool:
        """Say whether runs meet the bounds."""
        return not self.missed(runs)


def expected_over_true(runs: pd.DataFrame, low: float = 0.8, high: float = 1.2) -> bool:
    """Print how far all runs together are as wrong as they state; say whether they are."""
    both = runs[runs.expected.notna() & runs.error.notna()]
    if len(both) and not both.error.sum():
        CONSOLE.print(f"expected over true error, in sums: no errors in {len(both)} runs")
        return True
    ratio = both.expected.sum() / both.error.sum() if len(both) else float("nan")
    said = f"expected over true error, in sums of {len(both)} runs: {ratio:.3f}"
    return floor(f"{said}, floor {low:g} to {high:g}", low <= ratio <= high)


def show_judged(
    title: str,
    runs: pd.DataFrame,
    lines: Iterable[Any],
    asked: Callable[[Any], Floor],
    columns: Sequence[str],
    keys: Sequence[str] = ("table",),
) -> bool:
    """Print a line for each run beside the floor of its line; say whether all are met.

    ``lines`` have the ``keys`` of runs, and ``rows``; ``asked`` gives the floor of one.
    """
    out, misses = [], []
    for line in lines:
        of, here = asked(line), runs[runs.n_rows == line.rows]
        for key in keys:
            here = here[here[key] == getattr(line, key)]
        for r in here.to_dict("records"):
            name = ", ".join(str(r[k]) for k in (*keys, "n_rows", "seed"))
            if lacks := of.missed(pd.DataFrame([r])):
                misses.append(f"{name} misses: {', '.join(lacks)}")
            if r["status"] == "refused":
                misses.append(f"{name} refused: {r['notes'][0]}")
            shown = (*keys, "n_rows", "seed", "status", "seconds", *columns)
            out.append({k: r[k] for k in shown} | {"floor": str(of), "met": not lacks})
    met = show(f"{title}: {said_of(runs)}", out)
    for miss in misses:
        CONSOLE.print(miss, soft_wrap=True, markup=False)
    return met


def floors_of(name: str) -> pd.DataFrame:
    """Read the floors of a benchmark, a line for each kind of run; NaN where nothing is asked."""
    return pd.read_csv(Path(__file__).with_name(f"{name}_floors.csv"))


def lines_of(
    name: str, keys: Mapping[str, Iterable[str]], rows: Iterable[int] | None, most: int | None
) -> pd.DataFrame:
    """The floors of some kinds, or lines of so many rows each, whose floor may be empty."""
    every, asked = floors_of(name), {k: list(v) for k, v in keys.items()}
    if rows is not None:
        crossed = list(product(*asked.values(), rows))
        every = pd.DataFrame(crossed, columns=[*asked, "rows"]).merge(every, "left")
    for key, values in asked.items():
        every = every[every[key].isin(values)]
    return every if most is None else every[every.rows <= most]


def present(lines: Iterable[Any], check: Callable[[Any], Any]) -> list[Any]:
    """Keep the lines whose table and library are there; say of the others why they are not."""
    out = []
    for line in lines:
        try:
            check(line)
        except (BadInput, ImportError) as why:
            reason = why if isinstance(why, BadInput) else f"pip install 'treeleak[{why.name}]'"
            CONSOLE.print(f"{line} skipped: {reason}", soft_wrap=True, markup=False)
        else:
            out.append(line)
    return out


def progress(text: str) -> None:
    """Say how far a benchmark is, where somebody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text}")
