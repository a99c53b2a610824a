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
from sklearn.ensemble import HistGradientBoostingClassifier

import treeleak
from helpers.examples import examples
from helpers.grids import all_points, cuts_for, some_rows
from helpers.noise import noise_drawn
from helpers.releases import counted, counted_as, leaves_of, random_tree, summed
from treeleak.auditing.leave_one_out import informed_audit
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.metrics.individual import find_outliers
from treeleak.metrics.matching import paired_distances
from treeleak.reconstruction.leave_one_out import MissingRow, informed
from treeleak.release.noise.laws import DiscreteLaplace, Gaussian, LabelNoise, Laplace
from treeleak.release.sampling import Bootstrap, Disjoint, UnknownSampling
from treeleak.release.statistics import Statistics
from treeleak.schema import AtMost, Binary, Categorical, OneHot, Ordinal, Schema
from treeleak.side_information.population import Population

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
    likelihood = missing.of_known(missing.points_of(known), label, None)
    if np.isnan(expected).any():
        with pytest.raises(Mismatch):
            missing.posterior(log_prior, likelihood)
        return
    found, bits, n_possible = missing.posterior(log_prior, likelihood)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    some = expected > 0
    if law is None or isinstance(law, LabelNoise):
        assert n_possible == some.sum()
    divergence = (expected[some] * np.log2(expected[some] / np.exp(log_prior[some]))).sum()
    assert bits == pytest.approx(divergence, abs=1e-9)


@examples(40)
@given(st.integers(0, 10_000), st.booleans())
def test_the_answer_is_the_valid_row_of_least_expected_error(seed, ruled):
    rules = [AtMost(("a", "b", "g1"))] if ruled else []
    schema = Schema(MIXED.attributes, rules)
    release, X, y = released(schema, 12, Laplace(0.5), seed)
    missing = MissingRow.of(release, schema)
    density = Population(X, y, {}).fitted(missing.geometry)
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(len(missing.allowed) * 2, 0.05)).reshape(-1, 2)
    posterior[~missing.allowed] = 0
    posterior /= posterior.sum()
    share = missing.shares(density, posterior)
    chosen = missing.answer(share)
    names = list(release.feature_names)
    row = missing.values.rows(chosen[None], len(names))[0]
    every = all_points(schema, names)
    weight = posterior.sum(axis=1)[missing.points_of(every)]

    def expected_error(guess):
        same = pd.DataFrame(np.tile(guess, (len(every), 1)), columns=names)
        distance = paired_distances(same, pd.DataFrame(every, columns=names), schema)
        return weight @ distance.mean(axis=1)

    least = min(expected_error(guess) for guess in every)
    assert schema.valid(row[None], names).all()
    assert expected_error(row) == pytest.approx(least, abs=1e-12)
    # Columns by themselves can only be better, and are where each is the best of its values.
    alone = missing.value_by_value(share)
    assert expected_error(alone) <= least + 1e-12
    for i in range(len(names)):
        other = [alone.copy() for _ in range(3)]
        for guess, value in zip(other, np.unique(every[:, i]), strict=False):
            guess[i] = value
            assert expected_error(alone) <= expected_error(guess) + 1e-12
    sure = missing.sureness(share, chosen)
    np.testing.assert_allclose(sure, weight @ (every == row), atol=1e-12)


def test_leaves_of_very_many_classes_are_refused():
    release, X, y = released(MIXED, 20, None, 0, n_classes=5_000)
    with pytest.raises(NotCovered, match="changes in each leaf has"):
        informed(release, X[1:], y[1:], MIXED)


def full_forest(n_rows, seed, law=None, like=0.0):
    """Trees over all columns of MIXED, deep enough that a row is told exactly, or nearly so."""
    return released(MIXED, n_rows, law, seed, n_trees=20, depth=7, like=like)


@pytest.mark.parametrize("seed", range(5))
def test_exact_counts_tell_the_missing_row_for_certain(seed):
    release, X, y = full_forest(30, seed)
    found = informed(release, X[1:], y[1:], MIXED)
    cell = leaves_of(release, np.vstack([X[:1], found.row.to_numpy()[None]]))
    assert (cell[0] == cell[1]).all()
    assert found.label == y[0]
    assert found.label_confidence == pytest.approx(1.0)
    twins = (leaves_of(release, all_points(MIXED, release.feature_names)) == cell[0]).all(axis=1)
    assert found.status == ("unique" if twins.sum() == 1 else "likely")
    if found.status == "unique":
        assert found.row.tolist() == X[0].tolist()
        assert found.expected_error == 0.0
        assert found.confidence.to_numpy() == pytest.approx(1.0)


def test_a_row_that_is_told_is_unique():
    assert informed(*split(*full_forest(30, 3)), MIXED).status == "unique"


def split(release, X, y):
    return release, X[1:], y[1:]


def test_what_is_only_very_improbable_is_not_excluded():
    release, X, y = full_forest(30, 3)
    trees = tuple(tree.with_counts(totals=None) for tree in release.trees)
    release = replace(release, trees=trees, noise=DiscreteLaplace(500.0))
    found = informed(*split(release, X, y), MIXED)
    assert found.row.tolist() == X[0].tolist()
    assert found.confidence.min() == pytest.approx(1.0)
    assert found.status == "likely"


def test_noise_far_above_every_count_leaves_what_the_known_rows_say():
    release, X, y = full_forest(60, 0, Laplace(1e-6, "towards zero"))
    found = informed(release, X[1:], y[1:], MIXED)
    assert found.bits == pytest.approx(0.0, abs=1e-6)
    assert MIXED.valid(found.row.to_numpy()[None], release.feature_names).all()
    majority = (X[1:].mean(axis=0) > 0.5).astype(float)[[0, 5]]
    assert found.row[["a", "b"]].tolist() == majority.tolist()


@pytest.mark.parametrize("law", [Gaussian(1.5, "nearest"), LabelNoise()])
def test_the_audit_takes_each_row_as_the_missing_one_of_the_others(law):
    release, X, y = full_forest(30, 1, law)
    audit = informed_audit(release, X, y, MIXED, n_targets=5, seed=3)
    assert len(audit.targets) == 5
    for k, line in audit.targets.iterrows():
        others = np.arange(30) != k
        found = informed(release, X[others], y[others], MIXED, seed=3)
        assert line["error"] == pytest.approx((found.row.to_numpy() != X[k]).mean())
        assert line["expected_error"] == pytest.approx(found.expected_error)
        assert line["bits"] == pytest.approx(found.bits)
        assert line["label_right"] == (found.label == y[k])
        assert 0.0 <= line["probability"] <= 1.0


@pytest.mark.slow
def test_the_expected_error_is_the_real_one_on_average():
    errors, expected = [], []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        release, X, y = full_forest(1000, seed, like=0.3)
        law = Laplace(0.5, "towards zero")
        trees = tuple(
            t.with_counts(
                counts=t.counts + np.trunc(rng.laplace(0, 2, t.counts.shape)), totals=None
            )
            for t in release.trees
        )
        release = replace(release, trees=trees, noise=law, n_rows=None)
        audit = informed_audit(release, X, y, MIXED, n_targets=20, seed=seed)
        errors.append(audit.means["error"])
        expected.append(audit.means["expected_error"])
    assert 0.02 < np.mean(errors) < 0.2
    assert np.mean(expected) == pytest.approx(np.mean(errors), rel=0.1)


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
    assert audit.means["error"] < audit.means["majority"] <= audit.means["valid_majority"]
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
    guess, audit = informed(release, X[1:], y[1:], MIXED), informed_audit(release, X, y, MIXED, 3)
    for result, hidden in ((guess, ("row", "label")), (audit, ("targets",))):
        short, long = json.loads(result.to_json()), json.loads(result.to_json(include_rows=True))
        assert short["versions"]["treeleak"]
        assert {k: long[k] for k in short} == short
        assert set(hidden) <= set(long) - set(short)
        FORMAT.validate(short)
        FORMAT.validate(long)
    assert (
        json.loads(audit.to_json(include_rows=True))["targets"][0]["row"] == audit.targets.index[0]
    )
    assert json.loads(audit.to_json())["individual"]["all"]["n_rows"] == 3
    assert json.loads(guess.to_json(include_rows=True))["row"] == guess.row.to_dict()


# ------------------------------------------------------------------------------------- refusals


def test_rows_that_do_not_fit_are_named():
    release, X, y = full_forest(30, 1, Laplace(1.0))
    with pytest.raises(BadInput, match="does not allow row 2 of the training rows"):
        informed(release, np.vstack([X[1:3], np.full(6, 7.0)]), y[:3], MIXED)
    with pytest.raises(Mismatch, match="lack 1 columns of the model: 'b'"):
        informed(release, pd.DataFrame(X, columns=MIXED.columns).drop(columns="b"), y, MIXED)
    with pytest.raises(Mismatch, match="label that the model does not know"):
        informed(release, X, y + 5, MIXED)
    with pytest.raises(BadInput, match="no row is known"):
        informed(release, X[:0], y[:0], MIXED)
    with pytest.raises(BadInput, match="one training row"):
        informed_audit(release, X[:1], y[:1], MIXED)
    with pytest.raises(BadInput, match="n_targets"):
        informed_audit(release, X, y, MIXED, n_targets=0)
    with pytest.raises(Mismatch, match="more than the noise explains"):
        informed_audit(release, np.repeat(X, 9, axis=0), np.repeat(y, 9), MIXED)


def test_counts_that_known_rows_and_one_more_cannot_give_are_a_mismatch():
    release, X, y = full_forest(30, 1)
    with pytest.raises(Mismatch, match="trained on 30 rows; 29 of them are asked for"):
        informed(release, X, y, MIXED)
    loose = replace(release, n_rows=None)
    for rows, label in ((X, y), (X[2:], y[2:]), (X[1:], 1 - y[1:])):
        with pytest.raises(Mismatch, match="no row explains"):
            informed(loose, rows, label, MIXED)
    with pytest.raises(Mismatch, match="cannot give the leaves these"):
        informed_audit(loose, X[1:], y[1:], MIXED)
    # Counts with noise of which the release says nothing.
    noisy_counts = noisy(release, Laplace(1.0, "nearest"), np.random.default_rng(0))
    with pytest.raises(Mismatch, match="its law"):
        informed(replace(noisy_counts, noise=None), X[1:], y[1:], MIXED)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sampling": Disjoint()}, "which tree each known row reached"),
        ({"sampling": Bootstrap(n_draws=30)}, "how often each tree drew"),
        ({"sampling": UnknownSampling()}, "how rows reached the trees"),
        ({"not_covered": "a model of another kind"}, "another kind"),
    ],
)
def test_what_is_not_covered_is_said(change, why):
    release, X, y = full_forest(30, 1)
    with pytest.raises(NotCovered, match=why):
        informed(replace(release, **change), X[1:], y[1:], MIXED)
    with pytest.raises(NotCovered, match="'weights'"):
        informed(counted_as(release, "weights"), X[1:], y[1:], MIXED)


def test_trees_without_classes_are_not_covered():
    release, X, y = full_forest(30, 1)
    bare = replace(release, trees=(release.trees[0].with_counts(counts=None), *release.trees[1:]))
    with pytest.raises(NotCovered, match="tree 0 counts no classes"):
        informed(bare, X[1:], y[1:], MIXED)


def test_the_schema_is_taken_from_the_model_if_none_is_given():
    schema = Schema([Binary("a"), Binary("b")])
    release, X, y = released(schema, 20, None, 0, n_trees=5, cuts=[[0.5], [0.5]])
    found = informed(release, X[1:], y[1:])
    assert found.row.tolist() == X[0].tolist()
    assert "no schema given" in found.notes[0]


def test_a_boosted_model_tells_the_missing_row_by_numbers_of_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (80, 3)).astype(float)
    y = (X[:, 0] + X[:, 1] > 2).astype(int)
    schema = Schema([Ordinal(f"x{i}", 0, 2) for i in range(3)])
    model = HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=3).fit(X, y)
    release = treeleak.release.to_release(model)
    for k in range(0, 80, 7):
        guess = informed(model, np.delete(X, k, axis=0), np.delete(y, k), schema)
        same = np.all(
            [t.apply(guess.row.to_numpy()[None]) == t.apply(X[[k]]) for t in release.trees]
        )
        assert same
        assert guess.bits > 0
    other = np.delete(X, 0, axis=0)
    other[:5] = (other[:5] + 1) % 3
    with pytest.raises(Mismatch):
        informed(model, other, y[1:], schema)


def test_trees_that_count_nothing_tell_nothing_of_a_missing_row():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (60, 3)).astype(float)
    y = (X[:, 0] + X[:, 1] > 2).astype(int)
    schema = Schema([Ordinal(f"x{i}", 0, 2) for i in range(3)])
    whole = treeleak.release.to_release(HistGradientBoostingClassifier(max_iter=4).fit(X, y))
    bare = [replace(tree, statistics=Statistics()) for tree in whole.trees[1:]]
    first = replace(whole, trees=whole.trees[:1])
    partly = replace(whole, trees=(whole.trees[0], *bare))
    bits = [informed(r, X[1:], y[1:], schema).bits for r in (whole, partly, first)]
    assert bits[1] == pytest.approx(bits[2])
    with pytest.raises(NotCovered, match="holds 'none'"):
        informed(replace(whole, trees=tuple(bare), n_rows=None), X[1:], y[1:], schema)
