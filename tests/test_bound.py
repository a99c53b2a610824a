"""No attack exceeds the bound but with the probability that it states."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.tree import DecisionTreeClassifier

import treeleak
from experiments.benchmarks.bound import tiny
from helpers.examples import seeds
from treeleak.bound import bound_of, smallest_excess
from treeleak.bound.description import (
    Labelled,
    _counts_given,
    _place,
    _tests_given,
    model_bits,
)
from treeleak.core.errors import NotCovered
from treeleak.release import Release, to_release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.tree import Tree
from treeleak.schema import Numeric, Ordinal, Schema


@pytest.mark.slow
@seeds(60, fast=30)
def test_the_best_attack_stays_within_the_bound_that_says_something_of_tiny_universes(seeds):
    reached, says = np.array([tiny(seed) for seed in seeds], dtype=float).T
    assert (reached <= 1 + 1e-9).all()
    assert says.mean() > 0.25


@pytest.mark.parametrize("bits", [0, 10, 300])
@pytest.mark.parametrize(("n", "log2_hit"), [(10, -8), (200, -12), (1000, -6)])
def test_the_fewest_rows_are_those_of_the_tail(bits, n, log2_hit):
    r = smallest_excess(bits, n, log2_hit, 1e-3)
    allowed = math.log(1e-3) - bits * math.log(2)
    if r is not None:
        assert binom.logsf(r - 1, n, 2.0**log2_hit) <= allowed + 1e-6
    # No tail that is far smaller is overlooked.
    exact = next(
        (k for k in range(1, n + 1) if binom.logsf(k - 1, n, 2.0**log2_hit) <= allowed), None
    )
    assert (r is None) == (exact is None) or r is None
    if r is not None and exact is not None:
        assert exact <= r <= exact + max(3, 0.1 * exact)


def stump(column, cut, left, right, missing=False):
    totals = np.array([left + right, left, right], dtype=float)
    return Tree(
        np.array([column, -1, -1]), np.array([cut, np.nan, np.nan]), np.array([1, -1, -1]),
        np.array([2, -1, -1]), np.array([missing, False, False]),
        Statistics.counting(ROWS, totals=totals),
    )  # fmt: skip


@pytest.mark.slow
def test_the_model_code_is_a_prefix_code():
    """Kraft's sum over all trees of up to one test is at most 1."""
    ends = {"a": (0.0, 2.0), "b": (0.0, 1.0)}
    none = np.array([-1])

    def bits(tree):
        return model_bits(Release((tree,), ("a", "b"), (), AllRows(), None), ends, 30)

    total = 0.0
    for n in range(60):
        totals = np.array([float(n)])
        leaf = Tree(none, np.array([np.nan]), none, none, np.zeros(1, dtype=bool),
                    Statistics.counting(ROWS, totals=totals))  # fmt: skip
        total += 2.0 ** -bits(leaf)
        for (column, cut), left, missing in itertools.product(
            [("a", 0.5), ("a", 1.5), ("a", 1.0), ("b", 0.5)], range(n + 1), [False, True]
        ):
            total += 2.0 ** -bits(stump("ab".index(column), cut, left, n - left, missing))
    assert 1e-8 < total <= 1


def test_parts_of_the_code_given_control_rows_are_prefix_codes():
    """Kraft's sums over all tests of a node, and over all counts by class behind one, are tight."""
    rows = np.array([[0, 0], [1, 0], [1, 1], [2, 1], [2, 0]], dtype=float)
    control = Labelled(rows, np.array([0, 0, 1, 1, 0]))
    ends, n = {"a": (0.0, 2.0), "b": (0.0, 1.0)}, 6
    cuts = [(0, c / 2) for c in range(5)] + [(1, c / 2) for c in range(3)]
    tests = sum(
        2.0 ** -_tests_given(stump(column, cut, 1, 1), control, ends, ("a", "b"))
        for column, cut in cuts
    )
    assert 0.2 < tests <= 1
    gains = np.array([0.3, 0.7, 0.3, 0.1])
    assert sum(2.0 ** -_place(gains, i) for i in range(4)) == pytest.approx(1)
    assert min(range(4), key=lambda i: _place(gains, i)) == 1
    total = 0.0
    for first in range(n + 1):
        root = np.array([[first, n - first]], dtype=float)
        for one, two in itertools.product(range(first + 1), range(n - first + 1)):
            left = np.array([[one, two]], dtype=float)
            counts = np.vstack([root, left, root - left])
            total += 2.0 ** -_counts_given(stump(0, 0.5, 0, n), counts, n, control)
    assert total == pytest.approx(1)


def test_premises_are_asked_for():
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]})
    release = to_release(DecisionTreeClassifier(max_depth=1).fit(X, [0, 0, 1, 1]))
    for schema in (None, Schema([Numeric("a")])):
        with pytest.raises(NotCovered, match="how rare"):
            bound_of(release, schema)
    found = bound_of(release, Schema([Ordinal("a", 0, 3)]))
    assert found.prior == "schema"
    assert found.log2_q == -2
    assert found.rows is None
    assert found.at_most is None


@pytest.mark.slow
def test_control_rows_that_are_all_alike_bound_nothing_and_a_document_is_written():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (60, 4)), columns=list("abcd"))
    y = X["a"] | X["b"]
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    alike = X.iloc[[0] * 600].reset_index(drop=True)
    audit = treeleak.audit(tree, X, y, control=alike, time_limit=10)
    assert json.loads(audit.to_json())["ceiling"] is None
