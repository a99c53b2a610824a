"""Parameters of estimators, read and refused by name."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from treeleak.core.errors import BadInput

__all__ = ["rows_of", "seconds", "share", "whole"]


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
