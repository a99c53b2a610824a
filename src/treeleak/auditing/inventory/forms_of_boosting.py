"""Forms of what regression trees and boosted models hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.auditing.inventory import forms
from treeleak.auditing.inventory.owners import checked_by_reader, n_columns
from treeleak.release.stored import StoredObject


def of_regression_values(value: Any, owner: StoredObject) -> bool:
    """What each node of a regression tree says: one number."""
    return _of_regression(owner) and forms.tree_values(value, owner)


def of_regression_nodes(value: Any, owner: StoredObject) -> bool:
    """A number for each node of a regression tree."""
    return _of_regression(owner) and forms.per_node(value, owner)


def _of_regression(owner: StoredObject) -> bool:
    """Whether a tree has one value for each target, and so no classes."""
    args = owner.args
    return (
        len(args) == 3
        and isinstance(args[1], np.ndarray)
        and args[1].dtype.kind in "iu"
        and bool((args[1] == 1).all())
    )


def seed_of_split(value: Any, owner: StoredObject) -> bool:
    """A seed, where it parted the rows that trees were fitted to from others."""
    stops = owner.get("do_early_stopping_", owner.get("n_iter_no_change") is not None)
    return (
        bool(stops) and owner.get("validation_fraction") is not None and forms.seeds(value, owner)
    )


def borders(value: Any, owner: StoredObject) -> bool:
    """For each column, ascending numbers between its values, no more than there are bins."""
    if checked_by_reader(owner):
        return True
    flags = owner.get("is_categorical_")
    n = len(flags) if isinstance(flags, np.ndarray) else n_columns(owner)
    return (
        isinstance(value, (list, tuple))
        and len(value) <= max(n, 1)
        and all(isinstance(v, np.ndarray) and len(v) < 256 and forms.each_once(v) for v in value)
    )
