"""Jobs on threads: compiled loops and solvers let go of Python's lock while they work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

T = TypeVar("T")

THREADS = 2
_LOOK = 0.05
"""Seconds between two looks at a job."""


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread.

    Matrices here are small. On a busy machine BLAS's own threads wait for each other, and products
    take up to ten times as long.
    """
    limited: AbstractContextManager[Any] = threadpool_limits(1, "blas")
    return limited


def threads() -> ThreadPoolExecutor:
    """Start as many threads as there is work for; for many jobs one after the other."""
    return ThreadPoolExecutor(THREADS)


def run_all(
    jobs: Iterable[Callable[[], T]],
    each: Callable[[T], None] | None = None,
    pool: ThreadPoolExecutor | None = None,
) -> list[T]:
    """Run jobs beside each other, and give their results in the order of the jobs.

    A job ends early when its own clock stops.

    ``each``: gets every result as it comes, in any order. ``pool``: threads that run already;
    without them, some are started.
    """
    with threads() if pool is None else nullcontext(pool) as own:
        futures = [own.submit(job) for job in jobs]
        if each is not None:
            for future in as_completed(futures):
                each(future.result())
        return [future.result() for future in futures]


def run_watched(job: Callable[[], T], abandoned: Callable[[], bool]) -> T | None:
    """Run a job in a thread of its own, so that a signal is heard meanwhile.

    ``abandoned``: asked now and then; may tell the job to stop. Once it is true nobody waits any
    longer. Returns what the job returns; None if it was abandoned before.
    """
    done: Future[T] = Future()

    def work() -> None:
        try:
            done.set_result(job())
        except BaseException as why:
            done.set_exception(why)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive() and not abandoned():
        thread.join(_LOOK)
    return done.result() if done.done() else None
