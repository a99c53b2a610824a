"""A compiled loop that weighs what one row is worth to the evidence. It releases the GIL.

An *equation* is a leaf and a class, numbered leaf * n_classes + class; ``gain[offset[e] + a]`` is
what a further row is worth to equation e, as a log likelihood, where a rows lie there already.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.core.compiled import njit

_MOST_LOG = 700.0
"""e to this power is still a number."""


@njit(fastmath=True)
def add_ratios(
    leaf: Any, label: Any, row_leaf: Any, row_label: Any, held: Any, n_rows: int, offset: Any,
    gain: Any, n_classes: int, weight: Any, top: Any, total: Any, out: Any,
) -> None:  # fmt: skip
    """Add to ``out`` how much likelier each row is than others in place of rows of a dataset.

    For some rows i of the dataset, L(x) is the likelihood with x in the place of i. ``out[x]``
    grows by the sum over i of L(x) over its mean.

    Parameters
    ----------
    leaf, label
        Shapes (n, n_trees), (n,). Of the rows that are weighed.
    row_leaf, own_label
        Shapes (n_own, n_trees), (n_own,). Of rows of the dataset in whose place others stand.
    held
        How many of all ``n_rows`` rows of the dataset lie in each equation.
    weight
        Shape (n,). Probability of each row, of which ``total`` and ``top`` are then made; or (0,):
        then both are read.
    top, total
        Shapes (1,), (n_own,). What is taken off logs, and the mean of L in place of each row.
    """
    n, n_trees = leaf.shape
    most = n_rows - 1
    base, factor, ratio = np.empty(n), np.empty(n_trees), np.empty(n)
    for k in range(n):
        log = 0.0
        for t in range(n_trees):
            e = leaf[k, t] * n_classes + label[k]
            log += gain[offset[e] + min(held[e], most)]
        base[k] = log
    if len(weight):
        top[0] = base.max()
    for k in range(n):
        base[k] = np.exp(min(base[k] - top[0], _MOST_LOG))
    for i in range(len(row_label)):
        for t in range(n_trees):
            e = row_leaf[i, t] * n_classes + row_label[i]
            a = offset[e] + held[e] - 1
            factor[t] = np.exp(gain[a] - gain[min(a + 1, offset[e] + most)])
        mean = 0.0
        for k in range(n):
            here = base[k]
            if label[k] == row_label[i]:
                for t in range(n_trees):
                    if leaf[k, t] == row_leaf[i, t]:
                        here *= factor[t]
            ratio[k] = here
            if len(weight):
                mean += here * weight[k]
        if len(weight):
            total[i] = mean
        for k in range(n):
            out[k] += ratio[k] / total[i]
