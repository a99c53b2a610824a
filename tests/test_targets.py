"""Targets of regression: from sums over leaves to single targets, and how sure they are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

import treeleak
from helpers.examples import examples
from helpers.patient import AMPLE
from treeleak.attacks.targets import narrowed, solve
from treeleak.reconstruction.targets import (
    CONTRADICTED,
    OFFSETS,
    targets_of,
)
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Binary, Schema

SEEDS = st.integers(0, 2**32 - 1)


def some_table(rng, n, levels=None):
    """Rows, some of them alike, and targets of any size."""
    levels = levels or int(rng.integers(2, 12))
    X = rng.integers(0, levels, (n, int(rng.integers(2, 7)))).astype(float)
    y = X @ rng.normal(size=X.shape[1]) + rng.random() * rng.normal(size=n)
    return X, 10.0 ** rng.integers(-3, 5) * (y + rng.choice([0, 0, 30]))


def of_scikit_learn(rng):
    few = {"random_state": int(rng.integers(99))}
    leaf = {"min_samples_leaf": int(rng.integers(1, 8))}
    return (
        DecisionTreeRegressor(max_depth=3, **few),
        ExtraTreesRegressor(9, **few, **leaf),
        RandomForestRegressor(9, **few, **leaf),
        GradientBoostingRegressor(n_estimators=12, subsample=rng.choice([1.0, 0.7]), **few, **leaf),
        HistGradientBoostingRegressor(
            max_iter=12, learning_rate=0.3, l2_regularization=rng.choice([0.0, 2.0]), **leaf
        ),
    )[rng.integers(5)]


def drawn(release, n):
    """The release with the number of its rows, and its draws."""
    if release.sampling.kind not in ("bootstrap", "subsample"):
        return release, None
    release = replace(release, n_rows=n)
    return release, known_draws(release).counts


def hold(found, y):
    """Look whether what is told is right, and nothing rules out the truth; give what is told."""
    told = found.sure > 0
    assert (found.low <= y).all()
    assert (y <= found.high).all()
    assert (found.low <= found.values).all()
    assert (found.values <= found.high).all()
    np.testing.assert_allclose(found.values[told], y[told], atol=2e-4 * np.ptp(y), rtol=1e-6)
    assert set(found.notes) <= {OFFSETS}
    return told


def hold_or_none(found, release, y):
    """The same, where single leaves may say nothing."""
    if found is None:
        # A few splits do not give XGBoost's learning rate away.
        unknown = release.ensemble is not None and release.ensemble.fitting is None
        assert unknown or all(tree.n_nodes == 1 for tree in release.trees)
        return None
    return hold(found, y)


@examples(300, fast=12)
@given(SEEDS)
@example(422)  # a variance is as rough as the sums of squares of the parent
def test_targets_of_the_true_rows_are_right_or_open(seed):
    rng = np.random.default_rng(seed)
    X, y = some_table(rng, int(rng.integers(8, 60)))
    release, draws = drawn(to_release(of_scikit_learn(rng).fit(X, y)), len(X))
    found = targets_of(release, X, np.ones(len(X), dtype=bool), draws)
    hold_or_none(found, release, y)


@examples(60, fast=4)
@given(SEEDS)
def test_other_rows_contradict_the_sums_and_only_proved_rows_are_told(seed):
    rng = np.random.default_rng(seed)
    n = 40
    X, y = rng.random((n, 4)), rng.normal(size=n)
    model = HistGradientBoostingRegressor(min_samples_leaf=2, max_iter=40).fit(X, y)
    release = to_release(model)
    wrong, proved = X.copy(), np.arange(n) >= 5
    wrong[:5] = rng.random((5, 4))
    found = targets_of(release, wrong, proved)
    assert found is None or found.notes == (CONTRADICTED,)
    if found is not None:
        assert (found.sure[~proved] == 0).all()
        told = found.sure > 0
        np.testing.assert_allclose(found.values[told], y[told], atol=1e-4)
        assert (found.low[proved] <= y[proved]).all()
        assert (y <= found.high).all()


def test_leaves_that_were_fitted_otherwise_are_not_believed():
    rng = np.random.default_rng(0)
    X, y = rng.random((50, 3)), rng.normal(size=50)
    proved = np.ones(50, dtype=bool)
    weighted = HistGradientBoostingRegressor(min_samples_leaf=3, max_iter=30)
    weighted.fit(X, y, sample_weight=rng.random(50) + 0.5)
    clipped = HistGradientBoostingRegressor(
        min_samples_leaf=3, max_iter=30, monotonic_cst=[1, -1, 1]
    ).fit(X, y)
    for model in (weighted, clipped):
        found = targets_of(to_release(model), X, proved)
        assert found is None or (found.notes == (CONTRADICTED,) and not found.sure.any())
    for model in (
        HistGradientBoostingRegressor(loss="absolute_error", max_iter=5),
        HistGradientBoostingRegressor(loss="poisson", max_iter=5),
        GradientBoostingRegressor(loss="huber", n_estimators=5),
    ):
        assert to_release(model.fit(X, np.abs(y))).ensemble.fitting is None


@pytest.mark.parametrize("leaf", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_sums_of_targets_tell_rows_that_counts_leave_open(leaf):
    rng = np.random.default_rng(0)
    X = np.array([[i >> k & 1 for k in range(6)] for i in rng.integers(0, 64, 50)])
    y = X @ rng.normal(size=6) + 0.5 * rng.normal(size=50)
    model = HistGradientBoostingRegressor(min_samples_leaf=leaf, max_iter=60).fit(X, y)
    schema, release = Schema([Binary(f"x{i}") for i in range(6)]), to_release(model)
    alone = replace(release, ensemble=replace(release.ensemble, fitting=None))
    by_counts = treeleak.reconstruct(alone, schema, time_limit=AMPLE)
    found = treeleak.reconstruct(release, schema, time_limit=AMPLE)

    def right(answer):
        rows = Counter(map(tuple, answer.X.to_numpy().tolist()))
        return (rows & Counter(map(tuple, X.tolist()))).total()

    assert by_counts.status == found.status == "feasible"
    assert right(by_counts) < right(found) == 50
    assert found.notes.count(CONTRADICTED) == 0
    # Only counts prove, and the other answer meets them all: it has each proved row as well.
    proved, other = (
        Counter(map(tuple, rows.to_numpy().tolist()))
        for rows in (found.X[found.proved.to_numpy()], by_counts.X)
    )
    assert proved <= other
    assert proved.total()
    right_targets = {tuple(row): value for row, value in zip(X.tolist(), y, strict=True)}
    told = found.outcomes.notna()
    for row, value in zip(found.X[told].to_numpy().tolist(), found.y[told], strict=True):
        assert value == pytest.approx(right_targets[tuple(row)], abs=1e-4)
    assert told.sum() >= 10


def of_library(name, rng):
    """A model of another library, of random options."""
    library = pytest.importorskip(name, reason=f"needs {name}: pip install 'treeleak[{name}]'")
    rate, leaf = float(rng.choice([0.1, 0.3, 0.37])), int(rng.integers(1, 6))
    l2, depth = float(rng.choice([0.0, 1.0, 2.5])), int(rng.integers(2, 6))
    few = {"learning_rate": rate, "max_depth": depth}
    if name == "xgboost":
        more = [{}, {"base_score": 0.5}, {"gamma": 0.2}, {"tree_method": "exact"}]
        more += [{"colsample_bytree": 0.5}, {"num_parallel_tree": 1, "grow_policy": "lossguide"}]
        return library.XGBRegressor(
            n_estimators=30, n_jobs=1, reg_lambda=l2, min_child_weight=leaf, **few,
            **rng.choice(more),
        )  # fmt: skip
    if name == "lightgbm":
        return library.LGBMRegressor(
            n_estimators=30, n_jobs=1, verbose=-1, reg_lambda=l2, min_child_samples=leaf,
            max_bin=int(rng.choice([15, 255])), **few,
        )  # fmt: skip
    more = [{}, {"grow_policy": "Depthwise", "min_data_in_leaf": leaf}, {"score_function": "L2"}]
    return library.CatBoostRegressor(
        iterations=30, verbose=0, thread_count=1, allow_writing_files=False, l2_leaf_reg=l2,
        **few, **rng.choice([*more, {"bootstrap_type": "Bernoulli", "subsample": 0.5}]),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
@examples(150, fast=8)
@given(SEEDS)
def test_targets_of_the_true_rows_are_right_or_open_in_other_libraries(name, seed):
    rng = np.random.default_rng(seed)
    model = of_library(name, rng)
    X, y = some_table(rng, int(rng.integers(40, 90)))
    release = to_release(model.fit(X, y))
    told = hold_or_none(targets_of(release, X, np.ones(len(X), dtype=bool)), release, y)
    if told is not None and len(np.unique(X, axis=0)) < len(X):
        assert not told.all() or release.ensemble is None


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_options_that_bend_leaves_are_noticed(name):
    library = pytest.importorskip(name)
    rng = np.random.default_rng(1)
    X, y = rng.random((80, 3)), rng.normal(size=80)
    quiet = {"n_jobs": 1, **({"verbose": -1} if name == "lightgbm" else {})}
    kind = library.XGBRegressor if name == "xgboost" else library.LGBMRegressor
    for bent in (
        {"reg_alpha": 1.0}, {"max_delta_step": 0.05}, {"monotone_constraints": (1, -1, 1)},
        {"objective": "huber" if name == "lightgbm" else "reg:pseudohubererror"},
    ):  # fmt: skip
        release = to_release(kind(**quiet, **bent).fit(X, y))
        found = targets_of(release, X, np.ones(80, dtype=bool))
        assert found is None or (found.notes == (CONTRADICTED,) and not found.sure.any())
    weighted = to_release(kind(**quiet).fit(X, y, sample_weight=rng.random(80) + 0.5))
    found = targets_of(weighted, X, np.ones(80, dtype=bool))
    assert weighted.not_covered or found is None or found.notes == (CONTRADICTED,)


# --------------------------------------------------------------------------------- the solver


@examples(400, fast=30)
@given(SEEDS)
def test_intervals_hold_every_truth_and_told_ones_are_those_that_sums_determine(seed):
    rng = np.random.default_rng(seed)
    n, n_sums = int(rng.integers(1, 9)), int(rng.integers(1, 14))
    A = rng.integers(0, 3, (n_sums, n)) * (rng.random((n_sums, n)) < 0.6)
    y = rng.normal(size=n) * 10.0 ** rng.integers(-2, 3)
    spread = np.ptp(y) + 1e-3
    off = 10.0 ** rng.uniform(-12, -6, n_sums) * spread
    right = A @ y + off * rng.uniform(-1, 1, n_sums)
    low, high = np.full((2, n), [[-np.inf], [np.inf]])
    some = rng.random(n) < 0.2
    low[some], high[some] = y[some] - rng.random(some.sum()), y[some] + 0.1
    times, about = csr_array(A.astype(float)), np.zeros(n)
    found = solve(times, right, off, low.copy(), high.copy(), about, spread)
    assert found.met
    assert (found.low <= y).all()
    assert (y <= found.high).all()
    one, other = narrowed(times, right, off, low, high)
    assert (one <= y).all()
    assert (y <= other).all()
    # Determined by the sums alone: in no direction that all of them leave open.
    _, s, Vt = np.linalg.svd(A)
    free = Vt[(s > 1e-9).sum() :]
    fixed = (np.abs(free) < 1e-9).all(axis=0)
    width = found.high - found.low
    assert (width[fixed] <= 1e-2 * spread).all()
    # Another truth as good, along an open direction, is not ruled out either.
    bare = solve(times, right, off, np.full(n, -np.inf), np.full(n, np.inf), about, spread)
    assert np.isinf(bare.high - bare.low)[~fixed].all()
