"""Which leaves rows that walk are taken to lie in, and what follows for where they walk next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.cases import Stated
from treeleak.attacks.large_grid import restarts
from treeleak.attacks.large_grid import run as module
from treeleak.attacks.large_grid.restarts import _STAYED, WalkHistory
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.run import _walked_until_met
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.core.clock import Clock
from treeleak.partition.value_index import values_of
from treeleak.schema import Binary, Numeric, Ordinal, Schema

COLUMNS = Schema([Ordinal("a", 0, 5), Binary("b"), Numeric("n", -4.0, 8.0)])
CHEAP, DEAR = 0.9 * _STAYED, 1.1 * _STAYED


def _never_left(s: RowConstraints, *noted: tuple[float, list[Walker]]) -> np.ndarray:
    recent = WalkHistory(False, [], [], [])
    for price, walkers in noted:
        recent.note(walkers, s, price)
    return recent.never_left(s)


@pytest.mark.parametrize("seed", range(4))
def test_rows_never_left_a_leaf_if_all_walkers_were_there_whenever_missed_counts_were_dear(seed):
    s = Stated(COLUMNS, seed, "distinct", 8).constraints
    one, other = (Walker.started(s, seed + i) for i in (0, 100))
    a, b = (s.masks.row[w.rows.leaves] for w in (one, other))
    drawn = s.draws > 0
    alone = _never_left(s, (DEAR, [one]))
    assert (alone[drawn] == a[drawn]).all()
    assert (alone[~drawn] == -1).all()
    assert ((a != b) & drawn).any()
    both = np.where((a == b) & drawn, a, -1)
    assert (_never_left(s, (DEAR, [one, other])) == both).all()
    # Coming back does not help, and where rows were while nothing had a price is not asked.
    assert (_never_left(s, (DEAR, [one]), (DEAR, [other]), (DEAR, [one])) == both).all()
    assert (_never_left(s, (CHEAP, [other]), (DEAR, [one])) == alone).all()
    assert (_never_left(s, (CHEAP, [one])) == -1).all()


@pytest.mark.parametrize("n", [1, 16, 17, 100])
def test_few_looks_at_all_walkers_are_kept_evenly_apart(n, monkeypatch):
    monkeypatch.setattr(restarts, "_LOOKS", 16)
    s = Stated(COLUMNS, 0, "distinct", 8).constraints
    walkers, recent = [Walker.started(s, i) for i in (0, 100)], WalkHistory(False, [], [], [])
    for k in range(n):
        for w in walkers:
            w.rows.leaves[:] = k
        recent.note(walkers, s, 2.0)
    assert 1 <= len(recent.leaves) <= 16
    assert all(len(look) == len(walkers) for look in recent.leaves)
    seen = [int(look[0, 0, 0]) for look in recent.leaves]
    assert all((look == k).all() for look, k in zip(recent.leaves, seen, strict=True))
    assert len(set(np.diff(seen))) <= 1
    assert seen[0] == 0
    assert n - seen[-1] <= recent.apart


@pytest.mark.parametrize(("share", "asked"), [(0.5, False), (1.0, True)])
def test_other_means_are_tried_only_where_walls_no_longer_close_in(monkeypatch, share, asked):
    case = Stated(COLUMNS, 1, "distinct", 8)
    # Counts that no rows meet.
    s = replace(case.constraints, target=case.constraints.target + 1)
    s = replace(s, closed=np.zeros((s.n_rows, s.geometry.leaf_start[-1]), dtype=np.uint8))
    clock, asked_of = Clock(60.0), []

    def narrow(constraints, leaves, part):
        # Half of the leaves go, though all of them stay within reach of a walk: or nothing goes.
        asked_of.append("walls")
        clock.stop()
        closed = constraints.closed.copy()
        closed[:, int(share * closed.shape[1]) :] = 1
        return replace(constraints, closed=closed)

    def solve(*_):
        asked_of.append("solver")
        return None, False

    monkeypatch.setattr(module, "_solved", solve)
    monkeypatch.setattr(restarts, "_SWEEPS", 20)
    values = values_of(s.geometry.parts, case.n_classes)
    found = _walked_until_met(s, values, clock, "", 0, narrow, [])
    assert found.misfit > 0
    assert asked_of == (["walls", "solver"] if asked else ["walls"])
