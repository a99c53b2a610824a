"""The reconstruction error where a part of the rows was known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray
from treeleak.core.errors import BadInput
from treeleak.metrics.encoding import Table, table_columns
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


def known_values(
    known: pd.DataFrame | NDArray[Any] | Sequence[str],
    names: Sequence[str],
    shape: tuple[int, ...],
) -> BoolArray:
    """Write what was known, however it is said, as one truth value per value of a table.

    ``known``: as for :func:`partial_error`. ``names``: columns of the table. ``shape``: its rows
    and columns. Raises BadInput if it does not fit the table.
    """
    if isinstance(known, pd.DataFrame):
        known = known.set_axis([str(c) for c in known.columns], axis=1)
        if absent := [c for c in names if c not in known.columns]:
            raise BadInput(f"what is known does not name column {absent[0]!r}")
        mask = known[list(names)].to_numpy(dtype=bool)
    elif isinstance(known, np.ndarray) and known.dtype == bool:
        mask = known
    else:
        if absent := [c for c in known if c not in names]:
            raise BadInput(f"column {absent[0]!r} is known, but is not compared")
        mask = np.broadcast_to(np.isin(names, list(known)), shape)
    if mask.shape != shape:
        raise BadInput(f"what is known has shape {mask.shape}, the rows {shape}")
    return mask
