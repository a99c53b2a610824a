"""How likely it is that a person lies in the place of a row, and which columns the place pins."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from treeleak.auditing.assessors.places import count_people, pinned, shares_of
from treeleak.release import Release, to_release
from treeleak.release.noise.laws import Laplace
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import ROWS, Statistics
from treeleak.release.tree import Tree
from treeleak.schema import Ordinal, Schema


def stumps(*nodes, **changes):
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
    return Release(tuple(trees), ("x", "z"), (), AllRows(), 100, **changes)


@pytest.mark.parametrize("others", [True, False])
def test_the_weight_of_a_place_is_the_share_of_rows_there(others):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.beta(0.5, 2, 5000), rng.normal(size=5000), rng.integers(0, 3, 5000)])
    y = (X.sum(axis=1) + rng.normal(size=5000) > 1).astype(int)
    forest = RandomForestClassifier(10, bootstrap=False, max_depth=6, random_state=0).fit(X, y)
    release = to_release(forest)
    places, people = count_people(release)
    shares = shares_of(places, people, X if others else None, 0)
    for of_column in shares:
        assert of_column.sum() == pytest.approx(1)
    t = 3
    leaves = release.trees[t].leaves
    weight = places.weight(shares, places.boxes(t, leaves))
    share = np.bincount(release.leaves(X)[:, t], minlength=leaves.max() + 1)[leaves] / len(X)
    assert np.corrcoef(weight, share)[0, 1] > 0.9
    assert abs(np.log(weight.sum() / share.sum())) < 0.2


def test_a_row_lies_in_its_place_and_no_other_value_of_an_atom_does():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 6, 300)]).astype(float)
    X[rng.random(300) < 0.2, 0] = np.nan
    model = HistGradientBoostingClassifier(
        max_iter=5, min_samples_leaf=1, categorical_features=[1], random_state=0
    ).fit(X, (np.nan_to_num(X[:, 0]) + X[:, 1] > 2).astype(int))
    places, _ = count_people(to_release(model))
    box = places.of_rows(X)
    for c in range(2):
        atom, special = places.encode(X[:, c], c), places.special[c]
        bit = np.where(atom < 0, 62, atom)
        in_bits = (box.bits[:, special] >> bit) & 1 == 1 if special >= 0 else atom < -1
        in_range = (box.low[:, c] <= atom) & (atom <= box.high[:, c])
        assert np.where((atom < 0) | (c in places.groups), in_bits, in_range).all()


def test_pinned_columns_are_counted_against_the_range():
    places, _ = count_people(stumps((5.5, 1, 99), (3.5, 20, 80), (4.5, 21, 79)))
    box = places.of_rows(np.array([[5.0, 0.0], [9.0, 0.0]]))
    wide = Schema([Ordinal("x", 0, 100), Ordinal("z", 0, 9)])
    assert pinned(places, box, wide).tolist() == [1, 0]
    assert pinned(places, box, Schema([Ordinal("x", 0, 9), Ordinal("z", 0, 9)])).tolist() == [1, 0]


@pytest.mark.parametrize(
    "release",
    [
        stumps((5.5, 21, 79), (3.5, 20, 80)),
        stumps((5.5, 1, 99), noise=Laplace(1.0)),
        stumps((5.5, 1, -2)),
    ],
    ids=["nobody alone", "noise", "contradictory"],
)
def test_where_counts_prove_nobody_alone_no_place_is_weighed(release):
    assert count_people(release) is None
