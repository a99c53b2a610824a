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
from helpers.patient import AMPLE
from helpers.tables import compas_sample
from treeleak.attacks.samples import Samples
from treeleak.core.errors import PrivacyWarning
from treeleak.learn import DPForestClassifier
from treeleak.reconstruction.membership import GROWTH, Held, Smoothing, spread_of

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


def test_exact_bayes_is_calibrated_over_all_datasets_and_people():
    """The rule itself: of all who are given a probability, so many are members."""
    rng = np.random.default_rng(3)
    q = rng.dirichlet(np.ones(KINDS))
    counts, chance = datasets(q)
    queries, share = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 1]]), 0.4
    said, members, people = [], [], []
    for m, weight in zip(counts, chance, strict=True):
        p = posterior(counts, chance, queries, queries @ m)
        expected = share * (p @ counts) / N
        said += (expected / (expected + (1 - share) * q)).tolist()
        members += (weight * share * m / N).tolist()
        people += (weight * (share * m / N + (1 - share) * q)).tolist()
    for value in set(np.round(said, 9)):
        at = np.isclose(said, value)
        assert np.sum(np.array(members)[at]) / np.sum(np.array(people)[at]) == pytest.approx(value)


def test_rows_in_every_dataset_are_in_and_where_all_are_no_other_is():
    fixed = np.array([2, 1, 0])
    smoothing = Smoothing.of(
        np.array([[0, 0, 1]] * 10), np.array([0, 0, 1]), np.arange(10), np.array([0.2, 0.1, 0.3])
    )
    smoothing = replace(smoothing, spread=0.0)
    held = Held(
        np.zeros((10, 3), np.int64), fixed, 10 * (fixed > 0), np.array([0.2, 0.1, 0.3]),
        np.ones(3), 3, smoothing,
    )  # fmt: skip
    assert held.row_is_in().tolist() == [1, 1, 0]
    assert held.person_is_in(0.5) == pytest.approx([2 / (2 + 0.6), 1 / (1 + 0.3), 0])


COLUMNS = 9


def population(spread, rng):
    """Kinds of binary rows whose frequencies are gamma around even ones."""
    n_kinds = 2**COLUMNS
    kinds = np.array(list(product([0, 1], repeat=COLUMNS)))
    expected = 200 / n_kinds
    shape = expected ** (2 - GROWTH) / spread if spread else 1e9
    q = rng.gamma(shape, size=n_kinds)
    return kinds, q / q.sum()


def samples_of(rows):
    """One sample of binary rows, whose first column stands for the class."""
    schema = treeleak.Schema.from_columns([f"x{k}" for k in range(COLUMNS - 1)])
    X = pd.DataFrame(rows[:, :-1], columns=list(schema.columns))
    forest = RandomForestClassifier(20, random_state=0, bootstrap=False).fit(X, rows[:, -1])
    found = treeleak.reconstruct(forest, schema, time_limit=10).posterior
    values = found.samples.values
    assert (np.diff(values.atom_start) == 2).all()
    return Samples.of_worlds(values, rows[None] + values.atom_start[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_pairs_of_equal_rows_say_how_far_a_prior_is_from_the_population(spread):
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        kinds, q = population(spread, rng)
        found.append(spread_of(samples_of(kinds[rng.choice(len(kinds), 200, p=q)]), seed))
    # Five pairs of doubt beside about 80 that are expected; none is below zero.
    assert np.mean(found) == pytest.approx(spread * 80 / 85, abs=0.1 + 0.15 * spread)


def test_people_are_told_apart_as_often_as_is_said_where_the_prior_spreads_rows_too_evenly():
    said, true = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        _, q = population(1.5, rng)
        m, n_kinds = rng.multinomial(200, q), len(q)
        smoothing = Smoothing(1, 0.5, 0.0, 1.5)
        held = Held(
            np.zeros((1, n_kinds), np.int64), m, (m > 0).astype(int), np.full(n_kinds, 1 / n_kinds),
            np.ones(n_kinds), 200, smoothing,
        )  # fmt: skip
        found = held.person_is_in(0.5)
        # All people of each kind: members, and of others as many as the population has.
        said.append((found * (m / 200 + q)).sum() / 2)
        true.append((found**2 * (m / 200 + q)).sum() - (found * m / 200).sum())
    assert np.mean(said) == pytest.approx(0.5, abs=0.02)
    assert np.mean(true) == pytest.approx(0.0, abs=0.02)


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


@pytest.mark.slow
def test_noise_says_who_is_in():
    X, y, compas = compas_sample(50)
    forest = DPForestClassifier(
        10, 4, 20.0, schema=compas.schema, classes=tuple(sorted(set(y))), random_state=0
    )
    with pytest.warns(PrivacyWarning):
        forest.fit(X, y)
    result = treeleak.reconstruct(forest, compas.schema, n_rows=50, time_limit=AMPLE)
    others = compas.X.drop(X.index).sample(400, random_state=0)
    assert result.membership(X, 0.5).mean() > result.membership(others, 0.5).mean()


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
