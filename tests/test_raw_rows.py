"""Rows in boxes: of which class, and how far from the values they stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeleak.attacks.loss_sums import raw_rows as module
from treeleak.attacks.loss_sums.layers import Groups
from treeleak.attacks.loss_sums.raw_rows import (
    _in_turns,
    _likely,
    _Program,
    assign_rows_to_boxes,
)
from treeleak.core.clock import Clock


def some_boxes(seed):
    """Groups of some boxes, their leaves in three trees, and rows of each class in each box."""
    rng = np.random.default_rng(seed)
    group = np.sort(np.append(np.arange(6), rng.integers(0, 6, int(rng.integers(0, 8)))))
    leaf = rng.integers(0, 4, (len(group), 3)) + np.array([0, 4, 8])
    rows = rng.integers(0, 4, (2, len(group)))
    held = np.array([np.bincount(leaf.ravel(), np.repeat(own, 3), 12) for own in rows])
    none = np.zeros((6, 3), dtype=np.int64), np.ones((len(group), 1), dtype=bool)
    of_group = np.bincount(group, rows.sum(axis=0)).astype(np.int64)
    return Groups(3, of_group, *none, group, np.array([held.sum(axis=0), held[1]])), leaf, rows


@given(st.integers(0, 10**6))
def test_boxes_get_rows_so_that_all_leaves_hold_theirs(seed):
    groups, leaf, rows = some_boxes(seed)
    likely = np.random.default_rng(seed).normal(size=len(leaf))
    found = _Program.of(groups, leaf).likeliest(likely, 60.0)
    assert found.shape == rows.shape
    assert likely @ found.sum(axis=0) >= likely @ rows.sum(axis=0) - 1e-6
    assert (found >= 0).all()
    np.testing.assert_array_equal(np.bincount(groups.group, found.sum(axis=0)), groups.rows)
    for own, right in zip((found.sum(axis=0), found[1]), groups.held, strict=True):
        np.testing.assert_array_equal(np.bincount(leaf.ravel(), np.repeat(own, 3), 12), right)


@given(st.integers(0, 10**6))
def test_where_leaves_say_nothing_of_classes_rows_are_right_still(seed):
    groups, leaf, _ = some_boxes(seed)
    silent = replace(groups, held=np.array([groups.held[0], np.full(12, np.nan)]))
    found = _Program.of(silent, leaf).likeliest(np.zeros(len(leaf)), 60.0).sum(axis=0)
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


def listed(groups, held):
    """Group, box and class of each row, sorted."""
    label, box = np.divmod(np.repeat(np.arange(held.size), held.ravel()), held.shape[1])
    return sorted(zip(groups.group[box], box, label, strict=True))


def test_where_no_share_is_found_in_time_they_take_turns(monkeypatch):
    class Nothing:
        x = None

    groups, leaf, _ = some_boxes(1)
    monkeypatch.setattr(module, "milp", lambda *_, **__: Nothing)
    ((label, box),) = assign_rows_to_boxes(groups, leaf, np.arange(2), Clock.of(60), 0)
    own = sorted(zip(groups.group[box], box, label, strict=True))
    assert own == listed(groups, _in_turns(groups, leaf))


@given(st.integers(0, 10**6))
def test_every_way_to_share_out_rows_meets_all_leaves(seed):
    groups, leaf, rows = some_boxes(seed)
    ways = assign_rows_to_boxes(groups, leaf, np.arange(2), Clock.of(60), seed)
    assert len(ways) == (6 if len(leaf) > 6 else 1)
    for label, box in ways:
        np.testing.assert_array_equal(groups.group[box], groups.group[ways[0][1]])
        assert len(label) == rows.sum()
        for own, right in zip((np.ones(len(box)), label == 1), groups.held, strict=True):
            held = np.bincount(leaf[box].ravel(), np.repeat(own, 3), 12)
            np.testing.assert_array_equal(held, right)


def two_boxes(n_first, n_second):
    """Rows whose atom is known, and one of which nothing says which of two atoms it has."""
    rows = np.array([n_first, n_second, 1])
    group = np.array([0, 1, 2, 2])
    box = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool)
    none = np.zeros((3, 1), dtype=np.int64)
    held = np.array([[float(rows.sum())], [0.0]])
    return Groups(1, rows, none, box, group, held), np.zeros((4, 1), dtype=np.int64)


def test_the_box_is_chosen_that_is_like_the_others():
    for first, second in ((20, 4), (3, 11)):
        groups, leaf = two_boxes(first, second)
        likely = np.exp(_likely(groups, np.array([0, 2])))
        # Those that are known, the one that is not, and half a row each.
        usual = np.array([first + 1, second + 1]) / (first + second + 2)
        np.testing.assert_allclose(likely, np.tile(usual, 2))
        ways = assign_rows_to_boxes(groups, leaf, np.array([0, 2]), Clock.of(60), 0)
        assert ways[0][1][-1] == (2 if first > second else 3)


def test_boxes_are_drawn_as_often_as_they_are_likely():
    groups, leaf = two_boxes(29, 9)
    drawn = [
        box[-1]
        for seed in range(40)
        for _, box in assign_rows_to_boxes(groups, leaf, np.array([0, 2]), Clock.of(60), seed)[1:]
    ]
    # .75; standard error .026.
    assert np.mean(np.array(drawn) == 2) == pytest.approx(30 / 40, abs=0.08)
