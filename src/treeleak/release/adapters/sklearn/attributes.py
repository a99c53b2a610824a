"""What scikit-learn's fitted models store next to their trees."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from treeleak.core.errors import BadInput, BadModel
from treeleak.release.adapters.boosted import column_names
from treeleak.release.bounds import MOST_CLASSES, MOST_COLUMNS, MOST_ROWS, at_most
from treeleak.release.pipeline.through import WRAPPERS
from treeleak.release.sampling import HeldBack
from treeleak.release.stored import StoredObject


def fitted(stored: StoredObject, attribute: str) -> Any:
    """Find an attribute that holds the parts of a fitted model, one at least."""
    value = stored.get(attribute)
    if not isinstance(value, (list, np.ndarray)) or not len(value):
        raise _lacks(stored, attribute)
    return value


def _lacks(stored: StoredObject, attribute: str) -> BadInput:
    """Make the error about a model without an attribute that fitted ones have."""
    if any(re.fullmatch(r"[a-z].*_", name) for name in stored.state):
        return BadModel(f"this {stored.name} is fitted, but has no {attribute}")
    return BadInput(f"this {stored.name} is not fitted")


def version_of(stored: StoredObject) -> str:
    """Name the version of scikit-learn that wrote a model."""
    return str(stored.get("_sklearn_version", "of unknown version"))


def origin_of(stored: StoredObject) -> str:
    """Name the version and the class of a model."""
    return f"scikit-learn {version_of(stored)}, {stored.name}"


def whole(x: Any) -> int | None:
    """A whole number as int; None for anything else, a fraction or a generator say."""
    is_whole = isinstance(x, (int, np.integer)) and not isinstance(x, (bool, np.bool_))
    return int(x) if is_whole else None


def seed(x: Any) -> int | None:
    """Read a seed; None for anything else."""
    seed = whole(x)
    return seed if seed is not None and 0 <= seed < 2**32 else None


def held_back(stored: StoredObject, number: Any, by_class: bool) -> HeldBack | None:
    """Say how early stopping held rows back, from a seed; None where it is no seed."""
    share, seed_number = stored.get("validation_fraction"), seed(number)
    if seed_number is None or isinstance(share, bool) or not isinstance(share, (int, float)):
        return None
    return HeldBack(seed_number, float(share), by_class) if 0 < share < MOST_ROWS else None


def is_nonzero(x: Any) -> bool:
    """Say whether a setting holds anything but zeros."""
    return x is not None and bool(np.any(np.asarray(x) != 0))


def row_weights(stored: StoredObject) -> tuple[float, ...] | None:
    """Read the weights of the rows; None where they cannot be used."""
    weights = stored.get("_sample_weight")
    if not isinstance(weights, np.ndarray) or weights.dtype.kind not in "iuf":
        return None
    weights = weights.ravel().astype(float)
    usable = bool(((weights >= 0) & np.isfinite(weights)).all())
    return tuple(weights.tolist()) if usable else None


def main_model(stored: StoredObject) -> StoredObject:
    """Find the model whose answers are those of the whole: behind pipelines and searches."""
    while stored.type.startswith("sklearn."):
        inner: Any = None
        if stored.name == "Pipeline":
            inner = (stored.get("steps") or [(None, None)])[-1][1]
        elif stored.name.endswith("SearchCV") or stored.name == "FrozenEstimator":
            inner = stored.get(WRAPPERS.get(stored.name, ""))
        if not isinstance(inner, StoredObject):
            break
        stored = inner
    return stored


def feature_names(stored: StoredObject) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the columns of a model, in order, with notes for the reader of an audit."""
    n = _columns(stored)
    if n is None:
        raise _lacks(stored, "n_features_in_")
    if n <= 0:
        raise BadModel(f"{stored.name} of {n} columns")
    at_most(MOST_COLUMNS, n, "columns")
    stored_names = stored.get("feature_names_in_")
    return column_names(
        None if stored_names is None else [str(c) for c in np.ravel(stored_names)], n
    )


def _columns(stored: Any) -> int | None:
    """Read the number of a model's columns, where any version keeps it.

    Names in the sources: ``n_features_in_`` since 0.24, ``n_features_`` from 0.12, ``n_features``
    of boosting before 0.18. AdaBoost kept none, but its trees did; the arguments with which a tree
    makes its arrays begin with it in every version.
    """
    if not isinstance(stored, StoredObject):
        return None
    for name in ("n_features_in_", "n_features_", "n_features"):
        if (n := whole(stored.get(name))) is not None:
            return n
    if stored.type.endswith("._tree.Tree"):
        return whole(stored.args[0]) if stored.args else None
    trees = stored.get("estimators_")
    first = (
        next(iter(np.ravel(np.asarray(trees, dtype=object))), None) if trees is not None else None
    )
    return _columns(stored.get("tree_") if first is None else first)


def class_labels(stored: StoredObject) -> tuple[Any, ...]:
    """List the class labels of a model."""
    labels = stored.get("classes_")
    if not isinstance(labels, np.ndarray) or labels.ndim != 1 or not labels.size:
        raise BadModel(f"{stored.name}: no class labels")
    at_most(MOST_CLASSES, len(labels), "classes")
    classes = tuple(x.item() if isinstance(x, np.generic) else x for x in labels.tolist())
    if not all(isinstance(c, (str, int, float, bool)) for c in classes):
        raise BadModel(f"{stored.name}: class labels are neither text nor numbers")
    return classes
