"""Walks that begin where rows probably lie, and how sure rows are that miss counts."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from treeleak.attacks.answer import Answer
from treeleak.attacks.large_grid.bayes_estimate import by_two_walks
from treeleak.partition.atoms import Atom, AttributeAtoms
from treeleak.partition.value_index import ValueIndex, values_of
from treeleak.reconstruction.rows import in_columns
from treeleak.schema import Binary, Categorical, Numeric

# ------------------------------------------------------------- how sure rows are that miss counts


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


@pytest.mark.parametrize("exchangeable", [False, True])
def test_columns_are_as_sure_as_two_walks_come_to_the_same(values, exchangeable):
    rng = np.random.default_rng(1)
    one = people(300, values, rng)
    two, other = one.copy(), people(300, values, rng)
    # The last column of numbers comes out anew, all others as before.
    two[:, 4] = other[:, 4]
    order = rng.permutation(len(one)) if exchangeable else np.arange(len(one))
    start = values.atom_start[:-1]
    rows = by_two_walks((one + start, two[order] + start), 3, values, exchangeable)
    np.testing.assert_array_equal(values.atom_of[rows.values], one + start)
    assert rows.misfit == 3
    assert not rows.proved.any()
    assert (rows.confidence[:, 4] < 0.7).all()
    others = np.delete(rows.confidence, 4, axis=1)
    assert ((others > 0.8) & (others < 1)).all()


def test_walks_that_came_to_the_same_are_not_certain(values):
    one = people(50, values, np.random.default_rng(2)) + values.atom_start[:-1]
    rows = by_two_walks((one, one.copy()), 3, values, exchangeable=True)
    assert rows.confidence.max() < 1
    assert rows.confidence.mean() > 0.9


def test_rows_are_as_far_apart_as_their_values(values):
    rng = np.random.default_rng(3)
    x, y = (people(20, values, rng) + values.atom_start[:-1] for _ in range(2))
    cost, label = values.apart(x, y)
    at = [values.first[rows] - values.start[:-1] for rows in (x, y)]
    each = [
        values.distance(a, np.arange(n))[at[0][:, a, None], at[1][None, :, a]]
        for a, n in enumerate(np.diff(values.start))
    ]
    np.testing.assert_allclose(cost + label, sum(each))
    assert label.max() == 1


@pytest.mark.parametrize(("within", "misfit"), [(None, 0), (None, 3), (0.4, 3)])
def test_it_is_said_of_columns_how_probable_leaves_are(values, within, misfit):
    rng = np.random.default_rng(4)
    one, two = (people(6, values, rng) + values.atom_start[:-1] for _ in range(2))
    rows = by_two_walks((one, two), misfit, values, False)
    if within is not None:
        rows = replace(rows, within=within * np.linspace(0, 1, rows.confidence.size).reshape(6, -1))
    answer = Answer("unknown", values, (rows,), ordered=True)
    found = in_columns(answer)
    # No column of these attributes is one of several.
    expected = float(not misfit) if within is None else rows.within[:, :-1]
    np.testing.assert_array_equal(found.within, np.broadcast_to(expected, (6, 5)))
    np.testing.assert_array_equal(found.sure, rows.confidence[:, :-1])
