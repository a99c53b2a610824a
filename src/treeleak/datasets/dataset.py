"""What every loader returns."""

from __future__ import annotations

import pandas as pd

from treeleak.core.private import dataclass
from treeleak.schema import Schema


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table to train on, with all that an auditor may want to know about it.

    Parameters
    ----------
    name : str
        Short name of the table.
    X : DataFrame
        Features, whole numbers.
    y : Series
        Labels, 0 or 1; row k belongs to row k of ``X``.
    schema : Schema
        What a row of ``X`` can be.
    source : str
        Where the table was published.
    licence : str
        Under which terms.
    raw : DataFrame or None
        The columns from which ``X`` was made, row by row, where they are known.
    """

    name: str
    X: pd.DataFrame
    y: pd.Series
    schema: Schema
    source: str
    licence: str
    raw: pd.DataFrame | None = None
