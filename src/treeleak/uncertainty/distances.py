"""How far a probabilistic dataset is from rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadInput
from treeleak.uncertainty.alignment import align
from treeleak.uncertainty.groups import Groups
from treeleak.uncertainty.space import Space


def distance(data: Groups, X: pd.DataFrame | NDArray[Any] | None = None) -> float:
    """Average uncertainty that is left of a value: Gambs' distance.

    (1 / nd) sum of H(V_k(x'_i) united with V_k(x_i)) / H(V_k) over rows i and attributes k,
    where V_k(x_i) are the values that row i may have (Gambs 2012, eq. 1). An attribute that has
    one value only counts in no mean.

    Parameters
    ----------
    X : DataFrame, optional
        As many rows, which are paired such that the distance is least; the dataset itself if not
        given.

    Returns
    -------
    float
        0 only if everything is known, and the rows are these.

    Raises
    ------
    BadInput
        If the rows do not have the same attributes, or are not as many.
    """
    sets, boxes = data.narrow
    sizes = [s @ axis.sizes for s, axis in zip(sets, data.space.axes, strict=True)]
    if X is None:
        terms = [
            np.maximum(axis.entropy(s), 0.0)[boxes[:, k]]
            for k, (axis, s) in enumerate(zip(data.space.axes, sizes, strict=True))
        ]
        cost = _mean_over(data.space, terms)
        some = data.support > 0
        return _share(float(cost[some] @ data.support[some]), data.n_rows)
    atoms = data.space.locate_all(X)
    if len(X) != data.n_rows:
        raise BadInput(f"{data.n_rows} rows have no distance to {len(X)} rows")
    terms = []
    for k, (axis, own) in enumerate(zip(data.space.axes, sizes, strict=True)):
        # A value outside of a set is one more.
        union = np.maximum(own, axis.unit)[:, None] + axis.unit * ~sets[k][:, atoms[:, k]]
        terms.append(axis.entropy(union)[boxes[:, k]])
    cost = _mean_over(data.space, terms)
    i, j, n = align(cost, data.support, np.ones(len(X), dtype=np.int64))
    return _share(float(cost[i, j] @ n), data.n_rows)


def _share(total: float, n_rows: int) -> float:
    return total / n_rows if n_rows else math.nan


def _mean_over(space: Space, terms: Sequence[FloatArray]) -> FloatArray:
    """Average entropies, one array for each attribute, as shares of those of the domains."""
    whole = [axis.bits for axis in space.axes]
    shares = [t / h for t, h in zip(terms, whole, strict=True) if h > 0]
    return sum(shares, 0.0 * terms[0]) / max(len(shares), 1)
