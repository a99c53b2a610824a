"""Counting what ordered rules take, against every point and against the factorial recursion."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.examples import examples
from treeleak.core.errors import NotCovered
from treeleak.uncertainty import regions
from treeleak.uncertainty.regions import FirstMatch

SEEDS = st.integers(0, 2**32 - 1)


def random_list(rng, n_axes, n_rules, most_atoms=4, width=3, largest=3):
    """Sizes, a box and rules; some rules test nothing, some hold no point."""
    n_atoms = rng.integers(1, most_atoms + 1, n_axes)
    sizes = tuple(rng.integers(0 if rng.random() < 0.1 else 1, largest + 1, n) for n in n_atoms)
    box = tuple(rng.random(n) < 0.9 for n in n_atoms)
    rules = []
    for _ in range(n_rules):
        tested = rng.choice(
            n_axes,
            min(rng.integers(0 if rng.random() < 0.1 else 1, width + 1), n_axes),
            replace=False,
        )
        rules.append({int(k): rng.random(n_atoms[k]) < 0.6 for k in tested})
    return sizes, box, rules


def binary_list(rng, n_axes, n_rules):
    """Rules of width 3 over axes of two values."""
    sizes = (np.ones(2, dtype=np.int64),) * n_axes
    box = (np.ones(2, dtype=bool),) * n_axes
    rules = [
        {int(k): np.arange(2) == rng.integers(2) for k in rng.choice(n_axes, 3, replace=False)}
        for _ in range(n_rules)
    ]
    return sizes, box, rules


def first(rules, point):
    """Find the first rule that holds a point."""
    taking = (j for j, r in enumerate(rules) if all(m[point[k]] for k, m in r.items()))
    return next(taking, len(rules))


def captured(sizes, box, rules):
    return list(FirstMatch(sizes, box, rules).counts)


def by_points(sizes, box, rules):
    """Give every point to the first rule that holds it."""
    out = [0] * (len(rules) + 1)
    for point in itertools.product(*(np.flatnonzero(m) for m in box)):
        out[first(rules, point)] += math.prod(int(s[v]) for s, v in zip(sizes, point, strict=True))
    return out


def num(sizes, box, rules):
    """Count the points that lie in all of some rules."""
    held = list(box)
    for rule in rules:
        for k, mask in rule.items():
            held[k] = held[k] & mask
    return math.prod(int(s[m].sum()) for s, m in zip(sizes, held, strict=True))


def by_recursion(sizes, box, rules):
    """Take from each rule what each rule before it takes of it, and so on."""

    def taken(j, of):
        return num(sizes, box, [rules[j], *of]) - sum(taken(h, [rules[j], *of]) for h in range(j))

    out = [taken(j, []) for j in range(len(rules))]
    return [*out, num(sizes, box, []) - sum(out)]


@examples(150, fast=18)
@given(SEEDS)
def test_every_point_goes_to_the_first_rule_that_holds_it(seed):
    rng = np.random.default_rng(seed)
    sizes, box, rules = random_list(rng, rng.integers(1, 6), rng.integers(0, 9))
    assert captured(sizes, box, rules) == by_points(sizes, box, rules)


@examples(100, fast=12)
@given(SEEDS)
def test_values_and_changes_are_those_of_all_points(seed):
    rng = np.random.default_rng(seed)
    sizes, box, rules = random_list(rng, rng.integers(1, 5), rng.integers(0, 8))
    matches = FirstMatch(sizes, box, rules)
    taken = [[] for _ in range(len(rules) + 1)]
    held = [np.flatnonzero(m & (s > 0)) for m, s in zip(box, sizes, strict=True)]
    for point in itertools.product(*held):
        taken[first(rules, point)].append(point)
    some = rng.choice(len(taken), rng.integers(1, len(taken) + 1), replace=False).tolist()
    points = np.array([p for j in some for p in taken[j]]).reshape(-1, len(box))
    possible = matches.possible(some)
    assert [np.flatnonzero(m).tolist() for m in possible] == [
        np.unique(points[:, k]).tolist() for k in range(len(box))
    ]
    other = np.array([rng.integers(-1, len(m)) for m in box])
    least = (points != other).sum(axis=1).min(initial=len(box) + 1)
    assert matches.changes_to(other, some) == least


@examples(30, fast=3)
@given(SEEDS)
def test_as_the_recursion_over_earlier_rules_says(seed):
    rng = np.random.default_rng(seed)
    sizes, box, rules = random_list(rng, 40, 8, most_atoms=10, largest=10**6)
    sizes = tuple(np.maximum(s, 1) for s in sizes)
    box = tuple(np.ones_like(m) for m in box)
    found = captured(sizes, box, rules)
    assert found == by_recursion(sizes, box, rules)
    assert sum(found) > 2**64


def test_forty_rules_share_all_points():
    sizes, box, rules = binary_list(np.random.default_rng(60), 60, 40)
    found = captured(sizes, box, rules)
    assert sum(found) == 2**60
    assert found[:8] == by_recursion(sizes, box, rules[:8])[:8]


def test_rules_that_take_nothing_or_all():
    sizes, box = (np.array([2, 3]),), (np.array([True, True]),)
    low, high, none = np.array([True, False]), np.array([False, True]), np.array([False, False])
    assert captured(sizes, box, []) == [5]
    assert captured(sizes, box, [{}, {0: low}]) == [5, 0, 0]
    assert captured(sizes, box, [{0: none}, {0: low}, {0: low}, {0: high}]) == [0, 2, 0, 3, 0]
    assert captured(sizes, (none,), [{0: low}]) == [0, 0]


def test_stops_where_rules_overlap_in_too_many_ways(monkeypatch):
    sizes, box, rules = binary_list(np.random.default_rng(0), 60, 120)
    with pytest.raises(NotCovered, match="not counted: 120 rules overlap"):
        captured(sizes, box, rules)
    monkeypatch.setattr(regions, "MOST_STEPS", 10)
    with pytest.raises(NotCovered, match="not counted: 20 rules overlap"):
        captured(sizes, box, rules[:20])
