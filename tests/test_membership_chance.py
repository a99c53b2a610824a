"""Probabilities of membership, against sums over all datasets of tiny tables, and by evidence."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import factorial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import treeleak
from helpers.examples import spread
from helpers.tables import compas_sample
from treeleak.reconstruction.membership import Held, Smoothing

N, KINDS = 4, 5


def datasets(q):
    """All datasets of N rows as counts of kinds, and their probabilities."""
    counts = np.array([
        np.bincount(rows, minlength=KINDS)
        for rows in combinations_with_replacement(range(KINDS), N)
    ])  # fmt: skip
    ways = [factorial(N) / np.prod([factorial(int(k)) for k in m]) for m in counts]
    return counts, np.array(ways) * np.prod(q**counts, axis=1)


def posterior(counts, chance, queries, told):
    """Exact Bayes: datasets that answer counting queries as the true one does."""
    p = chance * (counts @ queries.T == told).all(axis=1)
    return p / p.sum()


def held_of(counts, p, q, rng):
    """What independent samples of a posterior say of all kinds."""
    n_samples = 40_000
    drawn = counts[rng.choice(len(counts), n_samples, p=p)]
    rows = np.array([np.repeat(np.arange(KINDS), m) for m in drawn])
    chain = np.arange(n_samples)
    none = np.zeros(0, dtype=np.int64)
    # Here the prior is right.
    smoothing = replace(Smoothing.of(rows, none, chain, q), spread=0.0)
    chains, fixed = (drawn > 0).sum(axis=0), np.zeros(KINDS, dtype=np.int64)
    return Held(drawn, fixed, chains, q, np.ones(KINDS), N, smoothing)


@pytest.mark.parametrize("seed", range(6))
def test_both_questions_are_answered_as_by_exact_bayes(seed):
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.ones(KINDS))
    counts, chance = datasets(q)
    queries = rng.integers(2, size=(2, KINDS))
    true = counts[rng.choice(len(counts), p=chance / chance.sum())]
    p = posterior(counts, chance, queries, queries @ true)
    held = held_of(counts, p, q, rng)
    assert held.row_is_in() == pytest.approx(p @ (counts > 0), abs=0.03)
    for share in (0.1, 0.5):
        inside = share * (p @ counts) / N
        assert held.person_is_in(share) == pytest.approx(
            inside / (inside + (1 - share) * q), abs=0.03
        )


# ------------------------------------------------------------------------------------- by evidence

MODELS = {
    "exact": (RandomForestClassifier(20, bootstrap=False, random_state=0), {}),
    "exact, shallow": (
        RandomForestClassifier(5, max_depth=2, bootstrap=False, random_state=0), {}
    ),
    "known draws": (RandomForestClassifier(20, random_state=0), {}),
    "known draws, shallow": (RandomForestClassifier(4, max_depth=2, random_state=0), {}),
    "hidden draws": (RandomForestClassifier(8, random_state=0), {"bootstrap": "hidden"}),
    "boosted": (HistGradientBoostingClassifier(max_iter=30, min_samples_leaf=3), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", spread(MODELS, fast=3, each=True))
@pytest.mark.usefixtures("short_walks")
def test_every_kind_of_evidence_says_who_is_in(name):
    X, y, compas = compas_sample(50)
    model, told = MODELS[name]
    result = treeleak.reconstruct(model.fit(X, y), compas.schema, time_limit=30, **told)
    others = compas.X.drop(X.index).sample(400, random_state=0)
    inside, outside = (
        result.membership(rows.assign(label=compas.y[rows.index]), 0.5) for rows in (X, others)
    )
    assert inside.mean() > outside.mean()
    rows_in = result.membership(X.assign(label=y))
    assert rows_in.mean() > result.membership(others.assign(label=compas.y[others.index])).mean()
    column = X.columns[0]
    said = result.expectation(lambda rows, _: rows[column].mean())
    assert said.low - 1e-9 <= said.mean <= said.high + 1e-9
    assert said.mean == pytest.approx(X[column].mean(), abs=0.15)
    assert result.expected_error is not None
    if result.status == "unique" and not result.free_columns:
        rows = set(map(tuple, X.assign(label=y).to_numpy().tolist()))
        records = others.assign(label=compas.y[others.index])
        truth = [tuple(r) in rows for r in records.to_numpy().tolist()]
        assert (rows_in == 1).all()
        assert result.membership(records).tolist() == truth


def test_a_column_that_no_tree_tests_halves_what_is_known_of_a_record():
    X = pd.DataFrame(list(product([0, 1], repeat=2)), columns=["a", "b"]).assign(free=[0, 1, 1, 0])
    y = pd.Series([0, 1, 1, 0])
    forest = RandomForestClassifier(5, bootstrap=False, random_state=0, max_features=None)
    forest.fit(X.assign(free=0), y)
    result = treeleak.reconstruct(forest, treeleak.Schema.from_columns(X.columns), time_limit=10)
    assert "free" in result.free_columns
    both = [result.membership(X.assign(free=v)).to_numpy() for v in (0, 1)]
    assert np.add(*both) == pytest.approx(1.0)
    # Of people, what no tree tells of says nothing: others have it as often.
    assert np.allclose(*(result.membership(X.assign(free=v), 0.5) for v in (0, 1)))
