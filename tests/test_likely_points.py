"""Points of a cell that the rows of all cells make likely, against counting by hand."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.ensemble import GradientBoostingClassifier

import treeleak
from treeleak.attacks.exact.worlds import likely_points, most_in_common
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_of
from treeleak.release import to_release


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4), st.integers(0, 5), st.integers(0, 3))
def test_rows_stand_where_most_are_expected_to_be_right(weight, m, elsewhere):
    cell = np.array([0] * len(weight) + [1])
    points = most_in_common(cell, np.array([*weight, 2.0]), np.array([m, elsewhere]))
    held = np.bincount(points, minlength=len(cell))
    assert held[-1] == elsewhere
    assert held[:-1].sum() == m
    p = np.array(weight) / np.sum(weight)

    def expected(own):
        return sum(binom.sf(np.arange(h), m, q).sum() for h, q in zip(own, p, strict=True))

    every = (
        np.bincount(np.array(chosen, dtype=int), minlength=len(p))
        for chosen in combinations_with_replacement(range(len(p)), m)
    )
    assert expected(held[:-1]) == pytest.approx(max(map(expected, every)))


def test_points_are_likely_that_resemble_the_rows_of_other_cells():
    """Where the third column is 0, rows tell that the first two are alike; elsewhere, nothing."""
    grid = np.array(list(product([0, 1], repeat=3)))
    model = GradientBoostingClassifier(max_depth=3, n_estimators=1).fit(grid, grid.sum(1) % 2)
    schema = treeleak.Schema([treeleak.Binary(f"x{i}") for i in range(3)])
    values = values_of(Geometry.of(to_release(model), schema).parts, 1)
    atoms = np.column_stack([grid, np.zeros(8, dtype=np.int64)]) + values.atom_start[:-1]
    cell = np.where(grid[:, 2] == 0, 2 * grid[:, 0] + grid[:, 1], 4 + grid[:, 0])
    m = np.array([100, 0, 0, 100, 50, 50])
    share = np.exp(likely_points(atoms, cell, m, values))
    share /= np.bincount(cell, share)[cell]
    alike = grid[:, 0] == grid[:, 1]
    assert (share[alike & (grid[:, 2] == 1)] > 0.95).all()
    points = most_in_common(cell, share, m)
    assert alike[points].mean() > 0.97


def test_nothing_is_learned_from_no_rows_or_too_many_points(monkeypatch):
    values = values_of((), 2)
    atoms = np.array([[0], [1]])
    assert likely_points(atoms, np.array([0, 1]), np.zeros(2, dtype=np.int64), values) is None
    assert likely_points(atoms, np.array([0, 1]), np.ones(2, dtype=np.int64), values) is not None
    monkeypatch.setattr("treeleak.attacks.exact.worlds._LARGE", 1)
    assert likely_points(atoms, np.array([0, 1]), np.ones(2, dtype=np.int64), values) is None
