"""Rows behind one tree, or trees that share no column: worlds that meet its counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from treeleak import reconstruct
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.datasets import load_compas
from treeleak.evidence import evidence_for
from treeleak.metrics import reconstruction_error
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.infer_schema import infer_schema


def test_rows_behind_one_tree_meet_its_counts() -> None:
    data = load_compas()
    X, y = data.X[:100], data.y[:100]
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    found = reconstruct(tree, data.schema, time_limit=60, seed=0)
    assert found.status == "feasible"
    held, expected = (np.bincount(tree.apply(Z), minlength=100) for Z in (found.X, X))
    assert np.array_equal(held, expected)
    assert reconstruction_error(found.X, X, data.schema) < 0.1


def test_rows_of_trees_that_share_no_column_are_placed_without_a_search():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 3, 300)
    parts = [
        to_release(DecisionTreeClassifier(random_state=0).fit(X * np.isin(range(4), kept), y))
        for kept in ([0, 1], [2, 3])
    ]
    release = replace(parts[0], trees=tuple(part.trees[0] for part in parts))
    geometry = Geometry.of(release, infer_schema(release))
    constraints = RowConstraints.of_exact(evidence_for(release)(geometry), geometry)
    rows = constraints.of_separate_trees(0)
    assert rows is not None
    assert (rows[:, -1] == constraints.label).all()
    assert constraints.misfit(np.ascontiguousarray(rows[:, :-1]), constraints.label) == 0
    # A third tree tests a column again.
    three = replace(release, trees=(*release.trees, release.trees[0]))
    geometry = Geometry.of(three, infer_schema(three))
    again = RowConstraints.of_exact(evidence_for(three)(geometry), geometry)
    assert again.of_separate_trees(0) is None
