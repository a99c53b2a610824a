"""How far answers are from other datasets that meet the counts."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from treeleak.attacks.answer import Rows
from treeleak.attacks.consensus import distance_from_worlds
from treeleak.core.clock import Clock
from treeleak.partition import Geometry
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
