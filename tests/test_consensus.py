"""The middle of several datasets, against all ways to put their rows in line."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from helpers.grids import cuts_for
from helpers.releases import random_tree
from treeleak.attacks.answer import Rows
from treeleak.attacks.consensus import (
    aligned_shares,
    cheapest,
    distance_from_worlds,
)
from treeleak.core.clock import Clock
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_of
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.schema import Binary, OneHot, Schema


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
