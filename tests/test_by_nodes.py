"""Rows of raw tables, tree by tree and node by node."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import treeleak
from treeleak.attacks.real_valued import by_nodes, raw_rows, whole_sums
from treeleak.attacks.real_valued.whole_sums import Sums
from treeleak.core.clock import Clock
from treeleak.evidence import LossSums
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.statistics import VALUE
from treeleak.schema import Numeric, Schema


def brute_force(most, second, first, sums):
    every = np.array(list(product(*(range(r + 1) for r in most))))
    ones = every @ first - sums.first
    met = np.abs(every @ second - sums.second) <= sums.off_second
    met &= np.abs(ones - np.rint(ones)) <= sums.off_first
    if sums.rows is not None:
        met &= every.sum(axis=1) == sums.rows
    return {tuple(x) for x in every[met].tolist()}


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_all_choices_that_meet_the_sums_are_found(seed, counted):
    rng = np.random.default_rng(seed)
    most = rng.integers(1, 4, size=7)
    # Few digits, so that several choices meet the sums.
    first = rng.integers(1, 20, size=7) / 20
    second = np.round(first * (1 - first), 2) + 0.01
    true = rng.integers(0, most + 1)
    rows = int(true.sum()) if counted else None
    sums = Sums(rows, float(true @ second), float(true @ first) - 2, 1e-9, 1e-9)
    found = whole_sums.whole_sums(most, second, first, sums, 10**6)
    assert tuple(true.tolist()) in brute_force(most, second, first, sums)
    assert {tuple(x) for x in found.tolist()} == brute_force(most, second, first, sums)


def test_where_nothing_meets_the_sums_nothing_is_found():
    most, second = np.array([2, 3, 1]), np.array([0.2, 0.21, 0.17])
    sums = Sums(2, 0.5, 0.0, 1e-9, 1e-9)
    assert len(whole_sums.whole_sums(most, second, second, sums, 1000)) == 0


@pytest.mark.parametrize("n", [9, 31])
def test_of_too_many_choices_the_likeliest_are_looked_at(n):
    rng = np.random.default_rng(n)
    first = rng.random(40)
    second = first * (1 - first)
    true = np.zeros(40, dtype=int)
    true[rng.permutation(40)[:n]] = 1
    sums = Sums(n, float(true @ second), float(true @ first) - 3, 1e-9, 1e-9)
    most = np.ones(40, dtype=int)
    found = whole_sums.whole_sums(most, second, first, sums, 80_000)
    assert found.tolist() == [true.tolist()]
    # Neither this few choices, nor sums that many choices would meet.
    assert whole_sums.whole_sums(most, second, first, sums, 100) is None
    blurred = Sums(n, sums.second, sums.first, 0.1, 0.1)
    assert whole_sums.whole_sums(most, second, first, blurred, 80_000) is None


@pytest.fixture(scope="module")
def raw():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {"age": rng.integers(18, 90, 120), "pay": rng.lognormal(3, 1, 120).round(2),
         "size": rng.normal(170, 10, 120).round(1)}
    ).astype(float)  # fmt: skip
    leaning = 0.05 * (X.age - 50) + 0.02 * X.pay + 0.05 * (X["size"] - 170)
    y = (rng.random(120) < 1 / (1 + np.exp(-leaning))).astype(int)
    model = HistGradientBoostingClassifier(max_iter=12, min_samples_leaf=8).fit(X, y)
    release = to_release(model)
    schema = Schema([Numeric(c, float(X[c].min()), float(X[c].max())) for c in X])
    return X, y, Geometry.of(release, schema)


def true_leaves(X, geometry):
    rows = X.to_numpy(geometry.release.float_type)
    return np.column_stack(
        [start + np.searchsorted(tree.leaves, tree.apply(rows))
         for start, tree in zip(geometry.leaf_start, geometry.release.trees, strict=False)]
    )  # fmt: skip


def test_nodes_sum_up_what_their_rows_count(raw):
    X, y, geometry = raw
    search = by_nodes.ByNodes(LossSums(geometry), geometry, Clock.of(60))
    assert search._ones == y.sum()
    leaf = true_leaves(X, geometry)
    for t in (0, 1, 7):
        each = by_nodes.Groups(
            t, np.ones(len(X), dtype=int), leaf, np.ones((len(X), int(search.begin[-1])), bool),
            np.arange(len(X)),
        )  # fmt: skip
        told = search._next(each)
        tree = told.tree
        at = np.zeros((len(X), tree.n_nodes), dtype=int)
        at[np.arange(len(X)), tree.leaves[leaf[:, t] - geometry.leaf_start[t]]] = 1
        for v in np.flatnonzero(~tree.is_leaf)[::-1]:
            at[:, v] = at[:, tree.left[v]] + at[:, tree.right[v]]
        assert by_nodes.met(told, at, np.ones(tree.n_nodes, dtype=bool))
        # Of two rows that the trees before told apart, each in the other's place is seen.
        apart = np.flatnonzero(
            (told.second != told.second[0]) & (at != at[0]).any(axis=1)
        )[:1]  # fmt: skip
        assert len(apart) == (t > 0)
        for other in apart:
            moved = at.copy()
            moved[[0, other]] = moved[[other, 0]]
            assert not by_nodes.met(told, moved, np.ones(tree.n_nodes, dtype=bool))
    own = np.bincount(leaf[:, :5].ravel(), np.repeat(y, 5), len(search.boxes))
    groups = by_nodes.Groups(
        5, np.ones(len(X), dtype=int), leaf, np.ones((len(X), int(search.begin[-1])), bool),
        np.arange(len(X)),
    )  # fmt: skip
    assert search.ones(groups).tolist() == own.tolist()


def test_rows_are_followed_through_all_trees(raw):
    X, _, geometry = raw
    clock = Clock.of(120)
    found = by_nodes.ByNodes(LossSums(geometry), geometry, clock).found()
    assert found.n_trees == len(geometry.release.trees)
    assert found.rows.sum() == len(X)

    # Groups are told apart by what trees predict.
    def total(leaf):
        values = np.concatenate(
            [t.statistics.get(VALUE).values[t.leaves] for t in geometry.release.trees]
        )
        return np.round(values[leaf].sum(axis=1), 9)

    true = total(true_leaves(X, geometry))
    assert sorted(np.repeat(total(found.leaf), found.rows)) == sorted(true)
    start = np.append(0, np.cumsum(geometry.radix))
    row = np.repeat(np.arange(len(found.rows)), found.rows)
    atoms, sure = raw_rows.chosen(found, start, row, np.zeros(len(row), dtype=int))
    box = found.box[np.searchsorted(found.group, row)]
    assert np.take_along_axis(box, atoms + start[:-1], axis=1).all()
    assert ((sure > 0) & (sure <= 1)).all()


def test_values_are_spread_as_all_rows_are():
    box = np.array([[True, False, False]] * 8 + [[False, False, True]] + [[True, True, True]])
    share = raw_rows.spread(box)
    assert share.sum(axis=1) == pytest.approx(np.ones(10))
    assert share[-1, 0] > share[-1, 2] > share[-1, 1]


@pytest.mark.parametrize("seed", range(2))
def test_a_file_that_counts_no_rows_gives_groups_of_rows_with_their_classes(seed):
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(80, 9)).round(3), columns=list("abcdefghi"))
    y = (X.a + X.b + X.c + rng.normal(size=80) > 0).astype(int)
    model = xgboost.XGBClassifier(n_estimators=40, n_jobs=1).fit(X, y)
    schema = Schema([Numeric(c, float(X[c].min()), float(X[c].max())) for c in X])
    found = treeleak.reconstruct(model, schema, "none", 20)
    assert found.cells.startswith("generated")
    assert len(found.X) == 80
    settled = int(found.numbers["trees_settled"])
    assert settled >= 3
    assert "time" not in found.meaning
    told = treeleak.audit(model, schema=schema, time_limit=20).headline
    assert f"80 rows through the first {settled} trees" in told
    assert "Time ran out" not in told
    # Leaves of the first tree hold as many rows of each class as they do in truth.
    tree = to_release(model).trees[0]
    own, true = (
        np.unique(np.column_stack([tree.apply(rows.to_numpy(np.float32)), label]), axis=0,
                  return_counts=True)
        for rows, label in ((found.X, found.y), (X, y))
    )  # fmt: skip
    assert own[0].tolist() == true[0].tolist()
    assert own[1].tolist() == true[1].tolist()
    assert not found.proved.any()
