"""Odds of single rows behind noise, against sums over all datasets of a tiny table."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product
from math import factorial

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

import treeleak
from helpers.patient import AMPLE
from treeleak.attacks.membership_odds import RowOdds
from treeleak.attacks.posterior.noise_likelihood import CountLikelihood
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.errors import PrivacyWarning
from treeleak.learn import DPForestClassifier

N, CHAINS, EACH = 5, 6, 150


def forest_of(X, y, schema, **told):
    """A forest with noise, and what was rebuilt from it."""
    forest = DPForestClassifier(schema=schema, random_state=0, **told)
    with pytest.warns(PrivacyWarning):
        forest.fit(X, y)
    return treeleak.reconstruct(forest, schema, n_rows=len(X), time_limit=AMPLE)


@pytest.fixture(scope="module")
def tiny():
    """All datasets of five rows in eight kinds, the posterior of each, and the parts of odds."""
    X = pd.DataFrame([[0, 0], [0, 1], [0, 1], [1, 1], [0, 0]], columns=["a", "b"])
    schema = treeleak.Schema.from_columns(X.columns)
    found = forest_of(
        X, pd.Series([0, 1, 1, 0, 0]), schema, n_estimators=4, max_depth=2, epsilon=6.0,
        classes=(0, 1),
    )  # fmt: skip
    posterior = found.posterior
    release, geometry = posterior.release, posterior.geometry
    said = np.concatenate([tree.counts[tree.leaves] for tree in release.trees])
    law = CountLikelihood(said.ravel(), 2, release.noise, N)
    kinds = np.array(list(product(*(range(len(p)) for p in geometry.parts), range(2))))
    uneven = [np.log(np.array([[0.7, 0.3]])), np.log(np.array([[0.4, 0.6], [0.2, 0.8]]))]
    prior = TreePrior(
        np.array([2] * 3), np.array([-1, 0, -1]), (*uneven, uneven[0]),
        tuple(np.arange(2) for _ in range(3)),
    )  # fmt: skip
    q = np.exp(prior.log_prior(kinds))
    counts = np.array([
        np.bincount(rows, minlength=len(kinds))
        for rows in combinations_with_replacement(range(len(kinds)), N)
    ])  # fmt: skip
    leaves = geometry.trace_atoms(kinds[:, :-1])
    each = np.array([law.held(leaves[[k]], kinds[[k], -1]) for k in range(len(kinds))])
    none = np.zeros(0, dtype=np.int32)
    height = np.array([law.log_complete((m @ each).astype(np.int32), none) for m in counts])
    ways = [factorial(N) / np.prod([factorial(int(k)) for k in m]) for m in counts]
    weight = np.array(ways) * np.prod(q**counts, axis=1) * np.exp(height - height.max())
    return posterior, law.law, prior, kinds, counts, weight / weight.sum(), q


def odds_of(tiny, drawn, seed=0):
    """What chains of the datasets of these numbers say, shape (n_chains, n_samples)."""
    posterior, law, prior, kinds, counts, _, _ = tiny
    rows = np.array([np.repeat(np.arange(len(kinds)), counts[k]) for k in drawn.ravel()])
    chain = np.repeat(np.arange(len(drawn)), drawn.shape[1])
    samples = replace(
        posterior.samples, atoms=kinds[rows].astype(np.int16), chain=chain, learned=prior,
        log_posterior=np.zeros(len(chain)),
    )  # fmt: skip
    return RowOdds(samples, posterior.geometry, law.offset, law.gain, seed)


def test_odds_are_those_of_exact_bayes(tiny):
    *_, kinds, counts, p, q = tiny
    drawn = np.random.default_rng(0).choice(len(counts), (CHAINS, EACH), p=p)
    exact = p @ counts / (N * q)
    # The evidence tells a lot: the test would not pass by odds of 1.
    assert exact.max() / exact.min() > 5
    assert odds_of(tiny, drawn).of(kinds) == pytest.approx(exact, rel=0.12, abs=0.02)


def test_answers_do_not_depend_on_what_is_asked_beside(tiny):
    *_, kinds, counts, p, _ = tiny
    odds = odds_of(tiny, np.random.default_rng(3).choice(len(counts), (2, 20), p=p))
    together = odds.of(kinds)
    assert [float(odds.of(kinds[[k]])[0]) for k in range(len(kinds))] == pytest.approx(together)
    again = odds_of(tiny, np.random.default_rng(3).choice(len(counts), (2, 20), p=p))
    assert (again.of(kinds) == together).all()


@pytest.fixture(scope="module")
def people():
    """A forest of shallow trees and much noise, its members, and others."""
    rng = np.random.default_rng(6)
    # Columns depend on a class that nobody sees.
    hidden, share = rng.integers(3, size=500), rng.random((3, 24))
    X = pd.DataFrame((rng.random((500, 24)) < share[hidden]).astype(int)).add_prefix("x")
    y = pd.Series((rng.random(500) < rng.random(3)[hidden]).astype(int))
    found = forest_of(
        X[:100], y[:100], treeleak.Schema.from_columns(X.columns), n_estimators=10, max_depth=3,
        epsilon=20.0, classes=(0, 1),
    )  # fmt: skip
    table = X.assign(label=y)
    return found.posterior, (table[:100], table[100:])


@pytest.mark.slow
def test_members_are_told_from_others_better_than_by_counting(people):
    posterior, tables = people
    truth = np.repeat([1, 0], [len(own) for own in tables])

    def area(asked):
        return roc_auc_score(truth, np.concatenate([asked.membership(own, 0.5) for own in tables]))

    assert area(posterior) > area(replace(posterior, odds=None)) + 0.01
