"""Rows that a search has when its time ends are the answer, wherever it is by then."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.patient import work
from treeleak.attacks.known_draws import run, search


@cache
def warm(n_trees: int = 5) -> RandomForestClassifier:
    """A forest that was attacked before: what is compiled and loaded takes no more time."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (60, 8)), columns=list("abcdefgh"))
    y = (X["a"] + X["b"] + rng.random(60) > 1.5).astype(int)
    model = RandomForestClassifier(n_trees, max_depth=4, random_state=0).fit(X, y)
    treeleak.reconstruct(model, time_limit=1)
    return model


@pytest.mark.parametrize(
    ("module", "name", "n_trees", "evaluations", "status"),
    [
        pytest.param(search, "fit_likely", 5, 1, "unknown", marks=pytest.mark.slow),
        pytest.param(search, "_solved", 5, 1, "unknown", marks=pytest.mark.slow),
        pytest.param(run, "typical", 1, 1000, "feasible", marks=pytest.mark.slow),
    ],
)
def test_a_step_that_takes_too_long_costs_no_rows(
    module, name, n_trees, evaluations, status, monkeypatch
):
    entered, ended = [], []

    def slow(*_, **__):
        entered.append(name)
        work(300)
        ended.append(name)

    model = warm(n_trees)
    schedule = replace(search.SCHEDULE, first_evaluations=evaluations)
    monkeypatch.setattr(search, "SCHEDULE", schedule)
    monkeypatch.setattr(module, name, slow)
    for limit in (1, 5, 25, 125):  # A slower machine gets there later.
        found = treeleak.reconstruct(model, time_limit=limit)
        if entered:
            break
    assert entered
    assert not ended
    assert found.status == status
    assert found.X.shape == (60, 8)
    assert (found.misfit > 0) == (status == "unknown")


@pytest.mark.slow
def test_rows_are_written_after_the_time_is_up(monkeypatch):
    written = run.rows_from_marginals

    def slow(*given):
        work(2.5)
        return written(*given)

    model = warm()
    monkeypatch.setattr(run, "rows_from_marginals", slow)
    assert treeleak.reconstruct(model, time_limit=1).X.shape == (60, 8)
