"""Rows pushed through a tree one by one, in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit


@njit()
def push_down(X: Any, feature: Any, cuts: Any, ways: Any, children: Any, out: Any) -> None:
    """Write the leaf of each row.

    ``X``, shape (n_rows, n_columns). ``cuts``: thresholds, and whether a value that equals one goes
    right. ``ways``: whether missing values go left. ``children``: the left and the right ones, the
    left one negative at a leaf. ``out``, shape (n_rows,).
    """
    threshold, strict = cuts
    left, right = children
    for k in range(len(X)):
        node = 0
        while left[node] >= 0:
            x, cut = X[k, feature[node]], threshold[node]
            below = x < cut or (x == cut and not strict[node])
            node = left[node] if below or (np.isnan(x) and ways[node]) else right[node]
        out[k] = node
