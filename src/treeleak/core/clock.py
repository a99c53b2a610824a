"""Time limits, interruption and progress: what every long step is given."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import TypeVar

from treeleak.core.errors import BadInput, TimeUp
from treeleak.core.message import Message, MessageTemplate

T = TypeVar("T")

GRACE = 2.0
"""Seconds after the limit when a step is broken off; those that look at the clock end before."""
LATE = 1.0
"""The same for a step that is not all there is."""
_AGAIN = 0.25
"""Seconds until a step that caught the alarm is told again."""
_LONGEST = 1e8
"""Seconds that an alarm can be set to."""
_MOST_SPARED = 1.0
"""Seconds, at most, by which breaking off is put off beyond the limit of the whole."""

TIME_UP = MessageTemplate("time_limit_reached", "the time limit of {seconds} s was reached")

wall: Callable[[], float] = time.perf_counter
"""Seconds since some moment."""


class _Pause:
    """Time that counts for no clock: what is compiled once is not held against a run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        # In one tuple, so that who reads it needs no lock: when it began, and how long all were.
        self.state: tuple[float | None, float] = (None, 0.0)
        self.compiling: Callable[[], None] = lambda: None
        """Called where compiling takes long."""

    @property
    def seconds(self) -> float:
        """How long all pauses that have ended were."""
        return self.state[1]

    def begin(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self.state = (wall(), self.state[1])

    def end(self) -> None:
        with self._lock:
            self._depth -= 1
            since, total = self.state
            if self._depth == 0 and since is not None:
                self.state = (None, total + wall() - since)


PAUSE = _Pause()


def now() -> float:
    """Seconds of :func:`wall`, without those of :data:`PAUSE`: what clocks go by."""
    since, total = PAUSE.state
    return (wall() if since is None else since) - total


_OWN_FILES = (__file__, contextlib.__file__)
_ATOMIC = ("importlib.", "_frozen_importlib", "numba.", "llvmlite.")


def is_atomic(frame: FrameType | None) -> bool:
    """Say whether a module is imported, a loop compiled or an object finalized.

    An exception that a signal raises there does harm: compiled libraries abort the process when
    they are broken off while they load, and LLVM goes on with half a program. Callbacks of compiled
    code and finalizers print what is raised in them, and go on.
    """
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.startswith(_ATOMIC) or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class OutOfTime(Exception):
    """The time was up before there was anything to hand over."""


@dataclass(frozen=True)
class Progress:
    """Where a long step stands.

    Attributes
    ----------
    stage : str
        What is being done, in plain words.
    done : float
        Share of the stage, 0 to 1.
    misfit : int or None
        Counts that the best answer so far still misses.
    """

    stage: str
    done: float
    misfit: int | None = None


@dataclass(frozen=True)
class Incumbent:
    """The best answer so far at a moment: for plots of quality against time."""

    seconds: float
    misfit: int


@dataclass
class Clock:
    """A time limit that can also be interrupted."""

    limit: float
    """Seconds from the start."""
    report: Callable[[Progress], None] = field(default=lambda _: None)
    """Receives every :class:`Progress`."""
    started: float = field(default_factory=lambda: now())
    trace: list[Incumbent] = field(default_factory=list)
    """The best answers so far, in order."""
    parent: Clock | None = None
    """A clock that stops this one when it stops."""
    elsewhere: int = 0
    """Misfit of the parts of the answer that this clock's step does not work on."""
    stated_limit: float = 0.0
    """The limit that messages name: that of the whole."""
    spared: float = 0.0
    """Seconds by which it was put off to break off what runs."""
    best: Callable[[], object] | None = None
    """Makes the best answer so far, for whoever ends the process: kept by the outermost clock."""
    _stop: bool = False

    def __post_init__(self) -> None:
        self.stated_limit = self.stated_limit or self.limit

    @classmethod
    def of(cls, limit: float | Clock, report: Callable[[Progress], None] | None = None) -> Clock:
        """Start a clock; one that runs already goes on.

        Raises
        ------
        BadInput
            If the limit is not positive.
        """
        if isinstance(limit, Clock):
            return limit if report is None else replace(limit, report=report, parent=limit)
        if not limit > 0:
            raise BadInput(f"time_limit must be positive, not {limit}")
        return cls(float(limit), report or (lambda _: None))

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return now() - self.started

    @property
    def left(self) -> float:
        """Seconds left; 0 once stopped."""
        if self._stop or (self.parent is not None and self.parent.stopped):
            return 0.0
        return max(0.0, self.limit - self.seconds)

    @property
    def stopped(self) -> bool:
        """Whether the time is up or the clock was stopped."""
        return self.left <= 0.0

    @property
    def interrupted(self) -> bool:
        """Whether the clock was stopped before its time was up."""
        return self._stop or (self.parent is not None and self.parent.interrupted)

    @property
    def root(self) -> Clock:
        """The clock of the whole."""
        return self if self.parent is None else self.parent.root

    def stop(self) -> None:
        """Stop everything that runs on this clock or on a part of it."""
        self._stop = True

    @contextmanager
    def until_interrupt(self) -> Iterator[None]:
        """Let Ctrl-C stop this clock, so that the best answer so far is kept; a second one ends."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def on_interrupt(number: int, frame: FrameType | None) -> None:
            if self._stop and callable(before):
                before(number, frame)
            self.stop()

        signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def part(self, limit: float, elsewhere: int = 0) -> Clock:
        """Make a clock for one step: at most ``limit`` more seconds, and stopped with this one."""
        end = min(self.limit, self.seconds + limit)
        return Clock(end, self.report, self.started, self.trace, self, elsewhere, self.stated_limit)

    @property
    def timeout_message(self) -> Message:
        """That the time is up, in words."""
        return TIME_UP(seconds=f"{self.stated_limit:g}")

    @contextmanager
    def enforced(self, grace: float = GRACE) -> Iterator[None]:
        """Break off what runs within once the time has been up for some seconds.

        For steps that do not look at the clock, or not often enough. Python is told wherever it is;
        a loop in compiled code ends first, and so do imports, which get their time back. Only the
        main thread can be told, and only where the system has alarms (not on Windows): elsewhere
        nothing is broken off.

        Raises
        ------
        TimeUp
            From within.
        """
        alarms = hasattr(signal, "setitimer")
        if not alarms or threading.current_thread() is not threading.main_thread():
            yield
            return

        rest, whole, rang = grace, self.root, False

        def ring(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            nonlocal rest, rang
            if is_atomic(frame) or PAUSE.state[0] is not None:
                rest = max(rest, self.seconds + grace - self.limit)
                return
            # Not in the midst of being set up or taken down: it rings again.
            within = frame is not None and frame.f_code.co_filename not in _OWN_FILES
            late = self.seconds > self.limit + rest + self.spared
            if within and (late or whole.seconds > whole.limit + rest + _MOST_SPARED):
                rang = True
                raise TimeUp(self.timeout_message)

        before, start = signal.signal(signal.SIGALRM, ring), now()
        first = min(max(self.limit + grace - self.seconds, 0.001), _LONGEST)
        outer, interval = signal.setitimer(signal.ITIMER_REAL, first, _AGAIN)
        try:
            yield
        except Exception as error:
            if not rang or isinstance(error, TimeUp):
                raise
            # Foreign code may answer with an error of its own: numpy says that types differ.
            raise TimeUp(self.timeout_message) from error
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            if outer:
                left = max(outer - (now() - start), 0.001)
                signal.setitimer(signal.ITIMER_REAL, left, interval)

    @contextmanager
    def cut_short(self, grace: float = LATE) -> Iterator[None]:
        """Leave off what runs within, as :meth:`enforced` does, and go on with what it had."""
        try:
            with self.enforced(grace):
                yield
        except TimeUp:
            self.extend_grace(GRACE)

    def extend_grace(self, seconds: float) -> None:
        """Let what runs go on for so long after the limit: an answer would be lost."""
        self.spared += seconds
        if self.parent is not None:
            self.parent.extend_grace(seconds)

    def untimed(self, step: Callable[[], T]) -> T:
        """Do what is done once for all: it is neither broken off nor held against the time."""
        PAUSE.begin()
        try:
            return step()
        finally:
            PAUSE.end()

    def exclude_time(self, seconds: float) -> None:
        """Give time back."""
        self.limit += seconds
        if self.parent is not None:
            self.parent.exclude_time(seconds)

    def report_progress(self, stage: str, done: float, misfit: int | None = None) -> None:
        """Report progress."""
        self.report(Progress(stage, done, misfit))

    def check(self) -> None:
        """Raise :class:`OutOfTime` if the clock has stopped."""
        if self.stopped:
            raise OutOfTime

    def record(self, misfit: int) -> None:
        """Note an answer in the trace if, with all that is elsewhere, it beats the last."""
        total = misfit + self.elsewhere
        if not self.trace or total < self.trace[-1].misfit:
            self.trace.append(Incumbent(self.seconds, total))
