"""The one dataset in the middle of samples, where leaves do not tell values apart."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import treeleak
from helpers.examples import examples
from helpers.patient import AMPLE
from treeleak.attacks.exact.worlds import likely_points, most_in_common
from treeleak.attacks.posterior import bayes_estimate as middles
from treeleak.attacks.samples import Samples
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.errors import PrivacyWarning
from treeleak.learn import DPForestClassifier
from treeleak.metrics import random_baseline, reconstruction_error
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex, values_of
from treeleak.release import to_release
from treeleak.schema import AtMost, Binary, Schema

WIDTH = 10
SCHEMA = Schema([Binary(f"x{a}") for a in range(WIDTH)])


def table(n, seed):
    """Columns of all skews, of which a shallow tree tests a few."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        (rng.random((n, WIDTH)) < np.linspace(0.1, 0.9, WIDTH)).astype(int), columns=SCHEMA.columns
    )
    y = (X.x2 + X.x4 + rng.random(n) > 1.2).astype(int)
    return X, y


def shallow(X, y, seed, depth=2):
    return RandomForestClassifier(1, max_depth=depth, random_state=seed).fit(X, y)


def samples_of(forest, seed=0, n=40, rows=30):
    """Samples in which every atom is as likely as any other."""
    release = to_release(forest)
    geometry = Geometry.of(release, SCHEMA)
    values = values_of(geometry.parts, release.n_classes)
    radix = np.diff(values.atom_start)
    rng = np.random.default_rng(seed)
    atoms = rng.integers(0, radix, size=(n, rows, len(radix))).astype(np.int16)
    prior = TreePrior.flat(radix, values.atom_weights)
    marginal = np.bincount((atoms + values.atom_start[:-1]).ravel(), minlength=values.n_atoms)
    return Samples(values, atoms, np.zeros(n, int), np.zeros(n), values.prior(marginal / n), prior)


@pytest.mark.parametrize("bootstrap", ["hidden", pytest.param("noise", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_one_shallow_tree_is_no_worse_than_a_random_guess(bootstrap):
    errors, guesses = [], []
    for seed in range(4):
        X, y = table(60, seed)
        if bootstrap == "hidden":
            forest = shallow(X, y, seed)
            result = treeleak.reconstruct(forest, SCHEMA, "hidden", AMPLE, seed)
        else:
            with pytest.warns(PrivacyWarning):
                forest = DPForestClassifier(
                    1, 2, 50.0, schema=SCHEMA, classes=[0, 1], random_state=seed
                ).fit(X, y)
            result = treeleak.reconstruct(forest, SCHEMA, n_rows=60, time_limit=AMPLE, seed=seed)
        errors.append(reconstruction_error(result.X, X, SCHEMA))
        guesses.append(random_baseline(X, SCHEMA, 10, seed).mean)
        # One value for all rows, in every column that is not tested, would leave eight at most.
        assert len(result.X.drop_duplicates()) > 8
        assert 0 < result.expected_error < 0.5
    # A constant in eight columns of ten, of mean skew one half, errs by about .4.
    # A neutral prior does not know that ones are rare in columns that no tree tests.
    assert np.mean(errors) < np.mean(guesses) + 0.05 < 0.35


@pytest.mark.slow
def test_rows_differ_only_if_that_is_nearer_to_the_samples(monkeypatch):
    X, y = table(60, 0)
    forest = shallow(X, y, 0)
    found = treeleak.reconstruct(forest, SCHEMA, "hidden", AMPLE, 0)
    far = middles.expected_distance
    asked = []

    def second_is_far(*given, **told):
        asked.append(far(*given, **told))
        return asked[-1] if len(asked) == 1 else np.inf

    monkeypatch.setattr(middles, "expected_distance", second_is_far)
    plain = treeleak.reconstruct(forest, SCHEMA, "hidden", AMPLE, 0)
    assert len(asked) == 2
    assert len(plain.X.drop_duplicates()) < len(found.X.drop_duplicates())
    assert plain.expected_error > found.expected_error


@pytest.mark.slow
def test_a_column_that_may_be_missing_is_as_often_missing_as_before():
    schema = Schema([Binary("x2"), Binary("x4"), Binary("x9", missing=True)])
    X, y = table(200, 3)
    forest = shallow(X[["x2", "x4", "x9"]].assign(x9=0), y, 0)
    result = treeleak.reconstruct(forest, schema, "hidden", AMPLE, 0)
    samples = result.posterior.samples
    values, rng = samples.values, np.random.default_rng(0)
    a = next(a for a, p in enumerate(values.parts) if getattr(p.attribute, "missing", False))
    assert a in values.unsplit_binaries
    share = [
        (samples.draw_values(samples.numbered(k), rng)[:, a] == values.start[a + 1] - 1).mean()
        for k in range(len(samples))
    ]
    prior = samples.value_prior[values.start[a] : values.start[a + 1]]
    assert np.mean(share) == pytest.approx(prior[-1], abs=0.02)


def test_an_untested_column_has_one_share_of_ones_in_a_dataset():
    X, y = table(200, 3)
    samples = samples_of(shallow(X, y, 0), n=30, rows=400)
    values = samples.values
    assert len(values.unsplit_binaries) >= WIDTH - 3
    share, weight = samples._shares
    rng = np.random.default_rng(0)
    seen = []
    for k in range(30):
        drawn = samples.draw_values(samples.numbered(k), rng)
        assert (values.atom_of[drawn] == samples.numbered(k)).all()
        seen += (drawn - values.start[:-1])[:, list(values.unsplit_binaries)].mean(axis=0).tolist()
    mean, spread = share @ weight, np.sqrt(share**2 @ weight - (share @ weight) ** 2)
    assert np.mean(seen) == pytest.approx(mean, abs=0.05)
    assert np.std(seen) == pytest.approx(spread, abs=0.05)


@examples(60, fast=8)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_values_are_drawn_as_their_prior_says(data, seed):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    cut = data.draw(st.integers(1, len(sizes) - 1))
    atom_of = np.repeat(np.arange(len(sizes)), sizes)
    start = np.array([0, sum(sizes[:cut]), sum(sizes)])
    values = ValueIndex((), start, np.array([0, cut, len(sizes)]), atom_of)
    rng = np.random.default_rng(seed)
    weight = rng.random(len(atom_of)) * (rng.random(len(atom_of)) < 0.7)
    weight[np.searchsorted(atom_of, np.arange(len(sizes)))] += 0.1
    prior = weight / np.bincount(atom_of, weight)[atom_of]
    atoms = np.column_stack([rng.integers(0, cut, 3000), rng.integers(cut, len(sizes), 3000)])
    for lines in (prior[None, :], np.repeat(prior[None, :], len(atoms), axis=0)):
        drawn = values.draw(atoms, lines, rng)
        assert (values.atom_of[drawn] == atoms).all()
        assert (prior[drawn] > 0).all()
        held = np.bincount(drawn.ravel(), minlength=len(prior))
        n = np.bincount(atoms.ravel(), minlength=len(sizes))[atom_of]
        spread = np.sqrt(n * prior * (1 - prior)) + 1e-9
        assert (np.abs(held - n * prior) <= 6 * spread).all()


@pytest.mark.slow
def test_rows_keep_to_rules_where_values_are_drawn():
    X, y = table(40, 5)
    members = ("x5", "x6", "x7")
    X.loc[X[list(members)].sum(axis=1) > 1, list(members)] = 0
    schema = Schema(SCHEMA.attributes, rules=[AtMost(members)])
    result = treeleak.reconstruct(shallow(X, y, 0), schema, "hidden", AMPLE, 0)
    assert schema.valid(result.X.to_numpy(float), list(X)).all()
    assert result.X.drop(columns=list(members)).drop_duplicates().shape[0] > 8


# ------------------------------------------------------------------------------- points of a cell


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4), st.integers(0, 5), st.integers(0, 3))
def test_rows_stand_where_most_are_expected_to_be_right(weight, m, elsewhere):
    cell = np.array([0] * len(weight) + [1])
    points = most_in_common(cell, np.array([*weight, 2.0]), np.array([m, elsewhere]))
    held = np.bincount(points, minlength=len(cell))
    assert held[-1] == elsewhere
    assert held[:-1].sum() == m
    p = np.array(weight) / np.sum(weight)

    def expected(own):
        return sum(binom.sf(np.arange(h), m, q).sum() for h, q in zip(own, p, strict=True))

    every = (
        np.bincount(np.array(chosen, dtype=int), minlength=len(p))
        for chosen in combinations_with_replacement(range(len(p)), m)
    )
    assert expected(held[:-1]) == pytest.approx(max(map(expected, every)))


def test_points_are_likely_that_resemble_the_rows_of_other_cells():
    """Where the third column is 0, rows tell that the first two are alike; elsewhere, nothing."""
    grid = np.array(list(product([0, 1], repeat=3)))
    model = GradientBoostingClassifier(max_depth=3, n_estimators=1).fit(grid, grid.sum(1) % 2)
    schema = treeleak.Schema([treeleak.Binary(f"x{i}") for i in range(3)])
    values = values_of(Geometry.of(to_release(model), schema).parts, 1)
    atoms = np.column_stack([grid, np.zeros(8, dtype=np.int64)]) + values.atom_start[:-1]
    cell = np.where(grid[:, 2] == 0, 2 * grid[:, 0] + grid[:, 1], 4 + grid[:, 0])
    m = np.array([100, 0, 0, 100, 50, 50])
    share = np.exp(likely_points(atoms, cell, m, values))
    share /= np.bincount(cell, share)[cell]
    alike = grid[:, 0] == grid[:, 1]
    assert (share[alike & (grid[:, 2] == 1)] > 0.95).all()
    points = most_in_common(cell, share, m)
    assert alike[points].mean() > 0.97
