"""A batch of audits: the processes that make them, and one entry a model, kept after each."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from treeleak._version import __version__
from treeleak.core.errors import BadInput, cause
from treeleak.core.output import read_text, write_file
from treeleak.core.private import dataclass

LAST_LINES = 20


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    errors: str
    """The end of its error stream."""
    seconds: float


def run_command(
    words: Sequence[str], threads: str | None = None, folder: str | None = None
) -> Ended:
    """Run a command of treeleak as a process of its own.

    ``threads``: for libraries that would otherwise take every core. ``folder``: where it starts.
    """
    environment = dict(os.environ)
    if threads is not None:
        environment.setdefault("OMP_NUM_THREADS", threads)
    start = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "treeleak", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=folder,
        env=environment,
    )
    _running.add(process)
    try:
        errors = process.communicate()[1]
    finally:
        if process.poll() is None:
            process.terminate()
        _running.discard(process)
    lines = [line for line in errors.splitlines() if line.strip()]
    seconds = time.perf_counter() - start
    return Ended(process.returncode, "\n".join(lines[-LAST_LINES:]), seconds)


_running: set[subprocess.Popen[str]] = set()


def run_all(
    commands: Sequence[Sequence[str]], jobs: int, cluster: str | None, stack: ExitStack
) -> Iterator[tuple[int, Ended]]:
    """Run commands, and give each with its number as it ends; the failure of one stops no other.

    Raises BadInput if no scheduler answers at ``cluster``.
    """
    if cluster is not None:
        calls = [(tuple(words), "1", str(Path.cwd())) for words in commands]
        for k, ended, why in on_cluster(run_command, calls, cluster, stack):
            yield k, ended if why is None else Ended(1, why, 0.0)
        return
    threads = "1" if jobs > 1 else None
    pool = stack.enter_context(ThreadPoolExecutor(jobs))
    stack.callback(_stop, pool)
    todo: dict[Future[Ended], int] = {
        pool.submit(run_command, words, threads): k for k, words in enumerate(commands)
    }
    while todo:
        for future in wait(todo, return_when=FIRST_COMPLETED).done:
            yield todo.pop(future), future.result()


def _stop(pool: ThreadPoolExecutor) -> None:
    """Begin nothing more, and end what runs."""
    pool.shutdown(wait=False, cancel_futures=True)
    for process in list(_running):
        process.terminate()


PATIENCE = 20.0
"""Seconds to wait for a scheduler."""


def on_cluster(
    function: Callable[..., Any], arguments: Sequence[Sequence[Any]], address: str, stack: ExitStack
) -> Iterator[tuple[int, Any, str | None]]:
    """Send calls to a cluster, and give what they return as it comes.

    Parameters
    ----------
    function : callable
    arguments : sequence of sequences
        Of each call.
    address : str
        Of the scheduler.
    stack : ExitStack
        When it is left, what has not begun is taken back.

    Yields
    ------
    tuple
        Number of the call, what it returned, and why it returned nothing.

    Raises
    ------
    BadInput
        If Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise BadInput("a cluster needs Dask: pip install 'treeleak[cluster]'") from None
    try:
        client = stack.enter_context(Client(address, timeout=PATIENCE))
    except (OSError, ValueError) as error:
        raise BadInput(f"{address}: no Dask scheduler answers there ({error})") from error
    # Pure, so that a call that was made twice after a lost worker is the same call.
    columns = list(map(list, zip(*arguments, strict=True)))
    futures = client.map(function, *columns, pure=True) if columns else []
    number_of = {future.key: k for k, future in enumerate(futures)}

    def results() -> Iterator[tuple[int, Any, str | None]]:
        for future in as_completed(futures):
            k = number_of[future.key]
            if future.status == "finished":
                yield k, future.result(), None
            else:
                yield k, None, str(future.exception())

    stack.callback(lambda: _cancelled(client, futures))
    return results()


def _cancelled(client: Any, futures: Sequence[Any]) -> None:
    with suppress(Exception):
        client.cancel([f for f in futures if not f.done()])


INDEX = "index.json"
FORMAT = "treeleak-index"
MOST_BYTES = 64 << 20
FINISHED = (0, 3, 4)
"""Exit statuses of audits that would end the same way again."""
_WORST = (130, 143, 129, 1, 2, 4, 3, 0)
"""Exit statuses, the worst first; any other is a bug, too."""
_MARKS = (b'"format": "treeleak-audit"', "– treeleak</title>".encode())
_MARKED = 1 << 14
"""What documents and pages of treeleak have in so many of their first bytes, and no model has."""
_SEVERITY = {"leak shown": 0, "possible leak": 2, "not assessed": 3}

Entry = dict[str, Any]


def key_of(model: Path, words: Sequence[str], files: Iterable[Path]) -> str:
    """Name an audit by all that its result depends on: model, options, files, treeleak."""
    parts = [__version__, list(words), _digest(model), [_digest(file) for file in files]]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _digest(path: Path) -> str:
    """Hash a file, or the files of a folder."""
    if path.is_dir():
        parts = [f"{p.name}:{_digest(p)}" for p in sorted(path.iterdir()) if p.is_file()]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        # The audit itself says what is wrong with it.
        return ""


def names_for(models: Sequence[Path]) -> list[str]:
    """Name the files of each audit after its model; a number parts those of one name."""
    used: set[str] = {"index"}
    names = []
    for model in models:
        stem = model.parent.name if model.name == "target.yaml" else model.stem or model.name
        name, k = stem, 2
        while name.lower() in used:
            name, k = f"{stem}-{k}", k + 1
        used.add(name.lower())
        names.append(name)
    return names


def entry_of(name: str, key: str, status: int, errors: str, folder: Path) -> Entry:
    """Describe an audit that ended, by the JSON file that it wrote, if it wrote one."""
    entry: Entry = {
        "name": name, "key": key, "status": status, "verdict": None, "headline": None,
        "error": None, "expected_error": None, "exact_rows": None, "proved": None,
        "policy_met": None, "html": None, "json": None, "said": errors if status else "",
    }  # fmt: skip
    place = folder / f"{name}.json"
    if status not in (*FINISHED, 2) or not place.is_file():
        return entry
    document = read_document(place)
    measured, rebuilt = document.get("measurement") or {}, document.get("reconstruction") or {}
    exposed = document.get("exposure") or {}
    return entry | {
        "verdict": document.get("verdict"),
        "headline": document.get("headline"),
        "error": measured.get("error"),
        "expected_error": rebuilt.get("expected_error"),
        "exact_rows": measured.get("exact_rows"),
        "proved": (exposed.get("recovered") or {}).get("proved"),
        "policy_met": (document.get("ruling") or {}).get("passed"),
        "html": f"{name}.html",
        "json": place.name,
    }


def severity(entry: Mapping[str, Any]) -> tuple[int, float]:
    """Order entries, the worst first: leaks, failures, policies not met, and so on."""
    if entry["verdict"] is None:
        return 1, 0.0
    rank = _SEVERITY.get(entry["verdict"], 4)
    rank = min(rank, 2) if entry["policy_met"] is False else rank
    return rank, -(entry["exact_rows"] or entry["proved"] or 0.0)


def worst(statuses: Iterable[int]) -> int:
    """Choose the exit status of a batch."""
    found = [status if status in _WORST else 1 for status in statuses]
    return min(found, key=_WORST.index, default=0)


def read_index(folder: Path) -> dict[str, Entry]:
    """Read the entries of a folder by their names; none if there is no index.

    Raises
    ------
    BadInput
        If there is one, and it is no such file.
    """
    place = folder / INDEX
    if not place.exists():
        return {}
    document = read_document(place)
    entries = document.get("audits")
    if document.get("format") != FORMAT or not isinstance(entries, list):
        raise BadInput(f"{place}: not an index of audits: name another folder")
    return {e["name"]: e for e in entries if isinstance(e, dict) and isinstance(e.get("name"), str)}


def write_index(folder: Path, entries: Iterable[Entry], private: bool) -> None:
    """Write the entries, the worst first."""
    document = {"format": FORMAT, "version": 1, "audits": sorted(entries, key=severity)}
    write_file(folder / INDEX, json.dumps(document, indent=2) + "\n", private=private)


def is_done(entry: Entry | None, key: str, folder: Path) -> bool:
    """Whether an audit need not be made again."""
    if entry is None or entry.get("key") != key or entry.get("status") not in FINISHED:
        return False
    files = (entry.get("html"), entry.get("json"))
    return all(isinstance(f, str) and (folder / f).is_file() for f in files)


def is_result(place: Path) -> bool:
    """Whether a file is the document or the page of an audit, whichever command wrote it.

    An index does not tell: what was interrupted, or left out later, is in none.
    """
    try:
        with place.open("rb") as file:
            head = file.read(_MARKED)
    except OSError as error:
        raise BadInput(f"{place}: {cause(error)}") from error
    return any(mark in head for mark in _MARKS)


def read_document(place: Path) -> dict[str, Any]:
    """Read an object from a file of JSON; BadInput names the file."""
    try:
        document = json.loads(read_text(place, MOST_BYTES, BadInput))
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, BadInput) else f"{place}: {cause(error)}"
        raise BadInput(why) from error
    if not isinstance(document, dict):
        raise BadInput(f"{place}: holds no object")
    return document
