"""Singling out and attribute inference: statistics by brute force, attacks by simulation."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import treeleak
from helpers.documents import valid
from treeleak.auditing.assessors.article29 import risks_of
from treeleak.metrics.inference import (
    Rate,
    Risk,
    commonest,
    is_right,
    nearest_values,
)
from treeleak.release import to_release
from treeleak.schema import Binary, Numeric, OneHot, Ordinal, Schema

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

# ---------------------------------------------------------------------------------- statistics


rates = st.integers(0, 40).flatmap(lambda n: st.builds(Rate, st.integers(0, n), st.just(n)))


@given(rates, rates, st.none() | rates)
def test_risk_lies_in_its_interval_and_counts_from_the_higher_rate(success, baseline, control):
    risk = Risk(success, baseline, control)
    low, high = risk.interval
    assert 0 <= low <= risk.value <= high <= 1
    beside = max(baseline.share, 0 if control is None else control.share)
    assert risk.beside.share == beside
    if beside < 1:
        assert risk.value == pytest.approx(max((success.share - beside) / (1 - beside), 0))


def test_intervals_of_no_risk_cover_nothing_as_often_as_they_say():
    rng = np.random.default_rng(0)
    covered = [
        Risk(Rate(a, 200), Rate(b, 200)).interval.low == 0
        for a, b in zip(*rng.binomial(200, 0.6, (2, 2_000)), strict=True)
    ]
    # One side of a 95 % interval: one in forty is above.
    assert 0.96 < np.mean(covered) < 0.99


def test_of_many_values_the_mean_is_guessed():
    rows = np.array([[0.0]] * 3 + [[1.0]] * 97)
    values = np.concatenate([[1.0, 2.0, 6.0], np.arange(97.0)])
    assert nearest_values(np.array([[0.1]]), rows, values)[0] == pytest.approx(3)


@given(st.lists(st.integers(0, 30) | st.just(np.nan), min_size=1, max_size=20), st.integers(0, 4))
def test_the_commonest_value_is_right_most_often(values, near):
    values = np.array(values, dtype=float)
    best = is_right(commonest(values, near), values, near).sum()
    others = [is_right(v, values, near).sum() for v in values]
    # Missing is guessed only where most are.
    assert best == max(others) or np.isnan(values).sum() == max(others)


# ------------------------------------------------------------------------------------- attacks

SCHEMA = Schema(
    [
        Binary("flag"),
        Ordinal("age", 0, 90),
        OneHot("work", ("work_a", "work_b", "work_c")),
        Numeric("income", 0.0, 100.0),
        Binary("ill"),
    ]
)


def population(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"flag": rng.integers(2, size=n), "age": rng.integers(0, 91, size=n)})
    X[["work_a", "work_b", "work_c"]] = np.eye(3)[rng.integers(3, size=n)]
    X["income"] = rng.uniform(0, 100, size=n)
    X["ill"] = (rng.random(n) < 0.3).astype(int)
    return X.astype(float)


@pytest.fixture(scope="module")
def case():
    """Rows, a release whose trees test every column, and a reconstruction to put rows into."""
    X = population(300, 0)
    y = (X["age"] + X["income"] + 40 * X["ill"] + 20 * X["flag"] > 110).astype(int)
    forest = RandomForestClassifier(10, bootstrap=False, random_state=0, max_features=2)
    release = to_release(forest.fit(X, y))
    shallow = replace(release, trees=release.trees[:1])
    rebuilt = treeleak.reconstruct(shallow, SCHEMA, time_limit=3)
    return X, release, replace(rebuilt, free_columns=())


SENSITIVE = ["flag", "age", "work", "income", "ill"]


@pytest.mark.slow
def test_who_knows_nothing_infers_nothing(case):
    X, release, rebuilt = case
    for seed in range(3):
        blind = replace(rebuilt, X=population(300, 10 + seed))
        found = risks_of(blind, release, X, SENSITIVE, population(3_000, 20))
        for inference in found.inference:
            assert inference.risk.interval.low == 0, inference
            assert inference.risk.success.n == 300
    assert found.singling_out.interval.low == 0


@pytest.mark.slow
def test_who_has_the_rows_infers_everything(case):
    X, release, rebuilt = case
    shuffled = X.sample(frac=1, random_state=0).reset_index(drop=True)
    found = risks_of(replace(rebuilt, X=shuffled), release, X, SENSITIVE, population(3_000, 20))
    for inference in found.inference:
        # Nobody shares all else with another: income is a real number.
        assert inference.risk.success.share == (1 if inference.column != "income" else
                                                pytest.approx(1, abs=0.35))  # fmt: skip
        assert inference.risk.value > 0.5
        assert inference.risk.control.share < 0.8
    assert found.singling_out.success.share > 0.9
    assert found.singling_out.control.share < 0.1


@pytest.mark.slow
def test_who_has_the_rows_links_records_and_who_has_others_does_not(case):
    X, release, rebuilt = case
    shuffled = X.sample(frac=1, random_state=0).reset_index(drop=True)
    found = risks_of(replace(rebuilt, X=shuffled), release, X, (), population(3_000, 20))
    link = found.linkability
    assert (link.success.n, link.control.n) == (300, 3_000)
    # Five columns in two halves: the one with no real number holds many who are alike.
    assert link.success.share > 0.1
    assert link.control.share < 0.02
    assert link.interval.low > 0.05
    for seed in range(3):
        blind = replace(rebuilt, X=population(300, 10 + seed))
        assert risks_of(blind, release, X, (), population(3_000, 20)).linkability.interval.low == 0


@pytest.mark.slow
def test_an_audit_tells_risks_and_leaves_out_columns_of_few(case):
    X = case[0][:120]
    X = X.assign(rare=(np.arange(120) < 4).astype(float))
    schema = Schema([*SCHEMA.attributes, Binary("rare")])
    y = (X["age"] + 40 * X["ill"] + 90 * X["rare"] > 80).astype(int)
    forest = RandomForestClassifier(3, bootstrap=False, random_state=0, max_depth=3).fit(X, y)
    others = population(119, 1).assign(rare=0.0)
    found = treeleak.audit(
        forest, X, y, schema=schema, sensitive=["ill", "rare"], control=others, time_limit=60
    )
    assert [i.column for i in found.article29.inference] == ["ill", "rare"]
    assert found.article29.inference[0].risk.control.n == 119
    assert any("Singling out was not tried" in note for note in found.to_dict()["notes"])
    told = valid(json.loads(found.to_json()))
    assert [i["column"] for i in told["article29"]["inference"]] == ["ill"]
    assert "rare" not in [c["column"] for c in told["exposure"]["columns"]]
    assert told["exposure"]["columns_left_out"] == 1
    internal = valid(json.loads(found.to_json(edition="internal")))
    assert [i["column"] for i in internal["article29"]["inference"]] == ["ill", "rare"]
