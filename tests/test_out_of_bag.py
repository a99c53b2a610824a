"""Out-of-bag predictions: sums over known trees that leave each row few places."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import treeleak
from helpers.patient import AMPLE
from treeleak.attacks.known_draws.domains import Domains
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.release.infer_schema import infer_schema
from treeleak.release.registry import read_model
from treeleak.release.row_facts import NOT_USED, USED

pytestmark = pytest.mark.filterwarnings("ignore:Some inputs do not have OOB")


def table(n=60, seed=0, numbers=False):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, 7)), columns=list("abcdefg"))
    if numbers:
        X["h"], X["i"] = rng.normal(size=n).round(2), rng.integers(0, 50, n)
    y = ((X.a ^ (X.b & X.c)) ^ (rng.random(n) < 0.2)).to_numpy().astype(int)
    return X, y


def forest(**options):
    options = {"n_estimators": 12, "max_depth": 4, "random_state": 0} | options
    return RandomForestClassifier(oob_score=True, **options)


MODELS = {
    "forest": lambda: forest(),
    "by class": lambda: forest(class_weight="balanced_subsample"),
    "three classes": lambda: forest(),
    "fewer draws": lambda: forest(max_samples=0.5),
    "bagging": lambda: BaggingClassifier(
        DecisionTreeClassifier(max_depth=4), 12, max_features=0.7, oob_score=True, random_state=0
    ),
    "regressor": lambda: RandomForestRegressor(12, max_depth=4, oob_score=True, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(
        12, max_depth=4, bootstrap=True, oob_score=True, random_state=0
    ),
    "bagged regressor": lambda: BaggingRegressor(
        DecisionTreeRegressor(max_depth=4), 12, oob_score=True, random_state=0
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_true_rows_meet_their_means(name):
    X, y = table()
    if name == "three classes":
        y = y + X.d.to_numpy()
    if "regressor" in name or name == "extra trees":
        y = y + np.random.default_rng(1).normal(size=len(y))
    release = to_release(MODELS[name]().fit(X, y))
    draws = known_draws(release).counts
    (means,) = release.out_of_bag
    out = (draws == 0).any(axis=0)
    rows = X.to_numpy(np.float32)
    assert means.met(release.trees, rows, draws)[out].all()
    moved = means.met(release.trees, 1 - rows, draws)
    assert moved[out].mean() < 0.5


@pytest.mark.parametrize("numbers", [False, True])
def test_no_true_leaf_is_ruled_out_and_many_others_are(numbers):
    X, y = table(80, 3, numbers)
    release = to_release(forest(n_estimators=8, max_depth=None).fit(X, y))
    draws = known_draws(release).counts
    geometry = Geometry.of(release, infer_schema(release))
    left = []
    for means in (release.out_of_bag, ()):
        domains = Domains.of(KnownDraws(geometry, draws, out_of_bag=means))
        assert domains.narrow(Clock(np.inf)) < 0
        leaf = release.leaves(X)
        for t, tree in enumerate(release.trees):
            own = np.flatnonzero(domains.draws[t])
            slot = np.searchsorted(tree.leaves, leaf[own, t])
            word = domains.bits[own, y[own], domains.boxes.word_start[t] + (slot >> 6)]
            assert (word >> (slot & 63).astype(np.uint64) & np.uint64(1)).all()
        closed = domains.closed(y, np.zeros(len(y), dtype=bool))
        tree = np.repeat(np.arange(len(draws)), np.diff(geometry.leaf_start))
        left.append(np.count_nonzero((closed == 0) & (draws[tree] > 0).T))
    assert left[0] < left[1]


def test_the_array_proves_rows_that_counts_leave_open():
    X, y = table(60, 1)
    release = to_release(forest(n_estimators=15, max_depth=None).fit(X, y))
    used = treeleak.reconstruct(release, time_limit=AMPLE)
    alone = treeleak.reconstruct(replace(release, out_of_bag=()), time_limit=AMPLE)
    true = (used.X[list(X)].to_numpy() == X.to_numpy()).all(axis=1)
    assert USED in used.notes
    assert USED not in alone.notes
    assert used.misfit == 0
    assert true[used.proved].all()
    assert used.proved.sum() > alone.proved.sum()


@pytest.mark.slow
def test_raw_rows_meet_their_means():
    X, y = table(60, 2, numbers=True)
    release = to_release(forest(n_estimators=25, max_depth=None).fit(X, y))
    found = treeleak.reconstruct(release, time_limit=AMPLE)
    assert found.status in ("unique", "feasible")
    rows = found.X[list(X)].to_numpy(np.float32)
    met = release.out_of_bag[0].met(release.trees, rows, found.draws.counts)
    assert met[(found.draws.counts == 0).any(axis=0)].mean() >= 0.9
    leaves, true = release.leaves(found.X), release.leaves(X)
    assert (leaves == true).all(axis=1)[found.proved].all()


def test_an_array_that_contradicts_the_counts_is_dropped():
    X, y = table()
    model = forest().fit(X, y)
    model.oob_decision_function_ = model.oob_decision_function_[::-1].copy()
    found = treeleak.reconstruct(model, time_limit=30)
    assert NOT_USED in found.notes
    assert USED not in found.notes
    assert found.status != "infeasible"
    assert found.X is not None


@pytest.mark.parametrize(
    "array",
    [
        "text", [[0.5, 0.5]] * 60, np.zeros((59, 2)), np.zeros((60, 3)),
        np.zeros((60, 2), dtype=int),
        np.full((60, 2), np.inf), np.zeros((2, 60, 2)), np.full((60, 2), None),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_left_alone(array):
    X, y = table()
    model = forest().fit(X, y)
    model.oob_decision_function_ = array
    assert to_release(model).out_of_bag == ()


def test_an_array_of_an_earlier_fit_is_not_used():
    X, y = table()
    model = forest().fit(X, y)
    model.set_params(oob_score=False).fit(*table(60, 9))
    assert hasattr(model, "oob_decision_function_")
    assert to_release(model).out_of_bag == ()
    assert to_release(forest(warm_start=True).fit(X, y)).out_of_bag == ()


def test_the_array_is_read_from_a_pickle_and_named(tmp_path):
    X, y = table()
    file = tmp_path / "forest.pkl"
    file.write_bytes(pickle.dumps(forest().fit(X, y)))
    assert len(to_release(read_model(file, trust_pickle=True)).out_of_bag) == 1
    audit = treeleak.audit(file, time_limit=20, trust_pickle=True)
    assert USED in audit.reconstruction.notes
    entries = [e for e in audit.inventory if "oob_decision_function_" in e.names]
    assert entries
    assert all(e.mark == "leaks" for e in entries)
