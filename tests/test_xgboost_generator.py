"""Which rows XGBoost drew, without XGBoost: its generator, and how trees drew by their sums."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import treeleak
from helpers.patient import AMPLE
from treeleak.core.errors import NotCovered
from treeleak.release import to_release
from treeleak.release.draws.boosters import SeveralNumbers, _Trainer
from treeleak.release.draws.seeds import known_draws
from treeleak.release.draws.xgboost_generator import likeliest, rows_drawn
from treeleak.release.sampling import Subsample
from treeleak.release.statistics import HESSIAN

xgboost = pytest.importorskip("xgboost")


@pytest.mark.parametrize(("seed", "share"), [(0, 0.8), (1, 0.5), (42, 0.63), (2**31 - 1, 0.95)])
def test_rows_are_those_that_xgboost_draws(seed, share):
    drawn = rows_drawn(seed, share, 700, 5)
    np.testing.assert_array_equal(drawn, _Trainer(xgboost, "hist", share, seed).masks(700, 5))
    np.testing.assert_array_equal(rows_drawn(seed, share, 300, 3), drawn[:3, :300])


def trained(seed, n_rows, share=0.8, **settings):
    rng = np.random.default_rng(n_rows)
    X = pd.DataFrame(rng.integers(0, 2, (n_rows, 8)), columns=[f"c{j}" for j in range(8)])
    y = (X.to_numpy() @ rng.normal(size=8) + rng.normal(size=n_rows) > 0).astype(int)
    model = xgboost.XGBClassifier(
        n_estimators=60, subsample=share, random_state=seed, n_jobs=1, **settings
    )
    return model.fit(X, y), X, y


@pytest.mark.parametrize(
    ("seed", "n_rows", "share", "settings"),
    [
        (0, 200, 0.8, {}),
        (42, 150, 0.5, {"learning_rate": 0.1}),
        (7, 300, 0.63, {"colsample_bytree": 0.7}),
        (999, 400, 0.75, {"learning_rate": 0.1}),
    ],
)
def test_seed_and_share_follow_from_a_file_that_says_neither(
    seed, n_rows, share, settings, tmp_path
):
    model, *_ = trained(seed, n_rows, share, **settings)
    model.save_model(tmp_path / "model.json")
    release = to_release(tmp_path / "model.json")
    assert isinstance(release.sampling, Subsample)
    # Rows that the first tree did not draw may be more or fewer at the end.
    with suppress(SeveralNumbers):
        assert known_draws(release).counts.shape[1] == n_rows
    found = known_draws(replace(release, n_rows=n_rows))
    assert found.forest_seed == seed
    true = known_draws(replace(to_release(model), n_rows=n_rows)).counts
    np.testing.assert_array_equal(found.counts, true)


@pytest.mark.slow
def test_a_seed_that_is_not_tried_is_not_found(tmp_path):
    for seed in (10**6, 10**6 + 1):
        model, _, _ = trained(seed, 200)
        roots = [t.statistics.get(HESSIAN).values[0] for t in to_release(model).trees]
        first = int(rows_drawn(seed, 0.8, 200, 1).sum())
        for known in (None, 200):
            with pytest.raises(NotCovered, match="no seed from 0 to 999"):
                likeliest(np.array(roots), first, known)
    model.save_model(tmp_path / "model.json")
    with pytest.raises(NotCovered, match="no seed from 0 to 999"):
        treeleak.reconstruct(tmp_path / "model.json", time_limit=AMPLE)
