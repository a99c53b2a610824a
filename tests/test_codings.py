"""Figures of an audit do not depend on how the columns of a table are coded."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from treeleak.auditing.limits import NARROWER
from treeleak.schema import Binary, Categorical, Numeric, Ordinal, Schema

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

POLICY = treeleak.Policy("p", {"exact_rows": 0.02, "proved_rows": 1.0})
CODINGS = {
    "0 and 1": lambda v: v,
    "0 and 100": lambda v: 100 * v,
    "1 and 2": lambda v: 1 + v,
    "-1 and 2": lambda v: 3 * v - 1,
    "tenths": lambda v: v / 10,
    "no round numbers": lambda v: np.pi * v + 0.123456789,
    "uneven": lambda v: v**2 + 3 * v,
}


def table(levels, n=30, seed=0):
    """Columns of so many levels, and classes that lean on them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    X = pd.DataFrame(
        {f"c{k}": np.clip((0.25 * (z + 2 * rng.normal(size=n)) + 0.5) * m // 1, 0, m - 1)
         for k, m in enumerate(levels)}
    )  # fmt: skip
    total = (X / X.max()).sum(axis=1) + 0.3 * rng.normal(size=n)
    return X, (total > total.median()).astype(int)


def audited(model, X, y):
    found = treeleak.audit(model.fit(X, y), X, y, time_limit=20)
    return found, {c.key: c for c in treeleak.judge(found, POLICY).checks}


@pytest.mark.parametrize(
    "coding", ["-1 and 2", *(pytest.param(c, marks=pytest.mark.slow) for c in CODINGS)]
)
def test_two_values_are_exact_however_they_are_coded(coding):
    X, y = table((2,) * 4)
    model = RandomForestClassifier(5, bootstrap=False, random_state=3)
    plain, _ = audited(model, X, y)
    found, checks = audited(model, CODINGS[coding](X), y)
    m, of = found.measurement, plain.measurement
    assert (m.exact_rows, m.located_rows) == (of.exact_rows, of.located_rows)
    assert m.exact_rows > 0.9
    assert m.error == pytest.approx(of.error)
    assert m.scores.categories == pytest.approx(of.scores.categories)
    assert found.measurement.individual.all.perfect == m.exact_rows
    assert checks["exact_rows"].state == "violated"
    assert found.verdict == plain.verdict


@pytest.mark.parametrize("coding", ["0 and 1", pytest.param("1 and 2", marks=pytest.mark.slow)])
def test_random_thresholds_leave_proofs_open_and_values_exact(coding):
    """Between two random cuts lies no value: an attack that knew this would prove more."""
    X, y = table((2,) * 4)
    found, checks = audited(ExtraTreesClassifier(5, random_state=3), CODINGS[coding](X), y)
    assert found.measurement.exact_rows >= 0.9
    assert checks["exact_rows"].state == "violated"
    assert checks["proved_rows"].state == "not assessed"
    assert checks["proved_rows"].found == NARROWER
    assert not found.verdict.startswith("no leak")


@pytest.mark.slow
def test_numbers_in_wide_intervals_are_not_exact():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    y = (X["a"] > 0).astype(int)
    found, checks = audited(DecisionTreeClassifier(max_depth=2, min_samples_leaf=15), X, y)
    assert found.measurement.exact_rows == found.measurement.isolated_rows == 0.0
    assert checks["exact_rows"].state == "met"


def test_numbers_in_intervals_of_their_own_count_against_a_policy():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 1)), columns=["a"])
    y = np.arange(30) % 2
    order = X["a"].argsort()
    found, checks = audited(DecisionTreeClassifier(), X.iloc[order].reset_index(drop=True), y)
    assert found.measurement.exact_rows == 0
    assert found.measurement.isolated_rows > 0.9
    assert checks["exact_rows"].state == "violated"


@pytest.mark.parametrize(
    "wide",
    [
        lambda c: Ordinal(c, 0, 10**6),
        lambda c: Categorical(c, range(50)),
        pytest.param(lambda c: Numeric(c, -1000, 1000), marks=pytest.mark.slow),
        pytest.param(lambda c: Binary(c, missing=True), marks=pytest.mark.slow),
    ],
)
def test_a_schema_that_allows_too_much_meets_no_policy(wide):
    """The file places every row, but an attack names any value that the schema allows there."""
    X, y = table((2,) * 4)
    model = RandomForestClassifier(5, bootstrap=False, random_state=3).fit(X, y)
    schema = Schema([wide(c) for c in X])
    found = treeleak.audit(model, X, y, schema=schema, time_limit=20)
    assert found.measurement.located_rows > 0.9
    for limit in ("exact_rows", "advantage_over_guess", "worst_group"):
        assert not treeleak.judge(found, treeleak.Policy("p", {limit: 0.02})).passed, limit
