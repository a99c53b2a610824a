"""How rows go through the next trees: bounds and choices, and the truth among them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.releases import random_tree
from treeleak.attacks.loss_sums.layers import (
    Bounds,
    Groups,
    Layer,
    _shared_out,
    choices,
    effort,
    met,
    propagate_flows,
)
from treeleak.attacks.loss_sums.node_totals import NodeTotals

SEEDS = st.integers(0, 10**6)
CUTS = [[0.5, 1.5, 2.5]] * 2
L2 = 0.5


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 6))
def test_parts_are_shared_out_in_every_way(room, cap):
    ways = _shared_out(tuple(room), cap)
    right = {w for w in product(*(range(most + 1) for most in room)) if sum(w) <= cap}
    if cap == 1:
        right = {w for w in right if sum(w) <= 1}
    if ways is None:
        assert len(right) > 60
        return
    assert {tuple(w) for w in ways.tolist()} == right
    assert len(ways) == len(right)
    assert not ways[0].any()


def shared(rng, total, n):
    """So many rows, over so many places."""
    return rng.multinomial(total, np.full(n, 1 / n))


def through(rng, tree, rows):
    """True numbers of rows of each part in each node."""
    out = np.zeros((len(rows), tree.n_nodes), dtype=np.int64)
    for own, total in zip(out, rows, strict=True):
        own[tree.leaves] = shared(rng, total, len(tree.leaves))
    for v in np.flatnonzero(~tree.is_leaf)[::-1]:
        out[:, v] = out[:, tree.left[v]] + out[:, tree.right[v]]
    return out


def around(rng, truth, rows, slack):
    least = np.maximum(truth - rng.integers(0, slack + 1, truth.shape), 0)
    most = np.minimum(truth + rng.integers(0, slack + 1, truth.shape), rows[:, None])
    return Bounds(least, most)


def totals_of(rng, tree, truth, second, first, *, rows, sums):
    """What nodes would sum up, of which some rows are of the second class."""
    none = np.full(tree.n_nodes, np.nan)
    H, G = second @ truth, first @ truth
    ones = rng.integers(0, truth.sum(axis=0) + 1)
    off = np.full(tree.n_nodes, 1e-9)
    return NodeTotals(
        truth.sum(axis=0).astype(float) if rows else none,
        H if sums else none, G - ones if sums else none, off, off,
        -(G - ones) / (H + L2), L2 * (G - ones) / (H + L2), off,
    )  # fmt: skip


def two_layers(seed, *, rows=True, sums=True):
    """Groups that go through two trees: the truth, and layers with bounds around it."""
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, CUTS, 3) for _ in range(2)]
    n_rows = rng.integers(1, 5, int(rng.integers(2, 5)))
    truth = [through(rng, trees[0], n_rows)]
    bounds = [around(rng, truth[0], n_rows, 2)]
    bounds[0].least[:, 0] = bounds[0].most[:, 0] = n_rows
    above, leaf = np.nonzero(bounds[0].most[:, trees[0].leaves])
    node = trees[0].leaves[leaf]
    truth.append(through(rng, trees[1], truth[0][above, node]))
    bounds.append(around(rng, truth[1], bounds[0].most[above, node], 2))
    every = np.arange(len(n_rows))
    layers = []
    for tree, own, group, links in (
        (trees[0], truth[0], every, (every, every)), (trees[1], truth[1], above, (above, node))
    ):  # fmt: skip
        first = rng.random(len(own)) - 0.5
        second = np.abs(first) * (1 - np.abs(first))
        totals = totals_of(rng, tree, own, second, first, rows=rows, sums=sums)
        parts = Groups(0, own[:, 0], np.zeros((2, len(own), 2), int), np.ones((1, 1), bool), every)
        layers.append(
            Layer(
                tree,
                totals,
                second,
                first,
                np.zeros(len(own)),
                np.zeros((2, len(own))),
                parts,
                group,
                *links,
            )
        )
    groups = Groups(0, n_rows, np.zeros((2, len(n_rows), 2), int), np.ones((1, 1), bool), every)
    return groups, layers, bounds, truth


@given(SEEDS)
def test_bounds_that_agree_still_hold_the_truth(seed):
    _, layers, bounds, truth = two_layers(seed)
    before = [each.copy() for each in bounds]
    assert propagate_flows(layers, bounds, {0, 1})
    for layer, old, own, right in zip(layers, before, bounds, truth, strict=True):
        assert (old.least <= own.least).all()
        assert (own.least <= right).all()
        assert (right <= own.most).all()
        assert (own.most <= old.most).all()
        for v in np.flatnonzero(~layer.tree.is_leaf):
            a, b = layer.tree.left[v], layer.tree.right[v]
            assert (own.least[:, v] >= own.least[:, a] + own.least[:, b]).all()
            assert (own.most[:, v] <= own.most[:, a] + own.most[:, b]).all()
            for one, other in ((a, b), (b, a)):
                assert (own.least[:, one] >= own.least[:, v] - own.most[:, other]).all()
                assert (own.most[:, one] <= own.most[:, v] - own.least[:, other]).all()
    at = layers[1].above, layers[1].through
    for own, behind in ((bounds[0].least, bounds[1].least), (bounds[0].most, bounds[1].most)):
        np.testing.assert_array_equal(own[at], behind[:, 0])
    # What agrees stays as it is.
    kept = [each.copy() for each in bounds]
    assert propagate_flows(layers, bounds, {0, 1})
    for one, two in zip(kept, bounds, strict=True):
        np.testing.assert_array_equal(one.least, two.least)
        np.testing.assert_array_equal(one.most, two.most)


@given(SEEDS)
def test_what_the_second_tree_says_is_heard_in_the_first(seed):
    _, layers, bounds, truth = two_layers(seed)
    # The second tree tells all rows of its parts, and nothing else says how many there are.
    bounds[1] = Bounds(truth[1].copy(), truth[1].copy())
    assert propagate_flows(layers, bounds, {1})
    leaves = layers[0].tree.leaves
    np.testing.assert_array_equal(bounds[0].least[:, leaves], truth[0][:, leaves])
    # All rows of the first group in one leaf more than there are: nothing agrees.
    bounds[1].most[0, 0] += 1
    bounds[1].least[0] = bounds[1].most[0] = bounds[1].most[0, 0]
    assert not propagate_flows(layers, bounds, {1}) or len(layers[1].tree.leaves) == 1


def brute_force(layer, bounds, groups, v):
    """All numbers of rows between bounds, of which no group has more than it has."""
    between = [
        range(a, b + 1) for a, b in zip(bounds.least[:, v], bounds.most[:, v], strict=True)
    ]  # fmt: skip
    if np.prod([len(each) for each in between]) > 3_000:
        return None
    every = np.array(list(product(*between)))
    held = np.zeros((len(groups.rows), len(every)), dtype=int)
    np.add.at(held, layer.group, every.T)
    return every[(held <= groups.rows[:, None]).all(axis=0)]


@pytest.mark.parametrize(("rows", "sums"), [(True, True), (False, True), (True, False)])
@given(seed=SEEDS)
def test_choices_of_a_node_are_those_that_meet_its_sums(rows, sums, seed):
    groups, layers, bounds, truth = two_layers(seed, rows=rows, sums=sums)
    assert propagate_flows(layers, bounds, {0, 1})
    for layer, own, right in zip(layers, bounds, truth, strict=True):
        assert met(layer, Bounds(right, right), np.ones(layer.tree.n_nodes, bool))
        for v in np.flatnonzero(own.open):
            found = choices(layer, own, groups, v)
            if found is None:
                continue
            assert effort(layer, own, groups, v) >= 1
            assert (found == right[:, v]).all(axis=1).any()
            every = brute_force(layer, own, groups, v)
            if every is None:
                continue
            told = layer.totals
            step = 0.0 if sums else told.step[v]
            ones = (
                every @ (layer.first + step * layer.second) - (told.first if sums else told.rest)[v]
            )
            fits = np.abs(ones - np.rint(ones)) <= 1e-9
            if rows:
                fits &= every.sum(axis=1) == told.rows[v]
            if sums:
                fits &= np.abs(every @ layer.second - told.second[v]) <= 1e-9
            assert found.tolist() == np.unique(every[fits], axis=0).tolist()
