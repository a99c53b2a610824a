"""How many targets of a regression were rebuilt, beside rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray

SAME, NEAR = 1e-9, 1e-6
"""Difference, as a part of their size or of their range, up to which two targets are one. Many
libraries keep seven digits of them."""


def right_targets(found: FloatArray, true: NDArray[Any], group: IntArray | None = None) -> int:
    """Count the targets that are right.

    Parameters
    ----------
    found : float array, shape (n_rows,)
        NaN where none is told.
    true : float array, shape (n_rows,)
        Row by row those of the training rows that stand beside them.
    group : int array, shape (n_rows,), optional
        Training rows that nobody tells apart: their targets may change places.
    """
    if group is None:
        group = np.arange(len(true))
    table = pd.DataFrame({"group": group, "found": found, "true": true})
    right, near = 0, NEAR * float(np.ptp(true[np.isfinite(true)])) if len(true) else 0.0
    for _, group_rows in table.groupby("group"):
        mine = np.sort(group_rows["found"].dropna().to_numpy())
        theirs = np.sort(group_rows["true"].dropna().to_numpy())
        i = j = 0
        while i < len(mine) and j < len(theirs):
            if abs(mine[i] - theirs[j]) <= max(SAME * abs(theirs[j]), near, 1e-300):
                right, i, j = right + 1, i + 1, j + 1
            elif mine[i] < theirs[j]:
                i += 1
            else:
                j += 1
    return right
