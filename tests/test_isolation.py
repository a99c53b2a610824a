"""Claims hold in every table that meets the counts, and of the training rows."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from treeleak.claims.check import check_claims
from treeleak.claims.find import find_claims
from treeleak.core.errors import NotCovered
from treeleak.release import Release, to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.release.sampling import AllRows, Bootstrap
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.tree import Tree
from treeleak.schema import Ordinal, Schema


def cells_of(sizes):
    """All rows of a small universe, with both classes."""
    rows = np.array(list(itertools.product(*map(range, sizes))), dtype=float)
    return np.vstack([rows, rows]), np.repeat([0, 1], len(rows))


def all_tables(claims, cells, label, n):
    """All tables, as multisets of cells, whose counts are those of the model."""
    leaves = claims.partition.apply(claims.partition.encode(cells))
    truth = claims.counted.amounts[:, :2]
    held = np.zeros((len(cells), *truth.shape))
    for cell in range(len(cells)):
        np.add.at(held[cell], (leaves[cell], label[cell]), 1)
    tables = np.array(list(itertools.combinations_with_replacement(range(len(cells)), n)))
    at = claims.partition.leaves
    return tables[(held[:, at][tables].sum(axis=1) == truth[at]).all(axis=(1, 2))]


@pytest.mark.slow
def test_claims_hold_in_every_table_that_meets_the_counts():
    n_tables = n_claims = narrowed = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        cells, label = cells_of((2, 2, 3))
        drawn = rng.integers(len(cells), size=4)
        drawn[:2] = [0, len(cells) - 1]
        X, y = cells[drawn], label[drawn]
        forest = ExtraTreesClassifier(3, max_depth=2, random_state=seed).fit(X, y)
        release = to_release(forest)
        claims = find_claims(release)
        tables = all_tables(claims, cells, label, len(X))
        assert any(np.array_equal(np.sort(drawn), t) for t in tables)
        for table in tables:
            checked = check_claims(claims, cells[table], label[table])
            assert checked.true.all()
        n_tables += len(tables)
        n_claims += len(claims.node)
        narrowed += int((claims.weight < 0.9 * claims.at_first).sum())
    # Few tables or claims would prove nothing.
    assert n_tables > 30
    assert n_claims > 50
    assert narrowed > 10


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.integers(1, 4))
def test_claims_hold_of_the_training_rows(seed, all_rows, leaf):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 40))
    X = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 6, n), rng.normal(size=n)])
    y = rng.integers(0, 3, n)
    y[:3] = 0, 1, 2
    forest = RandomForestClassifier(5, bootstrap=not all_rows, min_samples_leaf=leaf,
                                    random_state=seed % 1000).fit(X, y)  # fmt: skip
    release = to_release(forest)
    claims = find_claims(release)
    draws = None if all_rows else known_draws(release, seed_search=0).counts
    numbers = release.class_numbers(y)
    checked = check_claims(claims, X, numbers, draws)
    assert checked.true.all()
    assert claims.counted.all_rows == all_rows
    if all_rows:
        assert claims.different <= checked.people(np.ones(len(claims.node), dtype=bool))
    assert (claims.weight <= claims.at_first * (1 + 1e-9)).all()


def stumps(*nodes):
    """Trees of one test each on column x: threshold, rows left, rows right."""
    trees = []
    for cut, left, right in nodes:
        totals = np.array([left + right, left, right], dtype=float)
        trees.append(Tree(
            feature=np.array([0, -1, -1]), threshold=np.array([cut, np.nan, np.nan]),
            left=np.array([1, -1, -1]), right=np.array([2, -1, -1]),
            missing_left=np.zeros(3, dtype=bool),
            statistics=Statistics.counting(ROWS, totals=totals),
        ))  # fmt: skip
    return Release(tuple(trees), ("x", "z"), (), AllRows(), 100)


def test_differences_of_nested_nodes_undo_a_least_size_of_leaves():
    claims = find_claims(stumps((5.5, 21, 79), (3.5, 20, 80)))
    # 21 people up to 5.5, 20 of them up to 3.5; and so above: 80 less 79.
    assert set(claims.other.tolist()) == {0, 1}
    low, high = claims.partition.cuts[0]
    assert (low, high) == (3.5, 5.5)
    rows = np.array([[3.0, 0.0]] * 20 + [[4.0, 0.0]] + [[6.0, 0.0]] * 79)
    checked = check_claims(claims, rows)
    assert checked.true.all()
    assert set(checked.person.tolist()) == {20}
    # Between the two thresholds, whichever of the two differences it is.
    assert claims.region.low[:, 0].max() == 1 or claims.region.high[:, 0].min() == 1


@pytest.mark.parametrize("counts", [(22, 78), (20, 80)])
def test_no_difference_of_one_no_claim(counts):
    assert len(find_claims(stumps((5.5, *counts), (3.5, 20, 80))).node) == 0


def test_trees_that_drew_rows_are_not_compared():
    release = replace(stumps((5.5, 21, 79), (3.5, 20, 80)), sampling=Bootstrap(100))
    claims = find_claims(release)
    assert not claims.counted.all_rows
    assert len(claims.node) == 0


def test_contradictory_counts_prove_nothing():
    release = stumps((5.5, 21, 79))
    totals = np.array([100.0, 21.0, 80.0])
    tree = replace(release.trees[0], statistics=Statistics.counting(ROWS, totals=totals))
    with pytest.raises(NotCovered, match="sums"):
        find_claims(replace(release, trees=(tree,)))


@pytest.mark.usefixtures("short_walks")
def test_an_audit_tells_whom_counts_isolate():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(0, 9, 40), "b": rng.integers(0, 9, 40)})
    y = rng.integers(0, 2, 40)
    model = DecisionTreeClassifier(random_state=0).fit(X, y)
    schema = Schema([Ordinal("a", 0, 8), Ordinal("b", 0, 8)])
    found = treeleak.audit(model, X, y, schema=schema, time_limit=10)
    assert found.isolation is not None
    assert found.isolation.false == 0
    assert found.isolation.people >= found.isolation.different > 0
    told = next(f for f in found.findings if f.code == "people_isolated")
    assert told.verdict is None
    assert f"{found.isolation.people} people" in told.text
    shown = found.to_dict()["isolation"]
    assert shown["most_pinned"] is None
    assert all(shown[k] in (None, 0) or shown[k] >= 10 for k in ("people", "beyond_luck"))
    assert "People isolated by counts alone" in found.to_html()
    assert found.ceiling is not None
    assert found.ceiling.prior == "schema"
