"""Values inside intervals: never out of them, and near the truth where midpoints tell it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import (
    AdaBoostClassifier,
    RandomForestClassifier,
)

import treeleak
from helpers.examples import examples
from helpers.releases import bootstrap_draws, counted, leaves_of, random_tree
from treeleak.partition import Geometry
from treeleak.reconstruction.column_values import (
    distinct_values,
    grid_behind,
)
from treeleak.reconstruction.point_values import PointValues, point_values
from treeleak.release import Release, to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Numeric, Ordinal, Schema
from treeleak.verification.counts import check_rows


def intervals(release: Release, schema: Schema, X: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of the true rows, all that the trees tell: a value of each atom, and its ends."""
    table, low, high = X.copy(), X.copy(), X.copy()
    numbers, whole = np.zeros((2, X.shape[1]), dtype=bool)
    for part in Geometry.of(release, schema).parts:
        (j,) = part.columns
        atom = part.holding(X[:, [j]], release).argmax(axis=1)
        table[:, j] = np.where(np.isnan(X[:, j]), np.nan, part.representatives[atom, 0])
        if isinstance(part.attribute, (Numeric, Ordinal)):
            numbers[j], whole[j] = True, isinstance(part.attribute, Ordinal)
            low[:, j], high[:, j] = part.ends(table[:, j], release)
    return table, low, high, numbers, whole


def chosen(release: Release, schema: Schema, X: np.ndarray, draws=None) -> PointValues:
    """Point values of the atoms of true rows."""
    table, low, high, numbers, whole = intervals(release, schema, X)
    return point_values(release, table, low, high, numbers, whole=whole, draws=draws)


def midpoints(release: Release, X: np.ndarray, draws=None) -> list[bool]:
    """Of each test with rows on both sides, whether it is midway, looking at one row at a time."""
    out, leaves = [], leaves_of(release, X)
    for t, tree in enumerate(release.trees):
        below = [{v} for v in range(tree.n_nodes)]
        for v in range(tree.n_nodes - 1, -1, -1):
            if tree.left[v] >= 0:
                below[v] |= below[tree.left[v]] | below[tree.right[v]]
        for v in np.flatnonzero(~tree.is_leaf):
            sides = [
                [
                    X[k, tree.feature[v]]
                    for k in range(len(X))
                    if leaves[k, t] in below[child] and (draws is None or draws[t, k])
                    and not np.isnan(X[k, tree.feature[v]])
                ]
                for child in (tree.left[v], tree.right[v])
            ]  # fmt: skip
            if all(sides) and len(release.thresholds[tree.feature[v]]) > 2:
                gap = max(sides[0]) + min(sides[1]) - 2 * tree.threshold[v]
                out.append(abs(gap) < 1e-6)
    return out


def whole_numbers(seed: int, n_rows: int, n_columns: int, bootstrap: bool):
    """A fitted forest on small whole numbers, its rows and its draws."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 12, size=(n_rows, n_columns)).astype(float)
    y = (X.sum(axis=1) + rng.normal(0, 5, n_rows) > X.sum(axis=1).mean()).astype(int)
    y[:2] = 0, 1
    forest = RandomForestClassifier(6, bootstrap=bootstrap, random_state=seed).fit(X, y)
    release = to_release(forest)
    return release, X, y, known_draws(release).counts if bootstrap else None


@examples(30, fast=4)
@given(st.integers(0, 10**6), st.booleans())
def test_midpoints_are_counted_as_by_brute_force(seed, bootstrap):
    release, X, _, draws = whole_numbers(seed, 12, 2, bootstrap)
    schema = Schema([Numeric(c) for c in release.feature_names])
    found = chosen(release, schema, X, draws)
    met = midpoints(release, found.table, draws)
    if met:
        assert found.midpoints_met == pytest.approx(np.mean(met))
    else:
        assert found.midpoints_met is None
    truth = midpoints(release, X, draws)
    assert all(truth)


@pytest.mark.parametrize("seconds", [0.0, 1e-9])
def test_without_time_values_stay_inside_their_intervals(seconds):
    release, X, _, draws = whole_numbers(0, 5, 1, True)
    schema = Schema([Ordinal(release.feature_names[0], 0, 11)])
    table, low, high, numbers, whole = intervals(release, schema, X)
    found = point_values(
        release, table, low, high, numbers, whole=whole, draws=draws, seconds=seconds
    )
    assert found.table.shape == table.shape
    assert (found.table >= low).all()
    assert (found.table <= high).all()


@st.composite
def forests(draw):
    """Random trees, whose thresholds are no midpoints at all, and rows that meet their counts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["float32", "float64"]))
    values = [0.1, 0.2, 0.3, 1.0, 2.0, 16777216.0, 16777217.0, -3.5, 1e30, -1e30]
    size = rng.integers(0, 5, size=3)
    cuts = [np.sort(rng.choice([*values, float(np.float32(0.1)), np.inf], k)) for k in size]
    trees = [random_tree(rng, cuts, 4) for _ in range(3)]
    n_rows = draw(st.integers(1, 12))
    X = rng.choice(np.array([*values, 0.15, 1.5, 40.0]), size=(n_rows, 3))
    X[:, 0] = np.round(np.clip(X[:, 0], -5, 40))
    X[rng.random(X.shape) < 0.2] = np.nan
    y = rng.integers(0, 2, n_rows)
    bounds = draw(st.sampled_from([(-np.inf, np.inf), (-2e30, np.inf), (-2e30, 2e30)]))
    schema = Schema(
        [Ordinal("a", -5, 40, missing=True)] + [Numeric(c, *bounds, missing=True) for c in "bc"]
    )
    draws = bootstrap_draws(3, n_rows, rng) if draw(st.booleans()) else None
    release = counted(trees, "abc", X, y, 2, float_type=kind)
    return replace(release, thresholds_are="midpoints"), schema, X, y, draws


@examples(200, fast=25)
@given(forests())
def test_no_value_leaves_its_interval_and_no_count_changes(case):
    release, schema, X, y, draws = case
    table, low, high, numbers, whole = intervals(release, schema, X)
    before = table.copy()
    found = point_values(release, table, low, high, numbers, whole=whole, draws=draws)
    np.testing.assert_array_equal(table, before)
    gone = np.isnan(before)
    np.testing.assert_array_equal(np.isnan(found.table), gone)
    np.testing.assert_array_equal(np.isnan(low), gone)
    assert ((low <= found.table) & (found.table <= high))[~gone].all()
    assert np.isfinite(found.table[~gone]).all()
    known = found.table[:, 0][~gone[:, 0]]
    assert (known == np.round(known)).all()
    assert check_rows(release, found.table, y).ok
    np.testing.assert_array_equal(leaves_of(release, found.table), leaves_of(release, X))
    assert schema.valid(found.table, release.feature_names).all()
    assert found.midpoints_met is None or 0 <= found.midpoints_met <= 1


def between(values: np.ndarray) -> np.ndarray:
    """Midpoints of neighbouring values in the type of the model."""
    seen = np.unique(values.astype(np.float32)).astype(float)
    return seen[:-1] / 2 + seen[1:] / 2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("draw", "step"),
    [
        (lambda rng: rng.integers(17, 91, 60), 1.0),
        (lambda rng: rng.integers(-10_000, 1_000_000, 60), 1.0),
        (lambda rng: rng.integers(0, 50_000, 60) / 100, 0.01),
        (lambda rng: rng.integers(0, 900, 60) * 10, 10.0),
        (lambda rng: rng.integers(0, 300, 60) * 12, 12.0),
        (lambda rng: rng.integers(0, 300, 60) / 4, 0.25),
    ],
)
def test_steps_are_found(draw, step, seed):
    values = draw(np.random.default_rng(seed)).astype(float)
    grid = grid_behind(between(values), "float32")
    assert grid is not None
    assert (grid.step, grid.offset) == (step, 0.0)
    np.testing.assert_array_equal(grid.around(values + 0.2 * step)[1], values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [AdaBoostClassifier(n_estimators=20), RandomForestClassifier(1, random_state=0)]
)
def test_nothing_follows_from_thresholds_that_nearly_any_rows_explain(model):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.integers(0, [6, 5, 2], (120, 3)), columns=list("abc"))
    model.fit(X, (X.a + X.b + rng.integers(0, 2, 120)) % 3)
    found = treeleak.reconstruct(model, time_limit=20)
    assert found.midpoints_met is not None
    assert treeleak.metrics.exact_row_share(found.X.round(), X) < 0.9
    assert not any("midway" in note for note in found.notes)


@pytest.mark.usefixtures("short_walks")
def test_a_reconstruction_carries_intervals_and_values_inside():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"x": rng.normal(size=25).round(2), "n": rng.integers(0, 2, 25), "free": 1.0})
    y = ((X.x > 0) ^ (rng.random(25) < 0.2)).astype(int)
    for bootstrap in (False, True):
        model = RandomForestClassifier(10, bootstrap=bootstrap, random_state=0).fit(X, y)
        found = treeleak.reconstruct(model, time_limit=30)
        assert found.free_columns == ("free",)
        assert list(found.lower) == list(found.upper) == list(found.X) == list(X)
        assert ((found.lower <= found.X) & (found.upper >= found.X)).all(axis=None)
        assert (found.lower.x < found.upper.x).any()
        for ends in (found.lower, found.upper):
            np.testing.assert_array_equal(ends.n, found.X.n)
        assert 0 <= found.midpoints_met <= 1
        assert any("midway" in note for note in found.notes)
        told = found.to_dict(include_rows=True)
        assert told["midpoints_met"] == found.midpoints_met
        assert told["rows"]["lower"][0][2] is None
    hidden = treeleak.reconstruct(model, bootstrap="hidden", time_limit=5)
    assert hidden.midpoints_met is None
    assert ((hidden.lower <= hidden.X) & (hidden.upper >= hidden.X)).all(axis=None)


# ------------------------------------------------------------------------- all values of a column


def middles(x: np.ndarray) -> np.ndarray:
    return (x[1:] + x[:-1]) / 2


@pytest.mark.parametrize("n", [2, 5, 300])
def test_between_two_known_ends_all_values_come_back(n):
    rng = np.random.default_rng(n)
    for digits in (0, 2, 15):
        x = np.unique(np.round(rng.gamma(0.5, 1000, n), digits))
        found = distinct_values(middles(x), (x[0], x[-1]))
        assert found is not None
        np.testing.assert_allclose(found, x, rtol=0, atol=1e-9 * x[-1])
        if digits < 15:
            np.testing.assert_array_equal(found, x)
    # A value is left out of the borders: they do not lead from end to end.
    x = np.append(np.arange(3.0), 9.0)
    assert distinct_values(middles(x[[0, 2, 3]]), (0.0, 8.0)) is None


def test_quantiles_are_no_middles_of_all_values():
    x = np.unique(np.random.default_rng(1).normal(size=900))
    assert distinct_values(np.quantile(x, np.linspace(0, 1, 256)[1:-1])) is None
    assert distinct_values(middles(np.arange(5.0))) is None, "too few tell"
