"""Jobs on threads: compiled loops and solvers let go of Python's lock while they work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, as_completed
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from treeleak.core.signals import JOB

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


class Pool:
    """Threads for many jobs one after the other.

    Where an error or a time limit ends the block, jobs that have not begun are dropped, and nobody
    waits for those that have; nor does the process when it ends.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads = [_thread(self._work) for _ in range(THREADS)]

    def __enter__(self) -> Pool:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            with suppress(Empty):
                while True:
                    self._jobs.get_nowait()
        for _thread in self._threads:
            self._jobs.put(None)
        for thread in self._threads if error is None else ():
            thread.join()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Have a job done."""
        future: Future[T] = Future()
        self._jobs.put((future, job))
        return future

    def map(self, function: Callable[..., T], *each: Iterable[Any]) -> Iterator[T]:
        """Call a function with each of some arguments, and give its results in their order."""
        futures = deque(
            self.submit(partial(function, *arguments)) for arguments in zip(*each, strict=True)
        )
        return (futures.popleft().result() for _ in range(len(futures)))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            _do(*job)
            del job  # What a result holds is not kept until the next job.


def _thread(work: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=work, name=JOB, daemon=True)


def _do(future: Future[T], job: Callable[[], T]) -> None:
    try:
        future.set_result(job())
    except BaseException as why:
        future.set_exception(why)


def run_all(
    jobs: Iterable[Callable[[], T]],
    each: Callable[[T], None] | None = None,
    pool: Pool | None = None,
) -> list[T]:
    """Run jobs beside each other, and give their results in the order of the jobs.

    A job ends early when its own clock stops.

    ``each``: gets every result as it comes, in any order. ``pool``: threads that run already;
    without them, some are started.
    """
    with Pool() if pool is None else nullcontext(pool) as workers:
        futures = [workers.submit(job) for job in jobs]
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
    thread = _thread(partial(_do, done, job))
    thread.start()
    while thread.is_alive() and not abandoned():
        thread.join(_LOOK)
    return done.result() if done.done() else None
