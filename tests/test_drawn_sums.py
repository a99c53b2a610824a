"""Sums of the loss over rows that trees drew: what the libraries add up, the dual, and the rows."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import treeleak
from helpers.patient import AMPLE
from treeleak.attacks.known_draws.particles import by_particles
from treeleak.attacks.known_draws.sums_dual import Candidates, Dual
from treeleak.core.clock import Clock
from treeleak.core.parallel import Pool
from treeleak.evidence import DrawnLossSums, SamplingAssumptions
from treeleak.partition import Geometry, enumerate_cells
from treeleak.partition.value_index import values_in
from treeleak.release import to_release
from treeleak.release.draws.boosters import SeveralNumbers
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Binary, Numeric, Schema

LIBRARIES = {
    name: pytest.param(name, marks=pytest.mark.skipif(absent, reason=f"needs {name}"))
    for name in ("sklearn", "xgboost", "lightgbm")
    for absent in [importlib.util.find_spec(name) is None]
}


def table(n_rows, seed, n_columns=7):
    rng = np.random.default_rng(seed)
    X = (rng.random((n_rows, n_columns)) < rng.uniform(0.2, 0.8, n_columns)).astype(int)
    y = (X @ rng.normal(size=n_columns) + rng.normal(size=n_rows) > 0).astype(int)
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(n_columns)]), pd.Series(y)


def fitted(library, X, y, **settings):
    if library == "sklearn":
        known = {k: v for k, v in settings.items() if k in ("n_estimators", "learning_rate")}
        model = GradientBoostingClassifier(subsample=0.8, random_state=0, **known)
    elif library == "xgboost":
        import xgboost

        settings.pop("class_weight", None)
        model = xgboost.XGBClassifier(subsample=0.8, random_state=0, n_jobs=1, **settings)
    else:
        import lightgbm

        model = lightgbm.LGBMClassifier(
            subsample=0.8, subsample_freq=1, random_state=0, n_jobs=1, verbose=-1,
            min_child_samples=5, **settings,
        )  # fmt: skip
    return model.fit(X, y)


def drawn(library, X, y, **settings):
    """The evidence of a model, and its cells."""
    model = fitted(library, X, y, **settings)
    release = replace(to_release(model), n_rows=len(X))
    draws = known_draws(release).counts
    make = DrawnLossSums.fitting(SamplingAssumptions(release, draws=draws))
    assert make is not None
    evidence = make(Geometry.of(release, Schema([Binary(c) for c in X])))
    return model, evidence, enumerate_cells(evidence.geometry, evidence.open_leaves())


def leaves(evidence, X):
    """Leaf (row of A) of each row in each tree."""
    release, node = evidence.geometry.release, None
    node = release.leaves(X.to_numpy(float))
    out = np.empty(node.shape, dtype=np.int64)
    for t, (tree, start) in enumerate(
        zip(release.trees, evidence.geometry.leaf_start, strict=False)
    ):
        out[:, t] = start + np.searchsorted(tree.leaves, node[:, t])
    return out


def a_dual():
    """A dual over all kinds, multipliers, and the probabilities of all kinds of all rows."""
    X, y = table(60, 0, 5)
    _, evidence, cells = drawn("sklearn", X, y, n_estimators=6)
    dual = Dual.of(evidence, cells)
    x = 3.0 * np.random.default_rng(1).normal(size=len(dual.right))
    score = dual.draws.astype(float) @ dual.scores(x).T.astype(float)
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    log_z = np.log(weight.sum(axis=1)) + score.max(axis=1)
    return dual, x, weight / weight.sum(axis=1, keepdims=True), log_z


@pytest.mark.parametrize("listed", [False, True])
def test_the_dual_is_the_same_over_all_kinds_and_over_lists_of_them(listed, monkeypatch):
    monkeypatch.setattr("treeleak.attacks.known_draws.sums_dual._TILE", 300)
    dual, x, u, log_z = a_dual()
    if listed:
        row, kind = np.nonzero(np.ones_like(u))
        dual = dual.among(Candidates.of(row, kind, len(u)))
    with Pool() as pool:
        look = dual.look(x, pool)
    assert look.value == pytest.approx(log_z.sum() - x @ dual.right, rel=1e-4)
    np.testing.assert_allclose(look.mass, u.sum(axis=0), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(u[np.arange(len(u)), look.best], u.max(axis=1), rtol=1e-4)
    # What leaves are expected to hold is the gradient of the logs of normalisers.
    leaf, n = dual.leaf, len(dual.cell)
    for expected, sums, counts in zip(
        dual.split(look.expected), dual.sums, dual.counts, strict=True
    ):
        drew = u.T @ dual.draws
        each = np.bincount(np.tile(leaf, (u.shape[1] // n, 1)).ravel(), (drew * counts).ravel(),
                           dual.n_leaves)  # fmt: skip
        np.testing.assert_allclose(expected, sums.of_statements(each), rtol=1e-3, atol=1e-4)


def test_kinds_that_are_left_out_add_up_to_no_more_rows_than_allowed():
    dual, x, u, _ = a_dual()
    for lost in (0.001, 0.1, 5.0):
        kinds, share = dual.likely(x, lost, 10**6)
        assert len(u) - share.sum() <= lost + 1e-3
        assert len(share) < u.size
        np.testing.assert_allclose(share, u[kinds.row, kinds.kind], rtol=1e-3)
        again, _ = dual.among(kinds).likely(x, 0.0, 10**6)
        assert len(again.kind) == len(kinds.kind)
    few, _ = dual.likely(x, 0.0, 100)
    assert len(few.kind) <= 100 + len(u)
    np.testing.assert_array_equal(few.kind[few.at(u.argmax(axis=1))], u.argmax(axis=1))


@pytest.mark.parametrize("library", LIBRARIES.values())
@pytest.mark.parametrize(
    "settings",
    [{}, {"learning_rate": 0.05, "colsample_bytree": 0.7}, {"reg_lambda": 3.0},
     {"reg_alpha": 0.1, "max_delta_step": 0.5}, {"scale_pos_weight": 3.0},
     {"class_weight": "balanced"}],
)  # fmt: skip
@pytest.mark.parametrize("seed", range(2))
def test_the_true_rows_meet_what_leaves_sum_up(library, settings, seed):
    X, y = table(80, seed)
    _, evidence, _ = drawn(library, X, y, n_estimators=20, **settings)
    assert evidence.contradiction() is None
    leaf, label = leaves(evidence, X), y.to_numpy()
    for statement in evidence.statements():
        assert statement.met(leaf, label).all(), statement.quantity
    # Nobody else does: sums are over whole rows.
    others = label.copy()
    others[:5] = 1 - others[:5]
    met = [s.met(leaf, others).all() for s in evidence.statements() if s.by_label]
    assert not any(met)


@pytest.mark.parametrize("library", LIBRARIES.values())
def test_rows_come_back_in_their_order_with_their_classes(library):
    X, y = table(60, 7)
    model, _, _ = drawn(library, X, y, n_estimators=120)
    schema = Schema([Binary(c) for c in X])
    found = treeleak.reconstruct(model, schema, time_limit=AMPLE, n_rows=len(X))
    assert found.ordered
    assert found.evidence.startswith(DrawnLossSums.kind)
    assert found.status == "feasible"
    assert not found.proved.any()
    tested = [c for c in X if c not in found.free_columns]
    right = (found.X[tested].to_numpy() == X[tested].to_numpy()).all(axis=1)
    right &= found.y.to_numpy() == y.to_numpy()
    assert right.mean() >= 0.9


@pytest.mark.parametrize("large", [False, True])
def test_rows_that_meet_every_sum_are_a_possible_leak_where_few_share_a_place(large):
    xgboost = pytest.importorskip("xgboost")
    X, y = table(600 if large else 120, 1, 3 if large else 6)
    y = y.sample(frac=1, random_state=0).to_numpy() if large else y
    settings = {"max_depth": 1, "n_estimators": 2} if large else {"subsample": 0.8}
    model = xgboost.XGBClassifier(n_jobs=1, random_state=0, **settings).fit(X, y)
    schema = Schema([Binary(c) for c in X])
    result = treeleak.audit(model, schema=schema, time_limit=AMPLE, n_rows=len(X))
    assert result.reconstruction.meets_sums
    (found,) = [f for f in result.findings if f.part == "reconstruction" and f.verdict]
    assert (found.code, result.verdict) == (
        ("rows_fit_not_alone", "not assessed") if large else ("rows_meet_sums", "possible leak")
    )


def test_rows_that_meet_all_sums_say_how_many_there_are():
    pytest.importorskip("xgboost")
    X, y = table(80, 3)
    model = fitted("xgboost", X, y, n_estimators=40)
    with pytest.raises(SeveralNumbers) as several:
        known_draws(to_release(model))
    assert 80 in several.value.numbers
    found = treeleak.reconstruct(model, Schema([Binary(c) for c in X]), time_limit=AMPLE)
    assert (found.status, found.n_rows) == ("feasible", 80)
    assert (found.X.to_numpy() == X.to_numpy()).all(axis=1).mean() > 0.9


def raw(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 3)).round(1), columns=["a", "b", "c"])
    y = pd.Series((X.sum(axis=1) + rng.normal(size=n_rows) > 0).astype(int))
    return X, y, Schema([Numeric(c, -4.0, 4.0) for c in X])


@pytest.mark.parametrize("library", LIBRARIES.values())
def test_a_grid_too_large_to_list_still_says_what_rows_are_like(library):
    pytest.importorskip(library)
    X, y, schema = raw(60, 1)
    settings = {"n_estimators": 100, "learning_rate": 0.1}
    release = replace(to_release(fitted(library, X, y, **settings)), n_rows=len(X))
    make = DrawnLossSums.fitting(SamplingAssumptions(release, draws=known_draws(release).counts))
    evidence = make(Geometry.of(release, schema))
    values = values_in(evidence.geometry)
    answer = by_particles(evidence, values, Clock(AMPLE), 0, "too large")
    assert answer.ordered
    assert answer.status in ("feasible", "unknown")
    (rows,) = answer.rows
    assert not rows.proved.any()
    said = values.rows(rows.values[:, :-1], len(X.columns))
    far = np.abs(said - X.to_numpy()).mean()
    assert far < 0.6 * np.abs(X.to_numpy() - X.to_numpy()[::-1]).mean()
    label = rows.values[:, -1] - values.start[-2]
    assert (label == y.to_numpy()).mean() > 0.8
