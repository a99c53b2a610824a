"""Rows tree by tree: the middle of what sums allow, groups of rows, and what ends in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from helpers.boosted import bits, cells_of, histogram, rows_of_A
from treeleak.attacks.loss_sums import tree_by_tree
from treeleak.attacks.loss_sums.kernels import compile_all
from treeleak.attacks.loss_sums.search import Search
from treeleak.core.clock import Clock
from treeleak.release import to_release

pytestmark = pytest.mark.filterwarnings("ignore")


def trained(n=150, columns=9, trees=60, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, columns)), columns=list("abcdefghi")[:columns])
    y = (X["a"] + X["b"] * X["c"] + X["d"] + 1.5 * rng.random(n) > 2.2).astype(int)
    model = GradientBoostingClassifier(n_estimators=trees, random_state=0).fit(X, y)
    return to_release(model), X, y.to_numpy()


def searched(release, seconds=60.0):
    compile_all()
    evidence, partition = cells_of(release, bits(release))
    return Search(evidence, partition, Clock(seconds), 0)


@pytest.mark.parametrize("few", [False, True], ids=["many at once", "few at once"])
def test_rows_and_classes_come_back_tree_by_tree(few, monkeypatch):
    release, X, y = trained()
    if few:
        schedule = replace(tree_by_tree.SCHEDULE, first_columns=100)
        monkeypatch.setattr(tree_by_tree, "SCHEDULE", schedule)

    def refused(self, told):
        raise AssertionError("all sums at once were fitted")

    monkeypatch.setattr(Search, "_at_once", refused)
    search = searched(release)
    found = search.found()
    assert found.missed == 0
    mine = np.zeros((search.partition.n_cells, 2), dtype=np.int64)
    mine[found.cells] = found.by_class
    true = histogram(search.partition, rows_of_A(release, X), y)
    np.testing.assert_array_equal(mine, true)


def test_rows_of_trees_so_far_are_as_many_as_there_are(monkeypatch):
    release, _, _ = trained()
    search = searched(release)
    schedule = replace(tree_by_tree.SCHEDULE, first_columns=60)
    monkeypatch.setattr(tree_by_tree, "SCHEDULE", schedule)
    real = tree_by_tree.TreeByTree._solved

    def stops(self, *given):
        out = real(self, *given)
        self.clock.stop()
        search.clock.stop()
        return out

    monkeypatch.setattr(tree_by_tree.TreeByTree, "_solved", stops)
    found = search.found()
    assert found.constraints.m.sum() == len(trained()[1])
    assert found.missed > 0
