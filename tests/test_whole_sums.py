"""Choices of ways that meet sums: all of them, as trying every choice gives them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeleak.attacks.loss_sums.layers import _shared_out, work
from treeleak.attacks.loss_sums.meet_in_the_middle import Items, Sums, meet_in_the_middle
from treeleak.attacks.loss_sums.sum_kernels import meet

SEEDS = st.integers(0, 10**6)


def of_equal_rows(most, second, first):
    """Items of 0 to ``most`` rows of each kind, that add so much each."""
    begin = np.append(0, np.cumsum(most + 1))
    number = np.arange(begin[-1]) - np.repeat(begin[:-1], most + 1)
    kind = np.repeat(np.arange(len(most)), most + 1)
    return Items(begin, number, number * second[kind], number * first[kind])


def shared_items(rng, n_items, *, alike=False):
    """Items of which each has some parts, and room for some rows of all of them together.

    ``alike``: all rows count the same in the second sum, as where it only counts them.
    """
    n_ways, added = [], []
    for _ in range(n_items):
        n_parts = int(rng.integers(1, 4))
        room = tuple(rng.integers(1, 3, n_parts).tolist())
        rows = _shared_out(room, int(rng.integers(1, 4)))
        # Few digits, so that several choices meet the sums.
        first = rng.integers(1, 20, n_parts) / 20
        second = np.ones(n_parts) if alike else np.round(first * (1 - first), 2) + 0.01
        n_ways.append(len(rows))
        added.append(np.stack([rows.sum(axis=1), rows @ second, rows @ first]))
    rows, second, first = np.concatenate(added, axis=1)
    return Items(np.append(0, np.cumsum(n_ways)), rows.astype(np.int64), second, first)


def totals(items, choices):
    """What choices add up to: rows, and both sums."""
    return tuple(each[choices + items.begin[:-1]].sum(axis=-1) for each in items.ways)


def some_sums(rng, items, counted, off=1e-9):
    """What some choice comes to, of which two rows are of the second class; and the choice."""
    choice = rng.integers(0, items.n_ways)
    rows, second, first = totals(items, choice)
    sums = Sums(int(rows) if counted else None, float(second), float(first) - 2, off, off)
    return tuple(choice.tolist()), sums


def brute_force(items, sums):
    choices = np.array(list(product(*(range(n) for n in items.n_ways))))
    rows, second, first = totals(items, choices)
    ones = first - sums.first
    met = np.abs(second - sums.second) <= sums.off_second
    met &= np.abs(ones - np.rint(ones)) <= sums.off_first
    if sums.rows is not None:
        met &= rows == sums.rows
    return {tuple(x) for x in choices[met].tolist()}


def as_set(found):
    out = {tuple(x) for x in found.tolist()}
    assert len(out) == len(found)
    return out


@given(SEEDS, st.booleans(), st.booleans())
def test_all_choices_of_shared_parts_that_meet_the_sums_are_found(seed, counted, alike):
    rng = np.random.default_rng(seed)
    items = shared_items(rng, int(rng.integers(1, 5)), alike=alike)
    off = float(rng.choice([1e-9, 0.011]))
    true, sums = some_sums(rng, items, counted, off)
    right = brute_force(items, sums)
    assert true in right
    found = meet_in_the_middle(items, sums, 10**6)
    assert found is None or as_set(found) == right
    assert found is not None or len(right) > 100
    # As many choices as have the number of rows, at least.
    assert work(items, sums) >= len(right)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "where", ["second", "first", "off_second", "off_first", "item", "item's first"]
)
def test_sums_that_are_not_known_choose_nothing(where, number):
    """A place in an array that followed from no number once ended the process."""
    items = of_equal_rows(np.array([9, 9, 9]), np.full(3, 0.25), np.full(3, 0.5))
    sums = Sums(None, 2.0, 0.0, 1e-9, 1e-9)
    if where.startswith("item"):
        name = "first" if where.endswith("first") else "second"
        items = replace(items, **{name: np.append(getattr(items, name)[:-1], number)})
    else:
        sums = replace(sums, **{where: number})
    assert meet_in_the_middle(items, sums, 10**6) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", range(3))
def test_pairs_of_numbers_that_are_none_are_not_looked_for(bad, where):
    key, wanted, out = np.arange(4.0), np.array([2.0, 3.0]), np.empty((8, 2), dtype=np.int64)
    off = 0.5
    if where == 0:
        key[-1] = bad
    elif where == 1:
        wanted[1] = bad
    else:
        off = bad
    n = meet(key, np.zeros(4), wanted, np.zeros(2), off, 1e-9, 0.0, out)
    assert n == (1 if where == 1 else -1)
