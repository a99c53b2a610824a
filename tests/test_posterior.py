"""The posterior: membership and statistics, against sums over its samples."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from helpers.patient import AMPLE
from helpers.releases import counted, leaves_of, tree_of
from treeleak import Binary, NotCovered, Numeric, Ordinal, Schema, reconstruct
from treeleak.attacks.samples import Samples
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_in
from treeleak.reconstruction.posterior import Posterior


def rebuilt(X, y, schema, n_trees=4, **options):
    forest = RandomForestClassifier(n_trees, random_state=0).fit(X, y)
    result = reconstruct(forest, schema, "hidden", AMPLE, **options)
    assert result.status == "likely"
    return result


def bits(n, columns, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(2, size=(n, columns))).add_prefix("x")
    return X, pd.Series(np.where(rng.random(n) < 0.3 + 0.4 * X["x0"], "yes", "no"))


def grid(schema, classes=None):
    """All records, with labels if asked for."""
    values = [[0, 1] if isinstance(a, Binary) else range(a.low, a.high + 1) for a in schema]
    names = [a.name for a in schema]
    if classes is None:
        return pd.DataFrame(list(product(*values)), columns=names)
    return pd.DataFrame(list(product(*values, classes)), columns=[*names, "label"])


def holds(records, X, y=None):
    """Whether each record is a row of a dataset."""
    table = X if y is None else X.assign(label=y)
    rows = set(table.itertuples(index=False, name=None))
    return [r in rows for r in records.itertuples(index=False, name=None)]


@pytest.fixture(scope="module")
def plain():
    """Every column is tested, so that each sample is one dataset."""
    X, y = bits(8, 3)
    result = rebuilt(X, y, Schema.from_columns(X.columns), n_trees=6)
    assert not result.free_columns
    assert result.posterior.by_chains
    return result


ORDINAL = (Ordinal("age", 0, 5), Binary("sex"), Binary("free"))


@pytest.fixture(scope="module")
def coarse():
    """Ages of which a tree sees two kinds, and a column that no tree tests."""
    X = pd.DataFrame({"age": [0, 1, 2, 3, 4, 5] * 2, "sex": [0, 0, 1, 1] * 3, "free": 0})
    y = ((X["age"] > 2) ^ (X["sex"] == 1)).astype(int)
    forest = RandomForestClassifier(6, max_depth=2, max_features=None, random_state=1).fit(X, y)
    result = reconstruct(forest, Schema(ORDINAL), "hidden", AMPLE)
    assert result.free_columns == ("free",)
    return result


# ---------------------------------------------------------------------------------- membership


@pytest.mark.parametrize("classes", [None, ["no", "yes"]])
def test_membership_is_the_share_of_samples_that_hold_the_record(plain, classes):
    records = grid(plain.schema.attributes, classes)
    held = np.zeros(len(records))
    for X, y in plain.posterior.datasets():
        held += holds(records, X, None if classes is None else y)
    share, found = held / len(plain.posterior), plain.membership(records)
    # What all chains have met is as frequent as they say; what few have met is less so.
    assert (found <= share + 1e-9)[share > 0].all()
    assert np.allclose(found, share, atol=0.01)
    assert ((share > 0.2) & (share < 1) & np.isclose(found, share)).any()


# --------------------------------------------------------------------------------- expectation


@pytest.mark.slow
def test_an_expectation_is_that_of_the_samples(coarse):
    def mean_age(X, y):
        return X.loc[y == 1, "age"].mean()

    found = [mean_age(X, y) for X, y in coarse.posterior.datasets()]
    for level in (0.5, 0.9):
        said = coarse.expectation(mean_age, level)
        assert said.mean == pytest.approx(np.mean(found))
        # The interval holds its share of the samples, and leaves out as many on both sides.
        outside = [np.mean(np.array(found) < said.low), np.mean(np.array(found) > said.high)]
        assert max(outside) <= (1 - level) / 2 + 1e-9
        assert said.low <= np.median(found) <= said.high
        assert said.n_samples == len(coarse.posterior)
    wide, narrow = (coarse.expectation(mean_age, level) for level in (0.9, 0.5))
    assert wide.low <= narrow.low <= narrow.high <= wide.high
    assert wide.low < wide.high
    assert str(wide) == f"{wide.mean:g} (90%: {wide.low:g} to {wide.high:g})"


def test_without_rows_there_is_no_posterior():
    X, y = bits(8, 3)
    forest = RandomForestClassifier(4, random_state=0).fit(X, y)
    result = replace(reconstruct(forest, Schema.from_columns(X.columns)), posterior=None)
    for ask in (lambda: result.membership(X), lambda: result.expectation(lambda *_: 0.0)):
        with pytest.raises(NotCovered, match="no posterior of rows rebuilt from known bootstrap"):
            ask()


# ----------------------------------------------------------------- numbers inside their intervals


BIG = 10**6


def case(x, cuts, attribute, float_type="float64"):
    """One column, a tree for each cut, and the world in which its rows are where they are."""
    trees = [tree_of((0, float(c)), None, None) for c in cuts]
    label = np.zeros(len(x), dtype=int)
    release = counted(trees, ["x"], x[:, None], label, 1, float_type=float_type)
    geometry = Geometry.of(release, Schema([attribute]))
    values = values_in(geometry)
    atom = geometry.parts[0].holding(x[:, None], release).argmax(axis=1)
    world = np.column_stack([atom, label]) + values.atom_start[:-1]
    return release, geometry, values, world


def posterior(samples, geometry, release):
    def write(rows, label):
        return rows, label

    none = np.zeros((0, 2), dtype=int)
    return Posterior(samples, geometry, release, write, 0, none)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["numeric", "endless", "whole"]), st.booleans())
def test_drawn_values_are_of_the_same_interval_and_in_the_domain(seed, kind, missing):
    rng = np.random.default_rng(seed)
    x = rng.exponential(size=30) * rng.choice([1e-3, 1.0, 1e4])
    if kind == "whole":
        x = np.round(x * 1e3)
        attribute = Ordinal("x", 0, int(x.max()) + BIG, missing=missing)
    else:
        top = np.inf if kind == "endless" else float(x.max() * rng.choice([1.0, 1.1, 1e3]))
        attribute = Numeric("x", -np.inf if kind == "endless" else 0.0, top, missing=missing)
    between = np.sort(x)
    cuts = np.unique(rng.choice((between[1:] + between[:-1]) / 2, rng.integers(1, 9)))
    if missing:
        x[rng.integers(len(x), size=4)] = np.nan
    kind_of = ("float32", "float64")[rng.integers(2)]
    release, geometry, values, world = case(x, cuts, attribute, kind_of)
    rows = np.bincount(world.ravel(), minlength=values.n_atoms).astype(float)
    placed = values.with_tails(release, rows)
    (old,), (part,) = values.parts, placed.parts
    asked = np.arange(len(old))
    for own in (part, old):
        held = own.holding(part.representatives, release)
        np.testing.assert_array_equal(held.argmax(axis=1), asked)
        assert attribute.holds(own.representatives).all()
    samples = Samples.of_worlds(placed, np.stack([world, world]))
    for X, _ in posterior(samples, geometry, release).datasets():
        drawn = X.to_numpy()
        np.testing.assert_array_equal(np.isnan(drawn[:, 0]), np.isnan(x))
        assert attribute.holds(drawn).all()
        np.testing.assert_array_equal(leaves_of(release, drawn), leaves_of(release, x[:, None]))
        inside = part.holding(drawn, release)
        assert inside[np.arange(len(x)), world[:, 0]].all()
