"""Pricing and generated cells against brute force over every point of small grids."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from helpers.examples import examples
from helpers.grids import cuts_for, schemas, shuffled
from helpers.releases import random_tree
from treeleak.attacks.large_grid.column_generation import fixed_point
from treeleak.core.clock import Clock
from treeleak.partition import Geometry, GridTooLarge, enumerate_cells, rules_hold
from treeleak.partition import boxes as boxes_module
from treeleak.partition.boxes import Boxes
from treeleak.partition.pricing import best_point, best_points
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.schema import AtMost, Binary, Categorical, Implies, Linear, Numeric, OneHot, Ordinal
from treeleak.schema import Schema as _Schema

FOREVER = 1e6


@st.composite
def mixed(draw) -> _Schema:
    """Attributes of every kind, with missing values, and rules between them."""
    schema = draw(schemas())
    if draw(st.booleans()):
        number = Numeric("n", 0, 10, missing=draw(st.booleans()))
        return _Schema([*schema.attributes, number])
    if draw(st.booleans()):
        return schema
    attributes = [
        Binary("a", missing=draw(st.booleans())),
        OneHot("g", ["g0", "g1", "g2"], at_most_one=draw(st.booleans())),
        Ordinal("n", 0, 3, missing=draw(st.booleans())),
        Categorical("k", [0, 2, 7]),
    ]
    rules = [
        Implies({"a": 1}, {"g1": 0}),
        Linear({"a": 2, "n": 1}, 1, 4),
        AtMost(["a", "g0", "g2"], 1),
        Linear({"n": 1}, 1, 2),
        Linear({"n": 1}, 9, 9),
    ]
    chosen = draw(st.lists(st.sampled_from(rules), unique_by=id, min_size=1))
    return _Schema(attributes, chosen)


def grid(schema, seed, n_trees=3, depth=4) -> Geometry:
    rng = np.random.default_rng(seed)
    names = shuffled(schema.columns, rng)
    trees = [random_tree(rng, cuts_for(schema, names), depth) for _ in range(n_trees)]
    release = Release(tuple(trees), tuple(names), (0, 1), AllRows(), None)
    return Geometry.of(release, schema)


def worths(geometry: Geometry, weight: np.ndarray) -> np.ndarray:
    """The sum of weights of every grid point; -inf where a rule is broken."""
    points = np.arange(geometry.n_points)
    met = rules_hold(geometry.schema.rules, geometry.parts, geometry.atoms(points))
    return np.where(met, weight[geometry.trace(points)].sum(axis=1), -np.inf)


def some_weights(geometry: Geometry, rng: np.random.Generator) -> np.ndarray:
    n = int(geometry.leaf_start[-1])
    weight = rng.choice([-1.0, 0.0, 0.5, 1.0], n) if rng.random() < 0.5 else rng.normal(size=n)
    weight[rng.random(n) < rng.choice([0.0, 0.2, 0.5])] = -np.inf
    return weight


def number(geometry: Geometry, atoms: np.ndarray) -> np.ndarray:
    return np.asarray(atoms, dtype=np.int64) @ geometry.stride


@examples(150)
@given(mixed(), st.integers(0, 2**32), st.integers(0, 6))
def test_the_best_point_is_the_best_of_all_points(schema, seed, n_trees):
    geometry = grid(schema, seed, n_trees)
    weight = some_weights(geometry, np.random.default_rng(seed))
    everything = worths(geometry, weight)
    found = best_point(Boxes.of(geometry), weight, Clock(FOREVER), seed=seed % 7)
    assert found.proved
    assert found.value == pytest.approx(everything.max(), abs=1e-5)
    assert found.upper == pytest.approx(everything.max(), abs=1e-5)
    if found.value > -np.inf:
        assert everything[number(geometry, found.atoms)] == pytest.approx(found.value)


@examples(80, fast=10)
@given(mixed(), st.integers(0, 2**32), st.floats(-3, 3))
def test_nothing_below_the_bound_asked_for_is_looked_for_and_nothing_above_is_missed(
    schema, seed, bound
):
    geometry = grid(schema, seed, 5)
    weight = some_weights(geometry, np.random.default_rng(seed))
    best = worths(geometry, weight).max()
    assume(abs(best - bound) > 1e-4)
    boxes = Boxes.of(geometry)
    found = best_point(boxes, weight, Clock(FOREVER), bound)
    assert found.proved
    assert found.upper == pytest.approx(max(best, bound), abs=1e-5)
    assert (found.value > bound) == (best > bound)
    some = best_point(boxes, weight, Clock(FOREVER), bound, enough=3)
    assert (some.value > bound) == (best > bound)
    assert (worths(geometry, weight)[number(geometry, some.others)] > bound).all()


@examples(60, fast=8)
@given(mixed(), st.integers(0, 2**32))
def test_out_of_time_the_upper_bound_still_holds(schema, seed):
    geometry = grid(schema, seed, 5)
    weight = some_weights(geometry, np.random.default_rng(seed))
    best = worths(geometry, weight).max()
    found = best_point(Boxes.of(geometry), weight, Clock(0.0))
    assert not found.proved
    assert found.value <= best + 1e-9 <= found.upper


@examples(80, fast=10)
@given(mixed(), st.integers(0, 2**32), st.booleans())
def test_good_points_are_different_valid_and_worth_what_is_said(schema, seed, started):
    geometry = grid(schema, seed)
    rng = np.random.default_rng(seed)
    weight = some_weights(geometry, rng)
    everything = worths(geometry, weight)
    starts = geometry.atoms(rng.integers(geometry.n_points, size=3)) if started else None
    atoms, values = best_points(Boxes.of(geometry), weight, 20, seed, starts)
    points = number(geometry, atoms)
    assert len(set(points.tolist())) == len(points)
    assert values == pytest.approx(everything[points])
    assert (np.diff(values) <= 0).all()
    assert np.isfinite(values).all()
    # A climb ends where no other atom of one attribute is better.
    for atom, value in zip(atoms, values, strict=True):
        for a, n in enumerate(geometry.radix):
            near = np.repeat(atom[None], n, axis=0)
            near[:, a] = np.arange(n)
            assert everything[number(geometry, near)].max() <= value + 1e-9


def least_misfit(geometry: Geometry, target: np.ndarray, open_leaves: np.ndarray) -> float:
    """The linear program over every cell of the grid, listed."""
    if not target.any():
        return 0.0
    partition = enumerate_cells(geometry, open_leaves)
    signature = partition.signature[np.unique(partition.cell)]
    A = np.zeros((len(target), len(signature)))
    A[signature.ravel(), np.repeat(np.arange(len(signature)), signature.shape[1])] = 1
    counted = np.flatnonzero(target > 0)
    A, one = A[counted], np.eye(len(counted))
    n_rows = int(target[: geometry.leaf_start[1]].sum())
    found = linprog(
        np.concatenate([np.zeros(A.shape[1]), np.ones(2 * len(counted))]),
        A_eq=np.hstack([A, one, -one]), b_eq=target[counted],
        A_ub=np.concatenate([np.ones(A.shape[1]), np.zeros(2 * len(counted))])[None],
        b_ub=[n_rows],
    )  # fmt: skip
    return float(found.fun)


@examples(100)
@given(mixed(), st.integers(0, 2**32), st.booleans(), st.sampled_from([0, 0, 1, 3]))
def test_no_cell_is_left_that_lowers_the_misfit(schema, seed, of_all, moved):
    geometry = grid(schema, seed, 4)
    rng = np.random.default_rng(seed)
    points = np.flatnonzero(worths(geometry, np.zeros(int(geometry.leaf_start[-1]))) == 0)
    assume(len(points))
    rows = rng.choice(points, int(rng.integers(1, 9)))
    label = rng.integers(2, size=len(rows))
    leaves = geometry.trace(rows)
    counts = np.zeros((int(geometry.leaf_start[-1]), 2), dtype=np.int64)
    for c in (0, 1):
        np.add.at(counts[:, c], leaves[label == c], 1)
    for _ in range(moved):  # rows that go astray in one tree: counts that may contradict
        t = int(rng.integers(4))
        leaf, other = rng.integers(geometry.leaf_start[t], geometry.leaf_start[t + 1], size=2)
        c = int(rng.integers(2))
        if counts[leaf, c]:
            counts[leaf, c] -= 1
            counts[other, c] += 1
    boxes = Boxes.of(geometry)
    groups = [(counts.sum(axis=1), counts > 0)] if of_all else [
        (counts[:, c], counts[:, [c]] > 0) for c in (0, 1)
    ]  # fmt: skip
    for target, open_leaves in groups:
        found = fixed_point(boxes, target, open_leaves, Clock(FOREVER), seed % 5)
        least = least_misfit(geometry, target, open_leaves)
        assert found.proved
        assert found.value == pytest.approx(least, abs=1e-4)
        assert found.lower <= least + 1e-6
        assert found.contradiction == (least > 1e-3)
        drawn = np.zeros(len(target))
        signature = geometry.trace(number(geometry, found.atoms))
        np.add.at(drawn, signature, found.m[:, None])
        if found.contradiction:
            assert abs(found.residual[found.worst]) == pytest.approx(abs(found.residual).max())
            early = fixed_point(boxes, target, open_leaves, Clock(FOREVER), 0, settle=False)
            assert early.contradiction
        assert found.residual == pytest.approx(drawn - target, abs=1e-6)
        assert found.m.min(initial=0) >= -1e-9
        assert open_leaves[signature, found.label[:, None]].all()


def test_out_of_time_nothing_is_proved():
    geometry = grid(_Schema([Ordinal("b", 0, 9)]), 1, 3)
    target = np.bincount(geometry.trace(np.array([2])).ravel(), minlength=geometry.leaf_start[-1])
    found = fixed_point(Boxes.of(geometry), target, (target > 0)[:, None], Clock(0.0), 0)
    assert not found.proved
    assert not found.contradiction
    assert found.value > 0


def test_more_than_can_be_held_is_refused(monkeypatch):
    geometry = grid(_Schema([Ordinal("b", 0, 9), Binary("c")]), 1, 3)
    monkeypatch.setattr(boxes_module, "MAX_ENTRIES", 3)
    with pytest.raises(GridTooLarge, match="holds at most 3"):
        Boxes.of(geometry)
