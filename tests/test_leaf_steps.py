"""Rows from what leaves add, where all counts and sums were taken out of a boosted model."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, replace
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

import treeleak
from helpers.boosted import bits, needs, rows_of_A
from helpers.cli import run
from helpers.patient import AMPLE
from treeleak.core.clock import Clock
from treeleak.core.errors import BadModel, NotCovered
from treeleak.evidence import LeafValueEvidence
from treeleak.reconstruction import run as road
from treeleak.reconstruction.run import ASSUMED, FROM_STEPS, SHARES
from treeleak.release import to_release
from treeleak.release.ensemble import Ensemble, Fitting
from treeleak.release.statistics import VALUE, Statistics
from treeleak.verification.counts import leaves_off


def people(n=60, seed=0, columns="abcdef"):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, len(columns))) < rng.uniform(0.2, 0.8, len(columns))).astype(int)
    y = (X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(size=n) > 0.5).astype(int)
    return pd.DataFrame(X, columns=list(columns)), y


def model_of(kind, rounds=40):
    if kind == "boosting":
        return GradientBoostingClassifier(n_estimators=rounds, random_state=0)
    l2 = 1.0 if kind == "regularised" else 0.0
    return HistGradientBoostingClassifier(
        max_iter=rounds, min_samples_leaf=3, l2_regularization=l2, early_stopping=False
    )


def stripped(model):
    """The release of a model of which only the values of leaves are left."""
    release = to_release(model)
    trees = [
        replace(tree, statistics=Statistics((tree.statistics.get(VALUE),)))
        for tree in release.trees
    ]
    return replace(release, trees=tuple(trees), n_rows=None, borders={})


def cells(release, X, y):
    leaf = rows_of_A(release, np.asarray(X))
    return Counter((*row, label) for row, label in zip(leaf.tolist(), list(y), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seed"), [("boosting", 0), ("histogram", 0), ("regularised", 0), ("regularised", 1)]
)
def test_values_alone_give_the_rows_back(kind, seed):
    X, y = people(seed=seed)
    release = stripped(model_of(kind).fit(X, y))
    found = treeleak.reconstruct(release, bits(release), time_limit=AMPLE)
    assert found.status == "feasible"
    assert found.evidence.startswith(LeafValueEvidence.kind)
    assert FROM_STEPS in found.notes
    assert (SHARES in found.notes) == (kind != "regularised")
    assert cells(release, found.X, found.y) == cells(release, X, y)
    assert not found.proved.any()
    assert (found.confidence.to_numpy() < 1).all()
    assert leaves_off(release, found.X.to_numpy(), found.y.to_numpy()) == 0


_UNUSED = pytest.mark.xfail(
    strict=False,
    reason="the test of independence asks only the cells in use, not those that could replace them",
)


@pytest.mark.parametrize(("seed", "tied"), [(0, True), pytest.param(1, False, marks=_UNUSED)])
def test_shares_are_in_doubt_where_leaves_do_not_tie_rows_together(seed, tied):
    X, y = people(seed=seed)
    release = stripped(model_of("histogram").fit(X, y))
    found = treeleak.reconstruct(release, time_limit=AMPLE)
    assert (cells(release, found.X, found.y) == cells(release, X, y)) == tied
    sure = found.confidence.to_numpy().max()
    assert sure > 0.9 if tied else sure <= 0.5


def test_how_many_rows_there_were_follows_from_regularisation():
    X, y = people(60, seed=3)
    release = stripped(model_of("regularised").fit(pd.concat([X, X]), np.tile(y, 2)))
    found = treeleak.reconstruct(release, bits(release), time_limit=AMPLE)
    assert len(found.X) == 120


def test_values_of_no_rows_are_not_explained():
    X, y = people(30, columns="abc")
    model = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0)
    release = stripped(model.fit(X, y))
    values = release.trees[7].statistics.get(VALUE)
    moved = replace(values, values=values.values + 0.01 * values.present)
    tree = replace(release.trees[7], statistics=Statistics((moved,)))
    release = replace(release, trees=(*release.trees[:7], tree))
    with pytest.raises(NotCovered, match="explain its leaf values"):
        treeleak.reconstruct(release, bits(release), time_limit=AMPLE)


def test_a_learning_rate_that_nothing_says_is_found():
    X, y = people(columns="abc")
    release = stripped(model_of("regularised", 6).fit(X, y))
    fitting = replace(release.ensemble.fitting, assumed=True)
    ensemble = replace(release.ensemble, learning_rate=0.3, fitting=fitting)
    found = treeleak.reconstruct(
        replace(release, ensemble=ensemble), bits(release), time_limit=AMPLE
    )
    assert ASSUMED(rate="0.1", l2="1") in found.notes
    assert cells(release, found.X, found.y) == cells(release, X, y)


@pytest.mark.parametrize("others", ["late", "wrong"])
def test_a_learning_rate_that_takes_its_time_leaves_some_to_the_others(others, monkeypatch):
    X, y = people(columns="abc")
    release = stripped(model_of("regularised", 6).fit(X, y))
    fitting = replace(release.ensemble.fitting, assumed=True)
    ensemble = replace(release.ensemble, learning_rate=0.3, fitting=fitting)
    release = replace(release, ensemble=ensemble)
    ask, limits = road.solve, []

    def answer(problem, clock):
        limits.append(clock.limit)
        rate = problem.release.ensemble.learning_rate
        if rate == 0.1 and others == "late":
            return ask(problem, clock)
        if len(limits) > 1 and others == "wrong":
            raise NotCovered("no")
        return ask(problem, Clock.of(1e-9))

    monkeypatch.setattr(road, "solve", answer)
    found = treeleak.reconstruct(release, bits(release), time_limit=100)
    if others == "late":
        assert len(limits) == 2
        assert max(limits) < 100
        assert ASSUMED(rate="0.1", l2="1") in found.notes
    else:
        assert len(limits) > 10
        assert found.status == "unknown"
        assert found.X is None


@pytest.mark.parametrize("by", [1e60, 1e15, 1e-18, -1.0])
def test_values_that_were_never_trained_do_no_harm(by):
    X, y = people(30, columns="abc")
    release = to_release(model_of("regularised", 5).fit(X, y))
    trees = [_scaled(tree, by) for tree in release.trees]
    found = treeleak.reconstruct(replace(release, trees=tuple(trees)), bits(release), time_limit=2)
    assert found.status in ("unknown", "feasible")
    assert not found.proved.any()


def _scaled(tree, by):
    own = tree.statistics.get(VALUE)
    told = (replace(s, values=s.values * by) if s is own else s for s in tree.statistics)
    return replace(tree, statistics=Statistics(tuple(told)))


@pytest.mark.parametrize(("rate", "l2"), [(0.0, 1.0), (-1.0, 1.0), (1e-300, 1.0), (0.1, 1e29)])
def test_rates_and_regularisations_of_no_training_are_refused(rate, l2):
    fitting = replace(Fitting("logistic"), l2=min(l2, 1.0))
    with pytest.raises(BadModel, match="leaves fitted"):
        Ensemble("log_loss", (0.0,), rate, replace(fitting, l2=l2))


@pytest.mark.slow
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_hardened_file_is_still_audited(library, tmp_path):
    needs(library)
    X, y = people(300, seed=5, columns="abcdefghij")
    path = tmp_path / ("model.json" if library == "xgboost" else "model.txt")
    if library == "xgboost":
        from xgboost import XGBClassifier

        XGBClassifier(n_jobs=1).fit(X, y).save_model(path)
    else:
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(n_jobs=1, verbose=-1).fit(X, y)
        model.booster_.save_model(path)
    hard = tmp_path / f"hard{path.suffix}"
    run("harden", path, "--out", hard, "--time-limit", 1, "--quiet")  # may find no rows in time
    release = to_release(hard)
    found = treeleak.reconstruct(release, bits(release), time_limit=100)
    assert found.status == "feasible"
    assert cells(release, found.X, found.y) == cells(release, X, y)


def test_the_published_schema_knows_all_that_is_said_of_a_fitting():
    shown = json.loads(files("treeleak.formats").joinpath("release.schema.json").read_text())
    told = json.dumps(shown)
    assert [f.name for f in fields(Fitting) if f'"{f.name}": {{' not in told] == []
