"""What a process must not leave behind when a signal ends it: drafts, folders, processes.

``with`` and ``finally`` tidy up wherever Python gets to run them. A compiled loop, a solver or a
pool of threads can keep it from that for a minute, so all that has to go stands in one list here,
and a thread that does nothing else goes through it when a signal comes.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType

GRACE = 2.0
"""Seconds that ``finally`` has to run before the process ends without it."""

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
    own = [n for n in _SIGNALS if signal.getsignal(n) == signal.SIG_DFL]
    for n in own:
        signal.signal(n, _raise)
    try:
        with _watched(own) if os.name == "posix" else nullcontext():
            yield
    except Exception as error:
        # Libraries that are broken off while they are imported raise errors of their own.
        if _asked:
            raise Terminated(_asked[0]) from error
        raise
    finally:
        _tidy()
        if not _ended.is_set():
            for n in own:
                signal.signal(n, signal.SIG_DFL)


_SIGNALS = tuple(s for name in ("SIGTERM", "SIGHUP") if (s := getattr(signal, name, None)))
_ended = threading.Event()
_asked: list[int] = []


def _raise(number: int, frame: FrameType | None) -> None:
    # A second one must not break into the tidying that the first began.
    if not _ended.is_set():
        _ended.set()
        _asked.append(number)
        if _no_place_to_raise(frame):
            _tidy()
            os.write(2, f"treeleak: ended by {Terminated(number)}\n".encode())
            os._exit(128 + number)
        raise Terminated(number)


def _no_place_to_raise(frame: FrameType | None) -> bool:
    """Say whether an import or a finalizer is under way.

    Compiled libraries abort the process when they are broken off while they load. Python prints
    what a finalizer raises, and goes on.
    """
    while frame is not None:
        code = frame.f_code
        if "importlib._bootstrap" in code.co_filename or code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


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
    while (told := os.read(read, 1)) and told[0] not in numbers:
        pass
    if not told:
        os.close(read)
        return
    time.sleep(GRACE)
    # The main thread may be where Python runs no handlers: workers end all the same, and what it
    # meets without them is no error of its own.
    if not _ended.is_set():
        _asked.append(told[0])
        _ended.set()
    _tidy()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(128 + told[0])


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
