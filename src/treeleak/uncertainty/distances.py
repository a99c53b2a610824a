"""How far two probabilistic datasets are from each other, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput
from treeleak.release.release import class_numbers
from treeleak.uncertainty.alignment import align, in_order
from treeleak.uncertainty.counting import Tests
from treeleak.uncertainty.groups import Groups
from treeleak.uncertainty.space import Space

G = TypeVar("G", bound=Groups)
Sets = tuple[BoolArray, ...]
Alignment = Literal["consistent", "gambs"]

# What a contradiction in all attributes costs an alignment. A compatibility is never more than 1;
# in the other case it decides only between alignments that are equal otherwise.
CONTRADICTION: dict[str, float] = {"consistent": 3.0, "gambs": 1e-7}


def distance(
    data: Groups, other: Groups | pd.DataFrame | None = None, aligned: bool = False
) -> float:
    """Average uncertainty that is left of a value: Gambs' distance.

    (1 / nd) sum of H(V_k(x'_i) united with V_k(x_i)) / H(V_k) over rows i and attributes k,
    where V_k(x_i) are the values that row i may have (Gambs 2012, eq. 1). An attribute that has
    one value only counts in no mean.

    Parameters
    ----------
    other : ProbabilisticDataset or DataFrame, optional
        As many rows; the dataset itself if not given. Rows of a table are certain.
    aligned : bool
        Take rows as they stand for each other's; otherwise they are paired such that the
        distance is least.

    Returns
    -------
    float
        0 only if everything is known of both and they are the same.

    Raises
    ------
    BadInput
        If the datasets do not have the same attributes and as many rows.
    """
    if other is None:
        boxes = data.narrow[1]
        terms = [
            np.maximum(axis.entropy(s), 0.0)[boxes[:, k]]
            for k, (axis, s) in enumerate(zip(data.space.axes, _narrow_sizes(data), strict=True))
        ]
        cost = _mean_over(data.space, terms)
        some = data.support > 0
        return _share(float(cost[some] @ data.support[some]), data.n_rows)
    if isinstance(other, (pd.DataFrame, np.ndarray)):
        cost, theirs = _against_rows(data, other)
    else:
        _check_kind(data, other)
        (mine_sets, mine), (their_sets, their_boxes), space = _together(data, other)
        terms = []
        for k, axis in enumerate(space.axes):
            a, b = mine_sets[k] * axis.sizes, their_sets[k]
            union = a.sum(axis=1)[:, None] + b @ axis.sizes - a @ b.T.astype(np.int64)
            at = np.ix_(mine[:, k], their_boxes[:, k])
            terms.append(np.maximum(axis.entropy(union), 0.0)[at])
        cost, theirs = _mean_over(space, terms), other.support
    if theirs.sum() != data.n_rows:
        raise BadInput(f"{data.n_rows} rows have no distance to {theirs.sum()} rows")
    i, j, n = _paired(data, cost, theirs, aligned)
    return _share(float(cost[i, j] @ n), data.n_rows)


def compatibility(data: Groups, other: Groups, aligned: bool = False) -> float:
    """Average uncertainty that is left of a value if two datasets are combined.

    As :func:`distance` with intersections instead of unions (Gambs 2012, eq. 2); an empty
    intersection counts 0. Unless ``aligned``, rows are paired such that it is greatest.

    Raises
    ------
    BadInput
        If the datasets do not have the same attributes and as many rows.
    """
    _check_kind(data, other)
    if other.n_rows != data.n_rows:
        raise BadInput(f"{data.n_rows} rows are not compatible with {other.n_rows} rows")
    compatible, _ = _compatible(data, other)
    i, j, n = _paired(data, -compatible, other.support, aligned)
    return _share(float(compatible[i, j] @ n), data.n_rows)


def merge(data: G, other: G, alignment: Alignment = "consistent") -> G:
    """Combine what two releases say of one dataset, or of one that has grown.

    Gambs 2012, section 3.3: the smaller is filled up with rows of which nothing is known, rows
    are paired such that the compatibility is greatest, and each value may be what both allow,
    or anything where they allow nothing in common.

    Parameters
    ----------
    other : ProbabilisticDataset
    alignment : {"consistent", "gambs"}
        Rows that contradict each other cannot be one, though the compatibility does not see it:
        such pairs are avoided first ("consistent"), or only among alignments that are equally
        compatible ("gambs", as in the paper).

    Returns
    -------
    ProbabilisticDataset
        With one group for each pair of groups.

    Raises
    ------
    BadInput
        If the attributes are not the same, or one has a class that the other's lack though
        they are as many or more.
    """
    if alignment not in CONTRADICTION:
        raise BadInput(f"alignment must be one of {', '.join(CONTRADICTION)}, not {alignment!r}")
    _check_kind(data, other)
    classes = max(data.classes, other.classes, key=len)
    one, two = (_with_classes(d, classes) for d in (data, other))
    n = max(data.n_rows, other.n_rows)
    one, two = one.filled(n).by_class(), two.filled(n).by_class()
    unknown = len(classes)
    label_a, label_b = one.counts.argmax(axis=1), two.counts.argmax(axis=1)
    clash = np.not_equal.outer(label_a, label_b)
    clash &= np.logical_and.outer(label_a != unknown, label_b != unknown)
    compatible, odd = _compatible(one, two)
    i, j, m = align(
        CONTRADICTION[alignment] * (odd + clash / data.n_attributes) - compatible,
        one.support,
        two.support,
    )
    space = one.space.joined(two.space)
    sets = []
    for k, axis in enumerate(space.axes):
        a = one.space.axes[k].carried(one.sets[k], axis)[one.boxes[i, k]]
        both = a & two.space.axes[k].carried(two.sets[k], axis)[two.boxes[j, k]]
        both[~both.any(axis=1)] = True
        sets.append(np.vstack([np.ones((1, len(axis)), dtype=bool), both]))
    counts = np.zeros((len(i), unknown + 1), dtype=np.int64)
    label = np.where(clash[i, j] | (label_a[i] != unknown), label_a[i], label_b[j])
    counts[np.arange(len(i)), np.where(clash[i, j], unknown, label)] = m
    outside, inside = [], []
    for p, q in zip(i, j, strict=True):
        outside.append((*_carried(one, one.outside[p], space),
                        *_carried(two, two.outside[q], space)))  # fmt: skip
        inside.append(_both(_carried(one, one.inside[p], space),
                            _carried(two, two.inside[q], space)))  # fmt: skip
    merged = replace(
        one,
        space=space,
        names=tuple(f"{one.names[p]} and {two.names[q]}" for p, q in zip(i, j, strict=True)),
        sets=tuple(sets),
        boxes=np.repeat(np.arange(1, len(i) + 1)[:, None], len(space.axes), axis=1),
        outside=tuple(outside),
        inside=tuple(inside),
        counts=counts,
        ordered=False,
        origin=" and ".join(dict.fromkeys(o for o in (data.origin, other.origin) if o)),
        notes=tuple(dict.fromkeys((*data.notes, *other.notes))),
    )
    # What contradicts itself only in several attributes together says nothing.
    boxes = merged.boxes
    for g in np.flatnonzero(~merged.boxed).tolist():
        if merged.region(g).empty:
            outside[g], inside[g] = (), ()
            if replace(merged.region(g), outside=space.forbidden, inside=()).empty:
                boxes[g] = 0
    return replace(merged, outside=tuple(outside), inside=tuple(inside))


def _check_kind(data: Groups, other: object) -> None:
    if not isinstance(other, type(data)):
        raise BadInput(
            f"{type(other).__name__} is not a probabilistic dataset; from_rows makes one of a table"
        )


def _with_classes(data: G, classes: tuple[Any, ...]) -> G:
    """The same rows counted by these classes, of which those of a smaller release are some."""
    label = class_numbers(classes, data.classes)
    if (label < 0).any():
        raise BadInput(f"the classes {data.classes} are not among the classes {classes}")
    counts = np.zeros((len(data.names), len(classes) + 1), dtype=np.int64)
    counts[:, [*label, len(classes)]] = data.counts
    return replace(data, classes=classes, counts=counts)


def _share(total: float, n_rows: int) -> float:
    return total / n_rows if n_rows else math.nan


def _narrow_sizes(data: Groups) -> tuple[IntArray, ...]:
    return tuple(s @ axis.sizes for s, axis in zip(data.narrow[0], data.space.axes, strict=True))


def _mean_over(space: Space, terms: Sequence[FloatArray]) -> FloatArray:
    """Average entropies, one array for each attribute, as shares of those of the domains."""
    whole = [axis.bits for axis in space.axes]
    shares = [t / h for t, h in zip(terms, whole, strict=True) if h > 0]
    return sum(shares, 0.0 * terms[0]) / max(len(shares), 1)


def _together(
    data: Groups, other: Groups
) -> tuple[tuple[Sets, IntArray], tuple[Sets, IntArray], Space]:
    """What is possible in each group of two datasets, over the same atoms."""
    space = data.space.joined(other.space)
    both = []
    for one in (data, other):
        sets, boxes = one.narrow
        own = zip(one.space.axes, sets, space.axes, strict=True)
        both.append((tuple(axis.carried(s, onto) for axis, s, onto in own), boxes))
    return both[0], both[1], space


def _compatible(data: Groups, other: Groups) -> tuple[FloatArray, FloatArray]:
    """Compatibility of groups, and in which share of the attributes they have no value."""
    (mine, my_boxes), (theirs, their_boxes), space = _together(data, other)
    terms, odd = [], np.zeros((len(my_boxes), len(their_boxes)))
    for k, axis in enumerate(space.axes):
        common = (mine[k] * axis.sizes) @ theirs[k].T.astype(np.int64)
        at = np.ix_(my_boxes[:, k], their_boxes[:, k])
        terms.append(np.maximum(axis.entropy(common), 0.0)[at])
        odd += (common == 0)[at]
    return _mean_over(space, terms), odd / max(len(terms), 1)


def _paired(
    data: Groups, cost: FloatArray, theirs: IntArray, aligned: bool
) -> tuple[IntArray, IntArray, IntArray]:
    return in_order(data.support, theirs) if aligned else align(cost, data.support, theirs)


def _against_rows(data: Groups, X: pd.DataFrame | NDArray[Any]) -> tuple[FloatArray, IntArray]:
    """Distance of each group to each row of a table, as an alignment wants it."""
    atoms = data.space.locate_all(X)
    sets, boxes = data.narrow
    terms = []
    for k, (axis, sizes) in enumerate(zip(data.space.axes, _narrow_sizes(data), strict=True)):
        # A value outside of a set is one more.
        union = np.maximum(sizes, axis.unit)[:, None] + axis.unit * ~sets[k][:, atoms[:, k]]
        terms.append(axis.entropy(union)[boxes[:, k]])
    return _mean_over(data.space, terms), np.ones(len(X), dtype=np.int64)


def _carried(data: Groups, boxes: Sequence[Tests], space: Space) -> tuple[Tests, ...]:
    """Say boxes in the atoms of a refined space."""
    axes = data.space.axes
    return tuple(
        {k: axes[k].carried(mask[None], space.axes[k])[0] for k, mask in tests.items()}
        for tests in boxes
    )


def _both(one: Sequence[Tests], two: Sequence[Tests]) -> tuple[Tests, ...]:
    """Boxes in one of which a point lies that is in one of ``one`` and in one of ``two``."""
    if not (one and two):
        return (*one, *two)
    return tuple(
        {**a, **b, **{k: a[k] & b[k] for k in a.keys() & b.keys()}} for a in one for b in two
    )
