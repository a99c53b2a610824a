"""Narrowing and walks that run out of time: they end early, and rows at hand are handed over."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeleak
from treeleak.attacks.known_draws import run as known_draws_run
from treeleak.attacks.known_draws.domains import _Pace
from treeleak.core.clock import Clock
from treeleak.core.errors import TimeUp
from treeleak.partition import cells
from treeleak.schema import Numeric, Schema


def judged(monkeypatch, limit: float, n_open: list[tuple[float, int]]) -> list[bool]:
    """What is said at some moments, of so many leaves."""
    seconds = 0.0
    monkeypatch.setattr("treeleak.core.clock.now", lambda: seconds)
    clock = Clock(limit)
    pace, out = _Pace(clock), []
    for now, leaves in n_open:
        seconds = now
        out.append(pace.hopeless(leaves))
    return out


def test_narrowing_goes_on_as_long_as_it_may_come_to_an_end(monkeypatch):
    fast = [(float(s), 10_000 - 90 * s) for s in range(1, 100)]
    assert not any(judged(monkeypatch, 100.0, fast)[:90])
    # A landslide: slow at first.
    slide = [(float(s), 10_000 - 40 * s) for s in range(1, 90)]
    assert not any(judged(monkeypatch, 100.0, slide)[:45])


def test_narrowing_ends_where_it_stalls_but_not_at_once(monkeypatch):
    stalls = [(float(s), 10_000 if s < 10 else 5_000 - s) for s in range(1, 60)]
    said = judged(monkeypatch, 100.0, stalls)
    assert not any(said[:25])
    assert all(said[25:])
    # Without a limit, there is all the time.
    assert not any(judged(monkeypatch, np.inf, stalls))


@pytest.mark.slow
def test_rows_at_hand_are_the_answer_where_none_could_walk(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] > 0).astype(int)
    model = RandomForestClassifier(10, max_depth=3, random_state=0).fit(X, y)
    monkeypatch.setattr(cells, "MAX_GRID", 1)

    def none(*given):
        raise TimeUp("the time limit of 5 s was reached")

    monkeypatch.setattr(known_draws_run, "rows_walked", none)
    schema = Schema([Numeric(f"x{i}", -9.0, 9.0) for i in range(4)])
    found = treeleak.reconstruct(model, schema=schema, time_limit=5)
    assert found.status == "unknown"
    assert found.X.shape == (60, 4)
    assert found.misfit > 0


@pytest.mark.parametrize("spent", [0.0, 20.0])
def test_a_pace_is_not_judged_before_some_time(monkeypatch, spent):
    assert judged(monkeypatch, 100.0, [(spent, 7)]) == [False]
