"""Commands as processes: run side by side here, or by the workers of a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from treeleak.core.errors import BadInput
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
