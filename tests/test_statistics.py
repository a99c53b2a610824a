"""Statistics of nodes, and tests of every kind: wrong ones are refused, rows take their way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.grids import all_points, cuts_for, schemas, some_rows
from helpers.releases import followed, mixed, random_tree, tree_of
from treeleak.core.errors import BadModel, BadSchema, NotCovered
from treeleak.evidence import evidence_for
from treeleak.partition import Geometry, enumerate_cells
from treeleak.release.ensemble import Ensemble
from treeleak.release.readers.release_file import release_from_dict, release_to_dict
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import (
    DRAWS,
    HESSIAN,
    MEAN,
    ROWS,
    VALUE,
    WEIGHTS,
    NodeStatistic,
    Statistics,
)
from treeleak.release.tree import CategorySets, Tree
from treeleak.schema import Binary, Numeric, Schema
from treeleak.uncertainty import from_tree
from treeleak.verification.counts import check_rows

LEAF = np.array([True, False, False])


def stump(*entries: NodeStatistic, cut: float = 0.5, **more) -> Tree:
    return tree_of((0, cut), None, None, statistics=Statistics(entries), **more)


def release_of(*trees: Tree, classes=(0, 1), **more) -> Release:
    return Release(trees, ("a",), classes, AllRows(), None, **more)


def values(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=float)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: NodeStatistic(MEAN, np.zeros((1, 1, 1))), "mean have 3 dimensions"),
        (lambda: NodeStatistic(HESSIAN, values(np.nan)), "hessian hold a number that is not fin"),
        (lambda: NodeStatistic(VALUE, values(-2e100)), r"value hold a number beyond 1e\+100"),
        (lambda: NodeStatistic(MEAN, values(1, 2), np.array([True])), "no truth value for each"),
        (lambda: NodeStatistic(MEAN, values(1, 2), np.array([True, False])), "are not present"),
        (lambda: stump(NodeStatistic(MEAN, values(1, 2))), "mean has 2 entries for 3 nodes"),
        (
            lambda: release_of(stump(NodeStatistic(ROWS, values(1.5, 1, 0.5)))),
            "tree 0, node 0: totals hold 1.5, not a whole number",
        ),
        (
            lambda: release_of(stump(NodeStatistic(DRAWS, np.full((3, 2), 1e9)))),
            r"tree 0, node 0: counts hold 1e\+09, not a whole number",
        ),
        (
            lambda: release_of(stump(NodeStatistic(HESSIAN, np.zeros((3, 5))))),
            "tree 0 gives hessian of 5 classes, the model has 2",
        ),
        (
            lambda: release_of(
                stump(NodeStatistic(ROWS, np.ones((3, 2)))),
                stump(NodeStatistic(WEIGHTS, np.ones((3, 2)))),
            ),
            "trees count in 2 units",
        ),
        (lambda: Ensemble("logistic", ()), "without outputs"),
        (lambda: Ensemble("logistic", (0.0,), np.inf), "the number inf"),
        (lambda: CategorySets(np.array([1, 0]), np.array([1, 1])), "not in order"),
        (lambda: CategorySets(np.array([0]), np.array([2**31])), "not a whole number below"),
        (lambda: CategorySets(np.array([0]), np.array([], dtype=int)), "without a node"),
    ],
)
def test_what_does_not_fit_is_refused(make, says):
    with pytest.raises(BadModel, match=says):
        make()


@given(st.integers(0, 2**32), st.sampled_from(["float32", "float64"]))
def test_rows_go_where_every_kind_of_test_sends_them(seed, kind):
    rng = np.random.default_rng(seed)
    cuts = [[-0.5, 0.0, 1.0, 2.0, 0.1]] * 2
    tree = mixed(random_tree(rng, cuts, 4), rng, categories=True)
    odd = [-1.0, -0.5, 0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, np.nan, np.inf, -np.inf, 2.0**40]
    X = rng.choice(odd, (40, 2)).astype(kind)
    assert tree.apply(X).tolist() == [followed(tree, x) for x in X]


@given(schemas(), st.integers(0, 2**32), st.booleans())
def test_cells_of_every_kind_of_test_are_those_of_the_rows(schema, seed, categories):
    rng = np.random.default_rng(seed)
    names = schema.columns
    cuts = [[*own, *(c + 0.5 for c in own)] for own in cuts_for(schema, names)]
    trees = [mixed(random_tree(rng, cuts, 3), rng, categories=categories) for _ in range(2)]
    X = some_rows(schema, names, int(rng.integers(1, 7)), rng).astype("float32")
    counted = []
    for tree in trees:
        counts = np.zeros((tree.n_nodes, 1))
        np.add.at(counts, [followed(tree, x) for x in X], 1)
        for v in np.flatnonzero(~tree.is_leaf)[::-1]:
            counts[v] = counts[tree.left[v]] + counts[tree.right[v]]
        counted.append(tree.with_counts(ROWS, counts=counts))
    release = Release(tuple(counted), names, (0,), AllRows(), len(X), float_type="float32")
    assert check_rows(release, X, np.zeros(len(X), dtype=int)).ok
    geometry = Geometry.of(release, schema)
    evidence = evidence_for(release)(geometry)
    found = enumerate_cells(geometry, evidence.open_leaves())
    points = all_points(schema, names).astype("float32")
    leaves = np.array([[followed(tree, x) for tree in trees] for x in points])
    rank = [np.cumsum(tree.is_leaf) - 1 for tree in trees]
    rows = {
        tuple(int(geometry.leaf_start[t] + rank[t][v]) for t, v in enumerate(own))
        for own in leaves
        if all(counted[t].counts[v, 0] > 0 for t, v in enumerate(own))
    }
    assert {tuple(row) for row in found.signature.tolist()} == rows


def categorical() -> Release:
    sets = CategorySets(np.array([0]), np.array([1]))
    tree = stump(NodeStatistic(ROWS, np.array([[1.0, 1], [1, 0], [0, 1]])), cut=np.nan,
                 categories=sets)  # fmt: skip
    return release_of(tree)


def test_tests_for_categories_are_not_covered_everywhere():
    with pytest.raises(NotCovered, match=r"'a' is one of several categories.*not covered here"):
        from_tree(categorical(), Schema([Binary("a")]))
    with pytest.raises(BadSchema, match=r"numeric column 'a'.*the schema must list its values"):
        Geometry.of(categorical(), Schema([Numeric("a")]))


def boosted() -> dict:
    part = NodeStatistic(HESSIAN, values(0, 1.5, 2.5), np.array([False, True, True]))
    tree = stump(part, NodeStatistic(ROWS, values(5, 2, 3)), output=0, strict=~LEAF)
    tree = replace(tree, strict=LEAF)
    return release_to_dict(release_of(tree, classes=(), ensemble=Ensemble("logistic", (0.5,), 0.3)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"statistics": {"hessian": [1, 2]}}, "hessian has 2 entries for 3 nodes"),
        ({"statistics": {"hessian": [None, 1, 10**400]}}, "node 2: hessian is 1000"),
        ({"statistics": {"hessian": [None, 1, 1e101]}}, "hessian hold a number beyond"),
        ({"statistics": {"hessian by class": [1, 1, 1]}}, "must be a list of 0 numbers"),
        (
            {"statistics": {"distinct": [2, 1, 0.5]}},
            "0.5, must be whole and not negative",
        ),
        ({"statistics": {"rows": [5, 2, 3]}}, "a quantity appears twice"),
        ({"statistics": {"draws": [5, 2, 2]}}, "node 0: totals hold 5.0, those of its children"),
        ({"statistics": {"draws": [None, -2, 2]}}, "node 1: totals are negative"),
        ({"statistics": {"colour": [1, 1, 1]}}, "unknown statistic 'colour'"),
        ({"strict": [True]}, "strict has 1 entries for 3 nodes"),
        ({"categories": [[1], None, None]}, "categories at a leaf, or beside a threshold"),
        ({"categories": [None, [1], None]}, "node 1: half a leaf, half a test"),
        ({"categories": [[-1], None, None]}, "node 0: categories.0. is -1"),
        ({"categories": [[2**31], None, None]}, "categories.0. is 2147483648"),
        (
            {"categories": [[2, 1], None, None], "threshold": [None, None, None]},
            "categories of nodes that are not in order",
        ),
        ({"output": -1}, "output is -1"),
        ({"output": 1}, "tree 0 adds to output 1, the model has 1"),
    ],
)
def test_hostile_nodes_are_named(change, says):
    document = boosted()
    document["trees"][0] |= change
    with pytest.raises(BadModel, match=says):
        release_from_dict(document)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"base_scores": [10**400]}, "base_scores.0. is 1000.*, must be a number"),
        ({"base_scores": [1e101]}, "base_scores.0. is 1e.101, must be a number"),
        ({"base_scores": [0.0] * 10_001}, "10,001 outputs, more than 10,000"),
    ],
)
def test_hostile_ensembles_are_named(change, says):
    document = boosted()
    document["ensemble"] |= change
    with pytest.raises(BadModel, match=says):
        release_from_dict(document)
