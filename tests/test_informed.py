"""The informed adversary against enumeration of every row that could be the missing one."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from importlib import resources

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treeleak
from helpers.examples import examples
from helpers.grids import all_points, cuts_for, some_rows
from helpers.noise import noise_drawn
from helpers.releases import counted, counted_as, leaves_of, random_tree, summed
from treeleak.auditing.leave_one_out import MissingRow, informed_audit
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.metrics.individual import find_outliers
from treeleak.metrics.matching import paired_distances
from treeleak.release.noise.laws import DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.sampling import Bootstrap, Disjoint, UnknownSampling
from treeleak.schema import AtMost, Binary, Categorical, OneHot, Schema

FORMAT = jsonschema.Draft202012Validator(
    json.loads(resources.files("treeleak").joinpath("formats", "informed.schema.json").read_text())
)
LAWS = [
    None,
    DiscreteLaplace(0.7),
    Laplace(0.4, "towards zero"),
    Laplace(2.0),
    Laplace(1.0, "nearest"),
    Gaussian(1.5),
    Gaussian(0.8, "nearest"),
    LabelNoise(),
    LabelNoise("permute-and-flip", 0.6),
    LabelNoise("exponential", 0.6),
]
MIXED = Schema(
    [Binary("a"), OneHot("g", ("g1", "g2", "g3")), Categorical("c", (1.0, 4.0, 6.0)), Binary("b")]
)


def released(schema, n_rows, law, seed, *, n_trees=3, depth=3, n_classes=2, cuts=None, like=0.0):
    """A forest of random trees, the rows that it counts, and its release with noise."""
    rng = np.random.default_rng(seed)
    names = list(schema.columns)
    X = some_rows(schema, names, n_rows, rng)
    # Most rows are alike, as in life.
    X = np.where(rng.random((n_rows, 1)) < like, X[:1], X)
    y = rng.integers(n_classes, size=n_rows)
    own = cuts_for(schema, names) if cuts is None else cuts
    trees = [random_tree(rng, own, depth) for _ in range(n_trees)]
    plain = counted(trees, names, X, y, n_classes, float_type="float64")
    return noisy(plain, law, rng), X, y


def noisy(plain, law, rng):
    if law is None:
        return plain
    trees = []
    for tree in plain.trees:
        n = tree.counts.copy()
        if isinstance(law, LabelNoise):
            best = n == n.max(axis=1, keepdims=True)
            n = np.eye(n.shape[1])[np.where(best, rng.random(n.shape) + 1, 0).argmax(axis=1)]
        else:
            n += noise_drawn(law, n.shape, rng)
        trees.append(tree.with_counts(counts=n, totals=None))
    counts_are = "labels" if isinstance(law, LabelNoise) else "rows"
    return counted_as(replace(plain, trees=tuple(trees), noise=law, n_rows=None), counts_are)


def log_said(release, X, y):
    """Log probability of everything that the leaves say, leaf by leaf, for a whole dataset."""
    law, total = release.noise, 0.0
    one = np.eye(release.n_classes)[y]
    for t, tree in enumerate(release.trees):
        held = summed(tree, leaves_of(release, X)[:, t], one)
        for v in np.flatnonzero(tree.left < 0):
            if law is None:
                total += 0.0 if (tree.counts[v] == held[v]).all() else -np.inf
            elif isinstance(law, LabelNoise):
                total += np.log(chance_named(law, held[v])[tree.counts[v].argmax()])
            else:
                total += sum(
                    law.log_prob(tree.counts[v, c] - held[v, c]) for c in range(len(one[0]))
                )
    return float(total)


def chance_named(law, held):
    """Probability that a leaf names each class, from the rule's own words."""
    out = np.zeros(len(held))
    if law.rule == "exponential":
        weight = np.exp(law.scale * held)
        return np.maximum(weight / weight.sum(), 1e-300)
    orders = list(itertools.permutations(range(len(held))))
    for order in orders:
        left = 1.0
        for c in order:
            behind = held[c] - held.max()
            take = float(behind == 0) if law.rule == "majority" else np.exp(law.scale * behind)
            out[c] += left * take / len(orders)
            left *= 1 - take
    with np.errstate(divide="ignore"):
        return out


@pytest.mark.parametrize("law", [law for law in LAWS if isinstance(law, LabelNoise)])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_a_leaf_names_each_class_as_often_as_the_rule_says(law, n_classes):
    held = np.random.default_rng(1).integers(0, 5, size=(20, n_classes))
    found = np.exp(law.log_prob(held))
    np.testing.assert_allclose(found, [chance_named(law, row) for row in held], atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@examples(60, fast=8)
@given(st.sampled_from(LAWS), st.integers(0, 10_000), st.integers(2, 3), st.booleans())
def test_the_posterior_is_that_of_enumeration(law, seed, n_classes, ruled):
    rules = [AtMost(("a", "b"))] if ruled else []
    schema = Schema(MIXED.attributes, rules)
    release, X, y = released(schema, 7, law, seed, n_classes=n_classes)
    known, label = X[1:], y[1:]
    missing = MissingRow.of(release, schema)
    rng = np.random.default_rng(seed)
    log_prior = np.log(rng.dirichlet(np.ones(len(missing.allowed) * n_classes)))
    log_prior = log_prior.reshape(-1, n_classes)
    log_prior[~missing.allowed] = -np.inf
    log_prior -= np.logaddexp.reduce(log_prior.ravel())
    everything = all_points(schema, release.feature_names)
    at = missing.points_of(everything)
    assert sorted(at) == np.flatnonzero(missing.allowed).tolist()
    expected = np.full(log_prior.shape, -np.inf)
    with np.errstate(divide="ignore"):
        for point, row in zip(at, everything, strict=True):
            for c in range(n_classes):
                said = log_said(release, np.vstack([known, row]), np.append(label, c))
                expected[point, c] = log_prior[point, c] + said
    expected = np.exp(expected - expected.max())
    expected /= expected.sum()
    likelihood = missing.likelihood(missing.points_of(known), label)
    if np.isnan(expected).any():
        with pytest.raises(Mismatch):
            missing.posterior(log_prior, likelihood)
        return
    found, bits = missing.posterior(log_prior, likelihood)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    some = expected > 0
    divergence = (expected[some] * np.log2(expected[some] / np.exp(log_prior[some]))).sum()
    assert bits == pytest.approx(divergence, abs=1e-9)


@examples(40)
@given(st.integers(0, 10_000), st.booleans())
def test_the_answer_is_the_valid_row_of_least_expected_error(seed, ruled):
    rules = [AtMost(("a", "b", "g1"))] if ruled else []
    schema = Schema(MIXED.attributes, rules)
    release, _, _ = released(schema, 12, Laplace(0.5), seed)
    missing = MissingRow.of(release, schema)
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(len(missing.allowed) * 2, 0.05)).reshape(-1, 2)
    posterior[~missing.allowed] = 0
    posterior /= posterior.sum()
    row = missing.answer(missing.shares(posterior))
    names = list(release.feature_names)
    every = all_points(schema, names)
    weight = posterior.sum(axis=1)[missing.points_of(every)]

    def expected_error(guess):
        same = pd.DataFrame(np.tile(guess, (len(every), 1)), columns=names)
        distance = paired_distances(same, pd.DataFrame(every, columns=names), schema)
        return weight @ distance.mean(axis=1)

    least = min(expected_error(guess) for guess in every)
    assert schema.valid(row[None], names).all()
    assert expected_error(row) == pytest.approx(least, abs=1e-12)


def test_leaves_of_very_many_classes_are_refused():
    release, X, y = released(MIXED, 20, None, 0, n_classes=5_000)
    with pytest.raises(NotCovered, match="changes in each leaf has"):
        informed_audit(release, X, y, MIXED)


def full_forest(n_rows, seed, law=None, like=0.0):
    """Trees over all columns of MIXED, deep enough that a row is told exactly, or nearly so."""
    return released(MIXED, n_rows, law, seed, n_trees=20, depth=7, like=like)


@pytest.mark.parametrize("seed", range(5))
def test_exact_counts_tell_the_missing_row_for_certain(seed):
    release, X, y = full_forest(30, seed)
    every = all_points(MIXED, release.feature_names)
    leaves = leaves_of(release, every)
    for k, line in informed_audit(release, X, y, MIXED, n_targets=5, seed=seed).targets.iterrows():
        twins = every[(leaves == leaves_of(release, X[[k]])[0]).all(axis=1)]
        if len(twins) == 1:
            assert line["probability"] == pytest.approx(1.0)
            assert line["error"] == 0.0
        assert line["error"] <= (twins != X[k]).mean(axis=1).max() < 1.0


@pytest.mark.slow
def test_errors_are_those_of_the_targets_and_the_baseline_that_of_the_majority():
    release, X, y = full_forest(200, 4, Laplace(0.8), like=0.8)
    audit = treeleak.informed_audit(release, X, y, MIXED, n_targets=60, seed=1)
    table, told = audit.targets, audit.individual
    assert told.all.n_rows == 60 == len(set(table.index))
    assert told.inliers.n_rows > 0 < told.outliers.n_rows
    assert (table["outlier"] == find_outliers(pd.DataFrame(X), 1)[table.index]).all()
    assert audit.means["error"] == pytest.approx(told.all.error) == table["error"].mean()
    best = X.mean(axis=0) > 0.5
    wrong = (best != X[table.index])[:, [0, 1, 2, 3, 5]].sum()
    wrong += (mode(X[:, 4]) != X[table.index, 4]).sum()
    assert audit.means["majority"] == pytest.approx(wrong / 6 / 60)
    assert audit.means["error"] < audit.means["majority"]
    again = informed_audit(release, X, y, MIXED, n_targets=60, seed=1)
    pd.testing.assert_frame_equal(again.targets, table)


def mode(x):
    values, n = np.unique(x, return_counts=True)
    return values[n.argmax()]


def test_all_rows_are_targets_where_no_more_are_asked_for():
    release, X, y = full_forest(12, 0, Laplace(1.0))
    audit = informed_audit(release, X, y, MIXED, n_targets=100)
    assert sorted(audit.targets.index) == list(range(12))


def test_results_are_written_without_rows_unless_they_are_asked_for():
    release, X, y = full_forest(30, 1, Laplace(1.0))
    audit = informed_audit(release, X, y, MIXED, 3)
    short, long = json.loads(audit.to_json()), json.loads(audit.to_json(include_rows=True))
    assert short["versions"]["treeleak"]
    assert {k: long[k] for k in short} == short
    assert set(long) - set(short) == {"targets"}
    FORMAT.validate(short)
    FORMAT.validate(long)
    assert long["targets"][0]["row"] == audit.targets.index[0]
    assert short["individual"]["all"]["n_rows"] == 3


# ------------------------------------------------------------------------------------- refusals


def test_rows_that_do_not_fit_are_named():
    release, X, y = full_forest(30, 1, Laplace(1.0))
    wrong = np.vstack([X[1:3], np.full(6, 7.0), X[4:]])
    with pytest.raises(BadInput, match="does not allow row 2 of the training rows"):
        informed_audit(release, wrong, y[1:], MIXED)
    with pytest.raises(Mismatch, match="lack 1 columns of the model: 'b'"):
        informed_audit(release, pd.DataFrame(X, columns=MIXED.columns).drop(columns="b"), y, MIXED)
    with pytest.raises(Mismatch, match="label that the model does not know"):
        informed_audit(release, X, y + 5, MIXED)
    with pytest.raises(BadInput, match="two training rows or more"):
        informed_audit(release, X[:1], y[:1], MIXED)
    with pytest.raises(BadInput, match="n_targets"):
        informed_audit(release, X, y, MIXED, n_targets=0)
    with pytest.raises(Mismatch, match="noise does not explain"):
        informed_audit(release, np.repeat(X, 9, axis=0), np.repeat(y, 9), MIXED)


def test_counts_that_these_rows_cannot_give_are_a_mismatch():
    release, X, y = full_forest(30, 1)
    with pytest.raises(Mismatch, match="trained on 30 rows, these are 29"):
        informed_audit(release, X[1:], y[1:], MIXED)
    loose = replace(release, n_rows=None)
    for rows, label in ((X[1:], y[1:]), (X, 1 - y)):
        with pytest.raises(Mismatch, match="cannot give the leaves these"):
            informed_audit(loose, rows, label, MIXED)
    missing = MissingRow.of(loose, MIXED)
    prior = np.log(np.full((len(missing.allowed), 2), 0.5 / len(missing.allowed)))
    with pytest.raises(Mismatch, match="no row explains"):
        missing.posterior(prior, missing.likelihood(missing.points_of(X[2:]), y[2:]))
    # Counts with noise of which the release says nothing.
    noisy_counts = noisy(release, Laplace(1.0, "nearest"), np.random.default_rng(0))
    with pytest.raises(Mismatch, match="cannot give"):
        informed_audit(replace(noisy_counts, noise=None), X, y, MIXED)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sampling": Disjoint()}, "which tree each known row reached"),
        ({"sampling": Bootstrap(n_draws=30)}, "each tree drew rows"),
        ({"sampling": UnknownSampling()}, "how rows reached the trees"),
        ({"not_covered": "a model of another kind"}, "another kind"),
    ],
)
def test_what_is_not_covered_is_said(change, why):
    release, X, y = full_forest(30, 1)
    with pytest.raises(NotCovered, match=why):
        informed_audit(replace(release, **change), X, y, MIXED)
    with pytest.raises(NotCovered, match="'weights'"):
        informed_audit(counted_as(release, "weights"), X, y, MIXED)


def test_trees_without_classes_are_not_covered():
    release, X, y = full_forest(30, 1)
    bare = replace(release, trees=(release.trees[0].with_counts(counts=None), *release.trees[1:]))
    with pytest.raises(NotCovered, match="tree 0 counts no classes"):
        informed_audit(bare, X, y, MIXED)


def test_the_schema_is_taken_from_the_model_if_none_is_given():
    schema = Schema([Binary("a"), Binary("b")])
    release, X, y = released(schema, 20, None, 0, n_trees=5, cuts=[[0.5], [0.5]])
    found = informed_audit(release, X, y, n_targets=3)
    assert found.means["error"] == 0.0
    assert "no schema given" in found.notes[0]
