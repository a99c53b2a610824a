"""Rows told apart by their draws: the bounds on what is listed, and the end of time.

What is proved is held against brute force over all tables in test_known.
"""

from __future__ import annotations

import pytest

from helpers.cases import Drawn, some_drawn
from treeleak.attacks.known_draws import candidates as rows
from treeleak.attacks.known_draws.candidates import RowProblem
from treeleak.attacks.known_draws.row_solver import RowSolver
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.evidence import Pairs
from treeleak.partition import enumerate_drawable


def listed(case: Drawn) -> RowProblem:
    """The problem before any bound."""
    evidence = case.known(True)
    partition = enumerate_drawable(evidence.geometry, evidence.row_sets())
    return RowProblem.of(evidence, partition, Pairs.of(partition))


def test_too_many_candidates_are_refused(monkeypatch):
    case = some_drawn(3, n_rows=65, tamper=False)
    problem = listed(case)
    n_candidates = len(problem.column) + int((problem.fixed_pair >= 0).sum())
    for most, why in (
        (n_candidates - 1, f"{n_candidates:,} candidates for 65 rows"),
        (len(problem.pair), "65 rows in"),
    ):
        monkeypatch.setattr(rows, "MAX_CANDIDATES", most)
        with pytest.raises(NotCovered, match=why):
            listed(case)


def test_without_time_nothing_is_struck_out_and_nothing_proved():
    stopped = Clock(60.0)
    stopped.stop()
    problem = listed(some_drawn(5, n_rows=7, tamper=False))
    assert problem.n_open
    assert problem.narrowed(stopped) is problem
    assert RowSolver(problem).solve(stopped, 10.0, 0) is None
    choice = problem.column[problem.start[:-1]]
    for clock, seconds in ((stopped, 10.0), (Clock(60.0), 0.0)):
        assert not RowSolver(problem).always(choice, clock, seconds, 0)[1]
