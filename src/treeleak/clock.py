"""Time limits, interruption and progress: what every long step is given."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

__all__ = ["Clock", "Incumbent", "OutOfTime", "Progress"]


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
    """A time limit that can also be interrupted.

    Attributes
    ----------
    limit : float
        Seconds from the start.
    report : callable
        Receives every :class:`Progress`.
    trace : list of Incumbent
        The best answers so far, in order.
    parent : Clock or None
        A clock that stops this one when it stops.
    elsewhere : int
        Misfit of the parts of the answer that this clock's step does not work on.
    """

    limit: float
    report: Callable[[Progress], None] = field(default=lambda _: None)
    started: float = field(default_factory=time.perf_counter)
    trace: list[Incumbent] = field(default_factory=list)
    parent: Clock | None = None
    elsewhere: int = 0
    _stop: bool = False

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    @property
    def left(self) -> float:
        """Seconds left; 0 once stopped."""
        if self._stop or (self.parent is not None and self.parent.stopped):
            return 0.0
        return max(0.0, self.limit - self.seconds)

    @property
    def stopped(self) -> bool:
        """Whether the time is up or somebody stopped the clock."""
        return self.left <= 0.0

    @property
    def interrupted(self) -> bool:
        """Whether somebody stopped the clock before its time was up."""
        return self._stop or (self.parent is not None and self.parent.interrupted)

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
        return Clock(end, self.report, self.started, self.trace, self, elsewhere)

    def forgive(self, seconds: float) -> None:
        """Give time back: what is done once for all, like compiling, is not held against a run."""
        self.limit += seconds
        if self.parent is not None:
            self.parent.forgive(seconds)

    def tell(self, stage: str, done: float, misfit: int | None = None) -> None:
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
