"""The reconstruction error where a part of the rows was known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from treeleak.core.errors import BadInput
from treeleak.metrics.encoding import Table, table_columns
from treeleak.metrics.individual import known_values
from treeleak.metrics.matching import row_distances
from treeleak.schema import Schema


def partial_error(
    X_rec: Table,
    X_true: Table,
    known: pd.DataFrame | NDArray[Any] | Sequence[str],
    schema: Schema | None = None,
) -> float:
    """Measure how far the unknown values of a reconstruction are from the true ones.

    As in DRAFT's appendix on partial knowledge: rows are matched on all columns, those that were
    known included, and the mean is taken over what was not.

    Parameters
    ----------
    X_rec, X_true, schema
        As for :func:`~treeleak.metrics.reconstruction_error`.
    known : DataFrame or array of bool, shape (n_rows, n_columns), or sequence of str
        Which values of ``X_rec`` were known (see :attr:`Reconstruction.known`), or the names of
        the columns that were.

    Returns
    -------
    float
        From 0 to 1.

    Raises
    ------
    BadInput
        As for :func:`~treeleak.metrics.reconstruction_error`, and if nothing was unknown.
    """
    distance = row_distances(X_rec, X_true, schema)
    mask = known_values(known, table_columns(X_rec, X_true, schema), distance.shape)
    if mask.all():
        raise BadInput("every value was known: there is nothing to measure")
    return float(distance[~mask].mean())
