"""Membership by what a model predicts: LiRA, the offline variant, and a plain threshold.

Carlini et al. (2022): models like the one under attack are trained on rows of the population that
the attacker has. What they predict of a record tells how sure a model is that never saw it; the
model under attack is held against that. A record that these models find easy is no member because
the model finds it easy, too: that is what the plain threshold on the confidence gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logit

from treeleak.core.arrays import FloatArray

SHADOWS = 32
_LEAST = 1e-3
"""Least confidence, and least doubt: forests say 0 and 1 of what hundreds of trees agree on."""
_WIDTH = 0.1
"""Least standard deviation."""

Fit = Callable[[pd.DataFrame, "pd.Series[Any]", int], Any]
"""Trains a model on rows and labels, with a seed."""


def confidence(model: Any, X: pd.DataFrame, y: pd.Series[Any]) -> FloatArray:
    """Probability that a model gives the true class of each record; 0 if it knows no such class."""
    said = np.column_stack([model.predict_proba(X), np.zeros(len(X))])
    at = pd.Index(model.classes_).get_indexer(pd.Index(y))
    return np.asarray(said[np.arange(len(X)), at])


def scaled(confidence: FloatArray) -> FloatArray:
    """Log odds, which are about normal."""
    return np.asarray(logit(np.clip(confidence, _LEAST, 1.0 - _LEAST)))


def offline(observed: FloatArray, shadows: FloatArray) -> FloatArray:
    """How much surer of a record the attacked model is than models that never saw it.

    In standard deviations: as probabilities, the surest ones would all be 1. ``observed``, shape
    (n_records,), and ``shadows``, shape (n_shadows, n_records): log odds.
    """
    sd = np.maximum(shadows.std(axis=0, ddof=1), _WIDTH)
    return np.asarray((observed - shadows.mean(axis=0)) / sd)


def lira(
    model: Any, fit: Fit, pool: pd.DataFrame, label: str, n_rows: int,
    asked: Sequence[pd.DataFrame], seed: int,
) -> list[FloatArray]:  # fmt: skip
    """Score records by LiRA with models trained on parts of ``pool``, in which they are not.

    ``label``: column of the label in all tables.
    """
    both = pd.concat(asked, ignore_index=True)
    X, y = both.drop(columns=label), both[label]
    rng, said = np.random.default_rng(seed), []
    for k in range(SHADOWS):
        own = pool.iloc[rng.choice(len(pool), n_rows, replace=False)].reset_index(drop=True)
        said.append(scaled(confidence(fit(own.drop(columns=label), own[label], k), X, y)))
    score = offline(scaled(confidence(model, X, y)), np.array(said))
    return np.split(score, np.cumsum([len(part) for part in asked])[:-1])
