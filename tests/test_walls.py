"""Which leaves rows that walk are taken to lie in, and what follows for where they walk next."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.cases import Stated
from treeleak.attacks.large_grid.restarts import _STAYED, WalkHistory
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walkers import Walker
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
