"""The informed adversary against bootstraps of known draws, by enumeration of places and rows."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import keep, run
from helpers.examples import spread
from helpers.models import without_seeds
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.reconstruction.leave_one_out import InformedRequest
from treeleak.schema import Binary, Schema

NAMES = ["a", "b", "c"]
SCHEMA = Schema([Binary(name) for name in NAMES])
ROWS = np.array(list(itertools.product([0.0, 1.0], repeat=3)))


def table(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n_rows, 3)).astype(float), columns=NAMES)
    return X, rng.integers(0, 2, n_rows)


def forest_of(X, y, seed=0, n_trees=3, **settings):
    return RandomForestClassifier(n_trees, random_state=seed, **settings).fit(X, y)


def drawn_by(forest, n_rows):
    return np.array([np.bincount(s, minlength=n_rows) for s in forest.estimators_samples_])


def counted(forest, X, y):
    """Draws of each class in each leaf, from scikit-learn's own draws and leaves."""
    leaves = forest.apply(pd.DataFrame(np.asarray(X), columns=NAMES))
    draws = drawn_by(forest, len(X))
    held = {}
    for t, k in itertools.product(range(len(draws)), range(len(X))):
        if draws[t, k]:
            key = t, leaves[k, t], y[k]
            held[key] = held.get(key, 0) + draws[t, k]
    return held


def places_by_trying(forest, X, y, known, labels, places):
    """At how many places each row and class makes the whole table count what it counts."""
    told = counted(forest, X, y)
    out = np.zeros((len(ROWS), 2))
    for p, (i, row), c in itertools.product(places, enumerate(ROWS), range(2)):
        whole = np.insert(known, p, row, axis=0)
        out[i, c] += counted(forest, whole, np.insert(labels, p, c)) == told
    return out


@pytest.mark.parametrize("seed", spread(range(6), fast=2, each=True))
@pytest.mark.parametrize("place", [None, "told"])
def test_places_and_rows_are_those_found_by_trying_all(seed, place):
    X, y = table(7, seed)
    forest = forest_of(X, y, seed)
    gone = seed % 7
    known, labels = X.to_numpy()[np.arange(7) != gone], np.delete(y, gone)
    told = None if place is None else gone
    asked = InformedRequest.of(
        forest, pd.DataFrame(known, columns=NAMES), labels, SCHEMA, False, 1, 0
    )
    found = np.exp(asked.leaves.of_known(asked.points, asked.label, told))
    places = range(7) if told is None else [told]
    expected = places_by_trying(forest, X.to_numpy(), y, known, labels, places)
    own = asked.missing.points_of(ROWS)
    np.testing.assert_allclose(found[own], expected)
    assert expected[(X.to_numpy()[gone] == ROWS).all(axis=1).argmax(), y[gone]] >= 1


@pytest.mark.parametrize("model", [
    RandomForestClassifier(20, random_state=3),
    BaggingClassifier(DecisionTreeClassifier(), 20, random_state=3),
], ids=["forest", "bagging"])  # fmt: skip
def test_the_row_is_proved_where_no_other_is_possible(model):
    X, y = table(40, 1)
    model.fit(X, y)
    for gone in (0, 17, 39):
        known, labels = X.drop(index=gone), np.delete(y, gone)
        for place in (None, gone):
            guess = treeleak.informed(model, known, labels, SCHEMA, position=place)
            assert guess.status == "unique"
            assert (guess.row == X.loc[gone]).all()
            assert guess.label == y[gone]
            assert any("trees' seeds" in note for note in guess.notes)


def test_of_a_row_that_no_tree_drew_nothing_is_told():
    X, y = table(30, 2)
    forest = forest_of(X, y, 5, 2)
    gone = int((drawn_by(forest, 30).sum(axis=0) == 0).argmax())
    assert not drawn_by(forest, 30)[:, gone].any()
    known, labels = X.drop(index=gone), np.delete(y, gone)
    guess = treeleak.informed(forest, known, labels, SCHEMA, position=gone)
    assert guess.status == "likely"
    assert guess.bits == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_seeds_are_searched_for_where_the_file_has_none():
    X, y = table(60, 3)
    forest = forest_of(X, y, 7, 25)
    without_seeds(forest)
    known, labels = X.iloc[1:], y[1:]
    guess = treeleak.informed(forest, known, labels, SCHEMA, seed_search=50)
    assert guess.status == "unique"
    assert any("forest seed 7, found by search" in note for note in guess.notes)
    with pytest.raises(NotCovered, match="here the draws are not known"):
        treeleak.informed(forest, known, labels, SCHEMA, seed_search=5)


def test_other_rows_other_orders_and_other_places_are_refused():
    X, y = table(40, 1)
    forest = forest_of(X, y, 3, 20)
    known, labels = X.iloc[1:], y[1:]
    with pytest.raises(Mismatch, match="in the order of training"):
        treeleak.informed(forest, known[::-1], labels[::-1], SCHEMA)
    with pytest.raises(Mismatch, match="in the order of training"):
        treeleak.informed(forest, known, labels, SCHEMA, position=20)
    with pytest.raises(BadInput, match="position must be from 0 to 39, not 40"):
        treeleak.informed(forest, known, labels, SCHEMA, position=40)
    with pytest.raises(Mismatch, match="count other draws than these rows have"):
        treeleak.informed_audit(forest, X[::-1], y[::-1], SCHEMA)


@pytest.mark.slow
def test_the_audit_and_the_command_take_rows_in_turn(tmp_path):
    X, y = table(40, 1)
    forest = forest_of(X, y, 3, 20)
    audit = treeleak.informed_audit(forest, X, y, SCHEMA, n_targets=40)
    for k, line in audit.targets.iterrows():
        guess = treeleak.informed(forest, X.drop(index=k), np.delete(y, k), SCHEMA, position=k)
        assert line["error"] == (guess.row != X.loc[k]).mean()
        if guess.status == "unique":
            assert line["probability"] == pytest.approx(1)
            assert line["error"] == 0
    assert audit.individual.all.perfect > 0.9
    keep(tmp_path, forest, X, y, SCHEMA, "y")
    done = run("informed", tmp_path / "model.skops", "--train", tmp_path / "train.csv", "--label",
               "y", "--schema", tmp_path / "schema.toml", "--targets", 40, "--json",
               tmp_path / "i.json", "--quiet")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    told = json.loads((tmp_path / "i.json").read_text())
    assert told["means"]["error"] == pytest.approx(audit.means["error"])
