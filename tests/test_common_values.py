"""How common values are, learned from intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.examples import examples
from treeleak.reconstruction.common_values import CommonValues
from treeleak.reconstruction.granularity import Grid


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


@examples(100, fast=25)
@given(st.integers(0, 10**6), st.integers(1, 30), st.booleans())
def test_middles_are_inside_and_chances_add_up(seed, n, on_grid):
    x, low, high, label = some_rows(seed, n, on_grid=on_grid)
    common = CommonValues.of(low, high, label, Grid(1.0) if on_grid else None)
    middle = common.middle(low, high, x)
    assert ((middle >= low) & (middle <= high)).all()
    np.testing.assert_allclose(common.chance(low, high, low, high), 1.0)
    cut = np.full(n, float(np.random.default_rng(seed).choice(x)) + (0.5 if on_grid else 0.1))
    ends = np.full(n, -np.inf), np.full(n, np.inf)
    parts = common.chance(low, high, ends[0], cut), common.chance(low, high, cut, ends[1])
    np.testing.assert_allclose(sum(parts), 1.0, atol=1e-9)


@pytest.mark.parametrize("grid", [Grid(1.0), None], ids=["grid", "ends"])
def test_most_people_work_forty_hours(grid):
    rng = np.random.default_rng(0)
    x = np.where(rng.random(400) < 0.6, 40.0, rng.integers(20, 60, 400))
    known = rng.random(400) < 0.5
    low, high = (np.where(known, x, x + s * rng.integers(1, 9, 400)) for s in (-1, 1))
    common = CommonValues.of(low, high, np.zeros(400, dtype=int), grid)
    middle = common.middle(low, high, np.where(known, x, high))
    right = (middle == x)[~known]
    assert right.mean() > 0.55
    assert np.abs(middle - x).mean() < 0.8 * np.abs((low + high) / 2 - x).mean()
    # What is said of them is as often right.
    said = common.chance(low, high, middle, middle)[~known]
    assert abs(said.mean() - right.mean()) < 0.08


def test_a_value_that_is_as_common_stays():
    low, high = np.array([0.0, 0.0, 5.0]), np.array([10.0, 10.0, 5.0])
    common = CommonValues.of(low, high, np.zeros(3, dtype=int), Grid(1.0))
    now = np.array([5.0, 7.0, 5.0])
    np.testing.assert_array_equal(common.middle(low, high, now), [5.0, 5.0, 5.0])


def test_classes_have_values_of_their_own():
    x = np.repeat([20.0, 60.0], 40)
    low, high = np.append(x, [10.0, 10.0]), np.append(x, [70.0, 70.0])
    label = np.append(np.repeat([0, 1], 40), [0, 1])
    common = CommonValues.of(low, high, label, Grid(10.0))
    np.testing.assert_array_equal(common.middle(low, high, high)[-2:], [20.0, 60.0])
