"""Stored explainable boosting machines of older versions; interpret need not be installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.release import read_model, to_release
from treeleak.release.stored import StoredObject
from treeleak.verification.columns import in_model_columns

STORED = Path(__file__).parent / "models" / "ebm"
FILES = sorted(path for path in STORED.iterdir() if path.suffix in (".pkl", ".json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_terms_count_the_rows_and_every_part_has_a_rule(path):
    X = pd.read_csv(STORED / "rows.csv")
    stored = read_model(path, trust_pickle=True)
    release = to_release(stored)
    assert (len(release.trees), release.n_rows) == (5, len(X))
    leaves = release.leaves(in_model_columns(release, X)[0])
    for t, tree in enumerate(release.trees):
        found = np.bincount(leaves[:, t], minlength=tree.n_nodes)
        np.testing.assert_array_equal(found[tree.leaves], tree.totals[tree.leaves])
    assert release.maybe_missing == {"a"}
    assert set(release.ranges) == {*"ab"}
    for name, ends in release.ranges.items():  # Parsers of CSV differ in the last digit.
        assert ends == pytest.approx((X[name].min(), X[name].max()), rel=1e-14)
    assert not stored.leftovers
    entries = take_inventory(stored, Context(n_rows=len(X), release=release))
    assert not [entry.names for entry in entries if entry.unknown or entry.rows]


def test_bags_are_those_that_have_weights():
    stored = read_model(STORED / "0.7.8.json")
    scores = list(stored.get("bagged_scores_"))
    scores[0] = np.tile(scores[0], (300, *[1] * (scores[0].ndim - 1)))
    state = {**stored.state, "bagged_scores_": scores, "outer_bags": 5000}
    entries = take_inventory(StoredObject(stored.type, state), Context())
    assert any("bagged_scores_" in entry.names for entry in entries if entry.unknown)


@pytest.mark.parametrize(
    "bounds", [[[1.0, 2.0], [3.0, [4.0, 5.0]]], [[1.0], [2.0, 3.0]], ["a", [1]]]
)
def test_bounds_of_columns_that_are_no_pairs_are_unknown(bounds):
    stored = read_model(STORED / "0.7.8.json")
    changed = StoredObject(stored.type, {**stored.state, "feature_bounds_": bounds})
    entries = take_inventory(changed, Context())
    assert any("feature_bounds_" in entry.names for entry in entries if entry.unknown)


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("histogram_weights_", lambda held: held["histogram_weights_"][0] + 1),
        ("bins_", lambda held: [held["bins_"][0][0] - 1e6]),
        ("bin_weights_", lambda held: held["bin_weights_"][0] * (np.arange(41) < 5)),
    ],
)
def test_cuts_and_histograms_are_those_of_the_rows_in_bins(name, odd):
    stored = read_model(STORED / "0.7.8.json")
    state = dict(stored.state)
    state[name] = [odd(state), *state[name][1:]]
    entries = take_inventory(StoredObject(stored.type, state), Context())
    wanted = name.replace("bin_weights_", "bins_")
    assert any(wanted in entry.names for entry in entries if entry.unknown)


WINE = load_wine().data


def of_wine(value):
    """Write rows of a table in the place of numbers."""
    return np.resize(WINE, value.shape)


def in_bins_of_no_row(scores):
    out = scores.copy()
    out[[0, -1]] = WINE[0, :2]
    return out


def swapped(counts):
    out = counts.copy()
    out[1:-1] = out[-2:0:-1]
    return out


@pytest.mark.parametrize(
    ("name", "term", "change"),
    [
        ("standard_deviations_", 0, of_wine),
        ("bagged_scores_", 0, of_wine),
        ("bagged_scores_", 0, lambda scores: scores[:1]),
        ("term_scores_", 1, in_bins_of_no_row),
        ("histogram_weights_", 0, swapped),
        ("histogram_weights_", 0, lambda counts: counts + WINE[0, 0] - np.mean(WINE[0, 0])),
    ],
)
@pytest.mark.parametrize("file", ["0.7.8.json", "0.7.8.pkl"])
def test_what_is_worked_out_of_bags_and_bins_follows_from_them(file, name, term, change):
    stored = read_model(STORED / file, trust_pickle=True)
    held = list(stored.get(name))
    held[term] = change(held[term])
    entries = take_inventory(StoredObject(stored.type, {**stored.state, name: held}), Context())
    assert any(name in entry.names for entry in entries if entry.unknown)


def test_terms_that_somebody_edited_have_no_bags(tmp_path):
    document = json.loads((STORED / "0.7.8.json").read_text())
    for key in ("bagged_scores", "standard_deviations"):
        del document["ebm"]["terms"][0][key]
    (tmp_path / "m.json").write_text(json.dumps(document))
    stored = read_model(tmp_path / "m.json")
    assert stored.get("bagged_scores_")[0] is None
    assert not stored.leftovers
    assert not [e.names for e in take_inventory(stored, Context()) if e.unknown]


@pytest.mark.parametrize("lost", ["feature_bounds_", "bin_weights_"])
def test_cuts_that_nothing_can_be_held_against_are_unknown(lost):
    stored = read_model(STORED / "0.7.8.pkl", trust_pickle=True)
    state = {key: value for key, value in stored.state.items() if key != lost}
    entries = take_inventory(StoredObject(stored.type, state), Context())
    assert any("bins_" in entry.names for entry in entries if entry.unknown)


def test_histograms_of_two_dimensions_are_unknown():
    stored = read_model(STORED / "0.7.8.json")
    grid = [np.ones((2, 2)) for _ in stored.get("histogram_weights_")]
    entries = take_inventory(
        StoredObject(stored.type, {**stored.state, "histogram_weights_": grid}), Context()
    )
    assert any("histogram_weights_" in e.where + str(e.names) for e in entries if e.unknown)


def test_lists_as_deep_as_a_file_likes_end_no_inventory():
    stored = read_model(STORED / "0.7.8.json")
    deep = [1.0]
    for _ in range(5000):
        deep = [deep]
    for name, value in (("histogram_edges_", deep), ("bins_", [[["a", ["b"]], [1, [2, 3]]]])):
        changed = StoredObject(stored.type, {**stored.state, name: value})
        entries = take_inventory(changed, Context(n_rows=150))
        assert any(name in entry.names for entry in entries if entry.unknown)
