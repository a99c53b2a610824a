"""Walking rows against listing all cells: the same releases, answered both ways."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import Stated, columns_of_any_kind, rows_at, summed, tampered
from treeleak.attacks import attack_for
from treeleak.attacks.answer import Answer
from treeleak.clock import Clock
from treeleak.partition import cells
from treeleak.schema import Binary, Numeric, Ordinal, Schema

KINDS = ["rows", "weights", "none", "draws", "distinct"]
LONG = 60
"""Reports after which an attack that has not ended is stopped."""


def stopping(after: int, times: float = 1e6) -> Clock:
    """A clock that stops with a report, however fast the machine is."""
    clock, count = Clock(times), itertools.count()
    clock.report = lambda _: next(count) < after or clock.stop()
    return clock


def listed(case: Stated, seed: int = 0) -> Answer:
    return attack_for(case.evidence)(case.evidence, case.geometry, Clock(60.0), seed)


def walked(case: Stated, clock: Clock, seed: int = 0) -> Answer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "MAX_GRID", 1)
        return attack_for(case.evidence)(case.evidence, case.geometry, clock, seed)


def check_form(answer: Answer, case: Stated) -> None:
    """What holds of every answer with rows."""
    (rows,) = answer.rows
    assert answer.status == ("unknown" if rows.misfit else "feasible")
    assert answer.contradiction is None
    assert answer.cells.startswith("generated: the grid of thresholds has")
    assert answer.ordered == (case.b is not None)
    n, values = len(case.truth), answer.values
    assert rows.values.shape == rows.confidence.shape == (n, len(case.geometry.parts) + 1)
    assert ((values.start[:-1] <= rows.values) & (rows.values < values.start[1:])).all()
    assert not rows.proved.any()
    assert not rows.unique
    # Of cells that no row stepped into nothing is known: nothing is certain.
    assert ((rows.confidence > 0) & (rows.confidence < 1)).all()
    X = values.rows(rows.values[:, :-1], case.release.n_features)
    y = rows.values[:, -1] - values.start[-2]
    assert case.schema.valid(X, case.release.feature_names).all()
    missed = case.missed(X, y)
    assert (missed == 0) == (rows.misfit == 0)
    if case.kind != "weights":
        assert missed == rows.misfit


def check(case: Stated, after: int = LONG) -> str:
    """Walk, and compare with what listing all cells says."""
    if case.geometry.n_points == 1:
        return "nothing to walk over"
    by_list, by_walk = listed(case), walked(case, stopping(after))
    if by_walk.status == "infeasible":
        assert by_list.status == "infeasible"
        clash = by_walk.contradiction
        assert 0 <= clash.tree < len(case.release.trees)
        assert clash.node == 0 or case.release.trees[clash.tree].is_leaf[clash.node]
        assert by_walk.rows == ()
        return "infeasible"
    check_form(by_walk, case)
    if by_list.status == "infeasible":
        assert by_walk.status == "unknown"
    else:
        assert by_list.status in ("unique", "feasible")
        assert by_walk.status == "feasible"
    return by_walk.status


@settings(max_examples=60)
@given(columns_of_any_kind(), st.integers(0, 2**32), st.sampled_from(KINDS))
def test_what_can_be_met_is_met(schema, seed, kind):
    assert check(Stated(schema, seed, kind)) in ("feasible", "nothing to walk over")


@settings(max_examples=30)
@given(columns_of_any_kind(), st.integers(0, 2**32), st.sampled_from(["rows", "draws", "distinct"]))
def test_counts_that_were_moved_are_never_met_where_they_cannot_be(schema, seed, kind):
    case = Stated(schema, seed, kind)
    case.count(tampered(case.release, np.random.default_rng(seed)))
    check(case, 12)


def impossible(seed: int = 0) -> Stated:
    """Known draws that no rows explain, with nothing to show it before the search."""
    schema = Schema([Ordinal("a", 0, 9), Numeric("n", -4.0, 8.0, missing=True), Binary("b")])
    for s in itertools.count(seed):
        case = Stated(schema, s, "draws", 8)
        case.count(tampered(case.release, np.random.default_rng(s)))
        if case.evidence.contradiction() is None and listed(case).status == "infeasible":
            return case
    raise AssertionError


@pytest.mark.parametrize("kind", KINDS)
def test_stopping_at_any_report_leaves_a_valid_answer(kind):
    schema = Schema([Ordinal("a", 0, 9), Numeric("n", -4.0, 8.0, missing=True), Binary("b")])
    case = Stated(schema, 4, kind, 12)
    reports = []
    walked(case, Clock(60.0, reports.append))
    assert all(0 <= p.done <= 1 for p in reports)
    stages = [p.stage for p in reports]
    assert len(set(stages)) >= 3
    for last in sorted({stages.index(stage) for stage in stages} | {1, 3, len(stages) // 2}):
        answer = walked(case, stopping(last))
        if answer.rows:
            check_form(answer, case)
        else:
            assert answer.status == "unknown"


def test_stopping_in_the_solver_keeps_the_best_rows():
    case, reports = impossible(), []

    def report(progress):
        reports.append(progress)
        if "solving" in progress.stage:
            clock.stop()

    clock = Clock(1e6, report)
    answer = walked(case, clock)
    assert "solving" in reports[-1].stage or any("solving" in p.stage for p in reports)
    check_form(answer, case)
    assert answer.rows[0].misfit == min(i.misfit for i in clock.trace)
    assert clock.trace[-1].misfit == answer.rows[0].misfit
