"""Forms of what regression trees and boosted models hold."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory import forms, shapes, xgboost_shapes
from treeleak.auditing.inventory.known_classes import is_name
from treeleak.auditing.inventory.owners import checked_by_reader, n_columns, numbers_in, whole
from treeleak.release.readers.xgboost_json import booster_from_bytes
from treeleak.release.stored import StoredObject


def of_regression_values(value: Any, owner: StoredObject) -> bool:
    """What each node of a regression tree says: one number."""
    return _of_regression(owner) and forms.tree_values(value, owner)


def of_regression_nodes(value: Any, owner: StoredObject) -> bool:
    """A number for each node of a regression tree."""
    return _of_regression(owner) and forms.per_node(value, owner)


def of_random_targets(value: Any, owner: StoredObject) -> bool:
    """Either, where nobody gave targets."""
    return of_regression_values(value, owner) or of_regression_nodes(value, owner)


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
        and all(
            v is None or (isinstance(v, np.ndarray) and len(v) < 256 and forms.each_once(v))
            for v in value
        )
    )


# ----------------------------------------------------------------- files of boosting libraries

_MOST_SETTINGS = 128
"""LightGBM knows some 130, of which nobody changes most."""
_MOST_LETTERS = 48
_ROUNDS = 100
"""By default, where an estimator does not say how many."""


def of_each_column(value: Any, owner: StoredObject) -> bool:
    """Numbers, no more than the model has columns."""
    held = numbers_in(value)
    return held is not None and held.ndim <= 2 and held.size <= columns_of(owner)


def whole_numbers(value: Any, context: Any) -> bool:  # noqa: ARG001
    """Say whether all numbers are whole."""
    held = numbers_in(value)
    return held is not None and bool((held == np.floor(held)).all())


def all_zero(value: Any, context: Any) -> bool:  # noqa: ARG001
    """Say whether nothing but zeros stands there."""
    held = numbers_in(value)
    return held is not None and not held.any()


def numbers(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Numbers, in lists or in a text."""
    if isinstance(value, str):
        return all(part.lstrip("-").isdigit() for part in value.split())
    return (isinstance(value, list) and not value) or numbers_in(value) is not None


def settings(value: Any, owner: StoredObject) -> bool:
    """Settings by their names: a number, a word or a list of columns each."""
    if not isinstance(value, Mapping) or len(value) > _MOST_SETTINGS:
        return False
    names = all(
        isinstance(key, str) and is_name(key) and len(key) <= _MOST_LETTERS for key in value
    )
    return names and all(
        forms.short(setting, owner) or of_columns(setting, owner) for setting in value.values()
    )


def of_columns(value: Any, owner: StoredObject) -> bool:
    """A number or a word for each column, or lists of columns, none of them twice in a list."""
    n = max(columns_of(owner), shapes.FEW)
    if isinstance(value, str) and re.fullmatch(r"\(.*\)|\[.*\]", value):
        # XGBoost takes a tuple as text, too.
        return shapes.numbers_text(value, {"columns": n, "outputs": n})
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple, np.ndarray, Mapping)) or len(parts) > n:
        return False
    sizes = {"columns": n, "outputs": n}
    items = [*parts.values(), *parts] if isinstance(parts, Mapping) else list(parts)
    return all(shapes.one_number(item, sizes) or shapes.word(item, sizes) for item in items) or (
        shapes.groups(items, sizes)
    )


def columns_of(owner: StoredObject) -> int:
    """Count the columns of a model, or of the one that an estimator holds."""
    inner = owner.get("_Booster", owner)
    if not isinstance(inner, StoredObject):
        return 0
    if isinstance(text := inner.get("feature_names"), str):
        return len(text.split())
    if isinstance(text := inner.get("_handle", inner.get("handle")), str):
        # The head comes first, and names each column.
        line = re.search(r"^feature_names=(.{0,1000000})$", text[: 1 << 21], re.MULTILINE)
        return len(line[1].split()) if line else 0
    if isinstance(data := inner.get("handle"), bytes):
        return xgboost_shapes.sizes_of(booster_from_bytes(data).state)["columns"]
    if isinstance(info := owner.get("features_info"), StoredObject):
        return sum(len(part) for part in info.state.values() if isinstance(part, list))
    return n_columns(owner)


def scores(value: Any, owner: StoredObject) -> bool:
    """Scores by metric and round."""
    rounds = whole([owner.get("n_estimators"), owner.get("_best_iteration")])
    return shapes.history(value, {"rounds": max([_ROUNDS, *rounds])})


def ranges(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """LightGBM's words on columns: two numbers, a list of whole ones, or none."""
    if not isinstance(value, str):
        return False
    return all(_RANGE.fullmatch(word) for word in value.split())


_RANGE = re.compile(r"none|\[[-+.\deE]+:[-+.\deE]+\]|-?\d+(:-?\d+)*")


def no_categories(value: Any, context: Any) -> bool:  # noqa: ARG001
    """Say whether LightGBM lists no categories."""
    return value in (None, "null", "[]") or (isinstance(value, list) and not value)


def category_lists(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Lists of categories: texts or numbers, each once in its list."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return False
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(entries, (list, np.ndarray)) and forms.each_once(list(entries))
            for entries in value
        )
    )


def category_count(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count the categories."""
    if isinstance(value, str):
        value = json.loads(value)
    lists = value if value and isinstance(value[0], (list, Mapping)) else [value]
    n = 0
    for entry in lists:
        if isinstance(entry, Mapping):
            at = entry.get("offsets", entry.get("values", ()))
            entry = range(max(len(at) - ("offsets" in entry), 0))
        n += len(entry)
    return f"{n:,} categories." if n else ""


def names(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Names of columns or classes, separated by blanks or in a list."""
    words = value.split() if isinstance(value, str) else forms.pieces(value).scalars
    others = [] if isinstance(value, str) else forms.pieces(value).others
    arrays = all(isinstance(o, np.ndarray) and o.dtype.names is None for o in others)
    return arrays and all(forms.is_scalar(word, forms.MAX_NAME) for word in words)
