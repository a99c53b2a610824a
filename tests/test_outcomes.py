"""Survival and quantile forests: what their files say of each numbered row.

The files in tests/models/outcomes are made by tools/make_other_models.py, with their truth.
"""

from __future__ import annotations

import json
import os
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import treeleak
from helpers.cli import run
from treeleak.auditing.inventory.inventory import unknown_places
from treeleak.core.errors import BadModel, TreeleakError
from treeleak.release import read_model, snapshot, to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.release.event_times import Curves, outcomes_of_rows
from treeleak.release.row_facts import NOT_TOLD, RowFacts
from treeleak.release.stored import StoredObject, objects_in

FOLDER = Path(__file__).parent / "models/outcomes"
TRUTH = json.loads((FOLDER / "truth.json").read_text())
X = pd.DataFrame(TRUTH["X"], columns=TRUTH["columns"])
TIME, EVENT = np.array(TRUTH["time"]), np.array(TRUTH["event"])


@cache
def stored(name):
    """Read a file; what is named without its ending, too."""
    path = next(p for p in FOLDER.iterdir() if name in (p.name, p.stem))
    return read_model(path, trust_pickle=True)


@cache
def release(name):
    return to_release(stored(name))


@pytest.mark.parametrize("name", TRUTH["leaves"])
def test_rows_reach_the_leaves_that_the_library_says(name):
    assert (release(name).leaves(X) == np.array(TRUTH["leaves"][name])).all()


@pytest.mark.parametrize("name", ["forest", "unseeded", "extra", "quantile", "every_member"])
def test_counts_are_those_of_the_rows_that_trees_drew(name):
    found = release(name)
    leaves, draws = found.leaves(X), known_draws(found, seed_search=0).counts
    for t, tree in enumerate(found.trees):
        counted = np.bincount(leaves[:, t], draws[t], tree.n_nodes)
        assert (counted[tree.leaves] == tree.totals[tree.leaves]).all()


# ------------------------------------------------------------------------------------- survival


@pytest.mark.parametrize("name", ["forest", "unseeded"])
def test_the_status_and_the_event_time_of_each_row_follow_from_curves(name):
    facts = release(name).row_facts
    assert facts.in_order
    exact = facts.exact
    assert (facts.targets[exact] == TIME[exact]).all()
    assert EVENT[exact].all()
    assert exact.sum() >= 0.9 * EVENT.sum() if name == "forest" else exact.any()
    censored = facts.censored
    assert not EVENT[censored].any()
    assert (facts.low[censored] <= TIME[censored]).all()


@pytest.mark.parametrize("name", ["forest", "unseeded", "quantile", "every_member", "sparse"])
def test_leaves_of_rows_are_those_that_they_reach(name):
    facts, reached = release(name).row_facts, release(name).leaves(X).T
    told = facts.leaves != NOT_TOLD
    assert told.mean() > 0.2
    assert (facts.leaves[told] == reached[told]).all()


@pytest.mark.parametrize("name", ["all_rows", "tree"])
def test_rows_of_trees_that_saw_all_are_numbered_by_what_happened_to_them(name):
    facts = release(name).row_facts
    assert not facts.in_order
    exact = facts.exact
    assert sorted(facts.targets[exact]) == sorted(TIME[EVENT])
    # The leaf of whoever had an event then.
    reached = release(name).leaves(X).T
    for k in np.flatnonzero(exact):
        who = EVENT & (facts.targets[k] == TIME)
        for leaf, leaves in zip(facts.leaves[:, k], reached, strict=True):
            assert leaf == NOT_TOLD or leaf in leaves[who]


def test_other_draws_than_those_of_the_model_say_nothing():
    model = stored("forest")
    found = release("forest")
    draws = known_draws(found, seed_search=0).counts
    trees = [tree.get("tree_").get("values") for tree in model.get("estimators_")]
    curves = Curves(
        model.get("unique_times_"), model.get("is_event_time_"), tuple(v[:, :, 0] for v in trees)
    )
    assert outcomes_of_rows(curves, found.trees, draws) is not None
    rolled = np.roll(draws, 1, axis=0)
    assert outcomes_of_rows(curves, found.trees, rolled) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda h: h[:, ::-1],
        lambda h: h + 2,
        lambda h: h[:, :-1],
        lambda h: h * np.nan,
        lambda h: h[:, :, None],
    ],
)
def test_curves_of_no_rows_are_refused(spoil):
    hazard = np.cumsum(np.full((3, 4), 0.25), axis=1)
    with pytest.raises(BadModel):
        Curves(np.arange(4.0), np.ones(4, dtype=bool), (spoil(hazard),))


def hazard_of(time, event, times, weight):
    """The Nelson-Aalen estimate, by its definition."""
    d = np.array([weight[(time == s) & event].sum() for s in times])
    n = np.array([weight[time >= s].sum() for s in times])
    return np.cumsum(np.divide(d, n, out=np.zeros(len(times)), where=n > 0))


@pytest.mark.parametrize("seed", range(25))
def test_nothing_false_is_said_of_random_rows(seed):
    """Whatever the draws, ties and censoring: what is told is true."""
    rng = np.random.default_rng(seed)
    n, n_trees = int(rng.integers(3, 40)), int(rng.integers(1, 12))
    time = rng.integers(1, rng.integers(3, 60), n).astype(float)
    event = rng.random(n) < rng.choice([0.2, 0.6, 1.0])
    event[0] = True
    times = np.unique(time)
    is_event = np.array([event[time == s].any() for s in times])
    draws = np.array([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(n_trees)])
    if seed % 5 == 0:
        draws = np.ones((n_trees, n), dtype=np.int64)
    counted = (draws > 0).astype(int) if seed % 7 == 0 else draws
    base = release("tree").trees[0]
    leaf = base.n_nodes * [0]
    hazard = tuple(np.tile(hazard_of(time, event, times, w), (len(leaf), 1)) for w in counted)
    found = outcomes_of_rows(Curves(times, is_event, hazard), [base] * n_trees, draws)
    assert found is not None
    exact, left = found.exact, found.censored
    assert event[exact].all()
    assert (time[exact] == found.targets[exact]).all()
    assert not event[left].any()
    assert (found.low[left] <= time[left]).all()
    one = left & (found.sure == 1)
    assert (time[one] == found.targets[one]).all()


# ------------------------------------------------------------------------------------- quantiles


@pytest.mark.parametrize("name", ["quantile", "every_member", "sparse", "pipeline"])
def test_all_targets_come_back_in_order(name):
    facts = release(name).row_facts
    assert facts.in_order
    assert (facts.targets == TIME).all()
    if name == "every_member":
        drawn = known_draws(release(name), seed_search=0).counts > 0
        assert ((facts.leaves != NOT_TOLD) == drawn).all()
    if name == "sparse":
        assert (facts.leaves != NOT_TOLD).all()


def without(model, change):
    """The same with another state of the quantile forest inside."""
    inner = model.get("forest_")
    args = change(*inner.args)
    forest = StoredObject(inner.type, inner.state, args)
    return StoredObject(model.type, {**model.state, "forest_": forest})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda y, m, b, s: (y, m + 60, b, s), "rows that there are not"),
        (lambda y, m, b, s: (y, -m, b, s), "rows that there are not"),
        (lambda y, m, b, s: (y * np.nan, m, b, s), "no numbers"),
        (lambda y, m, b, s: (y, m[:3], b, s), "rows that there are not"),
        (lambda y, m, b, s: (y, m[..., 0], b, s), "without rows"),
        (lambda y, m, b, s: (y, np.ones_like(m), b, s), "of node 70, of 61"),
        (lambda y, m, b, s: (m, y, b, s), "without targets"),
        (lambda y, m, b, s: (np.tile(y, 2), m, b, s), ""),
        (lambda y, m, b, s: (), "without targets"),
    ],
)
def test_a_quantile_forest_that_contradicts_itself_is_refused(change, says):
    model = without(stored("quantile"), change)
    if says:
        with pytest.raises(BadModel, match=says):
            to_release(model)
    else:
        assert to_release(model).row_facts is None


@pytest.mark.parametrize("shape", [(4, 99, 1, 10**7), (2**40, 1, 1, 1), (4, 1, 1), (0, 1, 1, 1)])
def test_sparse_matrices_of_other_sizes_are_refused_before_they_are_laid_out(shape):
    model = stored("sparse")
    inner = model.get("forest_")
    state = {**inner.state, "shape1": shape}
    spoilt = {**model.state, "forest_": StoredObject(inner.type, state, inner.args)}
    with pytest.raises(BadModel):
        to_release(StoredObject(model.type, spoilt))


# ------------------------------------------------------------------------------- facts in attacks


def test_facts_that_fit_no_tree_are_refused():
    found = release("quantile")
    facts = found.row_facts
    for leaves in (facts.leaves[:2], facts.leaves * 0, facts.leaves + 1000):
        with pytest.raises(BadModel):
            replace(found, row_facts=RowFacts.of(leaves, facts.targets))
    with pytest.raises(BadModel):
        RowFacts.of(facts.leaves, np.zeros(3))


def test_the_status_of_survival_is_written_beside_the_time(tmp_path):
    path, rows = Path(__file__).parent / "models" / "outcomes" / "all_rows.joblib", tmp_path / "r"
    said = run("reconstruct", path, "--trust-pickle", "--out", rows, "--time-limit", 20).stderr
    assert f"'status' is 1 for {EVENT.sum()} rows" in said
    written = pd.read_csv(rows)
    assert sorted(written["target"][written["status"] == 1]) == sorted(TIME[EVENT])
    assert (written["status"] == 0).any()


def test_targets_that_were_not_given_are_said_to_be_compared_with_nothing():
    def said(y):
        notes = treeleak.audit(stored("forest"), X, y, time_limit=1).notes
        return any("compared with nothing" in note for note in notes)

    assert said(None)
    assert not said(TIME)


@pytest.mark.parametrize(("name", "says"), [("forest", "event time"), ("quantile", "forest_")])
def test_an_audit_shows_the_leak(name, says, tmp_path):
    audit = treeleak.audit(stored(name), X, TIME, time_limit=10)
    assert audit.verdict == "leak shown"
    codes = {finding.code for finding in audit.findings}
    assert "targets_of_rows_told" in codes
    assert any(says in finding.text for finding in audit.findings)
    assert any("low_memory" in text or "quantile forest" in text for text in audit.advice)


def shifted_targets():
    """Give a quantile forest whose targets are others, in the same order."""
    model = stored("quantile")
    inner = model.get("forest_")
    shift = np.linspace(0, TIME.max(), len(TIME))
    args = (inner.args[0] + shift, *inner.args[1:])
    changed = StoredObject(inner.type, inner.state, args)
    return StoredObject(model.type, {**model.state, "forest_": changed})


def other_times(name, every=True):
    """Give a model whose events were at twice the time; not ``every``, as its trees do not say."""
    model = stored(name)
    times = model.get("unique_times_") * 2
    trees = [StoredObject(t.type, {**t.state, "unique_times_": times}, t.args)
             for t in model.get("estimators_")]  # fmt: skip
    changed = {"unique_times_": times, **({"estimators_": trees} if every else {})}
    return StoredObject(model.type, {**model.state, **changed})


def other_order(name):
    """Give a quantile forest that numbers its rows in another way."""
    model = stored(name)
    order = np.random.default_rng(0).permutation(len(X))
    sorter = order[np.asarray(model.get("sorter_"))]
    return StoredObject(model.type, {**model.state, "sorter_": sorter})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (shifted_targets, "y_train"),
        (lambda: other_times("forest", every=False), "unique_times_"),
        (lambda: other_times("all_rows", every=False), "unique_times_"),
    ],
)
def test_facts_that_trees_contradict_are_refused(make, says):
    with pytest.raises(BadModel, match=says):
        to_release(make())


@pytest.mark.parametrize(
    ("make", "y", "says"),
    [
        (lambda: other_times("forest"), TIME, "other targets"),
        (lambda: other_times("all_rows"), TIME, "other targets"),
        (lambda: other_order("sparse"), None, "other leaves"),
        (lambda: stored("quantile"), TIME * 2, "other targets"),
        (lambda: stored("quantile"), TIME.astype(str), ""),
        (lambda: stored("forest"), TIME, ""),
        (lambda: stored("all_rows"), TIME, ""),
    ],
)
def test_what_a_file_says_of_rows_is_held_against_them(make, y, says):
    model = make()
    audit = treeleak.audit(model, X, y, time_limit=1, on_mismatch="report")
    assert says in (audit.mismatch or "")
    told = [f for f in audit.findings if f.code == "targets_of_rows_told"]
    claims = ("quantile_rows_listed", "survival_outcomes")
    noted = [note for note in audit.notes if getattr(note, "code", "") in claims]
    assert bool(told) == bool(noted) == (audit.mismatch is None) == (not says)
    if says:
        assert audit.measurement is None
        with pytest.raises(treeleak.Mismatch, match=says):
            treeleak.audit(model, X, y, time_limit=1)


def test_records_of_event_and_time_are_taken_as_labels():
    records = np.array(list(zip(EVENT, TIME, strict=True)), dtype=[("e", bool), ("t", float)])
    audit = treeleak.audit(stored("extra"), X, records, time_limit=1)
    assert any("the times were compared" in str(note) for note in audit.notes)


EXTREMES = (0, -1, 1, 7, 2**31 - 1, -(2**31), 2**62, 0.5, 1e300, np.nan, np.inf, -np.inf)


@pytest.mark.parametrize("name", ["tree", "quantile", "sparse", "all_rows"])
@pytest.mark.filterwarnings("ignore")
def test_mutated_values_end_in_an_error_or_a_release(name):
    """A number of the file after the other, changed alone."""
    rng, ends = np.random.default_rng(0), set()
    for _ in range(int(os.environ.get("TREELEAK_MUTATIONS", "60"))):
        model = deepcopy(stored(name))
        held = [v for o in objects_in(model) for v in (*o.state.values(), *o.args)]
        arrays = [v for v in held if isinstance(v, np.ndarray) and v.size and v.dtype != object]
        array = arrays[rng.integers(len(arrays))]
        if array.dtype.names:
            array = array[rng.choice(array.dtype.names)]
        extreme = EXTREMES[rng.integers(len(EXTREMES))]
        flat = array.reshape(-1)
        assert np.shares_memory(flat, array)
        flat[rng.integers(len(flat))] = np.array(extreme).astype(array.dtype)
        try:
            to_release(model)
            ends.add("read")
        except TreeleakError:
            ends.add("refused")
    assert ends == {"read", "refused"}


# --------------------------------------------------------------------------------- live libraries


@pytest.mark.parametrize("bootstrap", [True, False])
def test_nothing_false_is_said_of_weighted_rows(bootstrap):
    ensemble = pytest.importorskip("sksurv.ensemble", reason="needs scikit-survival")
    y = np.array(list(zip(EVENT, TIME, strict=True)), dtype=[("e", bool), ("t", float)])
    live = ensemble.RandomSurvivalForest(5, bootstrap=bootstrap, random_state=3)
    facts = to_release(live.fit(X, y, sample_weight=np.linspace(0.5, 2, len(X)))).row_facts
    if facts is not None and facts.in_order:
        assert (facts.targets[facts.exact] == TIME[facts.exact]).all()
    elif facts is not None:
        assert set(facts.targets[facts.exact]) <= set(TIME[EVENT])


def test_live_quantile_forests_are_as_their_files():
    library = pytest.importorskip("quantile_forest", reason="needs quantile-forest")
    live = library.ExtraTreesQuantileRegressor(5, bootstrap=True, random_state=3).fit(X, TIME)
    found = to_release(live)
    assert (found.leaves(X) == live.apply(X)).all()
    assert (found.row_facts.targets == TIME).all()
    assert unknown_places(snapshot(live)) == []
    several = library.RandomForestQuantileRegressor(3).fit(X, np.column_stack([TIME, EVENT]))
    assert to_release(several).n_targets == 2
