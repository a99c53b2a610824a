"""Parameters and tables that estimators are given, read and refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.errors import BadInput


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Read a whole number between bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BadInput(f"{name} must be a whole number, not {value!r}")
    number = int(value)
    if number < least or (most is not None and number > most):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        raise BadInput(f"{name} must be {bounds}, not {value!r}")
    return number


def in_order(X: pd.DataFrame, names: Sequence[str], whose: str) -> pd.DataFrame:
    """Find the columns of a table by name; ``whose`` they should be is for the message."""
    table = X.set_axis([str(c) for c in X.columns], axis=1)
    if sorted(table.columns) != sorted(names):
        wrong = sorted(set(table.columns) ^ set(names)) or "a column appears twice"
        raise BadInput(f"the table's columns are not those of the {whose}: {wrong}")
    return table[list(names)]


def label_list(y: Any, n_rows: int) -> NDArray[Any]:
    """Read one label for each row."""
    labels = np.asarray(y)
    if labels.shape not in ((n_rows,), (n_rows, 1)):
        raise BadInput(f"y has shape {labels.shape} for {n_rows} rows")
    return labels.ravel()
