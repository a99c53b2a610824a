"""The middle of several datasets, against all ways to put their rows in line."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from helpers.examples import examples
from helpers.grids import cuts_for
from helpers.releases import random_tree
from treeleak.attacks.answer import Rows
from treeleak.attacks.consensus import (
    _ALL_AT_ONCE,
    MAX_ALIGNED,
    aligned_shares,
    cheapest,
    distance_from_worlds,
    expected_distance,
)
from treeleak.core.clock import Clock
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_of
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.schema import Binary, OneHot, Ordinal, Schema

SEEDS = st.integers(0, 2**32 - 1)
MIXED = Schema([Binary("a"), OneHot("g", ["g0", "g1", "g2"], at_most_one=True), Ordinal("o", 0, 4)])


def space(schema, rng, n_classes=2, depth=4):
    """Values of a schema, and what is likely within an atom."""
    names = schema.columns
    trees = tuple(random_tree(rng, cuts_for(schema, names), depth) for _ in range(3))
    release = Release(trees, tuple(names), (), AllRows(), None)
    values = values_of(Geometry.of(release, schema).parts, n_classes)
    share = rng.dirichlet(np.ones(values.n_values)) + 0.01
    total = np.bincount(values.atom_of, share, minlength=values.n_atoms)
    return values, share / total[values.atom_of]


def some_atoms(values, n, rng):
    radix = np.diff(values.atom_start)
    return rng.integers(radix, size=(n, len(radix))) + values.atom_start[:-1]


def blurred(values, atoms, rng, much=0.2):
    """A sample of a posterior: some atoms changed, the rows in any order."""
    other = some_atoms(values, len(atoms), rng)
    out = np.where(rng.random(atoms.shape) < much, other, atoms)
    return rng.permutation(out)


def as_set(table):
    return sorted(map(tuple, np.asarray(table).tolist()))


def certain(values, prior, atoms):
    """Shares of the values of rows whose atoms are certain."""
    out = np.zeros((len(atoms), values.n_atoms))
    out[np.arange(len(atoms))[:, None], atoms] = 1
    return out[:, values.atom_of] * prior


def test_rows_that_are_known_apart_stay_in_their_places():
    rng = np.random.default_rng(0)
    values, prior = space(MIXED, rng)
    samples = [some_atoms(values, 6, rng) for _ in range(4)]
    _, aligned = aligned_shares(values, samples, prior, np.arange(6))
    np.testing.assert_array_equal(aligned, samples)


def far(values, table, samples):
    """Total distance of a dataset to samples, each matched with it."""
    total = 0.0
    for sample in samples:
        cost = np.zeros((len(table), len(sample)))
        for a, (begin, n) in enumerate(zip(values.start, np.diff(values.start), strict=False)):
            apart = values.distance(a, np.arange(n))
            cost += apart[table[:, a, None] - begin, sample[None, :, a] - begin]
        total += cost[linear_sum_assignment(cost)].sum()
    return total


def middles(n_rows, n_samples, times=40):
    """Values, samples and their middle, where an atom is a value."""
    schema = Schema([Binary("a"), OneHot("g", ["g0", "g1", "g2"])])
    for seed in range(times):
        rng = np.random.default_rng(seed)
        values, prior = space(schema, rng, depth=9)
        if values.n_values > values.n_atoms:
            continue
        truth = some_atoms(values, n_rows, rng)
        samples = [blurred(values, truth, rng) for _ in range(n_samples)]
        share, _ = aligned_shares(values, samples, prior)
        yield values, samples, cheapest(values.expected_cost(share), values.start)


@pytest.mark.slow
def test_the_middle_is_close_to_the_best_of_all_datasets():
    found, best = [], []
    for values, samples, middle in middles(3, 5, times=16):
        radix = np.diff(values.atom_start)
        rows = np.array(list(itertools.product(*map(range, radix)))) + values.start[:-1]
        every = itertools.combinations_with_replacement(range(len(rows)), 3)
        found.append(far(values, middle, samples))
        best.append(min(far(values, rows[list(table)], samples) for table in every))
    assert len(found) > 8
    assert (np.array(found) >= np.array(best) - 1e-9).all()
    assert np.sum(found) <= 1.02 * np.sum(best)


def test_the_middle_errs_less_than_any_sample():
    found, samples_best = [], []
    for values, samples, middle in middles(12, 9):
        found.append(far(values, middle, samples))
        samples_best.append(min(far(values, sample, samples) for sample in samples))
    assert np.sum(found) < 0.95 * np.sum(samples_best)
    assert np.mean(np.array(found) <= samples_best) > 0.9


@pytest.mark.parametrize(
    "n", [_ALL_AT_ONCE - 1, 300, pytest.param(MAX_ALIGNED + 100, marks=pytest.mark.slow)]
)
def test_many_rows_are_neither_lost_nor_doubled(n):
    rng = np.random.default_rng(1)
    values, prior = space(MIXED, rng)
    truth = some_atoms(values, n, rng)
    samples = [blurred(values, truth, rng, 0.05) for _ in range(4)]
    group = np.arange(n) // (n // 2 + 10)
    for own in (None, group):
        share, aligned = aligned_shares(values, samples, prior, own)
        for table, sample in zip(aligned, samples, strict=True):
            assert as_set(table) == as_set(sample)
            if own is not None:
                assert as_set(table[group == 0]) == as_set(sample[group == 0])
    same = [rng.permutation(truth) for _ in range(3)]
    share, aligned = aligned_shares(values, same, prior)
    np.testing.assert_array_equal(aligned[0], aligned[1])
    np.testing.assert_allclose(share, certain(values, prior, aligned[0]))


@given(SEEDS, st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 6))
def test_the_cheapest_entry_of_each_attribute(seed, sizes, n):
    start = np.cumsum([0, *sizes])
    cost = np.random.default_rng(seed).integers(5, size=(n, start[-1])).astype(float)
    chosen = cheapest(cost, start)
    assert chosen.shape == (n, len(sizes))
    for k, a in itertools.product(range(n), range(len(sizes))):
        assert start[a] <= chosen[k, a] < start[a + 1]
        assert cost[k, chosen[k, a]] == cost[k, start[a] : start[a + 1]].min()


@given(SEEDS)
@examples(40, fast=10)
def test_what_was_known_is_matched_but_is_no_error(seed):
    rng = np.random.default_rng(seed)
    values, prior = space(MIXED, rng)
    true = some_atoms(values, 4, rng)
    chosen = values.draw(true, prior[None, :], rng)
    samples = [blurred(values, true, rng, 0.5) for _ in range(3)]
    known = rng.random((4, true.shape[1] - 1)) < 0.5
    held = np.zeros((4, values.n_values))
    np.put_along_axis(held, chosen, 1.0, axis=1)
    cost = np.add.reduceat(values.expected_cost(held) * prior, values.first, axis=1)
    left = []
    for sample in samples:
        ways = {}
        for order in itertools.permutations(range(4)):
            each = np.take_along_axis(cost, sample[list(order)][:, :-1], axis=1)
            ways.setdefault(round(each.sum(), 9), []).append(each.sum(where=~known) / 4)
        left.append(ways[min(ways)])
    found = expected_distance(values, chosen, samples, prior, known=known)
    # Several ways may be as near.
    low, high = (np.mean([end(own) for own in left]) for end in (min, max))
    assert low - 1e-6 <= found <= high + 1e-6
    nothing = np.ones_like(known)
    assert expected_distance(values, chosen, samples, prior, known=nothing) == 0.0


# --------------------------------------------------------------- how far rows are from other worlds


def flags_of_one_class(n_rows):
    """Rows of eight flags, and their values."""
    rng = np.random.default_rng(0)
    schema = Schema([Binary(name) for name in "abcdefgh"])
    trees = tuple(random_tree(rng, cuts_for(schema, schema.columns), 4) for _ in range(9))
    release = Release(trees, tuple(schema.columns), (), AllRows(), None)
    X = rng.integers(0, 2, size=(n_rows, 8))
    return X, values_of(Geometry.of(release, schema).parts, 1)


def test_rows_in_each_others_places_are_no_error():
    X, values = flags_of_one_class(20)
    own = np.column_stack([X + values.start[:-2], np.full(len(X), values.start[-2])])
    rng = np.random.default_rng(1)
    worlds = np.array([values.atom_of[rng.permutation(own)] for _ in range(5)])
    none = np.zeros(len(X), dtype=bool)
    rows = Rows(own, np.full(own.shape, 0.5), none, False, 3, worlds)
    assert distance_from_worlds(rows, values, Clock(9.0), 0) == 0.0
    worlds[:, 0, 0] ^= 1  # one value of one row, in every world
    assert distance_from_worlds(rows, values, Clock(9.0), 0) == pytest.approx(1 / own[:, :-1].size)
