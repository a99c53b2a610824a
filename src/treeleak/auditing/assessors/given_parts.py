"""What was given as known beside the model, held against the training rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from treeleak.core.errors import Mismatch
from treeleak.reconstruction import Reconstruction

_MISSING = -3e38


def check_given(rebuilt: Reconstruction, truth: pd.DataFrame) -> None:
    """Check that what was given is true of the training rows.

    Rows of which the same columns were given must be among the training rows, as often as they
    were given, as far as these columns tell.

    Raises Mismatch, saying how many are not.
    """
    if rebuilt.X is None or not rebuilt.given.any():
        return
    names = list(rebuilt.X.columns)
    true, own = (
        np.nan_to_num(table[names].to_numpy(dtype=np.float32), nan=_MISSING)
        for table in (truth, rebuilt.X)
    )
    given = rebuilt.given
    for known in np.unique(given[given.any(axis=1)], axis=0):
        told = own[(given == known).all(axis=1)][:, known]
        both = np.concatenate([told, true[:, known]])
        _, group = np.unique(both, axis=0, return_inverse=True)
        group = group.ravel()
        n_groups = group.max() + 1
        many = np.bincount(group[: len(told)], minlength=n_groups)
        wrong = int(np.maximum(many - np.bincount(group[len(told) :], minlength=n_groups), 0).sum())
        if wrong:
            columns = [name for name, is_known in zip(names, known, strict=True) if is_known]
            where = "" if len(columns) == len(names) else f" in column {columns[0]!r} and others"
            raise Mismatch(
                f"of what was given as known, {wrong} rows are not among the training rows{where}"
            )
