"""Counts as equations: the true rows meet them, and what they rule out is ruled out."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.cases import some_drawn
from helpers.examples import examples
from helpers.grids import cuts_for, some_rows
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
from treeleak.partition import Geometry, enumerate_drawable, enumeration_tick
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
