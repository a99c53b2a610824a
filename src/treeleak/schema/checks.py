"""What schemas are made of, checked piece by piece: lists, names, numbers, ranges."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from treeleak.core.errors import BadSchema

_LARGEST = float(np.finfo(float).max)


def list_of(value: Any, what: str) -> tuple[Any, ...]:
    """Read a list, and no text."""
    if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
        raise BadSchema(f"{what} must be a list, not {value!r:.80}")
    return tuple(value)


def names_of(value: Any, what: str) -> tuple[str, ...]:
    """Read different names of columns, one at least."""
    if not (names := _different(value, what, "column", "the name of a column")):
        raise BadSchema(f"{what}: no columns")
    return names


def labels_of(value: Any, what: str) -> tuple[str, ...]:
    """Read different labels."""
    return _different(value, what, "label", "a label")


def _different(value: Any, what: str, one: str, text: str) -> tuple[str, ...]:
    texts = list_of(value, f"{what}: {one}s")
    for entry in texts:
        if not isinstance(entry, str):
            raise BadSchema(f"{what}: {text} must be text, not {entry!r:.80}")
    if len(set(texts)) != len(texts):
        raise BadSchema(f"{what}: a {one} appears twice")
    return texts


def flag_of(value: Any, what: str) -> bool:
    """Read a truth value, numpy's included."""
    if not isinstance(value, (bool, np.bool_)):
        raise BadSchema(f"{what} must be true or false")
    return bool(value)


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


def set_ends(item: Any, what: str) -> None:
    """Check ``low`` and ``high`` of an attribute or rule, and make them floats."""
    low, high = (
        float(number_of(getattr(item, end), f"{what}: {end}", finite=False))
        for end in ("low", "high")
    )
    if low > high or low == math.inf or high == -math.inf:
        raise BadSchema(f"{what}: no number lies from {low} to {high}")
    settle(item, low=low, high=high)


def settle(item: Any, **fields: Any) -> None:
    """Replace what a frozen object was given by what was read of it."""
    for name, value in fields.items():
        object.__setattr__(item, name, value)
