"""Rows that trees drew without replacement, recomputed as scikit-learn draws them."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
)
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import treeleak
from helpers.examples import examples
from helpers.patient import AMPLE
from helpers.releases import assert_same
from treeleak.attacks.posterior.likelihood import DrawLikelihood
from treeleak.core.errors import BadInput, NotCovered
from treeleak.evidence import HiddenDraws
from treeleak.metrics import reconstruction_error
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.draws.recompute import fitted_rows
from treeleak.release.draws.seeds import known_draws
from treeleak.release.readers.release_file import release_from_dict, release_to_dict
from treeleak.release.sampling import HeldBack, Subsample
from treeleak.schema import Binary, Ordinal, Schema
from treeleak.verification.counts import check_rows

pytestmark = pytest.mark.usefixtures("short_walks_throughout")


def table(seed, n):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, 3)).astype(float), rng.integers(0, 3, n)


@examples(60, fast=8)
@given(st.integers(0, 2**32 - 1))
def test_draws_of_baggings_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 300))
    X, y = table(seed, n)
    few = {
        "n_estimators": 3, "random_state": int(rng.integers(99)),
        "max_samples": int(rng.integers(1, n)), "max_features": int(rng.integers(1, 4)),
        "bootstrap": False,
    }  # fmt: skip
    again = {"bootstrap_features": bool(rng.integers(2))}
    model = (
        BaggingClassifier(DecisionTreeClassifier(max_depth=3), **few, **again),
        BaggingRegressor(DecisionTreeRegressor(max_depth=3), **few, **again),
        IsolationForest(**few),
    )[rng.integers(3)]
    model.fit(X) if isinstance(model, IsolationForest) else model.fit(X, y)
    release = to_release(model)
    assert isinstance(release.sampling, Subsample)
    draws = known_draws(release)
    for own, rows in zip(draws.counts, model.estimators_samples_, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(own), np.sort(rows))
    label = y if release.classes and release.n_classes == 3 else None
    assert check_rows(release, X, label, draws.counts).ok
    # The same from the seed of the whole, where the trees' own were taken out.
    bare = replace(release, sampling=replace(release.sampling, tree_seeds=()))
    np.testing.assert_array_equal(known_draws(bare).counts, draws.counts)
    assert_same(release_from_dict(release_to_dict(release)), release)


@examples(40, fast=5)
@given(st.integers(0, 2**32 - 1))
def test_draws_of_gradient_boosting_meet_every_count(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 90))
    X, y = table(seed, n)
    few = {
        "n_estimators": 4, "random_state": int(rng.integers(99)),
        "subsample": float(rng.uniform(0.2, 0.95)), "max_features": [None, 1][rng.integers(2)],
    }  # fmt: skip
    kind = (GradientBoostingClassifier, GradientBoostingRegressor)[rng.integers(2)]
    release = to_release(kind(**few).fit(X, y))
    low, high = release.sampling.rows_between
    assert low <= n <= high
    assert release.n_rows in (None, n)
    whole = replace(release, n_rows=n)
    assert check_rows(whole, X, None, known_draws(whole).counts).ok
    with pytest.raises(BadInput, match="training rows, not"):
        known_draws(replace(release, n_rows=high + 1))


@examples(60, fast=8)
@given(st.integers(0, 2**32 - 1))
def test_rows_held_back_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    n, share = int(rng.integers(12, 200)), [0.1, 0.25, 7][rng.integers(3)]
    y = rng.integers(0, 3, n)
    y[:6] = [0, 1, 2, 0, 1, 2]
    by_class = bool(rng.integers(2))
    held = HeldBack(int(rng.integers(2**31)), share, by_class)
    options = {"test_size": share, "random_state": held.seed, "stratify": y if by_class else None}
    try:
        expected = train_test_split(np.arange(n), **options)[0]
    except ValueError:
        return
    np.testing.assert_array_equal(fitted_rows(held, n, y), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["histogram", "boosting", "drawn", "regression"])
def test_an_audit_compares_with_the_rows_that_were_fitted(kind):
    X, y = table(1, 240)
    y = np.where(y == 2, 10, y)
    few = {"random_state": 3}
    model = {
        "histogram": HistGradientBoostingClassifier(max_iter=3, early_stopping=True, **few),
        "boosting": GradientBoostingClassifier(n_estimators=3, n_iter_no_change=2, **few),
        "drawn": GradientBoostingClassifier(
            n_estimators=3, n_iter_no_change=2, subsample=0.8, **few
        ),
        "regression": HistGradientBoostingRegressor(max_iter=3, early_stopping=True, **few),
    }[kind].fit(X, y)
    release = to_release(model)
    assert_same(release_from_dict(release_to_dict(release)), release)
    audit = treeleak.audit(model, X, y, time_limit=5)
    assert audit.mismatch is None
    assert len(audit.truth.X) == 216
    assert any("24 of the 240 rows back" in note for note in audit.notes)


def test_what_is_missing_is_named():
    X, y = table(0, 41)
    model = GradientBoostingRegressor(n_estimators=3, subsample=0.5, random_state=0).fit(X, y)
    with pytest.raises(NotCovered, match=r"without replacement.*40 to 41 fit; give it"):
        treeleak.reconstruct(model, time_limit=5)
    assert treeleak.reconstruct(model, time_limit=5, n_rows=41).n_rows == 41
    release = to_release(model)
    odd = replace(release.sampling, rule="another library")
    with pytest.raises(NotCovered, match="which is not known"):
        known_draws(replace(release, sampling=odd, n_rows=41))
    added = replace(release.sampling, hidden="for a reason")
    with pytest.raises(NotCovered, match="for a reason"):
        known_draws(replace(release, sampling=added, n_rows=41))


@examples(60, fast=8)
@given(st.integers(0, 2**32 - 1))
def test_hidden_draws_without_replacement_follow_the_hypergeometric_law(seed):
    rng = np.random.default_rng(seed)
    X, y = table(seed, 12)
    model = GradientBoostingRegressor(n_estimators=3, subsample=0.6, random_state=0).fit(X, y)
    release = to_release(model)
    schema = Schema([Ordinal(f"x{k}", 0, 3) for k in range(3)])
    evidence = HiddenDraws(Geometry.of(release, schema), 12)
    likelihood, off = DrawLikelihood.of(evidence), []
    drawn = evidence.n.ravel()
    for _ in range(5):
        other = X.copy()
        other[rng.random(12) < 0.3] = rng.integers(0, 4, 3)
        leaves = np.column_stack([tree.apply(other.astype(np.float32)) for tree in release.trees])
        held = np.concatenate(
            [np.bincount(leaves[:, t], minlength=tree.n_nodes)[tree.leaves]
             for t, tree in enumerate(release.trees)]
        )  # fmt: skip
        ways = [math.comb(int(a), int(n)) for a, n in zip(held, drawn, strict=True)]
        assert (likelihood.missing(held.astype(np.int32)) == 0) == all(ways)
        if all(ways):
            found = likelihood.log_likelihood(held.astype(np.int32))
            off.append(found - sum(math.log(way) for way in ways))
    np.testing.assert_allclose(off, off[0] if off else 0.0, atol=1e-9)


@pytest.fixture(scope="module")
def drew_some():
    """A model that drew 0.8 of 60 rows for each tree, and its rows."""
    X = np.random.default_rng(0).integers(0, 2, (60, 6)).astype(float)
    y = X @ np.array([1.0, 2.0, -1.5, 0.7, 3.1, -0.4])
    return GradientBoostingRegressor(subsample=0.8, random_state=0).fit(X, y), X


BINARY = Schema([Binary(f"x{k}") for k in range(6)])


@pytest.mark.slow
def test_rows_come_back_where_draws_without_replacement_are_hidden(drew_some):
    model, X = drew_some
    found = treeleak.reconstruct(model, BINARY, bootstrap="hidden", n_rows=60, time_limit=AMPLE)
    assert (found.status, found.evidence) == ("likely", "hidden draws without replacement")
    true = pd.DataFrame(X, columns=list(found.X))
    assert reconstruction_error(found.X, true, BINARY) < 0.05
    seedless = replace(to_release(model).sampling, forest_seed=None)
    silent = replace(to_release(model), sampling=seedless)
    again = treeleak.reconstruct(silent, BINARY, n_rows=60, time_limit=AMPLE)
    assert any("takes the draws as hidden: the seed of the model" in note for note in again.notes)
    pd.testing.assert_frame_equal(again.X, found.X)


def test_fewer_rows_than_a_tree_drew_are_refused(drew_some):
    with pytest.raises(BadInput, match="but tree 0 drew 48 distinct rows"):
        treeleak.reconstruct(drew_some[0], BINARY, bootstrap="hidden", n_rows=47)
