"""Counts as equations: the true rows meet them, and what they rule out is ruled out."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.brute_force import equations_of, released_counts
from helpers.cases import some_drawn
from helpers.examples import examples
from helpers.grids import all_points, cuts_for, schemas, some_rows
from helpers.releases import counted, counted_as, random_tree
from treeleak.attacks.known_draws.candidate_pruning import entropy_left
from treeleak.attacks.known_draws.candidates import RowProblem
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.evidence import (
    ExactCounts,
    ExactTotals,
    KnownDraws,
    Pairs,
    draws_needed,
    evidence_for,
)
from treeleak.partition import Geometry, enumerate_cells, enumerate_drawable, enumeration_tick
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows, Bootstrap, UnknownSampling
from treeleak.schema import Binary, Schema


def example(schema, seed, counts_are="rows", n_classes=2):
    rng = np.random.default_rng(seed)
    names = schema.columns
    X = some_rows(schema, names, int(rng.integers(0, 7)), rng)
    y = rng.integers(n_classes, size=len(X))
    weights = rng.random(len(X)) + 0.1 if counts_are == "weights" else None
    trees = [random_tree(rng, cuts_for(schema, names), 3) for _ in range(2)]
    release = counted(trees, names, X, y, n_classes, counts_are=counts_are, weights=weights)
    return release, X, y


def systems_of(release, schema):
    geometry = Geometry.of(release, schema)
    evidence = evidence_for(release)(geometry)
    assert evidence.contradiction() is None
    return list(evidence.systems(enumerate_cells(geometry, evidence.open_leaves())))


@given(schemas(), st.integers(0, 2**32), st.sampled_from(["rows", "weights", "none"]))
def test_the_true_histogram_solves_every_system(schema, seed, counts_are):
    release, X, y = example(schema, seed, counts_are)
    total = 0
    for system in systems_of(release, schema):
        key = {
            (tuple(row), int(c))
            for row, c in zip(system.signature[system.cell], system.label, strict=True)
        }
        m = np.zeros(len(system.signature), dtype=np.int64)
        own = np.isin(y, system.label) if counts_are == "rows" else np.ones(len(y), dtype=bool)
        for row, c in zip(equations_of(release, X)[own], y[own], strict=True):
            # A true row is never ruled out.
            assert (tuple(row), int(c)) in key
            fits = (system.signature[system.cell] == row).all(axis=1) & (system.label == c)
            m[system.cell[np.flatnonzero(fits)[0]]] += 1
        assert system.misfit(m) == 0
        assert system.n_rows == m.sum()
        total += system.n_rows
        if len(m):
            wrong = m.copy()
            wrong[0] += 1
            assert system.misfit(wrong) == len(release.trees)
    assert total == len(X)


@given(schemas(), st.integers(0, 2**32), st.sampled_from(["rows", "weights", "none"]))
def test_a_point_is_dead_for_a_class_where_a_leaf_holds_none_of_it(schema, seed, counts_are):
    release, _, _ = example(schema, seed, counts_are)
    points = all_points(schema, release.feature_names)
    columns = equations_of(release, points)
    held = np.concatenate(
        [
            np.repeat(tree.totals[tree.leaves, None] > 0, 2, axis=1)
            if tree.counts is None
            else tree.counts[tree.leaves] > 0
            for tree in release.trees
        ]
    )
    possible = {(tuple(row), c) for row in columns for c in range(2) if held[row, c].all()}
    found = {
        (tuple(row), int(c))
        for system in systems_of(release, schema)
        for row, c in zip(system.signature[system.cell], system.label, strict=True)
    }
    assert found == possible


SCHEMA = Schema([Binary("a")])


def plain(counts_are="rows", sampling=None, **options) -> Release:
    rng = np.random.default_rng(5)
    trees = [random_tree(rng, [[0.5]], 2) for _ in range(2)]
    X = np.array([[0.0], [1.0], [1.0]])
    release = counted(trees, ["a"], X, np.array([0, 1, 0]), 2, counts_are=counts_are)
    return replace(release, sampling=sampling or AllRows(), **options)


@pytest.mark.parametrize(
    ("release", "bootstrap", "expected"),
    [
        (plain("rows"), "auto", ExactCounts),
        (plain("rows"), "none", ExactCounts),
        (plain("weights"), "auto", ExactTotals),
        (plain("none"), "auto", ExactTotals),
        (plain("rows", UnknownSampling("no word")), "none", ExactCounts),
        (plain("draws", Bootstrap()), "none", ExactCounts),
    ],
)
def test_the_evidence_follows_from_sampling_and_unit(release, bootstrap, expected):
    assert evidence_for(release, bootstrap) is expected


@pytest.mark.parametrize(
    ("release", "bootstrap", "why"),
    [
        (plain("draws", Bootstrap()), "auto", "an unknown number of rows"),
        (plain("rows"), "known", "given as rows, not as draws"),
        (plain("rows"), "hidden", "given as rows, not as draws"),
        (plain("rows", UnknownSampling("no word of it")), "auto", "no word of it"),
        (plain("rows", UnknownSampling()), "auto", 'bootstrap="none"'),
        (plain("rows", not_covered="a regression"), "auto", "a regression"),
        (plain("rows", trees=()), "auto", "no tree"),
        (plain("draws"), "auto", "'draws'"),
    ],
)
def test_what_is_not_covered_says_why(release, bootstrap, why):
    with pytest.raises(NotCovered, match=why):
        evidence_for(release, bootstrap)


def test_trees_that_count_rows_together_may_stand_behind_those_that_count_classes():
    release = plain("rows")
    one, other = release.trees[0], release.trees[1].with_counts(counts=None)
    evidence_for(replace(release, trees=(one, other)))
    with pytest.raises(NotCovered, match="tree 0 gives no counts"):
        evidence_for(replace(release, trees=(other, one)))


def test_an_unknown_mode_is_an_error():
    with pytest.raises(ValueError, match="bootstrap must be one of"):
        evidence_for(plain(), "some")


@pytest.mark.parametrize("counts_are", ["rows", "none"])
def test_more_rows_than_memory_holds_are_refused_before_anything_is_made(counts_are):
    release, _, _ = example(Schema([Binary("a"), Binary("b")]), 1, counts_are)
    huge = [
        tree.with_counts(
            counts=None if tree.counts is None else tree.counts + 1e6,
            totals=tree.totals + 1e6,
            distinct=None,
        )
        for tree in release.trees
    ]
    with pytest.raises(NotCovered, match=r"tree 0 counts .*000,0.* rows; at most 2,000,000"):
        evidence_for(replace(release, trees=tuple(huge)))


# Known draws -------------------------------------------------------------------------------


def known(case, **options) -> KnownDraws:
    return KnownDraws(Geometry.of(case.release, case.schema), case.b, **options)


def members(sets: np.ndarray, n_rows: int) -> np.ndarray:
    """Bits of 64-bit words as booleans."""
    k = np.arange(sets.shape[1] * 64)
    out = (sets[:, k // 64] >> (k % 64).astype(np.uint64)) & np.uint64(1) == 1
    assert not out[:, n_rows:].any()
    return out[:, :n_rows]


@pytest.mark.parametrize("n_rows", [1, 5, 63, 64, 65, 128, 129])
@pytest.mark.parametrize("seed", range(4))
def test_a_leaf_is_open_to_the_rows_whose_draws_it_counts(n_rows, seed):
    case = some_drawn(seed, n_rows=n_rows)
    evidence = known(case)
    n, start = released_counts(case.release)
    assert np.array_equal(evidence.n, n)
    assert evidence.n_rows == n_rows
    assert evidence.drawn.tolist() == case.b.any(axis=0).tolist()
    rows = evidence.row_sets()
    open_to = members(rows.sets, n_rows)[rows.set_of]
    for t, b in enumerate(case.b):
        own = slice(start[t], start[t + 1])
        expected = (b <= n[own][:, :, None]) & case.seen
        assert np.array_equal(open_to[own], expected)


@pytest.mark.parametrize("t", [0, 2])
def test_a_tree_whose_leaves_hold_other_numbers_than_it_drew_contradicts(t):
    case = some_drawn(2, n_rows=6, n_trees=3, tamper=False)
    tree = case.release.trees[t]
    for change, distinct, what in [
        (
            {"counts": tree.counts + (np.arange(tree.n_nodes) == tree.leaves[-1])[:, None]},
            0,
            "draws",
        ),
        ({"distinct": tree.distinct - (np.arange(tree.n_nodes) == tree.leaves[0])}, 1, "distinct"),
    ]:
        trees = list(case.release.trees)
        trees[t] = tree.with_counts(**change)
        wrong = replace(case, release=replace(case.release, trees=tuple(trees)))
        clash = known(wrong).contradiction()
        assert (clash.tree, clash.node) == (t, 0)
        assert what in clash.why
        without = wrong.known(distinct=False).contradiction()
        assert (without is None) == bool(distinct)


def test_draws_are_left_aside_where_every_row_is_said_to_be_used_once():
    case = some_drawn(2, n_rows=6, n_trees=3, tamper=False)
    assert evidence_for(case.release, "none", case.b) is ExactCounts
    assert not draws_needed(case.release, "none")
    assert not draws_needed(case.release, "hidden")
    assert draws_needed(case.release)
    assert not draws_needed(replace(case.release, sampling=AllRows()))
    assert draws_needed(replace(case.release, sampling=AllRows()), "known")
    with pytest.raises(NotCovered, match="an unknown number of rows"):
        evidence_for(case.release, "hidden", case.b)
    with pytest.raises(NotCovered, match="as rows, not as draws"):
        evidence_for(counted_as(case.release, "rows"), "known", case.b)
    bare = case.release.trees[1].with_counts(counts=None)
    trees = (case.release.trees[0], bare, case.release.trees[2])
    with pytest.raises(NotCovered, match="tree 1 gives no counts"):
        evidence_for(replace(case.release, trees=trees), "auto", case.b)


# --------------------------------------------------------------------- how much counts leave open


def problem_of(evidence: KnownDraws) -> RowProblem:
    tick = enumeration_tick(evidence.geometry, Clock(60.0))
    partition = enumerate_drawable(evidence.geometry, evidence.row_sets(None), tick)
    return RowProblem.of(evidence, partition, Pairs.of(partition), None)


def entropy_given_counts(problem: RowProblem, u: np.ndarray) -> float:
    """Over all assignments: entropy of the rows, on average over what the counts may turn out."""
    own = [range(a, b) for a, b in itertools.pairwise(problem.start)]
    chance = defaultdict(list)
    for chosen in itertools.product(*own):
        counts = problem._counts(problem.column[list(chosen)], problem.draws)
        key = tuple(part.tobytes() for part in counts[: 1 + bool(len(problem.d))])
        chance[key].append(np.prod(u[list(chosen)]))
    out = 0.0
    for p in map(np.array, chance.values()):
        out -= (p * np.log(np.maximum(p, 1e-300) / p.sum())).sum()
    return out


@examples(40)
@given(st.integers(0, 10_000))
def test_no_less_is_left_than_the_bound(seed):
    rng = np.random.default_rng(seed)
    case = some_drawn(seed, n_rows=int(rng.integers(2, 5)), tamper=False)
    problem = problem_of(case.known(bool(seed % 2)))
    assume(problem.n_open and np.diff(problem.start).astype(float).prod() <= 5000)
    u = rng.gamma(0.5, size=len(problem.column)) + 1e-9
    u /= np.bincount(problem.owner, u)[problem.owner]
    left = entropy_left(problem, u)
    assert left <= entropy_given_counts(problem, u) + 1e-9
    for least in (left - 1e-6, left + 1e-6, 0.0, np.inf):
        # Each tree takes away, so that an early end does not change which is more.
        assert (entropy_left(problem, u, least) > least) == (left > least)
