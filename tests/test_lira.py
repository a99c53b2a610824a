"""LiRA and the threshold, where the answer is known, and the benchmark that prints them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from experiments import lira


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


@pytest.mark.slow
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
