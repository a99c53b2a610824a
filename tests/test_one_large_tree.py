"""One tree on a grid too large to list: each leaf is a box, so no search is needed."""

from __future__ import annotations

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.evidence import evidence_for
from treeleak.partition import Geometry
from treeleak.partition.cells import MAX_FINE_GRID
from treeleak.release import Release, to_release
from treeleak.release.infer_schema import infer_schema


def release_of(n_rows: int) -> Release:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, 4)), rng.integers(0, 3, n_rows)
    return to_release(DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(X, y))


def test_rows_are_placed_without_a_search():
    release = release_of(600)
    geometry = Geometry.of(release, infer_schema(release))
    assert geometry.n_points > MAX_FINE_GRID
    evidence = evidence_for(release)(geometry)
    constraints = RowConstraints.of_exact(evidence, geometry)
    rows = constraints.of_one_tree(0)
    assert rows is not None
    assert (rows[:, -1] == constraints.label).all()
    atoms = np.ascontiguousarray(rows[:, :-1])
    assert constraints.misfit(atoms, constraints.label) == 0
    # Other seeds, other places in the same leaves.
    other = constraints.of_one_tree(1)
    assert other is not None
    assert (other != rows).any()
    leaves = (constraints.masks.trace(np.ascontiguousarray(r[:, :-1])) for r in (rows, other))
    assert np.array_equal(*leaves)
