"""What schemas are made of, checked piece by piece: lists, names, numbers, ranges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from treeleak.core.errors import BadSchema

__all__ = [
    "finite_bounds",
    "labels_of",
    "list_of",
    "names_of",
    "number_of",
    "set_interval",
    "weights_of",
]

_LARGEST = float(np.finfo(float).max)


def list_of(value: Any, what: str) -> tuple[Any, ...]:
    """Read a list, and no text."""
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise BadSchema(f"{what} must be a list, not {value!r:.80}")
    return tuple(value)


def names_of(value: Any, what: str) -> tuple[str, ...]:
    """Read different names of columns, one at least."""
    names = list_of(value, f"{what}: columns")
    if not names:
        raise BadSchema(f"{what}: no columns")
    for name in names:
        if not isinstance(name, str):
            raise BadSchema(f"{what}: the name of a column must be text, not {name!r:.80}")
    if len(set(names)) != len(names):
        raise BadSchema(f"{what}: a column stands twice")
    return names


def labels_of(value: Any, what: str) -> tuple[str, ...]:
    """Read different labels."""
    labels = list_of(value, f"{what}: labels")
    for label in labels:
        if not isinstance(label, str):
            raise BadSchema(f"{what}: a label must be text, not {label!r:.80}")
    if len(set(labels)) != len(labels):
        raise BadSchema(f"{what}: a label stands twice")
    return labels


def number_of(value: Any, what: str, finite: bool = True) -> float:
    """Turn any real number, numpy's included, into a plain int or float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadSchema(f"{what} must be a number, not {value!r:.80}")
    plain = int(value) if isinstance(value, Integral) else float(value)
    # An int beyond the floats' range would overflow in the first comparison with an array.
    if (abs(plain) > _LARGEST and (finite or isinstance(plain, int))) or plain != plain:
        raise BadSchema(f"{what} must be a finite number, not {plain!r:.40}")
    return plain


def weights_of(value: Any, what: str) -> dict[str, float]:
    """Read a number for each of some columns."""
    if not isinstance(value, Mapping) or not value:
        raise BadSchema(f"{what} must map columns to numbers, not {value!r:.80}")
    names_of(list(value), what)
    return {name: number_of(v, f"{what}, column {name!r}: the value") for name, v in value.items()}


def set_interval(item: Any, what: str) -> None:
    """Check the ends of a range, and make them floats."""
    low = float(number_of(item.low, f"{what}: low", finite=False))
    high = float(number_of(item.high, f"{what}: high", finite=False))
    if low > high or low == math.inf or high == -math.inf:
        raise BadSchema(f"{what}: no number lies from {low} to {high}")
    object.__setattr__(item, "low", low)
    object.__setattr__(item, "high", high)


def finite_bounds(item: Any) -> dict[str, float]:
    """List the ends of a range that are no infinity."""
    bounds = {"low": item.low, "high": item.high}
    return {side: value for side, value in bounds.items() if math.isfinite(value)}
