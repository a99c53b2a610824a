"""Values beyond the outermost thresholds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.examples import spread
from treeleak.partition import Geometry
from treeleak.partition.untested_priors import (
    _rates,
    nodes_per_column,
    outer_sides,
    shares_of_ones,
)
from treeleak.reconstruction.interval_imputation import in_tails
from treeleak.release import to_release
from treeleak.schema import Binary, Numeric, Schema


def moved(x, cuts, domain):
    """Put every value in the middle of its interval, then move those beyond all cuts."""
    ends = np.array([domain[0], *cuts, domain[1]])
    side = np.searchsorted(cuts, x)
    table = (ends[side] + ends[side + 1]) / 2
    found, typical = table.copy(), np.full(len(x), np.nan)
    rows = np.bincount(side, minlength=len(cuts) + 1).astype(float)
    for outer in outer_sides(np.asarray(cuts), rows, domain):
        places, there = outer.places(np.array(outer.odds)), side == (outer.sign > 0) * len(cuts)
        found[there] = np.median(places)
        typical[there] = np.abs(places - np.median(places)).mean()
    return found, typical, table, side


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


def test_of_a_domain_without_end_nothing_is_said():
    cuts, rows = np.array([1.0, 2.0, 3.0]), np.array([4.0, 1.0, 1.0, 4.0])
    assert [o.sign for o in outer_sides(cuts, rows, (0.0, np.inf))] == [-1.0]
    assert not outer_sides(cuts, rows, (-np.inf, np.inf))


@pytest.mark.parametrize("end", [50.0, np.inf])
def test_rows_beyond_the_last_threshold_move_where_the_domain_ends(end):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.exponential(size=300), "known": 1.0})
    y = X["x"] > 0.5
    own = to_release(DecisionTreeClassifier(max_leaf_nodes=9).fit(X, rng.permutation(y)))
    schema = Schema([Numeric("x", 0.0, end), Numeric("known", 0.0, end)])
    parts = [part for part in Geometry.of(own, schema).parts if part.intervals]
    table = X.to_numpy(copy=True)
    for part in parts:
        j = part.columns[0]
        side, theirs = (part.side_of(v, own) for v in (table[:, j], part.representatives[:, 0]))
        table[:, j] = part.representatives[np.searchsorted(theirs, side), 0]
    open_ = np.ones(table.shape, dtype=bool)
    open_[:5] = False
    found, typical = in_tails(parts, own, table, open_)
    np.testing.assert_array_equal(own.leaves(found), own.leaves(table))
    last = table[:, 0] > own.thresholds[0].max()
    assert last.any()
    assert np.isfinite(typical[last & open_[:, 0], 0]).all() == np.isfinite(end)
    np.testing.assert_array_equal(found[:5], table[:5])


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
