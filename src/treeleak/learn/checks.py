"""Parameters and tables that estimators are given, read and refused by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
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


def share(name: str, value: Any) -> float:
    """Read a share, 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise BadInput(f"{name} must be a share from 0 to 1, not {value!r}")
    return float(value)


def rows_of(support: float, n_rows: int) -> int:
    """Fewest rows, one at least, that are no smaller a share of all rows than ``support``."""
    rows = math.ceil(support * n_rows)
    # The product is rounded, so its ceiling may be one too many.
    return max(1, rows - 1 if (rows - 1) / n_rows >= support else rows)


def seconds(name: str, value: Any) -> float:
    """Read a time limit; None is none."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= 0:
        raise BadInput(f"{name} must be a number of seconds or None, not {value!r}")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """Read a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise BadInput(f"{name} must be True or False, not {value!r}")
    return bool(value)


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
