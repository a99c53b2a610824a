"""Whether control rows are other rows of the population, or the training rows over again."""

from __future__ import annotations

import numpy as np
import pandas as pd

THE_SAME = (
    "the control rows are too like the training rows to be other draws of their population (less "
    "than once in a thousand times by chance): were the training rows among them?"
)
_DRAWS = 999


def too_like(train: pd.DataFrame, control: pd.DataFrame, seed: int = 0) -> bool:
    """Say whether control rows agree with the training rows better than chance allows.

    Were both drawn from one population, any rows of the two tables together might as well have been
    the training set. So the two shares of each row differ as much as for training sets drawn from
    all: that they differ less than for each of 999 has a probability of one in a thousand.
    """
    rows = pd.concat([train, control[train.columns]], ignore_index=True)
    group = rows.groupby(list(rows.columns), dropna=False, sort=False).ngroup().to_numpy()
    total, n = np.bincount(group), len(train)
    rng = np.random.default_rng(seed)

    def apart(chosen: np.ndarray) -> float:
        own = np.bincount(group[chosen], minlength=len(total))
        return float(((own / n - (total - own) / len(control)) ** 2).sum())

    real = apart(np.arange(n))
    return all(apart(rng.choice(len(rows), n, replace=False)) > real for _ in range(_DRAWS))
