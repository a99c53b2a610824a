"""Cells against brute force over every point that a tiny schema allows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.brute_force import as_multiset
from helpers.examples import examples
from helpers.grids import all_points, cuts_for, schemas, shuffled
from helpers.releases import leaves_of, mixed, random_tree, tree_of
from treeleak.core.errors import BadSchema, NotCovered
from treeleak.partition import (
    Geometry,
    Partition,
    enumerate_cells,
    reachable_leaves,
)
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.tree import Tree
from treeleak.schema import (
    AtMost,
    Binary,
    Implies,
    Linear,
    Numeric,
    OneHot,
    Ordinal,
    Schema,
)


def bare(trees, names, float_type="float32", n_classes=2) -> Release:
    classes = tuple(range(n_classes))
    return Release(tuple(trees), tuple(names), classes, AllRows(), None, float_type=float_type)


def forest(schema, seed, n_trees=2, depth=3, float_type="float32", sets=False) -> Release:
    rng = np.random.default_rng(seed)
    names = shuffled(schema.columns, rng)
    cuts = cuts_for(schema, names)
    trees = [random_tree(rng, cuts, depth) for _ in range(n_trees)]
    if sets:
        trees = [mixed(tree, rng, categories=True) for tree in trees]
    return bare(trees, names, float_type)


def stump(threshold, feature=0, missing_left=False) -> Tree:
    missing = np.array([missing_left, False, False])
    return tree_of((feature, threshold), None, None, missing_left=missing)


def expand(geometry, point) -> np.ndarray:
    """Every row of the schema for which a grid point stands."""
    blocks = [
        p.atoms[k].values for p, k in zip(geometry.parts, geometry.atoms(point)[0], strict=True)
    ]
    out = []
    for choice in itertools.product(*blocks):
        row = np.empty(geometry.release.n_features)
        for part, values in zip(geometry.parts, choice, strict=True):
            row[part.columns] = values
        out.append(row)
    return np.array(out)


def everything(geometry) -> Partition:
    n_leaves = geometry.leaf_start[-1]
    return enumerate_cells(geometry, np.ones((n_leaves, 2), dtype=bool))


def check_against_brute_force(geometry: Geometry) -> None:
    release, schema = geometry.release, geometry.schema
    partition = everything(geometry)
    rows = []
    for k in range(len(partition.points)):
        expanded = expand(geometry, partition.points[k : k + 1])
        signature = partition.signature[partition.cell[k]]
        named = [geometry.leaf_of_row(int(r)) for r in signature]
        assert [t for t, _ in named] == list(range(len(release.trees)))
        # Not the representative alone: every value of every atom takes the same way.
        assert (leaves_of(release, expanded) == [v for _, v in named]).all()
        rows.append(expanded)
    table = np.concatenate(rows) if rows else np.zeros((0, release.n_features))
    assert as_multiset(table) == as_multiset(all_points(schema, release.feature_names))
    assert len(np.unique(partition.signature, axis=0)) == partition.n_cells
    assert set(partition.cell) == set(range(partition.n_cells))


@examples(150, fast=18)
@given(schemas(), st.integers(0, 2**32), st.sampled_from(["float32", "float64"]))
def test_every_valid_point_stands_in_exactly_one_cell_and_takes_its_leaves(schema, seed, kind):
    check_against_brute_force(Geometry.of(forest(schema, seed, float_type=kind), schema))


@examples(100, fast=20)
@given(schemas(), st.integers(0, 2**32), st.sampled_from(["float32", "float64"]))
def test_tests_for_categories_part_the_points_that_they_name(schema, seed, kind):
    check_against_brute_force(Geometry.of(forest(schema, seed, float_type=kind, sets=True), schema))


@st.composite
def ruled(draw) -> Schema:
    missing = draw(st.booleans())
    attributes = [
        Binary("a", missing=missing),
        OneHot("g", ["g0", "g1", "g2"], at_most_one=draw(st.booleans())),
        Ordinal("n", 0, 3, missing=draw(st.booleans())),
    ]
    rules = [
        Implies({"a": 1}, {"g1": 0}),
        Implies({"n": 2}, {"a": 1}),
        Linear({"a": 2, "n": 1}, 1, 4),
        AtMost(["a", "g0", "g2"], 1),
    ]
    chosen = draw(st.lists(st.sampled_from(range(4)), unique=True, min_size=1))
    return Schema(attributes, [rules[i] for i in chosen])


@examples(80, fast=10)
@given(ruled(), st.integers(0, 2**32))
def test_rules_leave_exactly_the_points_that_the_schema_calls_valid(schema, seed):
    check_against_brute_force(Geometry.of(forest(schema, seed), schema))


@examples(100, fast=12)
@given(schemas(), st.integers(0, 2**32))
def test_a_point_is_alive_for_a_class_unless_a_tree_closes_its_leaf(schema, seed):
    release = forest(schema, seed)
    geometry = Geometry.of(release, schema)
    rng = np.random.default_rng(seed + 1)
    open_leaves = rng.random((geometry.leaf_start[-1], 2)) < 0.7
    partition = enumerate_cells(geometry, open_leaves)
    expected = {}
    for point in range(geometry.n_points):
        row = expand(geometry, np.array([point]))[:1]
        leaves = leaves_of(release, row)[0]
        equations = [
            geometry.leaf_start[t] + list(tree.leaves).index(leaves[t])
            for t, tree in enumerate(release.trees)
        ]
        alive = open_leaves[equations].all(axis=0)
        if alive.any():
            expected[point] = alive.tolist()
    assert dict(zip(partition.points.tolist(), partition.alive.tolist(), strict=True)) == expected


def test_a_rule_on_a_numeric_column_is_refused_by_name():
    schema = Schema([Numeric("a"), Binary("b")], [Linear({"a": 1, "b": 1}, 0, 1)])
    with pytest.raises(BadSchema, match="numeric column 'a'"):
        Geometry.of(bare([stump(0.5)], ["a", "b"]), schema)


def test_more_classes_than_bits_are_refused():
    geometry = Geometry.of(bare([stump(0.5)], ["a"]), Schema([Binary("a")]))
    with pytest.raises(NotCovered, match="65 classes"):
        enumerate_cells(geometry, np.ones((2, 65), dtype=bool))
    assert enumerate_cells(geometry, np.ones((2, 64), dtype=bool)).alive.all()


@examples(60, fast=10)
@given(schemas(), st.integers(0, 10**6))
def test_reachable_leaves_are_those_that_some_point_reaches(schema, seed):
    release = forest(schema, seed, n_trees=3, depth=5)
    reached = leaves_of(release, all_points(schema, release.feature_names))
    found = reachable_leaves(Geometry.of(release, schema))
    assert len(found) == len(release.trees)
    for t, tree in enumerate(release.trees):
        np.testing.assert_array_equal(found[t], np.isin(tree.leaves, reached[:, t]))
