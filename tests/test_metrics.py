"""The reconstruction error against its definition, against brute force and against the paper."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.partial_error import partial_error
from treeleak.core.errors import BadInput
from treeleak.metrics import (
    exact_row_share,
    individual_errors,
    match_rows,
    random_rows,
    reconstruction_error,
)
from treeleak.metrics import matching as module
from treeleak.metrics.individual import Group
from treeleak.schema import Binary, Categorical, Implies, Numeric, OneHot, Ordinal, Schema

MIXED = Schema(
    [
        Binary("b"),
        Ordinal("o", 0, 4),
        Numeric("n", -1, 1, missing=True),
        Categorical("c", (1, 5, 9)),
    ]
)
RANGES = {"b": 1, "o": 4, "n": 2}
ROW = st.tuples(
    st.integers(0, 1),
    st.integers(0, 4),
    st.sampled_from([-1.0, -0.5, 0.3, 1.0, math.nan]),
    st.sampled_from([1, 5, 9]),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame]:
    n = draw(st.integers(1, 5))
    rec, true = (draw(st.lists(ROW, min_size=n, max_size=n)) for _ in range(2))
    return pd.DataFrame(rec, columns=list("bonc")), pd.DataFrame(true, columns=list("bonc"))


def distance(a: pd.Series, b: pd.Series) -> float:
    """The definition, term by term."""
    total = 0.0
    for column in a.index:
        if math.isnan(a[column]) or math.isnan(b[column]):
            total += math.isnan(a[column]) != math.isnan(b[column])
        elif column in RANGES:
            total += min(abs(a[column] - b[column]) / RANGES[column], 1)
        else:
            total += a[column] != b[column]
    return total


def brute_force(rec: pd.DataFrame, true: pd.DataFrame) -> float:
    costs = [[distance(a, b) for _, b in true.iterrows()] for _, a in rec.iterrows()]
    orders = itertools.permutations(range(len(rec)))
    return min(sum(costs[i][j] for i, j in enumerate(o)) for o in orders) / rec.size


@given(tables())
def test_the_error_is_that_of_the_best_of_all_matchings(pair):
    rec, true = pair
    error = reconstruction_error(rec, true, MIXED)
    assert error == pytest.approx(brute_force(rec, true), abs=1e-12)
    assigned = match_rows(rec, true, MIXED)
    assert sorted(assigned) == list(range(len(true)))
    paired = [distance(rec.iloc[i], true.iloc[j]) for i, j in enumerate(assigned)]
    assert sum(paired) / rec.size == pytest.approx(error, abs=1e-12)


@given(tables())
def test_moving_rows_in_bulk_finds_the_same_error(pair):
    rec, true = (pd.concat([t] * 3, ignore_index=True) for t in pair)
    error = reconstruction_error(rec, true, MIXED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MATCH_LIMIT", 0)
        assert reconstruction_error(rec, true, MIXED) == pytest.approx(error, abs=1e-6)
        assert sorted(match_rows(rec, true, MIXED)) == list(range(len(true)))


def test_without_a_schema_the_true_range_and_text_decide():
    true = pd.DataFrame({"n": [10, 20], "t": ["x", None], "k": [3, 3]})
    rec = pd.DataFrame({"n": [15, 20], "t": ["y", None], "k": [3, 4]})
    assert reconstruction_error(rec, true) == pytest.approx((0.5 + 1 + 1) / 6)
    assert exact_row_share(rec, true) == 0


@pytest.mark.parametrize(
    ("rec", "true", "schema", "says"),
    [
        ({"a": [1]}, {"a": [1], "b": [1]}, None, "reconstructed rows lack column 'b'"),
        ({"a": [1], "b": [1]}, {"a": [1]}, None, "reconstructed rows have a column 'b'"),
        ({"a": [1, 2]}, {"a": [1]}, None, "2 reconstructed rows against 1 true"),
        ({"a": ["x"]}, {"a": [1]}, None, "'a' holds numbers in one"),
        ({"a": [1]}, {"a": [np.inf]}, None, "'a' of the true rows holds an infinite"),
    ],
)
def test_tables_that_do_not_fit_are_refused(rec, true, schema, says):
    with pytest.raises(BadInput, match=says):
        reconstruction_error(pd.DataFrame(rec), pd.DataFrame(true), schema)


def test_too_many_different_rows_are_refused_not_approximated():
    rng = np.random.default_rng(0)
    n = module.MATCH_LIMIT + 1
    with pytest.raises(BadInput, match=f"{n} rows have no equal"):
        reconstruction_error(rng.random((n, 2)), rng.random((n, 2)))


def test_random_rows_are_possible_and_use_the_whole_domain():
    schema = Schema(
        [
            *MIXED.attributes,
            OneHot("g", ("g1", "g2"), at_most_one=True),
            OneHot("h", ("h1", "h2")),
            Numeric("free"),
            Binary("d"),
        ],
        [Implies({"b": 1}, {"d": 1})],
    )
    true = random_rows(np.full((2, 10), [[0.0], [7.0]]), schema, 400, seed=1)
    assert schema.valid(true.to_numpy(), true.columns).all()
    assert set(true.o) == {0, 1, 2, 3, 4}
    assert set(true.c) == {1, 5, 9}
    assert set(zip(true.g1, true.g2, strict=True)) == {(0, 0), (0, 1), (1, 0)}
    assert set(zip(true.h1, true.h2, strict=True)) == {(0, 1), (1, 0)}
    assert 0 <= true.free.min() < 1 < 6 < true.free.max() <= 7
    assert set(zip(true.b, true.d, strict=True)) == {(0, 0), (0, 1), (1, 1)}
    pd.testing.assert_frame_equal(
        true, random_rows(np.full((2, 10), [[0.0], [7.0]]), schema, 400, 1)
    )


# ------------------------------------------------------------------------------ errors row by row


SCHEMA = Schema([Binary("a"), Binary("b"), Numeric("x", 0, 2)])


@st.composite
def pairs(draw):
    row = st.tuples(st.integers(0, 1), st.integers(0, 1), st.sampled_from([0.0, 0.5, 2.0]))
    n = draw(st.integers(1, 5))
    return [
        pd.DataFrame(draw(st.lists(row, min_size=n, max_size=n)), columns=list("abx"))
        for _ in range(2)
    ]


@examples(25)
@given(pairs())
def test_errors_are_those_of_some_best_matching(pair):
    rec, true = pair
    found = individual_errors(rec, true, SCHEMA)
    scale = np.array([1, 1, 2])
    costs = (np.abs(true.to_numpy(float)[:, None] - rec.to_numpy(float)[None]) / scale).mean(axis=2)
    orders = list(itertools.permutations(range(len(true))))
    sums = [sum(costs[i, j] for i, j in enumerate(o)) for o in orders]
    best = [
        tuple(costs[i, j] for i, j in enumerate(o))
        for o, s in zip(orders, sums, strict=True)
        if s <= min(sums) + 1e-9
    ]
    assert any(np.allclose(found.errors, b) for b in best)
    assert found.all.error == pytest.approx(reconstruction_error(rec, true, SCHEMA))
    assert found.all.perfect == pytest.approx(exact_row_share(rec, true))
    assert found.all.worst == found.errors.max()


def test_what_was_known_does_not_count():
    true = pd.DataFrame({"a": [0, 1, 0], "b": [0, 1, 1], "x": [0.0, 2.0, 1.0]})
    rec = true.assign(b=[0, 0, 1])
    known = np.zeros((3, 3), dtype=bool)
    known[0] = known[:, 0] = True
    found = individual_errors(rec, true, SCHEMA, known)
    assert np.isnan(found.errors[0])
    assert found.errors[1:] == pytest.approx([0.5, 0])
    assert found.all.n_rows == 2
    assert found.all.error == pytest.approx(partial_error(rec, true, known, SCHEMA))
    by_name = individual_errors(rec, true, SCHEMA, ["a", "b"])
    assert by_name.all == Group(3, 0, 1, 0)
    with pytest.raises(BadInput, match="'z' is known"):
        individual_errors(rec, true, SCHEMA, ["z"])
