"""Whether the rows that were given are what they are said to be."""

from __future__ import annotations

import numpy as np
import pandas as pd

from treeleak.core.errors import Mismatch
from treeleak.core.message import static_message
from treeleak.reconstruction import Reconstruction

THE_SAME = static_message(
    "the control rows are too similar to the training rows to be other samples of the "
    "population (by chance less than once in a thousand times): do they contain training "
    "rows?",
    "rows_given_the_same",
)
_DRAWS = 999
_MISSING = -3e38


def check_provided_rows(rebuilt: Reconstruction, truth: pd.DataFrame) -> None:
    """Check that what was given is true of the training rows.

    Rows of which the same columns were given must be among the training rows, as often as they
    were given, as far as these columns tell.

    Raises Mismatch, saying how many are not.
    """
    if rebuilt.X is None or not rebuilt.given.any():
        return
    names = list(rebuilt.X.columns)
    true, reconstructed = (
        np.nan_to_num(table[names].to_numpy(dtype=np.float32), nan=_MISSING)
        for table in (truth, rebuilt.X)
    )
    provided = rebuilt.given
    for known in np.unique(provided[provided.any(axis=1)], axis=0):
        provided_rows = reconstructed[(provided == known).all(axis=1)][:, known]
        both = np.concatenate([provided_rows, true[:, known]])
        _, group = np.unique(both, axis=0, return_inverse=True)
        group = group.ravel()
        n_groups = group.max() + 1
        many = np.bincount(group[: len(provided_rows)], minlength=n_groups)
        wrong = int(
            np.maximum(many - np.bincount(group[len(provided_rows) :], minlength=n_groups), 0).sum()
        )
        if wrong:
            columns = [name for name, is_known in zip(names, known, strict=True) if is_known]
            where = "" if len(columns) == len(names) else f" in column {columns[0]!r} and others"
            raise Mismatch(
                f"{wrong} of the rows given as known are not among the training rows{where}"
            )


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
        counts = np.bincount(group[chosen], minlength=len(total))
        return float(((counts / n - (total - counts) / len(control)) ** 2).sum())

    real = apart(np.arange(n))
    return all(apart(rng.choice(len(rows), n, replace=False)) > real for _ in range(_DRAWS))
