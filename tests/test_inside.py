"""Numbers of samples, drawn inside their intervals; and points beyond the outermost thresholds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.releases import counted, leaves_of, tree_of
from treeleak import Numeric, Ordinal, Schema
from treeleak.attacks.samples import Samples
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_in
from treeleak.reconstruction.jitter_within_intervals import Inside
from treeleak.reconstruction.posterior import Posterior

BIG = 10**6


def case(x, cuts, attribute, float_type="float64"):
    """One column, a tree for each cut, and the world in which its rows are where they are."""
    trees = [tree_of((0, float(c)), None, None) for c in cuts]
    label = np.zeros(len(x), dtype=int)
    release = counted(trees, ["x"], x[:, None], label, 1, float_type=float_type)
    geometry = Geometry.of(release, Schema([attribute]))
    values = values_in(geometry)
    atom = geometry.parts[0].holding(x[:, None], release).argmax(axis=1)
    world = np.column_stack([atom, label]) + values.atom_start[:-1]
    return release, geometry, values, world


def posterior(samples, geometry, release):
    def write(rows, label):
        return rows, label

    none = np.zeros((0, 2), dtype=int)
    return Posterior(samples, geometry, release, write, 0, none)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["numeric", "endless", "whole"]), st.booleans())
def test_drawn_values_are_of_the_same_interval_and_in_the_domain(seed, kind, missing):
    rng = np.random.default_rng(seed)
    x = rng.exponential(size=30) * rng.choice([1e-3, 1.0, 1e4])
    if kind == "whole":
        x = np.round(x * 1e3)
        attribute = Ordinal("x", 0, int(x.max()) + BIG, missing=missing)
    else:
        top = np.inf if kind == "endless" else float(x.max() * rng.choice([1.0, 1.1, 1e3]))
        attribute = Numeric("x", -np.inf if kind == "endless" else 0.0, top, missing=missing)
    between = np.sort(x)
    cuts = np.unique(rng.choice((between[1:] + between[:-1]) / 2, rng.integers(1, 9)))
    if missing:
        x[rng.integers(len(x), size=4)] = np.nan
    kind_of = ("float32", "float64")[rng.integers(2)]
    release, geometry, values, world = case(x, cuts, attribute, kind_of)
    rows = np.bincount(world.ravel(), minlength=values.n_atoms).astype(float)
    placed = values.with_tails(release, rows)
    (old,), (part,) = values.parts, placed.parts
    asked = np.arange(len(old))
    for own in (part, old):
        held = own.holding(part.representatives, release)
        np.testing.assert_array_equal(held.argmax(axis=1), asked)
        assert attribute.holds(own.representatives).all()
    samples = Samples.of_worlds(placed, np.stack([world, world]))
    for X, _ in posterior(samples, geometry, release).datasets():
        drawn = X.to_numpy()
        np.testing.assert_array_equal(np.isnan(drawn[:, 0]), np.isnan(x))
        assert attribute.holds(drawn).all()
        np.testing.assert_array_equal(leaves_of(release, drawn), leaves_of(release, x[:, None]))
        inside = part.holding(drawn, release)
        assert inside[np.arange(len(x)), world[:, 0]].all()


def test_expectations_are_those_of_values_inside_intervals():
    """Points of intervals say too little of how far values go, and of how they differ."""
    rng = np.random.default_rng(1)
    x = rng.exponential(size=4000)
    release, geometry, values, world = case(x, np.arange(0.2, 2.2, 0.2), Numeric("x", 0.0, 50.0))
    samples = Samples.of_worlds(values, np.stack([world] * 40))
    own = posterior(samples, geometry, release)
    mean = own.expectation(lambda X, _: X["x"].mean())
    assert mean.low < x.mean() < mean.high
    assert mean.mean == pytest.approx(x.mean(), abs=0.05)
    spread = own.expectation(lambda X, _: X["x"].std())
    assert spread.low < x.std() < spread.high
    median = own.expectation(lambda X, _: X["x"].median())
    assert median.mean == pytest.approx(np.median(x), abs=0.02)


def test_points_beyond_the_last_threshold_are_where_half_of_the_rows_are():
    rng = np.random.default_rng(2)
    x = rng.exponential(size=2000)
    release, _, values, world = case(x, [0.1, 0.2, 0.3, 0.4], Numeric("x", 0.0, 40.0))
    rows = np.bincount(world.ravel(), minlength=values.n_atoms).astype(float)
    (old,), (new,) = values.parts, values.with_tails(release, rows).parts
    last = old.representatives[:, 0].argmax()
    assert old.representatives[last, 0] < 0.6
    assert new.representatives[last, 0] == pytest.approx(np.median(x[x > 0.4]), abs=0.25)
    others = np.arange(len(old)) != last
    inner = others & (old.representatives[:, 0] > 0.1)
    np.testing.assert_array_equal(new.representatives[inner], old.representatives[inner])
    assert values.with_tails(release, rows).distance(0).max() > values.distance(0).max()


def test_nothing_is_drawn_where_an_interval_has_no_end_and_nothing_says_how_far_it_goes():
    x = np.array([0.0, 1.0, 2.0, 5.0])
    release, _, values, world = case(x, [1.5], Numeric("x"))
    table = values.rows(values.first[world[:, :1]], 1)
    samples = Samples.of_worlds(values, world[None])
    drawn = Inside.of(samples, release).drawn(table, world[:, :1], np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, table)
