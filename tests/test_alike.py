"""Groups whose predictions hardly differ."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from treeleak.attacks.loss_sums.layers import equal_states

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
