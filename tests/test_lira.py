"""LiRA and the threshold, where the answer is known, and the benchmark that prints them."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from experiments import lira
from experiments.benchmarks import membership


def test_offline_lira_takes_out_how_hard_a_record_is():
    """A member's log odds lie two standard deviations above those of models without it."""
    rng, n = np.random.default_rng(0), 4000
    hard, member = rng.normal(0, 5, n), np.arange(n) < n // 2
    observed = hard + 2.0 * member + rng.normal(size=n)
    shadows = hard + rng.normal(size=(200, n))
    score = lira.offline(observed, shadows)
    assert roc_auc_score(member, score) == pytest.approx(ndtr(2 / np.sqrt(2)), abs=0.02)
    assert roc_auc_score(member, observed) < 0.65
    # Of records that are no members, the score is about normal.
    shares = ndtr(np.quantile(score[~member], [0.1, 0.5, 0.9]))
    assert shares == pytest.approx([0.1, 0.5, 0.9], abs=0.03)
    # The surest are told apart.
    assert len(np.unique(lira.offline(np.array([1.0, 2.0, 4.0]), np.zeros((32, 3))))) == 3


def test_confidence_is_that_of_the_true_class_and_zero_for_one_the_model_never_saw():
    X = pd.DataFrame({"a": [0, 0, 1, 1]})
    model = RandomForestClassifier(5, bootstrap=False, random_state=0).fit(X, [0, 0, 1, 1])
    assert lira.confidence(model, X, pd.Series([0, 1, 1, 2])).tolist() == [1, 0, 1, 0]
    assert np.isfinite(lira.scaled(np.array([0.0, 1.0]))).all()


def test_lira_tells_members_of_a_model_that_learns_labels_by_heart():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc"))
    table["label"] = rng.integers(2, size=400)

    def fit(X, y, seed):
        return RandomForestClassifier(10, random_state=seed).fit(X, y)

    own, others, pool = table[:60], table[60:120].reset_index(drop=True), table[120:]
    model = fit(own.drop(columns="label"), own["label"], 0)
    inside, outside = lira.lira(model, fit, pool, "label", 60, (own, others), 0)
    assert roc_auc_score(np.repeat([1, 0], 60), np.concatenate([inside, outside])) > 0.8


@pytest.mark.parametrize(("said", "verdict"), [((1.0, 0.0), "met"), ((0.0, 1.0), "NOT met")])
def test_a_line_says_whether_it_meets_its_floors(capsys, said, verdict):
    record = {"case": asdict(membership.Case("exact", "adult", 3, 0)), "results_version": 1}
    record |= {"status": "unique", "seconds": 1.0}
    for score, (inside, outside) in {
        "ours": said,
        "lira": (0.6, 0.5),
        "threshold": (0.5, 0.5),
    }.items():
        record[f"members_{score}"] = [inside] * 20
        record[f"others_{score}"] = [outside] * 1000
    misses = membership.floor_table([record])
    out = capsys.readouterr().out
    line = next(x for x in out.splitlines() if "adult" in x)
    assert line.split("│")[-2].strip() == verdict
    assert misses == (verdict != "met")
    assert f"{misses} of 1 lines" in out


def test_xgboost_is_left_out_where_it_is_not_there():
    every = list(membership.cases(("exact", "noise"), ("adult",), range(2), 5.0))
    assert len(every) == 8
    assert {c.depth for c in every} == {None, 3}
    assert membership.warm(every[0]).n_rows < every[0].n_rows
