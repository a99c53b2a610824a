"""Commands as processes: run side by side here, or by the workers of a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path

from treeleak.batch.cluster import on_cluster
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
