"""Walking rows against listing all cells: the same releases, answered both ways."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.cases import Stated
from helpers.examples import examples, seeds
from helpers.grids import FEW, columns_of_any_kind
from helpers.releases import tampered
from helpers.tables_of import dataset, written
from treeleak.attacks import attack_for
from treeleak.attacks.answer import Answer
from treeleak.attacks.known_draws.domains import Domains
from treeleak.core.clock import Clock
from treeleak.partition import GridTooLarge, cells
from treeleak.schema import Binary, Numeric, Ordinal, Schema

KINDS = ["rows", "weights", "none", "draws", "distinct"]
LONG = 60
"""Reports after which an attack that has not ended is stopped."""
SMALL = Schema([Ordinal("a", 0, 9), Numeric("n", -4.0, 8.0, missing=True), Binary("b")])


@pytest.fixture(autouse=True, scope="module")
def walking():
    """Let rows walk where their leaves alone would settle them: see test_domains."""

    def unlisted(*_: object) -> None:
        raise GridTooLarge("not here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Domains, "of", unlisted)
        yield


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


def is_met(answer: Answer, case: Stated) -> bool:
    """Whether the rows meet all that is stated, or lie between datasets that do."""
    if answer.status == "likely":
        table = dataset(answer.likeliest, answer, case.release.n_features)
        return case.missed(table[:, :-1], table[:, -1].astype(int)) == 0
    return answer.status in ("unique", "feasible")


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
    table = written(rows.values, answer, case.release.n_features)
    X, y = table[:, :-1], table[:, -1].astype(int)
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
        assert is_met(by_list, case)
        assert by_walk.status == "feasible"
    return by_walk.status


@pytest.mark.slow
@examples(60, fast=5)
@given(columns_of_any_kind(), st.integers(0, 2**32), st.sampled_from(KINDS))
def test_what_can_be_met_is_met(schema, seed, kind):
    assert check(Stated(schema, seed, kind)) in ("feasible", "nothing to walk over")


@examples(30, fast=4)
@given(columns_of_any_kind(), st.integers(0, 2**32), st.sampled_from(["rows", "draws", "distinct"]))
def test_counts_that_were_moved_are_never_met_where_they_cannot_be(schema, seed, kind):
    case = Stated(schema, seed, kind)
    case.count(tampered(case.release, np.random.default_rng(seed)))
    check(case, 12)


@seeds(60, fast=10)
def test_exact_counts_that_cannot_be_met_stay_unknown(seeds):
    seen = []
    for seed in seeds:
        case = Stated([*FEW, SMALL][seed % (len(FEW) + 1)], seed, "rows")
        case.count(tampered(case.release, np.random.default_rng(seed)))
        seen.append(check(case, 12))
    assert all(seen.count(status) >= len(seeds) / 6 for status in ("feasible", "unknown"))


def impossible(seed: int = 0) -> Stated:
    """Known draws that no rows explain, with nothing to show it before the search."""
    for s in itertools.count(seed):
        case = Stated(SMALL, s, "draws", 8)
        case.count(tampered(case.release, np.random.default_rng(s)))
        if case.evidence.contradiction() is None and listed(case).status == "infeasible":
            return case
    raise AssertionError


def test_stopping_where_no_rows_meet_the_counts_keeps_the_best_rows():
    case, clock = impossible(), stopping(LONG)
    answer = walked(case, clock)
    assert answer.status == "unknown"
    check_form(answer, case)
    assert clock.trace[-1].misfit == answer.rows[0].misfit


@pytest.mark.parametrize("kind", ["rows", "none"])
def test_no_rows(kind):
    case = Stated(SMALL, 4, kind, 12)
    trees = tuple(
        t.with_counts(counts=None if t.counts is None else 0 * t.counts, totals=0 * t.totals)
        for t in case.release.trees
    )
    case.truth = case.truth[:0]
    case.count(replace(case.release, trees=trees, n_rows=0))
    answer = walked(case, Clock(60.0))
    assert answer.status in ("unique", "feasible")
    assert answer.rows[0].values.shape == (0, 4)
