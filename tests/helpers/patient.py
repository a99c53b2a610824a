"""A clock for tests that a busy machine does not hurry.

What a test expects within a limit of time would else hang on what runs beside it: while other
processes have the processor, or the machine itself is paused, this clock goes slowly.
"""

from __future__ import annotations

import threading
import time

from treeleak.core import clock

AMPLE = 600.0
"""Seconds that no attack on a small model takes: its work ends it, on a slow machine, too."""
SLOWEST = 1 / 6
"""Of wall time: what waits for something that never comes must end, too."""


class PatientClock:
    """Seconds since some moment in which this process worked, at least a share of wall time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # A signal may ask while somebody asks.
        self._wall, self._worked = time.perf_counter(), time.process_time()
        self._now = self._wall

    def __call__(self) -> float:
        with self._lock:
            wall, worked = time.perf_counter(), time.process_time()
            passed = wall - self._wall
            self._now += min(passed, max(worked - self._worked, SLOWEST * passed))
            self._wall, self._worked = wall, worked
            return self._now


def work(seconds: float) -> None:
    """Keep the processor busy: for a process that sleeps, the clock of tests goes slowly."""
    end = clock.wall() + seconds
    while clock.wall() < end:
        pass
