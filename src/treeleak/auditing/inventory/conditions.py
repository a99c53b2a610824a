"""What the rules of the inventory may ask of a value, and of the model as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory.stored_rows import Table
from treeleak.core.private import dataclass
from treeleak.release.release import Release


@dataclass(frozen=True)
class Context:
    """What the rules may ask of the model as a whole."""

    n_rows: int | None = None
    """Training rows, where known."""
    drawn: bool | None = False
    """Whether the trees drew their rows at random; None where nobody knows."""
    missing: bool | None = False
    """Whether the trees saw missing values; None where nobody knows."""
    noise: bool = False
    """Whether the counts, or the classes of the leaves, carry noise."""
    release: Release | None = None
    """What an adversary sees of the model, where it could be read."""
    rows: Any = None
    """The training rows, where they were given."""
    table: Table | None = None
    """The same, made comparable."""
    least_count: int | None = None
    """The smallest number of people that the model's folder lets be shown, where it says one."""


def missing(_: Any, context: Context) -> bool:
    """Say whether the trees saw missing values."""
    return context.missing is True


def missing_behind_noise(_: Any, context: Context) -> bool:
    """Say whether they did, and counts carry noise."""
    return context.noise and context.missing is True


def missing_unknown(_: Any, context: Context) -> bool:
    """Say whether nobody knows if they saw any."""
    return context.missing is None


def none_missing(_: Any, context: Context) -> bool:
    """Say whether it is known that they saw none."""
    return context.missing is False


def filled(value: Any, _: Context) -> bool:
    """Say whether there is anything."""
    # An array of no dimension has no length, though it has the method.
    sized = hasattr(value, "__len__") and getattr(value, "shape", None) != ()
    return value is not None and (not sized or len(value) > 0)


def plain(value: Any, _: Context) -> bool:
    """Say whether these are whole numbers and texts."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(i, (str, int, np.integer)) for i in items)


def half(value: Any, _: Context) -> bool:
    """Say whether all thresholds are 0.5."""
    cuts = np.asarray(value, dtype=float)
    # scikit-learn writes -2 where a leaf has no threshold, other formats NaN.
    return bool(np.isin(cuts[np.isfinite(cuts)], (0.5, -2.0)).all())


def noisy(value: Any, context: Context) -> bool:
    """Say whether there is a value, of a model whose counts carry noise."""
    return context.noise and value is not None


def empty(value: Any, _: Context) -> bool:
    """Say whether an array is all zero."""
    return isinstance(value, np.ndarray) and not value.any()


def of_leaves(value: Any, _: Context) -> bool:
    """Say whether the root, and so every node that is no leaf, is left empty."""
    return isinstance(value, np.ndarray) and len(value) > 1 and not value[0].any()


def plain_values(value: Any, context: Context) -> bool:
    """Say whether the values of nodes carry no noise, and those of inner nodes are there."""
    return not context.noise and not of_leaves(value, context)


def of_random_targets(value: Any, context: Context) -> bool:
    """Say whether these are values of nodes of a forest that has no targets."""
    origin = "" if context.release is None else context.release.origin
    return plain_values(value, context) and origin.endswith(
        ("IsolationForest", "RandomTreesEmbedding")
    )


def has_value(value: Any, _: Context) -> bool:
    """Say whether there is a value."""
    return value is not None


def drawn(value: Any, context: Context) -> bool:
    """Say whether there is a value, of a model whose trees drew their rows."""
    return bool(context.drawn) and value is not None


def not_drawn(value: Any, context: Context) -> bool:
    """Say whether there is a value, of a model whose trees saw every row."""
    return context.drawn is False and value is not None


def one_per_row(value: Any, context: Context) -> bool:
    """Say whether a value has as many parts as there are training rows."""
    n = context.n_rows or 0
    if n < 2:
        return False
    if isinstance(value, np.ndarray):
        # Tables of pandas hold their columns as the rows of an array.
        return n in value.shape
    if isinstance(value, (str, bytes)):
        lines = value.strip().splitlines()
        # The first line may name the columns.
        return len(lines) in (n, n + 1)
    if isinstance(value, Mapping):
        return len(value) == n or any(one_per_row(v, context) for v in value.values())
    if isinstance(value, (list, tuple)):
        deeper = (v for v in value if isinstance(v, (str, bytes, np.ndarray, list, tuple)))
        return len(value) == n or any(one_per_row(v, context) for v in deeper)
    return False


def none_stated(value: Any, _: Context) -> bool:
    """Say whether LightGBM's words on the values of columns say nothing."""
    return isinstance(value, str) and set(value.split()) <= {"none"}


def true(value: Any, _: Context) -> bool:
    """Say whether a flag is set."""
    return value is True


def all_none(value: Any, _: Context) -> bool:
    """Say whether a list holds nothing but None."""
    return isinstance(value, list) and all(item is None for item in value)
