"""What the files of boosting libraries have in common: checked lists of numbers, nodes in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.message import MessageTemplate, static_message
from treeleak.release.bounds import MOST_LEVELS, at_most
from treeleak.release.checked_json import is_finite
from treeleak.release.statistics import NodeStatistic, Quantity
from treeleak.release.tree import LEAF

EXACT_FLOAT32 = 2**24
"""Whole numbers from here on are rounded in single precision."""

NUMBERED = static_message(
    "The file does not hold the labels of the classes: they are numbered from 0.",
    "boosted_numbered",
)
BY_WEIGHT = static_message(
    "The file counts rows by their weights, and does not say whether they had any: a row of weight "
    "3 counts as three equal rows. Unless all had weight 1, numbers of rows, and of proved rows, "
    "are such numbers of weighted rows.",
    "boosted_by_weight",
)
UNNAMED = static_message(
    "The file's column names are not usable; columns are numbered.", "boosted_unnamed"
)
ON_GPU = static_message(
    "The model was trained on a GPU, which adds up sums less exactly than treeleak asks for. Only "
    "numbers of rows are used.",
    "boosted_on_gpu",
)
DIFFERENT = static_message(
    "the roots of its trees count different numbers of rows", "boosted_different"
)
SUBSAMPLED = MessageTemplate(
    "rows_subsampled",
    "each tree saw a part of the rows, drawn without replacement ({setting} {share:number})",
)
EARLY = MessageTemplate(
    "stops_early",
    "Predictions may stop after round {round:number}, found best; "
    "the model holds later trees, too.",
)


def numbers(data: Mapping[str, Any], key: str, n: int | None, where: str) -> FloatArray:
    """Take a list of ``n`` numbers, of any number without it."""
    value = data.get(key)
    array = value
    if isinstance(value, list) and all(is_finite(item) for item in value):
        array = np.array(value, dtype=float)
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iuf":
        raise BadModel(f"{where}: {key} is not a list of numbers")
    if n is not None and len(array) != n:
        raise BadModel(f"{where}: {key} has {len(array)} entries for {n} nodes")
    return array.astype(float)


def whole_numbers(
    data: Mapping[str, Any], key: str, n: int | None, ends: tuple[int, int], where: str
) -> IntArray:
    """Take a list of whole numbers from the first end to below the second."""
    array = numbers(data, key, n, where)
    low, high = ends
    bad = ~((array >= low) & (array < high) & (array == np.floor(array)))
    if bad.any():
        at = int(bad.argmax())
        raise BadModel(
            f"{where}, entry {at} of {key}: {array[at]:g} is not a whole number from {low} to "
            f"below {high}"
        )
    return array.astype(np.int64)


def finite(quantity: Quantity, values: NDArray[Any], present: BoolArray | None = None) -> Any:
    """Make a statistic of the numbers that are finite, and present."""
    here = np.isfinite(values) if present is None else present & np.isfinite(values)
    masked = np.where(here, values, 0.0).astype(float)
    return NodeStatistic(quantity, masked, None if here.all() else here)


def count_in(data: Mapping[str, Any], key: str, most: int, default: str | None = None) -> int:
    """Read a whole number that stands there as a text."""
    text = data.get(key, default)
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > 12:
        raise BadModel(f"{key} is {text!r:.40}, not a number")
    at_most(most, int(text), key)
    return int(text)


def parents_first(left: IntArray, right: IntArray, where: str) -> IntArray:
    """List the nodes that the root leads to, parents before children.

    Parameters
    ----------
    left, right : int array
        Children; -1 at a leaf. They may name any node, and each other in a circle.

    Returns
    -------
    int array
        In their own order where that is one.

    Raises
    ------
    BadModel
        If two ways lead to a node.
    """
    n = len(left)
    inner = left != LEAF
    seen = np.zeros(n, dtype=bool)
    levels = [np.zeros(1, dtype=np.int64)]
    seen[0] = True
    while levels[-1].size:
        at_most(MOST_LEVELS, len(levels) - 1, "levels or more below the root")
        parents = levels[-1][inner[levels[-1]]]
        children = np.concatenate([left[parents], right[parents]])
        if children.size and (children.min() < 1 or children.max() >= n):
            raise BadModel(f"{where}: a child index outside 1..{n - 1}")
        twice = len(np.unique(children)) != len(children) or seen[children].any()
        if twice:
            raise BadModel(f"{where}: two ways lead to a node")
        seen[children] = True
        levels.append(np.sort(children))
    above = np.flatnonzero(inner)
    if seen.all() and ((left[above] > above) & (right[above] > above)).all():
        return np.arange(n)
    return np.concatenate(levels)


def renumbered(order: IntArray, child: IntArray, n: int) -> IntArray:
    """Give the children of the nodes in ``order`` by their places in it."""
    place = np.full(n + 1, LEAF, dtype=np.int64)
    place[order] = np.arange(len(order))
    return np.asarray(place[child[order]])


def whole_sums(
    sums: FloatArray, unit: float, relative: float, left: IntArray, right: IntArray
) -> FloatArray | None:
    """Divide sums over rows by what each row counts; None unless whole numbers come out.

    Parameters
    ----------
    sums : float array, shape (n_nodes,)
    unit : float
        What each row counts.
    relative : float
        How far the sums may be off for rounding, as a share of themselves.
    left, right : int array, shape (n_nodes,)
        Children, whose numbers must add up.
    """
    if not (unit > 0 and np.isfinite(sums).all() and (sums >= 0).all()):
        return None
    quotient = sums / unit
    rows = np.round(quotient)
    slack = relative * quotient
    if (
        rows.max(initial=0) >= EXACT_FLOAT32
        or (slack >= 0.25).any()
        or (np.abs(quotient - rows) > slack).any()
    ):
        return None
    inner = left != LEAF
    added = rows[left[inner]] + rows[right[inner]]
    return rows if np.array_equal(rows[inner], added) else None


def column_names(texts: Any, n: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name ``n`` columns as a file does, with a note where it does not do so well."""
    plain = tuple(f"x{i}" for i in range(n))
    names = tuple(texts) if isinstance(texts, list) else ()
    if texts is None or (isinstance(texts, list) and not texts):
        return plain, ()
    usable = all(isinstance(c, str) for c in names)
    if not usable or len(names) != n or len(set(names)) != n:
        return plain, (UNNAMED,)
    return names, ()
