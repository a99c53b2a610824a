"""Groups, and states, whose predictions hardly differ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeleak.attacks.loss_sums.layers import _NEARLY, Groups, equal_states, joined

RANGES = st.tuples(st.integers(-5, 5), st.integers(-3, 3), st.integers(0, 3))


@given(st.lists(RANGES, min_size=1))
def test_predictions_that_hardly_differ_are_one(given):
    whole, little, width = np.array(given).T
    low = whole + 1e-10 * little
    high = low + 1e-10 * width
    ends, number = equal_states(low, high)
    assert number.tolist() == np.unique(whole, return_inverse=True)[1].tolist()
    for k, (lowest, highest) in enumerate(ends.T):
        assert low[lowest] == low[number == k].min()
        assert high[highest] == high[number == k].max()


@given(st.lists(st.integers(-40, 40), min_size=1))
def test_no_chain_of_predictions_makes_distant_ones_one(given):
    low = 3e-10 * np.array(given)
    ends, number = equal_states(low, low)
    assert (low[ends[1]] - low[ends[0]] <= 1e-9).all()
    assert (np.diff(low[ends[0]]) > 1e-9).all()
    assert len(number) == len(low)


NEAR = 1e-8


class Rows:
    """Rows with predictions and boxes of their own, each in a group with some of its neighbours."""

    def __init__(self, predicted, cuts):
        order = np.argsort(predicted, kind="stable")
        self.group = np.empty(len(order), dtype=np.int64)
        self.group[order] = np.cumsum(np.isin(np.arange(len(order)), sorted(cuts)))
        n = self.group.max() + 1
        own = [np.flatnonzero(self.group == g) for g in range(n)]
        ends = [[rows[predicted[rows].argmin()], rows[predicted[rows].argmax()]] for rows in own]
        self.ends = predicted[np.array(ends).T]
        box = np.eye(len(order), dtype=bool)[np.concatenate(own)]
        self.groups = Groups(
            1, np.bincount(self.group), np.array(ends).T[:, :, None], box, np.sort(self.group),
            np.array([[3.0, 4.0], [1.0, np.nan]]),
        )  # fmt: skip


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=12),
    st.lists(st.integers(-1, 1), min_size=12, max_size=12),
    st.sets(st.integers(1, 11)),
    st.sets(st.integers(1, 11)),
)
def test_rows_of_both_states_lie_in_the_groups_that_they_have_in_common(whole, off, cuts, others):
    """Rows keep their places in the order of predictions, or change them with a near one."""
    predicted = NEAR * np.array(whole, dtype=float)
    moved = predicted + NEAR * np.array(off[: len(whole)])
    one, other = Rows(predicted, cuts), Rows(moved, others)
    found = joined(one.groups, other.groups, one.ends, other.ends)
    # As few rows to a group as leave the same number of rows below it in both.
    below = [set(np.cumsum(own.groups.rows).tolist()) for own in (one, other)]
    cut = sorted(below[0] & below[1])
    spans = []
    for low, high in zip([0, *cut], cut, strict=False):
        inside = [
            own.ends[:, (own.groups.rows.cumsum() > low) & (own.groups.rows.cumsum() <= high)]
            for own in (one, other)
        ]
        spans.append(np.hstack(inside))
    if any(np.ptp(span) > _NEARLY for span in spans):
        assert found is None
        return
    assert np.cumsum(found.rows).tolist() == cut
    for g, span in enumerate(spans):
        ends = [(predicted, moved)[k][row] for row in found.leaf[:, g, 0] for k in (0, 1)]
        assert span.min() in ends[:2]
        assert span.max() in ends[2:]
        boxes = found.box[found.group == g]
        assert len(np.unique(boxes, axis=0)) == len(boxes)
        for own, (low, high) in ((o, ([0, *cut][g], cut[g])) for o in (one, other)):
            last = own.groups.rows.cumsum()
            inside = np.flatnonzero((last > low) & (last <= high))
            mine = own.groups.box[np.isin(own.groups.group, inside)]
            assert {tuple(b) for b in mine} <= {tuple(b) for b in boxes}
    assert (found.group == np.sort(found.group)).all()
    np.testing.assert_array_equal(found.held, one.groups.held)


def test_what_leaves_hold_is_open_where_states_differ():
    one, other = Rows(NEAR * np.arange(4.0), {2}), Rows(NEAR * np.arange(4.0), {2})
    other.groups.held[0, 1] = 5.0
    found = joined(one.groups, other.groups, one.ends, other.ends)
    np.testing.assert_array_equal(found.held, [[3.0, np.nan], [1.0, np.nan]])


@pytest.mark.parametrize("far", [2 * NEAR, 4 * NEAR])
def test_states_that_differ_by_far_predictions_are_not_joined(far):
    """Of three rows, the first state has two below, and the second state one."""
    predicted = np.array([0.0, 0.0, far])
    one, other = Rows(predicted, {2}), Rows(predicted, {1})
    other.ends[1, 1] = far
    found = joined(one.groups, other.groups, one.ends, other.ends)
    assert (found is None) == (far > _NEARLY)
