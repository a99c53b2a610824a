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
from treeleak.attacks.known_draws import particle_kernels as kernels
from treeleak.attacks.known_draws.leaf_sums import Coordinates
from treeleak.attacks.known_draws.particles import Fit, Known, by_particles
from treeleak.attacks.known_draws.sums_dual import Candidates, Dual
from treeleak.attacks.known_draws.sums_of_loss import _CANDIDATE, _Fit, _written
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
def test_the_dual_falls_as_its_slope_says(library):
    X, y = table(40, 3)
    _, evidence, partition = drawn(library, X, y, n_estimators=6)
    dual, rng = Dual.of(evidence, partition), np.random.default_rng(0)
    x = rng.normal(size=len(dual.right)) / dual.scale
    step = rng.normal(size=len(x)) / dual.scale
    with Pool() as pool:
        look = dual.look(x, pool)
        slope = (look.expected - dual.right) @ step
        ahead, behind = (dual.look(x + h * step, pool).value for h in (0.01, -0.01))
        assert (ahead - behind) / 0.02 == pytest.approx(slope, rel=1e-2, abs=1e-2)
        assert look.mass.sum() == pytest.approx(len(X), rel=1e-4)
        coordinates = dual.coordinates(x, pool)
    assert_inverse(coordinates, rng.normal(size=len(x)), rng.normal(size=len(x)))


def assert_inverse(coordinates: Coordinates, y, g):
    x = coordinates.multipliers(y)
    np.testing.assert_allclose(coordinates.from_multipliers(x), y, rtol=1e-6, atol=1e-8)
    # <M y, g> = <y, M' g>
    assert x @ g == pytest.approx(y @ coordinates.gradient(g), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES.values())
def test_the_reaction_is_that_of_each_row_and_leaf(library):
    X, y = table(15, 5, n_columns=3)
    _, evidence, partition = drawn(library, X, y, n_estimators=3, learning_rate=0.3)
    dual, rng = Dual.of(evidence, partition), np.random.default_rng(1)
    x = 0.3 * rng.normal(size=len(dual.right)) / dual.scale
    u = dual.probabilities(dual.scores(x), slice(0, len(X)))[0].astype(float)
    every = np.indices(u.shape).reshape(2, -1)
    dual = dual.among(Candidates.of(*every, len(X)))
    with Pool() as pool:
        found = dual.reaction(x, pool).reshape(u.shape)
    n_trees = len(dual.draws.T)
    a = dual.counts.astype(float).transpose(1, 2, 0)
    leaf, draws = np.tile(dual.leaf.T, dual.n_classes), dual.draws.T
    floor = 0.5 * (a**2).mean(axis=(0, 1))
    due = np.zeros_like(u)
    for t in range(n_trees):
        for v in np.unique(leaf[t]):
            there = leaf[t] == v
            known = np.array([s.place[v] >= 0 for s in dual.sums])
            if not known.any():
                continue
            part = np.where(there[:, None], a[:, t], 0.0)[:, known]
            mean = (u @ part) * draws[t][:, None]
            second = np.einsum("k,kj,ja,jb->ab", draws[t], u, part, part)
            inverse = np.linalg.inv(second - mean.T @ mean + np.diag(floor[known]))
            for k in np.flatnonzero(draws[t]):
                due[k] += part @ inverse @ mean[k] - 0.5 * np.einsum(
                    "ja,ab,jb->j", part, inverse, part
                )
    due -= (due * u).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, due, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("library", [each for name, each in LIBRARIES.items() if name != "sklearn"])
def test_moves_and_exchanges_cost_what_the_sums_say(library):
    X, y = table(30, 11, n_columns=4)
    _, evidence, partition = drawn(library, X, y, n_estimators=8)
    dual, rng = Dual.of(evidence, partition), np.random.default_rng(2)
    every = np.indices((len(X), dual.n_kinds)).reshape(2, -1)
    dual = dual.among(Candidates.of(*every, len(X)))
    best = rng.integers(0, dual.n_kinds, len(X))
    # Statements that several leaves share, as GradientBoosting's, are weighed leaf by leaf.
    assert all(each.alone for each in dual.sums)

    def far(kinds):
        label, at = np.divmod(kinds, len(dual.cell))
        leaf = partition.signature[dual.cell[at]].astype(np.int64)
        off = [(s.left(leaf, label) - s.right) / s.scale for s in evidence.statements()]
        return float((np.concatenate(off) ** 2).sum())

    with Pool() as pool:
        cost = dual.costs(best, pool).reshape(len(X), dual.n_kinds)
        change = dual.exchanges(best, np.arange(len(X)), pool)
    now = far(best)
    for k, kind in zip(rng.integers(0, len(X), 20), rng.integers(0, dual.n_kinds, 20), strict=True):
        moved = best.copy()
        moved[k] = kind
        due, near = far(moved) - now, 1e-4 * now
        assert cost[k, kind] - cost[k, best[k]] == pytest.approx(due, rel=1e-2, abs=near)
        swapped, other = best.copy(), int(rng.integers(0, len(X)))
        swapped[[k, other]] = best[[other, k]]
        assert change[k, other] == pytest.approx(far(swapped) - now, rel=1e-2, abs=near)


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
@pytest.mark.parametrize("settings", [{}, {"reg_alpha": 0.1}, {"scale_pos_weight": 3.0}])
def test_particles_count_what_their_rows_do(library, settings):
    X, y, schema = raw(40, 0)
    model = fitted(library, X, y, n_estimators=12, **settings)
    release = replace(to_release(model), n_rows=len(X))
    make = DrawnLossSums.fitting(SamplingAssumptions(release, draws=known_draws(release).counts))
    evidence = make(Geometry.of(release, schema))
    known = Known.of(evidence, "")
    fit = Fit.started(known, evidence, 0)
    # Each particle stands where its row does.
    for a, part in enumerate(evidence.geometry.parts):
        own = X[list(part.attribute.columns)].to_numpy(float)
        fit.particles.atoms[:, :, a] = part.holding(own, release).argmax(axis=1)[:, None]
    fit.particles.label[:] = y.to_numpy()[:, None]
    for k in range(len(X)):
        for i in range(fit.particles.label.shape[1]):
            kernels.settle(known.model, fit.particles, k, i)
    kernels.expect(known.model, fit.particles, 1.0, fit.by_row, fit.mean, fit.spread)
    off = np.abs(fit.mean - known.right)[known.present]
    assert len(off)
    assert off.max() < 1e-4
    assert np.abs(fit.spread).max() < 1e-9
    assert fit.missed(evidence) == 0


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


@pytest.mark.parametrize("library", LIBRARIES.values())
def test_rows_of_which_no_kind_is_likely_are_written(library):
    X, y = table(60, 2, n_columns=11)
    _, evidence, partition = drawn(library, X, y, n_estimators=30)
    dual = Dual.of(evidence, partition)
    assert dual.n_kinds > 1 / _CANDIDATE
    nothing = np.zeros(len(dual.right))
    fit = _Fit(dual, 1.0, np.zeros(len(X), dtype=np.int64), 1, nothing, 0)
    rows = _written(fit, evidence, partition, values_in(evidence.geometry))
    assert rows.values.shape == (len(X), X.shape[1] + 1)
    assert (rows.confidence < 1).all()
