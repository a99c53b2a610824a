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
    compressed_bits,
    description_length,
    model_bits,
)
from treeleak.bound.theorem import _given, _most_hit, _tree
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


def test_control_rows_with_labels_shorten_the_code_of_a_tree():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 50, (4000, 5)).astype(float), columns=list("abcde"))
    y = ((X["a"] + X["b"] + rng.normal(0, 20, 4000)) > 50).astype(int).to_numpy()
    tree = to_release(DecisionTreeClassifier(max_depth=4, random_state=0).fit(X[:2000], y[:2000]))
    without, labelled = (
        bound_of(tree, control=X[2000:], labels=labels) for labels in (None, y[2000:])
    )
    assert labelled.bits < 0.85 * without.bits
    assert labelled.code == "model code given control rows"
    assert labelled.at_most < without.at_most
    # Rows of classes that the model does not know are left out.
    some = np.where(np.arange(2000) < 1000, y[2000:], -1)
    assert without.bits > bound_of(tree, control=X[2000:], labels=some).bits > labelled.bits


def test_more_tests_and_numbers_take_more_bits():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 9, (300, 3)), columns=list("abc"))
    y = rng.integers(0, 2, 300)
    ends = dict.fromkeys("abc", (0.0, 8.0))
    found = [
        to_release(DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y))
        for depth in (1, 3, 6)
    ]
    for kind in (lambda r: model_bits(r, ends, 300), compressed_bits):
        assert [kind(r) for r in found] == sorted(kind(r) for r in found)
    assert all(model_bits(r, ends, 300) < model_bits(r, {}, 300) for r in found)
    for release in found:
        bits, name = description_length(release, ends, 300)
        assert bits == 1 + min(model_bits(release, ends, 300), compressed_bits(release))
        assert model_bits(release, ends, 300) < model_bits(release, ends, 301)
        assert name in ("model code", "compressed")


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


def test_a_shallow_tree_holds_little_and_a_deep_one_more():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"c{k}": rng.integers(0, 50, 6000) for k in range(8)})
    X, others = table[:2000], table[2000:]
    y = rng.integers(0, 2, 2000)
    shares = []
    for depth in (1, 3, 5):
        model = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y)
        shares.append(bound_of(to_release(model), control=others).rows)
    assert shares == sorted(shares)
    assert shares[0] < 20


def test_dependent_columns_are_not_counted_twice():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 20, 4000), rng.integers(0, 20, 4000)
    codes = np.column_stack([a, a[::1], b])
    order, parent = _tree(codes)
    assert sorted(order.tolist()) == [0, 1, 2]
    edge = {frozenset((int(c), int(parent[c]))) for c in order if parent[c] >= 0}
    assert frozenset((0, 1)) in edge
    child = 1 if parent[1] == 0 else 0
    assert _given(codes, codes, child, 1 - child).mean() > 0.95


def test_so_many_cells_have_no_more_than_their_share():
    # Half of the people in 2^4 cells, half in 2^20.
    log2_p = np.repeat([-5.0, -21.0], 500)
    assert _most_hit(log2_p, -5.0, 16) == pytest.approx(-1, abs=0.01)
    assert _most_hit(log2_p, -21.0, 16) == pytest.approx(-17)
    assert _most_hit(log2_p, -30.0, 16) == -math.inf


@pytest.mark.slow
def test_control_rows_that_are_all_alike_bound_nothing_and_a_document_is_written():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (60, 4)), columns=list("abcd"))
    y = X["a"] | X["b"]
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    alike = X.iloc[[0] * 600].reset_index(drop=True)
    audit = treeleak.audit(tree, X, y, control=alike, time_limit=10)
    assert json.loads(audit.to_json())["ceiling"] is None
