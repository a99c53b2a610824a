"""Rows tree by tree: the middle of what sums allow, groups of rows, and what ends in time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.ensemble import GradientBoostingClassifier

import treeleak
from helpers.boosted import bits, cells_of, histogram, rows_of_A
from helpers.patient import AMPLE
from treeleak.attacks.loss_sums import tree_by_tree
from treeleak.attacks.loss_sums.kernels import compile_all
from treeleak.attacks.loss_sums.labels import nearest_classes, system_of
from treeleak.attacks.loss_sums.search import Search
from treeleak.attacks.loss_sums.tree_by_tree import midpoints, orthonormal
from treeleak.core.clock import Clock
from treeleak.release import to_release

pytestmark = pytest.mark.filterwarnings("ignore")


def test_whole_numbers_turn_up_in_the_corners():
    # Of x + y = 1 and z + w = 1 with x + 2 z = 2, real points are many, and one is whole.
    table = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 2, 0]])
    given = orthonormal(table, np.array([1.0, 1.0, 2.0]), 1e-9)
    found = list(midpoints(*given, np.ones(4), Clock(60.0), 9))
    assert np.abs(found[0] - np.rint(found[0])).max() > 0.1
    assert any(np.abs(x - [0, 1, 1, 0]).max() < 1e-3 for x in found[1:])
    for x in found:
        np.testing.assert_allclose(table @ x, [1, 1, 2], atol=1e-2)


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


@pytest.mark.slow
def test_cells_keep_the_classes_that_sums_told():
    release, X, y = trained(n=400, columns=8)
    search = searched(release)
    known = search.found()
    given = search.partition, known.cells, known.constraints
    system = system_of(*given, known.by_class)
    m = known.by_class.T.ravel()
    assert not system.residual(m).any()
    for k in np.flatnonzero(m).tolist():
        other = m.copy()
        other[k] -= 1
        other[(k + len(known.cells)) % len(m)] += 1
        # Whatever happens elsewhere: this cell's classes are others.
        assert system.residual(other)[[k, (k + len(known.cells)) % len(m)]].all()

    found = treeleak.reconstruct(release, bits(release), time_limit=AMPLE)
    assert found.status in ("unique", "feasible")
    mine, true = (
        Counter(map(tuple, np.column_stack([rows_of_A(release, rows), label]).tolist()))
        for rows, label in ((found.X, found.y), (X, y))
    )
    assert mine == true


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


def test_rows_spread_over_all_columns_come_to_what_these_columns_sum_up():
    search = searched(trained(n=60, columns=6, trees=8)[0])
    columns = search.by_class(search.evidence.statements()).columns
    rng = np.random.default_rng(0)
    multiplier, start = 0.01 * rng.normal(size=len(columns.right)), rng.normal(size=len(columns))
    x, left = columns.spread(multiplier, start)
    A = columns.take(np.arange(len(columns)))
    np.testing.assert_allclose(x, np.exp(start + A @ multiplier), rtol=1e-5)
    np.testing.assert_allclose(left, A.T @ x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_likely_rows_are_nearer_than_other_rows_of_the_population(seed):
    release, X, y = trained(n=150, columns=9, trees=10, seed=seed)
    _, other, other_y = trained(n=150, columns=9, trees=1, seed=seed + 100)
    search = searched(release)
    true, others = (
        histogram(search.partition, rows_of_A(release, rows), labels)
        for rows, labels in ((X, y), (other, other_y))
    )
    found = search._likely(search.evidence.statements(), 0.0)
    mine = np.zeros_like(true)
    mine[found.cells] = found.by_class
    assert mine.sum() == len(X)
    assert np.minimum(mine, true).sum() > np.minimum(others, true).sum()
    # They are handed over only if more of them should be right than were told already.
    assert search._likely(search.evidence.statements(), 1.0) is None
    # Without time, nothing is said to be likely.
    search.clock.stop()
    assert search._likely(search.evidence.statements(), 0.0) is None


class Some:
    """Columns of three classes of some cells, and sums of rows of them, a little off."""

    def __init__(self, by_class, rng, off):
        n, k = by_class.shape
        self.A = rng.normal(size=(n * k, 3 * n * k))
        self.right = by_class.T.ravel() @ self.A + off * rng.normal(size=3 * n * k)

    def __len__(self):
        return len(self.A)

    def take(self, chosen):
        return csr_array(self.A[chosen])


@pytest.mark.parametrize("off", [0.0, 0.1, 30.0])
def test_classes_are_shared_out_so_that_sums_are_nearly_met(off):
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, (8, 3))
    true[:, 0] += 1
    found = nearest_classes(Some(true, rng, off), true.sum(axis=1))
    assert (found >= 0).all()
    np.testing.assert_array_equal(found.sum(axis=1), true.sum(axis=1))
    assert (found == true).all() == (off < 1)
