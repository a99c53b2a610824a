"""What fields of R's tree models can hold, given their trees: sizes and numbers that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory import rpart_shapes as rpart
from treeleak.auditing.inventory.vectors_of_r import lines_of, vector_of
from treeleak.core.errors import BadModel
from treeleak.release.adapters.r.values import inside, names_along, numbers, texts
from treeleak.release.bounds import MOST_ROWS
from treeleak.release.stored import StoredObject

_OF_SPLITS = ["count", "ncat", "improve", "index", "adj"]
_SIDES = (1, 2, 3)
"""Of a category: left, neither, right."""
_SHARE = 1e-9
"""Roundings of a share of rows in double precision, and of the variance of many numbers."""
_OF_COMPLEXITY = ["CP", "nsplit", "rel error", "xerror", "xstd"]


def n_trees(owner: StoredObject) -> int:
    """Count the trees that a model of R holds; what it says of their number may be anything."""
    sized = lines_of(_of_forest(owner, "ndbigtree"))
    listed = owner.get("trees")
    return sized or (len(listed) if isinstance(listed, (list, Mapping)) else 0)


def _of_forest(owner: StoredObject, name: str) -> Any:
    """Take a field of a forest, which is an object of its own, or a list of fields of the model."""
    held = owner.get(name)
    return inside(owner, "forest", name) if held is None else held


def thresholds(value: Any, owner: StoredObject) -> bool:
    """Thresholds of nodes that test something; in rpart, with what else was compared there."""
    array = vector_of(value)
    if owner.name.startswith("rpart"):
        return isinstance(array, np.ndarray) and _of_rpart(value, array, owner)
    return not isinstance(array, np.ndarray) or array.ndim != 2 or _of_tests(array, owner)


def shape(value: Any, owner: StoredObject) -> bool:
    """What says how nodes hang together, for the nodes of each tree and none behind its last."""
    array, sizes = vector_of(value), vector_of(_of_forest(owner, "ndbigtree"))
    if isinstance(value, StoredObject) and value.type != "R.vector":
        return False
    if sizes is None or not isinstance(array, np.ndarray) or array.ndim < 2:
        return True
    return _fits(sizes, array) and not any(
        array[int(n) :, ..., t].any() for t, n in enumerate(sizes)
    )


def predictions(value: Any, owner: StoredObject) -> bool:
    """What nodes predict; behind the last node of a regression, randomForest leaves anything."""
    of_classes = _of_forest(owner, "treemap") is not None
    return not isinstance(value, StoredObject) and (not of_classes or shape(value, owner))


def left_out(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Numbers of rows that have values missing, as R keeps them, and no other names of these."""
    if not isinstance(value, StoredObject) or not {*value.state} <= {"value", "names", "class"}:
        return False
    array, named = vector_of(value), value.get("names")
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        return False
    if not len(array):
        return False
    try:
        listed = named is None or texts(named, "names") == tuple(map(str, array.tolist()))
    except BadModel:
        return False
    return listed and bool((np.diff(array, prepend=0) > 0).all())


def _fits(sizes: Any, array: NDArray[Any]) -> bool:
    """Say whether there is a number of nodes for each tree of an array."""
    numbers = isinstance(sizes, np.ndarray) and sizes.dtype.kind in "iuf"
    return numbers and sizes.shape == array.shape[-1:] and bool((sizes >= 0).all())


def _of_tests(array: NDArray[Any], owner: StoredObject) -> bool:
    """Say whether nodes that test nothing, and room behind the last node, hold nothing."""
    status, sizes = (
        vector_of(_of_forest(owner, "nodestatus")),
        vector_of(_of_forest(owner, "ndbigtree")),
    )
    if not _fits(sizes, array) or np.shape(status) != array.shape:
        return False
    unused = (np.arange(len(array))[:, None] >= sizes) | (status == -1)
    # A zero may have a sign, which no sum shows.
    return not (array[unused].any() or np.signbit(array[unused]).any())


def _of_rpart(value: Any, array: NDArray[Any], owner: StoredObject) -> bool:
    """Say whether there is a line for each comparison that the nodes of a tree say there were."""
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        return False
    if inside(value, "dimnames") is None:
        # Of categories, the side where each goes: a line for each test of a factor.
        table = vector_of(owner.get("splits"))
        listed = isinstance(table, np.ndarray) and table.ndim == 2 and table.shape[1] > 1
        counted = listed and len(array) == (table[:, 1] > 1).sum()
        return bool(counted and np.isin(array, _SIDES).all())
    frame = owner.get("frame")
    try:
        named = names_along(value, 1) or ()
        inner = np.array(texts(inside(frame, "var"), "var")) != "<leaf>"
        more = (numbers(inside(frame, key), key) for key in ("ncompete", "nsurrogate"))
        lines = np.where(inner, 1 + sum(more), 0).astype(int)
        rows = np.repeat(numbers(inside(frame, "n"), "n"), lines)
    except (BadModel, ValueError):
        return False
    if len(rows) != len(array) or not _is_named(named, _OF_SPLITS, array):
        return False
    n, n_categories = array[:, 0], array[:, 1]
    whole = (n == np.floor(n)) & (n_categories == np.floor(n_categories))
    known = whole & (n >= 0) & (n <= rows) & (n_categories >= -1)
    # How often another test agrees: a share.
    shares = (array[:, 4:] >= 0).all(axis=1) & (array[:, 4:] <= 1).all(axis=1)
    return bool((known & shares).all()) and rpart.are_comparisons(
        array, names_along(value, 0), owner
    )


def _is_named(names: Sequence[str], known: list[str], array: NDArray[Any]) -> bool:
    return len(names) == array.shape[1] and list(names) == known[: len(names)]


def errors(value: Any, owner: StoredObject) -> bool:
    """Tables of rows by class and predicted class; shares of these rows; shares of a variance."""
    array, counted = vector_of(value), vector_of(owner.get("confusion"))
    if array is vector_of(owner.get("rsq")):
        left = vector_of(owner.get("mse"))
        if not isinstance(left, np.ndarray) or left.shape != np.shape(array) or not left.all():
            return False
        return bool(np.ptp((1 - array) / left) <= _SHARE * np.abs((1 - array) / left).max())
    if array is vector_of(owner.get("err.rate")):
        if not isinstance(counted, np.ndarray) or counted.ndim != 2:
            return False
        n = int(counted[:, : len(counted)].sum())
        shares = [x for x in np.unique(array).tolist() if not np.isnan(x)]
        return 0 < n < MOST_ROWS and all(
            0 <= x <= 1 and abs(float(Fraction(x).limit_denominator(n)) - x) <= _SHARE
            for x in shares
        )
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "iuf":
        return array is None
    # Beside the classes: rows that no tree predicted, or the share of wrong ones.
    counts, last = array[:, : len(array)], array[:, len(array) :]
    with np.errstate(all="ignore"):
        wrong = 1 - np.diag(counts) / counts.sum(axis=1) if last.shape[1] == 1 else None
    if wrong is not None and np.allclose(last[:, 0], wrong, equal_nan=True):
        array = counts
    return last.shape[1] <= 1 and bool((array >= 0).all() and (array == np.round(array)).all())


def complexities(value: Any, owner: StoredObject) -> bool:
    """The scores of a tree of rpart, pruned to fewer and fewer splits."""
    array = vector_of(value)
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "iuf":
        return False
    named, splits = names_along(value, 1) or (), array[:, 1]
    falls = (np.diff(array[:, 0]) <= 0).all() and (np.diff(splits) > 0).all()
    few = len(array) <= lines_of(inside(owner, "frame", "n"))
    known = _is_named(named, _OF_COMPLEXITY, array)
    return bool(known and few and falls) and rpart.are_complexities(array, owner)
