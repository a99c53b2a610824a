"""How often values are right that are said to be right with some probability."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris

import treeleak
from experiments.benchmarks.calibration import Case, run
from treeleak.attacks.large_grid.bayes_estimate import _sure


@pytest.mark.parametrize("n_samples", [3, 4, 8])
def test_values_of_few_walks_are_as_sure_as_one_more_walk_has_them(n_samples):
    """Rows that walks know well, and rows of which they know next to nothing."""
    rng = np.random.default_rng(n_samples)
    n_rows, n_values = 3000, 25
    usual = rng.integers(0, n_values, n_rows)
    known = np.where(rng.random(n_rows) < 0.5, 0.97, 0.15)

    def drawn():
        others = rng.integers(0, n_values, n_rows)
        return np.where(rng.random(n_rows) < known, usual, others)[:, None]

    truth, aligned = drawn()[:, 0], [drawn() for _ in range(n_samples)]
    share = sum(np.eye(n_values)[one[:, 0]] for one in aligned) / n_samples
    chosen = share.argmax(axis=1)[:, None]
    numbered = np.array([0, n_values])
    values = SimpleNamespace(start=numbered, atom_start=numbered, atom_of=np.arange(n_values))
    sure = _sure(chosen, share, aligned, values)[:, 0]
    assert (sure < 1).all()
    right = chosen[:, 0] == truth
    tenth = (sure * 10).astype(int)
    off = [abs((sure - right)[tenth == k].sum()) for k in range(10)]
    # The share of samples that have a value itself is off by .13 to .20 here.
    assert sum(off) / n_rows < 0.07


@pytest.fixture(scope="module")
def missed():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.set_axis(list("abcd"), axis=1)
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=50, verbose=-1, n_jobs=1).fit(X, y)
    return treeleak.audit(model, time_limit=10)


@pytest.mark.slow
def test_rows_that_miss_what_a_model_discloses_say_no_confidence(missed):
    found = missed.reconstruction
    assert found.status == "unknown"
    assert found.misfit > 0
    sure = found.confidence.to_numpy()
    assert np.isnan(sure[sure != 1]).all()
    assert found.expected_error is None
    assert found.meaning.startswith("the search ended")
    rows = json.loads(found.to_json(include_rows=True))["rows"]
    assert rows["confidence"][0][0] is None
    assert missed.exposure is None or missed.exposure.recovered.probable == 0
    assert missed.to_html()


@pytest.mark.slow
def test_an_answer_is_counted_in_the_bins_of_its_confidence():
    record = run(Case("people", "known", True, 10.0, n_rows=40))
    n, sure, right = np.sum(record["bins"], axis=0)
    assert record["status"] == "feasible"
    assert 0 < n <= 40 * 6
    assert abs(sure - right) <= 0.1 * n
