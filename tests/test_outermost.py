"""Values beyond the outermost thresholds."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import treeleak
from treeleak.partition.untested_priors import (
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


def law(name, rng, n):
    if name == "rising":
        return np.sqrt(rng.random(n))
    if name == "two humps":
        return rng.normal(size=n) + 6 * (rng.random(n) < 0.5)
    return getattr(rng, name)(size=n)


# --------------------------------------------------------------------- columns that no tree tests


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
