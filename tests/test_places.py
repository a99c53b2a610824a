"""Walks that begin where rows probably lie, and how sure rows are that miss counts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from treeleak.attacks.large_grid.bayes_estimate import by_two_walks
from treeleak.partition.atoms import Atom, AttributeAtoms
from treeleak.partition.value_index import ValueIndex, values_of
from treeleak.schema import Binary, Categorical, Numeric

# ------------------------------------------------------------- how sure rows are that miss counts


FOUND = np.array([0.95, 0.6, 0.8, 0.3, 0.7])
"""How probable it is that a walk finds the value of a row, by column."""


@pytest.fixture(scope="module")
def values() -> ValueIndex:
    """Two binary columns, a category of four, and two columns of numbers with twelve intervals."""
    ends = np.linspace(0.0, 1.0, 13)
    intervals = [
        Atom(np.array([[(low + high) / 2]]), high - low, (low, high))
        for low, high in pairwise(ends)
    ]
    kinds = [
        *((Binary(name), [Atom(np.array([[x]]), 1.0) for x in (0.0, 1.0)]) for name in "ab"),
        (Categorical("c", (0, 1, 2, 3)), [Atom(np.array([[x]]), 1.0) for x in range(4)]),
        *((Numeric(name, 0.0, 1.0), intervals) for name in "de"),
    ]
    parts = [
        AttributeAtoms(kind, np.array([i]), tuple(atoms)) for i, (kind, atoms) in enumerate(kinds)
    ]
    return values_of(parts, 2)


def people(n_rows: int, values: ValueIndex, rng: np.random.Generator) -> np.ndarray:
    """Atoms of rows whose columns go together; the class last."""
    leaning = rng.random(n_rows)
    columns = [
        np.minimum((n * (0.7 * leaning + 0.3 * rng.random(n_rows))).astype(int), n - 1)
        for n in np.diff(values.atom_start)[:-1]
    ]
    return np.column_stack([*columns, (leaning > 0.6).astype(int)])


def walk(true: np.ndarray, values: ValueIndex, rng: np.random.Generator, found: np.ndarray):
    """A walk that finds each value or, instead, holds that of any other person."""
    other = people(len(true), values, rng)
    hit = rng.random((len(true), len(found))) < found
    rows = true.copy()
    rows[:, :-1] = np.where(hit, true[:, :-1], other[:, :-1])
    return rows


def stated(one: np.ndarray, two: np.ndarray, values: ValueIndex, exchangeable: bool):
    one, two = (rows + values.atom_start[:-1] for rows in (one, two))
    return by_two_walks((one, two), one, 3, values, exchangeable)


def matched(one: np.ndarray, true: np.ndarray, values: ValueIndex) -> tuple[np.ndarray, float]:
    cost, label = values.apart(one + values.atom_start[:-1], true + values.atom_start[:-1])
    i, j = linear_sum_assignment(cost + label)
    return true[j], float(cost[i, j].mean()) / len(values.parts)


@pytest.mark.parametrize("found", [FOUND, 0 * FOUND], ids=["something", "nothing"])
def test_rows_without_places_are_no_surer_than_other_people_let_expect(values, found):
    rng = np.random.default_rng(1)
    true = people(300, values, rng)
    one, two = (rng.permutation(walk(true, values, rng, found)) for _ in range(2))
    if not found.any():
        one, two = (people(300, values, rng) for _ in range(2))
    rows, far = stated(one, two, values, exchangeable=True)
    there, error = matched(one, true, values)
    right, sure = (one == there)[:, :-1], rows.confidence[:, :-1]
    assert sure.mean() == pytest.approx(right.mean(), abs=0.08)
    high = sure > 0.85
    assert right[high].mean() > sure[high].mean() - 0.12
    # Both walks mix people in the same way: they are nearer to each other than to the truth.
    assert 0.4 * error < far < 1.2 * error


def test_walks_that_came_to_the_same_are_not_certain(values):
    one = people(50, values, np.random.default_rng(2))
    rows, far = stated(one, one.copy(), values, exchangeable=True)
    assert 0 < far < 0.01
    assert rows.confidence.max() < 1
    assert rows.confidence.mean() > 0.9
