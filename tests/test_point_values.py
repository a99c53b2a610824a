"""Values inside intervals: never out of them, and near the truth where midpoints tell it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.examples import examples
from helpers.releases import bootstrap_draws, counted, leaves_of, random_tree, tree_of
from treeleak.datasets import load_adult
from treeleak.partition import Geometry
from treeleak.reconstruction.column_values import (
    CommonValues,
    Grid,
    distinct_values,
    grid_behind,
    nearest,
)
from treeleak.reconstruction.point_values import PointValues, point_values
from treeleak.release import Release, to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.release.readers.release_file import release_from_dict, release_to_dict
from treeleak.release.sampling import AllRows
from treeleak.schema import Categorical, Numeric, Ordinal, Schema
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


@pytest.mark.slow
def test_what_midpoints_leave_no_choice_of_is_found():
    right = sole = 0
    for seed, bootstrap in itertools.product(range(25), (False, True)):
        release, X, _, draws = whole_numbers(seed, 5, 1, bootstrap)
        schema = Schema([Ordinal(release.feature_names[0], 0, 11)])
        table, low, high, numbers, whole = intervals(release, schema, X)
        found = point_values(release, table, low, high, numbers, whole=whole, draws=draws)
        spans = [range(int(a), int(b) + 1) for a, b in zip(low[:, 0], high[:, 0], strict=True)]
        if np.prod([len(s) for s in spans]) > 500:
            continue
        possible = [
            v
            for v in itertools.product(*spans)
            if all(midpoints(release, np.array(v, dtype=float)[:, None], draws))
        ]
        own = [k for k in range(len(X)) if len({v[k] for v in possible}) == 1]
        sole += len(own)
        right += int((found.table[own, 0] == X[own, 0]).sum())
    assert sole > 40
    assert right >= 0.98 * sole


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


def stumps(*cuts: float) -> Release:
    """Trees of one test of one column each."""
    trees = tuple(tree_of((0, cut), None, None) for cut in cuts)
    return Release(
        trees, ("a",), (), AllRows(), None, float_type="float32", thresholds_are="midpoints"
    )


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


def adult(seed: int) -> tuple[pd.DataFrame, np.ndarray, Schema]:
    data = load_adult()
    rows = data.raw.sample(200, random_state=seed)
    numeric = [c for c in rows if pd.api.types.is_numeric_dtype(rows[c])]
    codes = rows.apply(lambda s: s if s.name in numeric else pd.factorize(s)[0])
    schema = Schema(
        [Numeric(c) if c in numeric else Categorical(c, values=range(99)) for c in rows]
    )
    return codes.astype(float), np.asarray(data.y[rows.index]), schema


def cancer(seed: int) -> tuple[pd.DataFrame, np.ndarray, Schema]:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    rows = X.sample(100, random_state=seed)
    schema = Schema([Numeric(c, X[c].min(), X[c].max()) for c in X])
    return rows, y[rows.index].to_numpy(), schema


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize(("load", "share", "met"), [(adult, 0.4, 0.95), (cancer, 0.85, 0.85)])
@pytest.mark.slow
def test_right_rows_get_nearer_values_than_middles(load, share, met, bootstrap):
    for seed in range(3):
        X, y, schema = load(seed)
        forest = RandomForestClassifier(60, bootstrap=bootstrap, random_state=seed).fit(X, y)
        release = to_release(forest)
        draws = known_draws(release).counts if bootstrap else None
        rows = X.to_numpy()
        table, low, high, numbers, whole = intervals(release, schema, rows)
        found = point_values(release, table, low, high, numbers, whole=whole, draws=draws)
        span = np.ptp(rows, axis=0)
        used = numbers & (span > 0)
        with np.errstate(invalid="ignore"):
            inside = np.where(np.isfinite(high - low), (low + high) / 2, table)
        middle, solved = (np.abs(t - rows)[:, used] / span[used] for t in (inside, found.table))
        assert solved.mean() < share * middle.mean()
        assert found.midpoints_met > met
        # A few rows of each column moved to another place: fewer midpoints agree.
        rng = np.random.default_rng(seed)
        wrong = rows.copy()
        for j in range(rows.shape[1]):
            own = rng.choice(len(rows), len(rows) // 5, replace=False)
            wrong[own, j] = rows[rng.permutation(own), j]
        assert chosen(release, schema, wrong, draws).midpoints_met < found.midpoints_met - 0.1


def test_the_release_says_whether_thresholds_are_midpoints():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 2, 30)
    for model, told in [
        (DecisionTreeClassifier(), "midpoints"),
        (RandomForestClassifier(3), "midpoints"),
        (DecisionTreeClassifier(splitter="random"), "unknown"),
        (ExtraTreesClassifier(3), "unknown"),
    ]:
        release = to_release(model.fit(X, y))
        assert release.thresholds_are == told
        assert release_from_dict(release_to_dict(release)).thresholds_are == told


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


@pytest.mark.slow
def test_known_values_are_not_moved():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"x": rng.normal(size=20), "z": rng.normal(size=20)})
    y = (X.x > 0).astype(int)
    model = RandomForestClassifier(8, bootstrap=False, random_state=0).fit(X, y)
    rows = X[:3].assign(label=y[:3])
    found = treeleak.reconstruct(model, known_rows=rows, time_limit=30)
    np.testing.assert_array_equal(found.X[:3], X[:3])
    np.testing.assert_array_equal(found.lower[:3], X[:3])
    np.testing.assert_array_equal(found.upper[:3], X[:3])
    found = treeleak.reconstruct(model, known_columns=X[["z"]], time_limit=30)
    np.testing.assert_array_equal(found.X.z, X.z)
    np.testing.assert_array_equal(found.lower.z, X.z)


def test_the_outermost_value_stays_near_its_threshold():
    release = stumps(1.0, 2.0, 4.0)
    for schema in (Schema([Numeric("a", -1e6, 1e6)]), Schema([Numeric("a")])):
        (part,) = Geometry.of(release, schema).parts
        np.testing.assert_allclose(part.representatives[:, 0], [-0.5, 1.5, 3.0, 5.5])
    (part,) = Geometry.of(release, Schema([Numeric("a", 0.5, 4.25)])).parts
    np.testing.assert_allclose(part.representatives[:, 0], [0.75, 1.5, 3.0, 4.125])
    (part,) = Geometry.of(release, Schema([Ordinal("a", -(10**6), 10**6)])).parts
    assert part.representatives[0, 0] == 0.0
    assert part.representatives[-1, 0] == 7.0


@given(
    st.lists(st.sampled_from([0.1, 0.2, 1.0, 3.0, 16777216.0, 16777217.0]), min_size=1),
    st.lists(st.sampled_from([0.1, 0.15, 1.0, 2.5, 16777217.0, -4.0, np.nan]), min_size=1),
    st.booleans(),
)
def test_ends_are_those_of_the_atom_that_holds_the_value(cuts, values, bounded):
    bounds = (-1e9, 1e9) if bounded else (-np.inf, np.inf)
    release, x = stumps(*cuts), np.array(values)
    (part,) = Geometry.of(release, Schema([Numeric("a", *bounds, missing=True)])).parts
    low, high = part.ends(x, release)
    held = part.holding(x[:, None], release)
    for k, value in enumerate(values):
        (atom,) = np.flatnonzero(held[k])
        if np.isnan(value):
            assert np.isnan([low[k], high[k]]).all()
        else:
            assert (low[k], high[k]) == part.atoms[atom].interval


# ------------------------------------------------------------------------- all values of a column


def middles(x: np.ndarray) -> np.ndarray:
    return (x[1:] + x[:-1]) / 2


@pytest.mark.parametrize(("step", "digits"), [(1.0, 0), (0.1, 1), (0.001, 3), (1000.0, -3)])
@pytest.mark.parametrize("offset", [0, 7])
def test_values_on_a_grid_come_back_to_the_last_digit(step, digits, offset):
    rng = np.random.default_rng(0)
    k = np.sort(rng.choice(200, 90, replace=False)) + offset
    x = np.round(k * step, digits)
    found = distinct_values(middles(x))
    np.testing.assert_array_equal(found, x)


def test_values_that_mostly_have_a_digit_less_come_back():
    x = np.unique([8.571, 8.673, 9.504, *np.round(np.linspace(10, 20, 80), 2)])
    np.testing.assert_array_equal(distinct_values(middles(x)), x)


def test_ages_in_half_years_come_back():
    x = np.append(np.arange(18, 60), np.arange(60, 90, 3)) + 0.5
    np.testing.assert_array_equal(distinct_values(middles(x)), x)


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


@examples(60)
@given(st.lists(st.floats(-1e6, 1e6), min_size=9, max_size=60, unique=True))
def test_values_lie_between_their_borders(values):
    borders = middles(np.sort(np.array(values)))
    if not (np.diff(borders) > 0).all():
        return
    found = distinct_values(borders)
    if found is not None:
        assert (np.diff(found) > -1e-6).all()
        np.testing.assert_allclose(middles(found), borders, rtol=0, atol=1e-6)


def test_quantiles_are_no_middles_of_all_values():
    x = np.unique(np.random.default_rng(1).normal(size=900))
    assert distinct_values(np.quantile(x, np.linspace(0, 1, 256)[1:-1])) is None
    assert distinct_values(middles(np.arange(5.0))) is None, "too few tell"


def test_rows_move_to_the_nearest_value_of_their_side():
    x, side = np.array([1.9, 2.6, 7.0]), np.array([0, 1, 2])
    moved = nearest(x, side, np.array([1.0, 2.5, 3.0]), np.array([0, 1, 1]))
    assert moved.tolist() == [1.0, 2.5, 7.0]


# -------------------------------------------------------------------------- how common values are


def some_rows(seed, n, *, on_grid):
    """Values of rows, and an interval around each."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, n).astype(float) if on_grid else rng.normal(size=n)
    below, above = (rng.integers(0, 4, n) if on_grid else rng.exponential(size=n) for _ in "lh")
    known = rng.random(n) < 0.3
    return x, np.where(known, x, x - below), np.where(known, x, x + above), rng.integers(0, 2, n)


@examples(60, fast=15)
@given(st.integers(0, 10**6), st.integers(1, 20))
def test_on_a_grid_values_are_as_common_as_rows_say_step_by_step(seed, n):
    _, low, high, label = some_rows(seed, n, on_grid=True)
    common = CommonValues.of(low, high, label, Grid(1.0))
    values = np.arange(low.min(), high.max() + 1)
    there = (values >= low[:, None]) & (values <= high[:, None])

    def learned(there, before, trust):
        share = before
        for _ in range(60):
            each = there * share
            each /= each.sum(axis=1, keepdims=True)
            share = (each.sum(axis=0) + trust * before) / (len(there) + trust)
        return share

    of_all = learned(there, np.full(len(values), 1 / len(values)), 2.0)
    shares = [learned(there[label == c], of_all, 10.0) for c in range(label.max() + 1)]
    own = there * np.array(shares)[label]
    own /= own.sum(axis=1, keepdims=True)
    found = [common.chance(low, high, np.full(n, v), np.full(n, v)) for v in values]
    np.testing.assert_allclose(np.transpose(found), own, atol=1e-9)
    middle = common.middle(low, high, np.full(n, -100.0))
    at = np.searchsorted(values, middle)
    until = np.cumsum(own, axis=1)[np.arange(n), at]
    assert (until >= 0.5 - 1e-9).all()
    assert (until - own[np.arange(n), at] <= 0.5 + 1e-9).all()
