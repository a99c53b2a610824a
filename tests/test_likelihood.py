"""The likelihood of hidden draws against all draws, and its parts against big integers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp

from helpers.brute_force import log_chance, rows_in
from helpers.cases import some_drawn
from helpers.examples import examples
from helpers.grids import all_points
from treeleak.attacks.posterior.hidden_kernels import (
    climb,
)
from treeleak.attacks.posterior.likelihood import DrawLikelihood

SEEDS = st.integers(0, 2**32 - 1)


def likelihood_of(draws, distinct, n_rows):
    """Leaves of a single tree: draws by class, and distinct rows."""
    table = np.array(draws)
    d = None if distinct is None else np.array(distinct)
    return DrawLikelihood(table.ravel().astype(np.int32), d, table.shape[1], n_rows)


def tables(case, rng, times=4):
    """The true rows, and others that the schema allows."""
    yield case.X, case.y
    points = all_points(case.schema, case.release.feature_names)
    for _ in range(times):
        X, y = case.X.copy(), case.y.copy()
        for k in rng.choice(len(X), size=rng.integers(1, len(X) + 1), replace=False):
            X[k] = points[rng.integers(len(points))]
            y[k] = rng.integers(len(case.release.classes))
        yield X, y


def splits(likelihood):
    """Every way to split the distinct rows of all leaves among their classes."""
    n = likelihood.draws.reshape(-1, likelihood.n_classes)
    own = [
        [
            way
            for way in itertools.product(*(range(min(1, x), x + 1) for x in leaf))
            if sum(way) == d
        ]
        for leaf, d in zip(n, likelihood.distinct, strict=True)
    ]
    return [np.array(way, dtype=np.int32).ravel() for way in itertools.product(*own)]


# ------------------------------------------------------------------------- against all draws


@pytest.mark.slow
@given(SEEDS, st.integers(1, 4), st.integers(2, 3), st.booleans())
@examples(60, fast=10)
def test_the_likelihood_is_the_share_of_the_draws_that_give_the_counts(seed, n, n_trees, distinct):
    case = some_drawn(seed, n_rows=n, n_trees=n_trees, tamper=False)
    evidence = case.hidden(distinct)
    likelihood = DrawLikelihood.of(evidence)
    # What the docstring of HiddenDraws leaves out: N_t! / prod n! and N^-N_t.
    n_draws = case.b.sum(axis=1)
    constant = likelihood.log_factorial[n_draws].sum() - n_draws.sum() * math.log(n)
    constant -= likelihood.log_factorial[likelihood.draws].sum()
    for X, y in tables(case, np.random.default_rng(seed)):
        rows = rows_in(case.release, X, y)
        exact = log_chance(case.release, X, y, distinct)
        assert likelihood.log_likelihood(rows) + constant == pytest.approx(exact, abs=1e-9)
        assert (likelihood.missing(rows) == 0) == np.isfinite(exact)


LEAVES = st.integers(2, 3).flatmap(
    lambda classes: st.lists(
        st.tuples(*[st.integers(0, 6)] * classes).filter(any), min_size=1, max_size=3
    )
)


@st.composite
def mixed_leaves(draw):
    """Draws by class in a few leaves, distinct rows that they allow, and rows that lie there."""
    draws = draw(LEAVES)
    distinct = [draw(st.integers(sum(x > 0 for x in leaf), sum(leaf))) for leaf in draws]
    rows = [[draw(st.integers(0, 8)) for _ in leaf] for leaf in draws]
    likelihood = likelihood_of(draws, distinct, max(1, int(np.sum(rows))))
    return likelihood, np.array(rows, dtype=np.int32).ravel()


def surjections(n, d):
    return sum((-1) ** k * math.comb(d, k) * (d - k) ** n for k in range(d + 1))


@given(mixed_leaves())
def test_mixed_leaves_count_all_maps_of_draws_onto_distinct_rows(case):
    likelihood, rows = case
    ways = sum(
        math.prod(
            math.comb(int(a), int(d)) * surjections(int(n), int(d))
            for a, n, d in zip(rows, likelihood.draws, split, strict=True)
            if n
        )
        for split in splits(likelihood)
    )
    expected = math.log(ways) if ways else -math.inf
    assert likelihood.log_likelihood(rows) == pytest.approx(expected, abs=1e-9)
    assert (likelihood.missing(rows) == 0) == (ways > 0)


# ------------------------------------------------------------------------------------- EM


def problem(seed, n_points=6, n_leaves=3, n_trees=4):
    """Random leaves of some points in some trees, and draws of rows at them."""
    rng = np.random.default_rng(seed)
    leaf = rng.integers(n_leaves, size=(n_points, n_trees))
    table = (leaf + n_leaves * np.arange(n_trees)).astype(np.int32)
    share = rng.dirichlet(np.full(n_points, 0.3))
    points = [rng.choice(n_points, 12, p=share) for _ in range(n_trees)]
    fallen = [table[p, t] for t, p in enumerate(points)]
    draws = np.bincount(np.concatenate(fallen), minlength=n_leaves * n_trees)
    return table, draws.astype(float)


def height(weight, table, draws):
    total = np.bincount(table.ravel(), np.repeat(weight, table.shape[1]), minlength=len(draws))
    own = draws > 0
    with np.errstate(divide="ignore"):
        return float(draws[own] @ np.log(total[own]))


@given(SEEDS)
@examples(25)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # scipy's search
def test_em_ends_where_no_point_could_pull_more(seed):
    table, draws = problem(seed)
    weight = np.full(len(table), 1 / len(table))
    climb(table, draws, weight, 200_000)
    total = np.bincount(table.ravel(), np.repeat(weight, table.shape[1]), minlength=len(draws))
    pull = np.divide(draws, total, out=np.zeros_like(draws), where=total > 0)[table].sum(axis=1)
    pull /= draws.sum()
    assert (pull <= 1 + 1e-3).all()
    assert pull[weight > 1e-4] == pytest.approx(1, abs=1e-3)
    # Concave, so any other climber ends as high: one over logarithms of the weights, with a slope.
    start = np.zeros(len(table))
    found = minimize(lambda x: -height(np.exp(x - logsumexp(x)), table, draws), start)
    assert height(weight, table, draws) >= -found.fun - 1e-6
