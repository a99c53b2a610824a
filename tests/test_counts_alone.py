"""Rows behind counts alone by least squares, and how far answers are from other datasets."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from helpers.examples import seeds
from treeleak.attacks.answer import Rows
from treeleak.attacks.consensus import distance_from_worlds
from treeleak.attacks.loss_sums.counts_alone import by_counts
from treeleak.core.clock import Clock
from treeleak.evidence import evidence_for
from treeleak.metrics import reconstruction_error
from treeleak.partition import Geometry, enumerate_cells
from treeleak.partition.value_index import values_in
from treeleak.reconstruction.expected import share_wrong
from treeleak.release import to_release
from treeleak.schema import Binary, OneHot, Schema

NAMES = list("abcdefgh")
SCHEMA = Schema([Binary(n) for n in NAMES])


def counted(seed, n_rows=120, n_trees=30, depth=None):
    """A forest that saw every row once and counts no classes; with its rows."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, size=(n_rows, len(NAMES))), columns=NAMES)
    y = X.to_numpy() @ rng.normal(size=len(NAMES)) + rng.normal(size=n_rows)
    model = ExtraTreesRegressor(n_trees, max_depth=depth, max_features=1, random_state=seed)
    return to_release(model.fit(X, y)), X


def by_least_squares(release, seed=0):
    geometry = Geometry.of(release, SCHEMA)
    evidence = evidence_for(release)(geometry)
    partition = enumerate_cells(geometry, evidence.open_leaves())
    answer = by_counts(evidence, partition, values_in(partition.geometry), Clock(60.0), seed)
    (rows,) = answer.rows
    X = answer.values.rows(rows.values[:, :-1], len(NAMES))
    return answer, rows, pd.DataFrame(X, columns=NAMES)


@pytest.mark.parametrize("seed", range(3))
def test_deep_trees_leave_one_dataset_and_it_is_proved(seed):
    release, X = counted(seed)
    answer, rows, found = by_least_squares(release)
    assert answer.status == "unique"
    assert rows.proved.all()
    assert sorted(map(tuple, found.to_numpy())) == sorted(map(tuple, X.to_numpy()))


@pytest.mark.slow
@seeds(4, fast=2)
def test_doubt_is_about_as_great_as_the_error_where_several_datasets_meet_the_counts(seeds):
    said, true = [], []
    for seed in seeds:
        release, X = counted(seed, n_trees=20, depth=3)
        _, rows, found = by_least_squares(release)
        assert not rows.proved.all()
        said.append(1.0 - rows.confidence[:, :-1].mean())
        true.append(reconstruction_error(found, X))
    assert min(true) > 0.02
    assert 0.7 < np.sum(said) / np.sum(true) < 1.4


def test_rows_in_each_others_places_are_no_error():
    release, X = counted(0, n_rows=20)
    values = values_in(Geometry.of(release, SCHEMA))
    own = np.column_stack([X.to_numpy() + values.start[:-2], np.full(len(X), values.start[-2])])
    rng = np.random.default_rng(1)
    worlds = np.array([values.atom_of[rng.permutation(own)] for _ in range(5)])
    none = np.zeros(len(X), dtype=bool)
    rows = Rows(own, np.full(own.shape, 0.5), none, False, 3, worlds)
    assert distance_from_worlds(rows, values, Clock(9.0), 0) == 0.0
    worlds[:, 0, 0] ^= 1  # one value of one row, in every world
    assert distance_from_worlds(rows, values, Clock(9.0), 0) == pytest.approx(1 / own[:, :-1].size)


def test_nothing_is_said_of_rows_that_are_certain():
    release, X = counted(0, n_rows=20)
    values = values_in(Geometry.of(release, SCHEMA))
    own = np.column_stack([X.to_numpy() + values.start[:-2], np.full(len(X), values.start[-2])])
    none = np.zeros(len(X), dtype=bool)
    rows = Rows(own, np.ones(own.shape), none, False, 0, values.atom_of[own][None])
    assert distance_from_worlds(rows, values, Clock(9.0), 0) is None


def test_a_wrong_value_of_a_group_is_two_wrong_columns():
    members = tuple("pqrst")
    schema = Schema([OneHot("g", members), Binary("z")])
    rng = np.random.default_rng(0)
    n, doubt = 20_000, 0.3
    true = rng.integers(5, size=n)
    other = np.where(rng.random(n) < doubt, (true + rng.integers(1, 5, size=n)) % 5, true)
    off = np.not_equal(np.eye(5)[true], np.eye(5)[other]).sum() / (6 * n)
    confidence = pd.DataFrame(np.full((n, 6), 1 - doubt), columns=[*members, "z"])
    confidence["z"] = 1.0
    said = share_wrong(confidence, schema, np.ones((n, 6), dtype=bool))
    assert said == pytest.approx(off, rel=0.05)
    assert share_wrong(confidence, schema, np.zeros((n, 6), dtype=bool)) is None
