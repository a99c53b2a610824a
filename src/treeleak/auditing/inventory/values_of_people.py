"""Fitted parts that hold about as many different values as there are training rows.

If n rows have k different values, one each, then 2k - n of the values or more belong to one row
alone. So a list of more than n/2 values may hold those of single people, whatever it is called:
categories, bins, quantiles, centres of clusters, words of notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory.drawn import is_drawn
from treeleak.auditing.inventory.known_files import PARTS
from treeleak.auditing.inventory.owners import n_columns
from treeleak.core.private import dataclass
from treeleak.release.registry import has_adapter
from treeleak.release.stored import Opaque, StoredObject

FEW = 10
"""Different values that a table of any size may have."""
NEARLY_ALL = 0.9
"""Share of the rows from which a column that has so many values identifies them."""

_OF_TREES = ("Tree", "TreePredictor", "_BinMapper", "release", "rules")
"""What these hold, attacks look at."""


@dataclass(frozen=True)
class Held:
    """How many different values a part holds."""

    values: int
    column: str | None = None
    """The column of an encoder that has a value of its own for nearly each row."""


def values_of_people(value: Any, owner: StoredObject, name: str, n_rows: int | None) -> Held | None:
    """Count the different values of a part if there are more than every second row has.

    Returns None where there are not, or where the number of rows is not known.
    """
    of_file = owner.type.startswith((PARTS, "numpy.random."))
    if (
        n_rows is None
        or of_file
        or owner.name in _OF_TREES
        or is_drawn(owner)
        or has_adapter(owner)
    ):
        return None
    counts = list(_different(value, n_columns(owner)))
    most = max(counts, default=0)
    if most <= FEW or 2 * most <= n_rows:
        return None
    of_encoder = name == "categories_" and isinstance(owner.get("categories", "auto"), str)
    if most < NEARLY_ALL * n_rows or not of_encoder:
        return Held(most)
    names = owner.get("feature_names_in_")
    at = counts.index(most)
    named = isinstance(names, np.ndarray) and len(names) == len(counts)
    return Held(most, str(names[at]) if named else f"x{at}")


def _different(value: Any, columns: int) -> Iterator[int]:
    """Count the different values of each list in a value, or its different rows."""
    if isinstance(value, Mapping):
        yield len(value)
        for inner in value.values():
            yield from _different(inner, columns)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield _of_array(value, columns)
    elif isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
        items = value.ravel().tolist() if isinstance(value, np.ndarray) else list(value)
        inside = [v for v in items if isinstance(v, (np.ndarray, list, tuple, Mapping))]
        for inner in inside:
            yield max(_different(inner, columns), default=0)
        if not inside:
            plain = {v for v in items if not isinstance(v, (StoredObject, Opaque))}
            yield 0 if len(items) == columns else len(plain)


def _of_array(array: NDArray[Any], columns: int) -> int:
    """Different values, or parts along an axis, but for axes as long as there are columns."""
    if array.ndim == 1:
        plain = array[array == array]
        return 0 if len(array) == columns else len(np.unique(plain))
    axes = [k for k in range(array.ndim) if array.shape[k] != columns]
    return max(
        (len({part.tobytes() for part in np.moveaxis(array, k, 0)}) for k in axes), default=0
    )
