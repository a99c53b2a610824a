"""Values beyond the outermost thresholds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.examples import spread
from treeleak.partition.untested_priors import (
    _rates,
    nodes_per_column,
    shares_of_ones,
)
from treeleak.reconstruction.interval_imputation import beyond
from treeleak.release import to_release
from treeleak.schema import Binary, Schema


def release(cuts, ranges=None):
    return SimpleNamespace(
        feature_names=("x",), thresholds=[np.asarray(cuts)], float_type="float64",
        ranges=ranges or {},
    )  # fmt: skip


def moved(x, cuts, domain, ranges=None, known=()):
    """Put every value in the middle of its interval, then move those beyond all cuts."""
    ends = np.array([domain[0], *cuts, domain[1]])
    side = np.searchsorted(cuts, x)
    low, high = ends[side][:, None], ends[side + 1][:, None]
    table = (low + high) / 2
    for i in known:
        low[i] = high[i] = table[i] = x[i]
    label = np.zeros(len(x), dtype=int)
    found, typical = beyond(release(cuts, ranges), table, label, low, high, np.ones(1, bool))
    return found[:, 0], typical[:, 0], table[:, 0], side


@pytest.mark.parametrize("rate", [-3.0, -1.0, 0.0, 2.0, 6.0])
def test_rows_whose_density_falls_by_the_same_factor_are_found_again(rate):
    """On average, and as far off as is said."""
    rng = np.random.default_rng(0)
    u = rng.random(40_000)
    x = u if rate == 0 else -np.log1p(u * np.expm1(-rate)) / rate
    cuts = np.linspace(0.01, 0.6, 40)
    found, typical, _, side = moved(x, cuts, (0.0, 1.0))
    upper = side == len(cuts)
    assert found[upper].max() - found[upper].min() < 1e-12
    assert found[upper][0] == pytest.approx(np.median(x[upper]), abs=0.06)
    off = np.abs(found - x)[upper].mean()
    # More is said, for the density need not go on like that.
    assert 0.8 * off < typical[upper][0] < 1.6 * off


@given(st.floats(-30.0, 30.0), st.floats(0.1, 10.0), st.floats(0.1, 2.0))
def test_a_rate_is_that_of_the_density_that_leaves_such_odds(s, room, width):
    # Where s is next to nothing, rounding leaves no digit of either difference.
    flat = abs(s) < 1e-12
    odds = room / width
    if not flat:
        odds = np.exp(-s * width) * np.expm1(-s * room) / np.expm1(-s * width)
    assume(1e-9 < odds < 1e9)
    found = _rates(np.array(odds), width, room)
    assert found == pytest.approx(s, abs=1e-6)


def law(name, rng, n):
    if name == "rising":
        return np.sqrt(rng.random(n))
    if name == "two humps":
        return rng.normal(size=n) + 6 * (rng.random(n) < 0.5)
    return getattr(rng, name)(size=n)


@pytest.mark.parametrize(
    "name", spread(["exponential", "uniform", "normal", "rising", "two humps"], fast=2, each=True)
)
@pytest.mark.parametrize("wide", [0.0, 1.0])
def test_values_are_about_as_far_off_as_is_said_whatever_law_they_have(name, wide):
    """Over samples of several sizes and cuts at random; ``wide``: of a domain beyond all rows."""
    rng = np.random.default_rng(1)
    off, said = [], []
    for _ in range(40):
        x = law(name, rng, int(rng.choice([60, 200, 600])))
        places = np.sort(x)
        cuts = (places[1:] + places[:-1])[rng.choice(len(x) - 1, 8, replace=False)] / 2
        cuts.sort()
        far = wide * np.ptp(x)
        found, typical, *_ = moved(x, cuts, (x.min() - far, x.max() + far))
        open_ = np.isfinite(typical)
        off.append(np.abs(found - x)[open_].mean() / np.ptp(x))
        said.append(typical[open_].mean() / np.ptp(x))
    assert 0.6 * np.mean(off) < np.mean(said) < 2.0 * np.mean(off)


def groups(n, rng):
    """Ages of children, of adults before they marry, and after; only the last reach 40."""
    kind = rng.integers(3, size=n)
    age = np.select([kind == 0, kind == 1], [16 * rng.random(n), 16 + 40 * rng.random(n)])
    age = np.where(kind == 2, 25 + 55 * rng.random(n), age)
    return age, np.eye(3)[kind]


def test_rows_lie_where_rows_like_them_do():
    age, kind = groups(600, np.random.default_rng(0))
    cuts = np.linspace(40.0, 79.0, 30)
    ends = np.array([0.0, *cuts, 80.0])
    side = np.searchsorted(cuts, age)
    low, high = np.zeros((600, 4)), np.zeros((600, 4))
    low[:, 0], high[:, 0] = ends[side], ends[side + 1]
    table = np.column_stack([(low + high)[:, 0] / 2, kind])
    low[:, 1:] = high[:, 1:] = kind
    own = SimpleNamespace(
        feature_names=tuple("abcd"), thresholds=[cuts, *[np.array([0.5])] * 3], ranges={},
        float_type="float64",
    )  # fmt: skip
    label, numbers = np.zeros(600, dtype=int), np.array([True, False, False, False])
    found, typical = beyond(own, table, label, low, high, numbers)
    young = side == 0
    points = [found[young & (kind[:, k] == 1), 0].mean() for k in range(3)]
    assert points[0] < points[1] < points[2]
    alone, said = beyond(own, table * [1, 0, 0, 0], label, low, high, numbers)
    off, before = (np.abs(x[young, 0] - age[young]).mean() for x in (found, alone))
    assert off < 0.75 * before
    assert typical[young, 0].mean() < said[young, 0].mean()
    assert 0.7 * off < typical[young, 0].mean() < 1.6 * off
    np.testing.assert_array_equal(found[:, 1:], table[:, 1:])


# --------------------------------------------------------------------- columns that no tree tests


NONE = np.zeros((0, 2))
LAWS = {
    "uniform": lambda rng, n: rng.random(n),
    "half": lambda rng, n: np.full(n, 0.5),
    "rare": lambda rng, n: np.full(n, 0.02),
    "frequent": lambda rng, n: np.full(n, 0.98),
    "both ends": lambda rng, n: rng.beta(0.2, 0.2, n),
    "middle": lambda rng, n: rng.beta(5.0, 5.0, n),
}
"""Shares of ones in columns; none is the prior."""


def some_columns(rng, n_rows, shares):
    return (rng.random((n_rows, len(shares))) < shares).astype(int)


TESTED = st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9)), max_size=6)


@pytest.mark.parametrize("law", LAWS)
def test_a_likelier_value_is_no_surer_than_it_should_be(law):
    """Whatever law columns are drawn from: where most tested ones are alike, so are untested."""
    rng = np.random.default_rng(0)
    sure, right = [], []
    for _ in range(300):
        tested, untested = LAWS[law](rng, 8), LAWS[law](rng, 1)[0]
        heard = np.column_stack([1 - tested, tested])
        share, weight = shares_of_ones(heard, rng.choice([0.0, 2.0]))
        mean = share @ weight
        sure.append(max(mean, 1 - mean))
        right.append(untested if mean > 0.5 else 1 - untested)
    # Of no law is more known than eight columns show; of a point at one half, too much.
    assert np.mean(sure) < np.mean(right) + (0.3 if law in ("half", "middle") else 0.1)


def test_over_laws_of_all_kinds_probabilities_are_right_on_average():
    rng = np.random.default_rng(1)
    said, true = [], []
    for seed in range(24):
        law = list(LAWS.values())[seed % len(LAWS)]
        shares = law(rng, 15)
        X = some_columns(rng, 100, shares)
        y = (X @ rng.normal(size=15) + rng.normal(size=100) > 0).astype(int)
        release = to_release(DecisionTreeClassifier(max_depth=3, random_state=seed).fit(X, y))
        tested = np.array([len(cuts) > 0 for cuts in release.thresholds])
        ones = X.mean(axis=0)
        heard = np.column_stack([1 - ones, ones])[tested]
        share, weight = shares_of_ones(heard, nodes_per_column(release))
        said += [share @ weight] * int((~tested).sum())
        true += ones[~tested].tolist()
    said, true = np.array(said), np.array(true)
    assert len(true) > 150
    likelier = np.where(said > 0.5, true, 1 - true)
    assert abs(likelier.mean() - np.maximum(said, 1 - said).mean()) < 0.12


def test_values_that_nobody_knows_are_one_guess_and_no_surer_than_that():
    rng = np.random.default_rng(2)
    shares = rng.uniform(0.1, 0.5, 8)
    X = pd.DataFrame(some_columns(rng, 100, shares), columns=[f"x{i}" for i in range(8)])
    X["rare"] = (np.arange(100) < 6).astype(int)
    y = (X.to_numpy() @ rng.normal(size=9) > 0).astype(int)
    model = HistGradientBoostingClassifier(max_iter=30).fit(X, y)
    release = to_release(model)
    schema = Schema([Binary(name) for name in X])
    found = treeleak.reconstruct(release, schema, time_limit=10)
    untested = [n for n, cuts in zip(X, release.thresholds, strict=True) if not len(cuts)]
    assert "rare" in untested
    for name in untested:
        assert found.X[name].nunique() == 1
        assert found.confidence[name].nunique() == 1
        assert 0.5 < found.confidence[name].iloc[0] < 0.99
    assert (found.X["rare"] == 0).all()
