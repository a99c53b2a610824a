"""Rows in boxes: of which class, and how far from the values they stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeleak.attacks.real_valued import raw_rows as module
from treeleak.attacks.real_valued.layers import Groups
from treeleak.attacks.real_valued.raw_rows import _held, _in_turns, _inside
from treeleak.core.clock import Clock
from treeleak.partition.atoms import Atom


def some_boxes(seed):
    """Groups of some boxes, their leaves in three trees, and rows of each class in each box."""
    rng = np.random.default_rng(seed)
    group = np.sort(np.append(np.arange(6), rng.integers(0, 6, int(rng.integers(0, 8)))))
    leaf = rng.integers(0, 4, (len(group), 3)) + np.array([0, 4, 8])
    rows = rng.integers(0, 4, (2, len(group)))
    held = np.array([np.bincount(leaf.ravel(), np.repeat(own, 3), 12) for own in rows])
    none = np.zeros((6, 3), dtype=np.int64), np.zeros((len(group), 1), dtype=bool)
    of_group = np.bincount(group, rows.sum(axis=0)).astype(np.int64)
    return Groups(3, of_group, *none, group, np.array([held.sum(axis=0), held[1]])), leaf, rows


@given(st.integers(0, 10**6))
def test_boxes_get_rows_so_that_all_leaves_hold_theirs(seed):
    groups, leaf, rows = some_boxes(seed)
    found = _held(groups, leaf, Clock.of(60))
    assert found.shape == rows.shape
    assert (found >= 0).all()
    np.testing.assert_array_equal(np.bincount(groups.group, found.sum(axis=0)), groups.rows)
    for own, right in zip((found.sum(axis=0), found[1]), groups.held, strict=True):
        np.testing.assert_array_equal(np.bincount(leaf.ravel(), np.repeat(own, 3), 12), right)


@given(st.integers(0, 10**6))
def test_where_leaves_say_nothing_of_classes_rows_are_right_still(seed):
    groups, leaf, _ = some_boxes(seed)
    silent = replace(groups, held=np.array([groups.held[0], np.full(12, np.nan)]))
    found = _held(silent, leaf, Clock.of(60)).sum(axis=0)
    right = groups.held[0]
    np.testing.assert_array_equal(np.bincount(leaf.ravel(), np.repeat(found, 3), 12), right)


@given(st.integers(0, 10**6))
def test_out_of_time_rows_are_shared_out_evenly(seed):
    groups, leaf, _ = some_boxes(seed)
    found = _in_turns(groups, leaf)
    assert (found >= 0).all()
    own = found.sum(axis=0)
    np.testing.assert_array_equal(np.bincount(groups.group, own), groups.rows)
    for g in range(6):
        assert np.ptp(own[groups.group == g]) <= 1


def test_where_no_share_is_found_in_time_they_take_turns(monkeypatch):
    class Nothing:
        x = None

    groups, leaf, _ = some_boxes(1)
    monkeypatch.setattr(module, "milp", lambda *_, **__: Nothing)
    np.testing.assert_array_equal(_held(groups, leaf, Clock.of(60)), _in_turns(groups, leaf))


def interval(low, high, point):
    return Atom(np.array([[point]]), 1.0, (low, high))


@pytest.mark.parametrize(("g", "w"), [(1.0, 20.0), (0.1, 3.0), (4.0, 10.0)])
def test_beyond_the_outermost_threshold_each_order_of_magnitude_is_as_likely(g, w):
    rng = np.random.default_rng(0)
    upto = np.exp(rng.uniform(np.log(2 * g), np.log(w), 400_000))
    typical = np.abs(upto * rng.random(len(upto)) - g).mean()
    # The nearer end is below, or above.
    for atom in (interval(5.0, 5.0 + w, 5.0 + g), interval(-w, 0.0, -g)):
        assert _inside(atom) == pytest.approx(typical, rel=0.01)


def test_in_the_middle_a_point_is_a_quarter_of_the_interval_off():
    assert _inside(interval(2.0, 6.0, 4.0)) == 1.0
    assert _inside(interval(2.0, 6.0, 3.99)) == pytest.approx(1.0, rel=0.02)
    assert _inside(interval(2.0, np.inf, 3.0)) == 0.0
    assert _inside(interval(2.0, 6.0, 6.0)) == 1.0
    assert _inside(Atom(np.array([[3.0]]), 1.0)) == 0.0
