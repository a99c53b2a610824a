"""Errors row by row, and those of inliers and outliers."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import IsolationForest

from experiments.partial_error import partial_error
from helpers.examples import examples
from treeleak.core.errors import BadInput
from treeleak.metrics import exact_row_share, individual_errors, reconstruction_error
from treeleak.metrics.individual import Group, Individual, find_outliers
from treeleak.schema import Binary, Numeric, Schema

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


@given(pairs(), st.randoms(use_true_random=False))
def test_groups_add_up(pair, random):
    rec, true = pair
    errors = np.abs(rec - true).mean(axis=1).to_numpy()
    chosen = Individual(errors, np.array([random.random() < 0.5 for _ in range(len(true))]))
    groups = [g for g in (chosen.inliers, chosen.outliers) if g.n_rows]
    assert sum(g.n_rows for g in groups) == len(true)
    for name in ("error", "perfect"):
        total = sum(getattr(g, name) * g.n_rows for g in groups) / len(true)
        assert total == pytest.approx(getattr(chosen.all, name))
    assert max(g.worst for g in groups) == chosen.all.worst


def test_errors_stand_in_the_order_of_the_training_rows():
    true = pd.DataFrame({"a": [0, 1, 0], "b": [0, 1, 1], "x": [0.0, 2.0, 1.0]})
    rec = true.iloc[[2, 0, 1]].reset_index(drop=True)
    rec.loc[2, "x"] = 0.5
    found = individual_errors(rec, true, SCHEMA)
    assert found.errors == pytest.approx([0, 0.75 / 3, 0])
    assert found.all == Group(3, pytest.approx(0.25 / 3), pytest.approx(2 / 3), 0.25)


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


def test_a_group_without_rows_says_nothing():
    found = Individual(np.array([0.5, 0.0]), np.array([False, False]))
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["outliers"] == {"n_rows": 0, "error": None, "perfect": None, "worst": None}
    assert told["inliers"] == {"n_rows": 2, "error": 0.25, "perfect": 0.5, "worst": 0.5}


def crowd():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (200, 3)), columns=list("abc")).assign(d=0, e=0, f=0)
    X.loc[:4, ["d", "e", "f"]] = 1
    return X


def test_outliers_are_those_of_an_isolation_forest_in_default_settings():
    X = crowd()
    found = find_outliers(X, seed=3)
    theirs = IsolationForest(random_state=3).fit(X.to_numpy()).predict(X.to_numpy()) == -1
    assert (found == theirs).all()
    assert found[:5].all()
    assert not found.all()
    assert (individual_errors(X, X, seed=3).outlier == found).all()


def test_text_and_missing_values_can_make_an_outlier():
    X = crowd().astype(object)
    X.loc[:4, ["d", "e", "f"]] = None
    X["g"] = "many"
    X.loc[:4, "g"] = "few"
    table = X.convert_dtypes()
    assert find_outliers(table)[:5].all()
    alike = find_outliers(pd.DataFrame({"a": [np.nan] * 20, "b": ["u"] * 20}))
    assert len(set(alike)) == 1


def test_labels_of_columns_may_be_numbers():
    X = crowd().set_axis(range(6), axis=1)
    found = individual_errors(X, X)
    assert found.all.perfect == 1
    assert (individual_errors(X.to_numpy(), X.to_numpy()).outlier == found.outlier).all()
