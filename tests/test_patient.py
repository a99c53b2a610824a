"""The clock of the tests: a busy machine does not hurry it, and it never stands still."""

from __future__ import annotations

import time

import pytest

from helpers import patient
from helpers.patient import SLOWEST, PatientClock
from treeleak.core import clock as clocks
from treeleak.core.clock import Clock


class Told:
    """Seconds of the wall and of the processor, as they are told."""

    def __init__(self) -> None:
        self.wall = self.worked = 0.0

    def perf_counter(self) -> float:
        return self.wall

    def process_time(self) -> float:
        return self.worked


def test_time_passes_only_as_the_process_works(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(patient, "time", told)
    clock = PatientClock()
    for wall, worked, passed in ((4.0, 4.0, 4.0), (4.0, 1.0, 1.0), (2.0, 4.0, 2.0)):
        before, told.wall, told.worked = clock(), told.wall + wall, told.worked + worked
        assert clock() - before == pytest.approx(passed)
    before, told.wall = clock(), told.wall + 60.0
    assert clock() - before == pytest.approx(60.0 * SLOWEST)


def test_limits_of_tests_go_by_it() -> None:
    assert isinstance(clocks.wall, PatientClock)
    clock = Clock(60.0)
    time.sleep(0.2)
    assert 0.0 < clock.seconds < 0.15
