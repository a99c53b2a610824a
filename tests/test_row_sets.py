"""Trees of different tables in one model: each group is a part, attacked by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

import treeleak
from helpers.examples import spread
from treeleak.core.errors import NotCovered
from treeleak.release import to_release
from treeleak.release.adapters.boosted import DIFFERENT
from treeleak.release.row_sets import by_row_sets
from treeleak.release.sampling import UnknownSampling
from treeleak.release.statistics import ROWS


def table(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, 7)), columns=list("abcdefg"))
    return X, ((X.a ^ (X.b & X.c)) ^ (rng.random(n) < 0.2)).to_numpy().astype(int)


FIRST, SECOND = table(60, 0), table(45, 1)
MODELS = {
    "forest": (RandomForestClassifier(12, warm_start=True, random_state=0), "n_estimators", 24),
    "all rows": (
        RandomForestClassifier(6, bootstrap=False, warm_start=True, random_state=0),
        "n_estimators", 12,
    ),
    "regressor": (RandomForestRegressor(12, warm_start=True, random_state=0), "n_estimators", 24),
    "bagging": (
        BaggingClassifier(n_estimators=12, warm_start=True, random_state=0), "n_estimators", 24,
    ),
    "boosting": (
        GradientBoostingClassifier(n_estimators=5, warm_start=True, random_state=0),
        "n_estimators", 10,
    ),
    "histograms": (
        HistGradientBoostingClassifier(
            max_iter=5, min_samples_leaf=2, warm_start=True, random_state=0
        ),
        "max_iter", 10,
    ),
}  # fmt: skip


def continued(name):
    model, setting, more = MODELS[name]
    return model.fit(*FIRST).set_params(**{setting: more}).fit(*SECOND)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:Warm-start")
def test_each_table_is_a_part(name):
    release = to_release(continued(name))
    half = len(release.trees) // 2
    assert [part.release.n_rows for part in release.parts] == [60, 45]
    assert [part.place for part in release.parts] == [
        f"trees 0 to {half - 1}", f"trees {half} to {2 * half - 1}"
    ]  # fmt: skip
    with pytest.raises(NotCovered, match="2 different tables"):
        treeleak.reconstruct(release, time_limit=5)


@pytest.mark.parametrize("name", spread(["forest", "all rows", "bagging"], fast=1, each=True))
@pytest.mark.filterwarnings("ignore:Warm-start")
def test_the_audit_rebuilds_each_table(name):
    audit = treeleak.audit(continued(name), time_limit=60)
    assert audit.verdict == "leak shown"
    assert [len(part.audit.reconstruction.X) for part in audit.parts] == [60, 45]
    for part, (X, _) in zip(audit.parts, (FIRST, SECOND), strict=True):
        found = part.audit.reconstruction
        assert found.misfit == 0
        if found.ordered:
            own, true = (part.audit.release.leaves(rows) for rows in (found.X, X))
            right = (own == true).all(axis=1)
            assert right[found.proved].all()
            assert right.mean() > 0.5


def test_one_table_is_one_part():
    model = RandomForestClassifier(5, warm_start=True, bootstrap=False, random_state=0)
    model.fit(*FIRST).set_params(n_estimators=10).fit(*FIRST)
    release = to_release(model)
    assert release.parts == ()
    assert release.n_rows == 60


def _with_roots(roots):
    release = to_release(RandomForestClassifier(len(roots), bootstrap=False).fit(*FIRST))
    trees = [
        tree.with_counts(ROWS, counts=None, totals=np.full(tree.n_nodes, float(n)))
        for tree, n in zip(release.trees, roots, strict=True)
    ]
    return replace(
        release.without_classes(), trees=tuple(trees), sampling=UnknownSampling(DIFFERENT)
    )


def test_trees_that_may_have_drawn_rows_are_no_tables():
    assert by_row_sets(_with_roots([30] * 4 + [40] * 4), False).parts
    assert not by_row_sets(_with_roots([30, 31, 30, 29, 30, 30]), False).parts
    assert not by_row_sets(_with_roots([30, 30, 40, 40]), False).parts
