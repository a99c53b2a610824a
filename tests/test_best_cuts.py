"""Cuts that trees did not choose, and values that are drawn by what these say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from sklearn.ensemble import HistGradientBoostingClassifier

from helpers.raw_tables import leaning, schema_of, true_leaves
from treeleak.attacks.loss_sums.value_kernels import (
    Axes,
    Nodes,
    Rules,
    _missed,
    beside,
    better_cuts,
    draw,
    left_sums,
)
from treeleak.attacks.loss_sums.values_in_boxes import (
    _from_where,
    axes_of,
    best_cuts,
    sums_of,
    values_in_boxes,
)
from treeleak.core.clock import Clock
from treeleak.partition import Geometry
from treeleak.partition.masks import leaf_boxes
from treeleak.release import to_release
from treeleak.schema import Binary, Ordinal, Schema


class Sample:
    """A model, and what is true of its rows."""

    def __init__(self, model, X, y, schema=None):
        self.geometry = Geometry.of(to_release(model.fit(X, y)), schema or schema_of(X))
        self.label, self.leaf = y, true_leaves(X, self.geometry)
        rows = X.to_numpy()
        self.atom = np.column_stack([
            part.holding(rows[:, part.columns], self.geometry.release).argmax(axis=1)
            for part in self.geometry.parts
        ])  # fmt: skip
        self.axes = axes_of(self.geometry)
        self.box = leaf_boxes(self.geometry)[self.leaf].all(axis=1)

    def said(self, leaf=None):
        leaf = self.leaf if leaf is None else leaf
        return best_cuts(self.geometry, self.axes, leaf, self.label, (self.atom, self.atom))


@pytest.fixture(scope="module", params=["HistGB", "XGBoost", "XGBoost without l2"])
def sample(request):
    X, y = leaning(4, 100)
    if request.param == "HistGB":
        return Sample(HistGradientBoostingClassifier(max_iter=15, min_samples_leaf=5), X, y)
    xgboost = pytest.importorskip("xgboost")
    l2 = 0.0 if "without" in request.param else 1.0
    return Sample(xgboost.XGBClassifier(n_estimators=15, n_jobs=1, reg_lambda=l2), X, y)


@pytest.mark.slow
def test_no_cut_of_the_true_table_is_better_than_those_chosen(sample):
    nodes, rules = sample.said()
    # Were any, nothing would be taken to hold of such nodes.
    inner = nodes.column >= 0
    assert inner.sum() > 50
    assert np.isfinite(nodes.best[inner]).all()
    sums = left_sums(sample.atom, nodes, sample.axes)
    assert not better_cuts(sums, nodes, rules).any()
    # What each node chose comes to what it says.
    cut = sample.axes.cuts[nodes.column[inner]] + nodes.atom[inner]
    less = nodes._replace(best=nodes.best * (1 - 2e-5) - 1e-5)
    assert better_cuts(sums, less, rules)[np.flatnonzero(inner), cut].all()


@pytest.mark.parametrize("tree_method", ["hist", "exact"])
def test_rows_lie_right_beside_cuts_between_listed_values_too(tree_method):
    xgboost = pytest.importorskip("xgboost")
    X, _ = leaning(4, 300)
    rng = np.random.default_rng(0)
    X["own"], X["rooms"] = rng.integers(0, 2, 300).astype(float), rng.integers(1, 6, 300) * 1.0
    leans = 0.06 * (X.age - 50) + 2 * X.own + X.rooms - 4
    y = (rng.random(300) < 1 / (1 + np.exp(-leans))).astype(int).to_numpy()
    schema = Schema([*schema_of(X).attributes[:3], Binary("own"), Ordinal("rooms", 1, 5)])
    model = xgboost.XGBClassifier(n_estimators=15, n_jobs=1, tree_method=tree_method)
    sample = Sample(model, X, y, schema)
    nodes, rules = sample.said()
    assert {3, 4} <= set(nodes.column.tolist())
    # Cuts of "exact" lie in the middle between rows.
    assert rules.touches.any() == (tree_method == "hist")
    inner = nodes.column >= 0
    cut = sample.axes.cuts[nodes.column[inner]] + nodes.atom[inner]
    less = nodes._replace(best=nodes.best * (1 - 2e-5) - 1e-5)
    chosen = better_cuts(left_sums(sample.atom, nodes, sample.axes), less, rules)
    assert chosen[np.flatnonzero(inner), cut].all()


def test_another_table_with_the_same_leaves_is_seen(sample):
    nodes, rules = sample.said()
    rng = np.random.default_rng(0)
    for a in range(sample.atom.shape[1]):
        other = sample.atom.copy()
        other[:, a] = rng.permutation(other[:, a])
        assert better_cuts(left_sums(other, nodes, sample.axes), nodes, rules).any()


@given(st.integers(0, 10**6))
def test_cuts_are_believed_from_where_hardly_any_is_better(seed):
    rng = np.random.default_rng(seed)
    share = rng.permutation(400) + rng.random()
    better = rng.random(400) < np.where(share < rng.integers(0, 420), 0.3, 0.001)
    wrong = float(rng.choice([0.0, 0.01]))
    bound = _from_where(share, better, wrong)

    def fine(low):
        return better[share >= low].sum() <= wrong * (share >= low).sum()

    fits = [low for low in share if fine(low) and (share >= low).sum() >= 40]
    if bound == 0.0:
        assert fine(0.0)
    else:
        assert bound == min(fits, default=np.inf)


def test_wrong_leaves_are_not_taken_for_what_a_library_does(sample):
    leaf = np.random.default_rng(1).permutation(sample.leaf)
    nodes, rules = sample.said(leaf)
    assert np.isinf(nodes.best[nodes.column >= 0]).all()
    assert not better_cuts(left_sums(sample.atom, nodes, sample.axes), nodes, rules).any()


def some_nodes(rng, n_rows=9, n_nodes=4):
    """Nodes of random rows, and cuts of two columns that lie in order, and one that does not."""
    axes = Axes(np.array([0, 4, 6, 9]), np.array([0, 3, 3, 5]))
    inside = rng.random((n_rows, n_nodes)) < 0.6
    row, node = map(np.ascontiguousarray, np.nonzero(inside))
    first, second = rng.normal(size=len(row)), rng.random(len(row)) + 0.1
    totals = np.array([np.bincount(node, x, n_nodes) for x in (first, second, np.ones(len(row)))])
    nodes = Nodes(
        np.searchsorted(row, np.arange(n_rows + 1)), node, rng.integers(0, 2, len(row)), first,
        second, totals, rng.random(n_nodes) * 3, np.full(n_nodes, 0.2),
        rng.choice([0, 2, -1], n_nodes), rng.integers(0, 2, n_nodes),
    )  # fmt: skip
    rules = Rules(float(rng.choice([0.0, 1.0])), 1.0, np.array([True, False]))
    atom = np.column_stack([rng.integers(0, n, n_rows) for n in np.diff(axes.atoms)])
    return axes, nodes, rules, atom, row


@given(st.integers(0, 10**6))
def test_sums_and_better_cuts_are_those_of_brute_force(seed):
    axes, nodes, rules, atom, row = some_nodes(np.random.default_rng(seed))
    sums, near = left_sums(atom, nodes, axes), beside(atom, nodes)
    better = better_cuts(sums, nodes, rules)
    for v in range(len(nodes.best)):
        of = np.flatnonzero(nodes.node == v)
        for a in (0, 2):
            for k in range(axes.cuts[a + 1] - axes.cuts[a]):
                left = of[atom[row[of], a] <= k]
                right = np.setdiff1d(of, left)
                G, H = nodes.first[left].sum(), nodes.second[left].sum()
                at = v, axes.cuts[a] + k
                np.testing.assert_allclose(sums[at], [G, H, len(left)], atol=1e-12)
                g, h = nodes.first[right].sum(), nodes.second[right].sum()
                allowed = min(H, h) >= 0.2 and min(len(left), len(right)) >= 1
                gain = G**2 / (H + rules.l2) + g**2 / (h + rules.l2) if allowed else 0.0
                assert better[at] == (gain > nodes.best[v])
        for side in (0, 1):
            here = of[nodes.side[of] == side]
            held = atom[row[here], nodes.column[v]] == nodes.atom[v] + side
            assert near[v, side] == (held.sum() if nodes.column[v] >= 0 else 0)


@njit
def count_missed(i, a, low, high, now, nodes, axes, rules, sums, off, beyond):
    _missed(i, a, low, high, now, nodes, axes, rules, sums, off, beyond)


@given(st.integers(0, 10**6))
def test_what_each_value_of_a_row_misses_is_what_brute_force_counts(seed):
    rng = np.random.default_rng(seed)
    axes, nodes, rules, atom, row = some_nodes(rng)
    i, a = int(rng.integers(len(atom))), int(rng.choice([0, 2]))
    low, high = sorted(rng.choice(axes.atoms[a + 1] - axes.atoms[a], 2, replace=False))
    atom[i, a] = rng.integers(low, high + 1)
    size = high - low + 1
    off, beyond = np.zeros(size), np.zeros(size + 1)
    sums = sums_of(atom, (atom, atom), nodes, axes)
    count_missed(i, a, low, high, atom[i, a], nodes, axes, rules, sums, off, beyond)
    own = np.flatnonzero(row == i)
    cuts = slice(axes.cuts[a] + low, axes.cuts[a] + high)
    for k in range(size):
        other = atom.copy()
        other[i, a] = low + k
        better = better_cuts(left_sums(other, nodes, axes), nodes, rules)
        missed = better[nodes.node[own], cuts].sum()
        near = beside(other, nodes)
        for v, side in zip(nodes.node[own], nodes.side[own], strict=True):
            if nodes.column[v] == a and rules.touches[side]:
                missed += low <= nodes.atom[v] + side <= high and not near[v, side]
        assert off[k] == missed


@given(st.integers(0, 10**6))
def test_sums_stay_right_while_values_are_drawn(seed):
    rng = np.random.default_rng(seed)
    axes, nodes, rules, atom, _ = some_nodes(rng)
    box = rng.random((len(atom), int(axes.atoms[-1]))) < 0.5
    np.put_along_axis(box, atom + axes.atoms[:-1], True, axis=1)
    parts = np.split(box, axes.atoms[1:-1], axis=1)
    ends = tuple(
        np.column_stack([f(x) for x in parts])
        for f in (lambda x: x.argmax(axis=1), lambda x: x.shape[1] - 1 - x[:, ::-1].argmax(axis=1))
    )
    sums, share = sums_of(atom, ends, nodes, axes), np.zeros(box.shape)
    for _ in range(3):
        draw(
            atom, ends, box, sums, nodes, axes, rules, 2.0,
            rng.permutation(atom.size), rng.random(atom.size), share,
        )  # fmt: skip
    right = sums_of(atom, ends, nodes, axes)
    np.testing.assert_allclose(sums.left, right.left, atol=1e-9)
    np.testing.assert_array_equal(sums.near, right.near)
    np.testing.assert_allclose(sums.rows, right.rows)
    for mine, again in zip(sums.pairs, right.pairs, strict=True):
        np.testing.assert_array_equal(mine, again)
    assert np.take_along_axis(box, atom + axes.atoms[:-1], axis=1).all()
    assert not share[~box].any()
    for a in range(len(parts)):
        drawn = ends[0][:, a] < ends[1][:, a]
        own = share[:, axes.atoms[a] : axes.atoms[a + 1]].sum(axis=1)
        np.testing.assert_allclose(own, np.where(drawn, 3.0, 0.0))


def test_cuts_lie_between_values_of_the_training_set(sample):
    for a, part in enumerate(sample.geometry.parts):
        assert np.bincount(sample.atom[:, a], minlength=len(part)).all()


@pytest.mark.slow
def test_true_values_are_likelier_than_others_in_their_boxes(sample):
    asked = sample.geometry, sample.leaf, sample.label, sample.box, Clock.of(60)
    share = values_in_boxes(*asked, (0,), 2)
    np.testing.assert_array_equal(share, values_in_boxes(*asked, (0,), 2))
    assert not np.array_equal(share, values_in_boxes(*asked, (1,), 2))
    assert ((share >= 0) & (share <= 1)).all()
    assert not share[~sample.box].any()
    begin = sample.axes.atoms
    for a in range(len(begin) - 1):
        own = slice(begin[a], begin[a + 1])
        np.testing.assert_allclose(share[:, own].sum(axis=1), 1.0)
    at = sample.atom + begin[:-1]
    sizes = np.add.reduceat(sample.box, begin[:-1], axis=1, dtype=float)
    open_ = sizes > 1
    assert open_.mean() > 0.1
    true = np.take_along_axis(share, at, axis=1)
    assert true[open_].mean() > 1.2 * (1 / sizes)[open_].mean()
