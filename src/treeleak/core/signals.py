"""What a process must not leave behind when a signal ends it: drafts, folders, processes.

``with`` and ``finally`` tidy up wherever Python gets to run them. A compiled loop, a solver or a
pool of threads can keep it from that for a minute, so all that has to go stands in one list here,
and a thread that does nothing else goes through it when a signal comes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType

from treeleak.core.clock import Clock, is_atomic

GRACE = 2.0
"""Seconds that ``finally`` has to run before the process ends without it."""

LAST = 3.5
"""Seconds after a time limit when a process ends whatever it does: later than all that can be
broken off is."""
JOB = "treeleak job"
"""Name of threads that the end of a process must not wait for."""
_LOOK = 0.2
"""Seconds, at least, between two looks at the clock."""

_left: set[Path] = set()


class Terminated(BaseException):
    """The system asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Name a file or folder that is gone when the block is left, however that comes about."""
    # Named here before it is made: a signal between the two leaves nothing.
    _left.add(path)
    try:
        yield path
    finally:
        _remove(path)
        _left.discard(path)


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a temporary folder that nobody else may read, for as long as the block lasts."""
    with unfinished(Path(tempfile.gettempdir()) / f"treeleak-{os.urandom(8).hex()}") as folder:
        folder.mkdir(mode=0o700)
        yield folder


@contextmanager
def terminable() -> Iterator[None]:
    """Raise :class:`Terminated` where the system asks this process to end, and tidy up.

    For programs, not for libraries: it takes over signals of the whole process, those that would
    otherwise end it untidily.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    default_signals = [n for n in _SIGNALS if signal.getsignal(n) == signal.SIG_DFL]
    for n in default_signals:
        signal.signal(n, _raise)
    _programs.append(None)
    try:
        with _watched(default_signals) if os.name == "posix" else nullcontext():
            yield
    except Exception as error:
        # Libraries that are broken off while they are imported raise errors of their own.
        if _signals_received:
            raise Terminated(_signals_received[0]) from error
        raise
    finally:
        _programs.pop()
        _tidy()
        if not _ended.is_set():
            for n in default_signals:
                signal.signal(n, signal.SIG_DFL)


@contextmanager
def ended_in_time(clock: Clock, finish: Callable[[], int]) -> Iterator[None]:
    """Have a thread end the process if the block lasts much longer than the clock allows.

    Compiled loops hear no alarm. ``finish`` writes what there is, and gives the exit status. Only
    within :func:`terminable`: a library ends no process.
    """
    if not _programs:
        yield
        return
    over, turn, late = threading.Event(), threading.Lock(), threading.get_ident()

    def watch() -> None:
        while not over.wait(max(clock.limit + LAST - clock.seconds, _LOOK)):
            if clock.seconds >= clock.limit + LAST and turn.acquire(blocking=False):
                _halt(late)
                end_now(finish())

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()
        if not turn.acquire(blocking=False):
            threading.Event().wait()  # The other thread writes, and ends the process.


class _Halted(BaseException):
    """Another thread ends the process."""


def _halt(thread: int) -> None:
    """Stop a thread where it next runs Python, so that it takes no time from another."""
    if not is_atomic(sys._current_frames().get(thread)):
        raised = ctypes.py_object(_Halted)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def at_work() -> bool:
    """Whether jobs that nobody waits for are still under way."""
    return any(thread.name == JOB for thread in threading.enumerate())


def end_now(status: int) -> None:
    """End this process without waiting for its threads: a solver may take a minute to stop."""
    with suppress(OSError, ValueError):
        if sys.stderr.isatty():
            sys.stderr.write("\x1b[?25h")  # A progress bar hides the cursor.
        sys.stdout.flush()
        sys.stderr.flush()
    _tidy()
    os._exit(status)


_programs: list[None] = []
_SIGNALS = tuple(s for name in ("SIGTERM", "SIGHUP") if (s := getattr(signal, name, None)))
_ended = threading.Event()
_signals_received: list[int] = []


def _raise(number: int, frame: FrameType | None) -> None:
    # A second one must not break into the tidying that the first began.
    if not _ended.is_set():
        _ended.set()
        _signals_received.append(number)
        if is_atomic(frame):
            _tidy()
            os.write(2, f"treeleak: ended by {Terminated(number)}\n".encode())
            os._exit(128 + number)
        raise Terminated(number)


@contextmanager
def _watched(numbers: Sequence[int]) -> Iterator[None]:
    """Have a thread end the process if the main thread does not in time after a signal."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    # Python writes the number there at once, whatever the main thread is doing.
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_end_in_time, args=(read, frozenset(numbers)), daemon=True).start()
    try:
        yield
    finally:
        if not _ended.is_set():
            signal.set_wakeup_fd(before)
            os.close(write)


def _end_in_time(read: int, numbers: frozenset[int]) -> None:
    while (received := os.read(read, 1)) and received[0] not in numbers:
        pass
    if not received:
        os.close(read)
        return
    time.sleep(GRACE)
    # The main thread may be where Python runs no handlers: workers end all the same, and what it
    # meets without them is no error of its own.
    if not _ended.is_set():
        _signals_received.append(received[0])
        _ended.set()
    _tidy()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(128 + received[0])


def _tidy() -> None:
    """Remove what is left, and end the workers of this process."""
    for path in list(_left):
        _remove(path)
    # Who did not load it has no workers.
    workers = sys.modules.get("multiprocessing")
    for child in workers.active_children() if workers is not None and _ended.is_set() else ():
        child.kill()
        child.join(1.0)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
