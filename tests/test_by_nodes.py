"""Rows of raw tables, tree by tree and node by node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from helpers.raw_tables import at_nodes, each_for_itself, leaning, schema_of, true_leaves
from treeleak.attacks.loss_sums import raw_rows
from treeleak.attacks.loss_sums.layers import Bounds, Groups, choices, held, met, propagate_flows
from treeleak.attacks.loss_sums.node_search import ByNodes
from treeleak.core.clock import Clock
from treeleak.evidence import LossSums
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_of
from treeleak.release import to_release
from treeleak.release.statistics import VALUE


@pytest.fixture(scope="module", params=["HistGB", "HistGB with l2", "LightGBM", "XGBoost"])
def raw(request):
    X, y = leaning(3, 120)
    if request.param == "LightGBM":
        model = pytest.importorskip("lightgbm").LGBMClassifier(
            n_estimators=12, min_child_samples=8, n_jobs=1, verbose=-1
        )
    elif request.param == "XGBoost":
        model = pytest.importorskip("xgboost").XGBClassifier(n_estimators=12, n_jobs=1)
    else:
        model = HistGradientBoostingClassifier(
            max_iter=12, min_samples_leaf=8, l2_regularization=1.5 * ("l2" in request.param)
        )
    return X, y, Geometry.of(to_release(model.fit(X, y)), schema_of(X))


def looked_ahead(search, groups, n=1):
    """The next ``n`` trees."""
    layers, bounds = [], []
    for _ in range(n):
        assert search._look_ahead(groups, layers, bounds)
    return layers, bounds


def test_nodes_sum_up_what_their_rows_count(raw):
    X, y, geometry = raw
    search = ByNodes(LossSums(geometry), geometry, Clock.of(60))
    assert search._ones == y.sum()
    leaf = true_leaves(X, geometry)
    for t in range(12):
        (told,), (bounds,) = looked_ahead(search, each_for_itself(X, geometry, t))
        tree = told.tree
        at, every = at_nodes(leaf, geometry, t), np.ones(tree.n_nodes, dtype=bool)
        assert (bounds.least <= at).all()
        assert (bounds.most >= at).all()
        assert met(told, Bounds(at, at), every)
        # Of two rows that the trees before told apart, each in the other's place is seen.
        apart = np.flatnonzero(
            (told.second != told.second[0]) & (at != at[0]).any(axis=1)
        )[:1]  # fmt: skip
        assert len(apart) == (t > 0)
        for other in apart if not np.isnan(told.totals.second).any() else ():
            moved = at.copy()
            moved[[0, other]] = moved[[other, 0]]
            assert not met(told, Bounds(moved, moved), every)
        own = leaf[:, t] - geometry.leaf_start[t]
        n_leaves = len(tree.leaves)
        right = np.array([np.bincount(own, minlength=n_leaves), np.bincount(own, y, n_leaves)])
        np.testing.assert_array_equal(held(told, Bounds(at, at)), right)


def test_sums_of_groups_with_several_predictions_are_off_by_their_blur_at_most(raw):
    X, _, geometry = raw
    search = ByNodes(LossSums(geometry), geometry, Clock.of(60))
    leaf = true_leaves(X, geometry)
    refuted = 0
    for t in range(1, 12):
        single = each_for_itself(X, geometry, t)
        # Pairs of rows whose predictions lie next to each other, as far apart as they may.
        pairs = np.argsort(search._predicted(single.leaf, t)[0], kind="stable").reshape(-1, 2)
        group = np.empty(len(X), dtype=np.int64)
        group[pairs] = np.arange(len(pairs))[:, None]
        groups = Groups(
            t, np.full(len(pairs), 2), single.leaf[0, pairs.T], single.box, group, single.held
        )
        (told,), _ = looked_ahead(search, groups)
        at = at_nodes(leaf, geometry, t)[pairs].sum(axis=1)
        every = np.ones(told.tree.n_nodes, dtype=bool)
        assert met(told, Bounds(at, at), every)
        refuted += not met(replace(told, blur=0 * told.blur), Bounds(at, at), every)
    # What is not known of leaves with l2 refutes nothing.
    assert refuted or np.isnan(told.totals.second).any()


def test_what_a_node_leaves_open_holds_the_truth(raw):
    X, _, geometry = raw
    search = ByNodes(LossSums(geometry), geometry, Clock.of(60))
    leaf = true_leaves(X, geometry)
    asked = 0
    for t in (1, 6):
        groups = each_for_itself(X, geometry, t)
        (layer,), _ = looked_ahead(search, groups)
        right = at_nodes(leaf, geometry, t)
        rng = np.random.default_rng(t)
        for v in range(1, layer.tree.n_nodes):
            # Of all but a few rows it is known whether they are there.
            open_ = rng.permutation(len(X))[:14]
            least, most = right.copy(), right.copy()
            least[open_, v], most[open_, v] = 0, 1
            found = choices(layer, Bounds(least, most), groups, v, 2**22)
            asked += found is not None
            assert found is None or (found == right[:, v]).all(axis=1).any()
    assert asked


def test_two_trees_that_are_looked_at_together_hold_the_truth(raw):
    X, _, geometry = raw
    search = ByNodes(LossSums(geometry), geometry, Clock.of(60))
    leaf = true_leaves(X, geometry)
    layers, bounds = looked_ahead(search, each_for_itself(X, geometry, 4), 3)
    assert propagate_flows(layers, bounds, {0, 1, 2})
    row = np.arange(len(X))
    for s, (layer, own) in enumerate(zip(layers, bounds, strict=True)):
        right = at_nodes(leaf, geometry, 4 + s)
        # The part of each row that went its way so far.
        parts = np.zeros_like(own.least)
        if s == 0:
            part = row
        else:
            node = layers[s - 1].tree.leaves[leaf[:, 3 + s] - geometry.leaf_start[3 + s]]
            part = np.array([
                np.flatnonzero((layer.above == p) & (layer.through == v))[0]
                for p, v in zip(part, node, strict=True)
            ])  # fmt: skip
        parts[part] = right
        assert (own.least <= parts).all()
        assert (parts <= own.most).all()
        assert met(layer, Bounds(parts, parts), np.ones(layer.tree.n_nodes, dtype=bool))


def test_rows_are_followed_through_all_trees(raw):
    X, y, geometry = raw
    clock = Clock.of(120)
    search = ByNodes(LossSums(geometry), geometry, clock)
    found = search.found()
    assert found.n_trees == len(geometry.release.trees)
    assert found.rows.sum() == len(X)

    # Groups are told apart by what trees predict.
    def total(leaf):
        values = np.concatenate(
            [t.statistics.get(VALUE).values[t.leaves] for t in geometry.release.trees]
        )
        return np.round(values[leaf].sum(axis=1), 9)

    true = total(true_leaves(X, geometry))
    assert sorted(np.repeat(total(found.leaf[0]), found.rows)) == sorted(true)
    values = values_of(geometry.parts, 2)
    answer = raw_rows.raw_rows(LossSums(geometry), geometry, values, Clock.of(120), 0, "many")
    (rows,) = answer.rows
    atoms = values.atom_of[rows.values] - values.atom_start[:-1]
    leaf, label = geometry.trace_atoms(atoms[:, :-1]), atoms[:, -1]
    n_trees, n_leaves = len(geometry.release.trees), found.held.shape[1]
    right = true_leaves(X, geometry)
    for one, other in ((np.ones(len(X)), np.ones(len(X))), (label, y)):
        np.testing.assert_array_equal(
            np.bincount(leaf.ravel(), np.repeat(one, n_trees), n_leaves),
            np.bincount(right.ravel(), np.repeat(other, n_trees), n_leaves),
        )
    assert rows.misfit == 0
    assert 0 < answer.expected_distance < 1
    sure = rows.confidence
    assert ((sure > 0) & (sure <= 1)).all()
