"""Models of the folds of one table: the order of labels in each says which rows each of them saw.

scikit-learn's ``StratifiedKFold`` without shuffling, the default of ``CalibratedClassifierCV``,
gives each fold a run of the rows of each class. So the i-th row of a class that a model saw is
known by its number among all rows of its class, and the orders of two models agree on all rows that
both saw. Together they are the order of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.core.message import MessageTemplate, static_message
from treeleak.reconstruction.result import Reconstruction
from treeleak.reconstruction.schedule import SCHEDULE
from treeleak.release.release import Release

ORDER_FOUND = MessageTemplate(
    "order_of_folds",
    "the models of {folds:number} folds, attacked one by one, disclose the order of labels and so "
    "which rows each of them saw",
)
NO_ORDER = static_message(
    "the rows that each model saw follow from the order of labels, and the labels that were found "
    "do not agree on one",
    "no_order_of_folds",
)


def with_fold_rows(
    release: Release, attack: Callable[..., Reconstruction], clock: Clock
) -> tuple[Release, tuple[str, ...]]:
    """Find which rows the model of each fold saw, by an attack on each.

    Parameters
    ----------
    release : Release
        Joined models, each of which was fitted to all rows but those of a fold.
    attack : callable
        Takes the release of one model, and its clock as ``time_limit``.
    clock : Clock

    Returns
    -------
    Release
        With the rows of each part.
    tuple of str
        What to say of it.

    Raises
    ------
    NotCovered
        If the labels that were found contradict each other.
    """
    parts, labels = release.parts, []
    end = clock.left * (1 - SCHEDULE.folds_share)
    for f, part in enumerate(parts):
        share = (clock.left - end) / (len(parts) - f)
        found = attack(part.release, time_limit=clock.part(max(share, 0.0)))
        if not found.ordered or found.y is None:
            raise NotCovered(NO_ORDER)
        labels.append(release.class_numbers(found.y))
    rows = rows_of_folds(labels, len(release.classes))
    placed = tuple(
        replace(part, rows=seen, fold=None) for part, seen in zip(parts, rows, strict=True)
    )
    return replace(release, parts=placed), (ORDER_FOUND(folds=len(parts)),)


def rows_of_folds(labels: Sequence[IntArray], n_classes: int) -> list[IntArray]:
    """Work out which rows of a table lie outside each of its folds.

    Parameters
    ----------
    labels : sequence of int array
        For each fold, the classes of all rows outside it, in the order of the table.
    n_classes : int

    Returns
    -------
    list of int array
        For each fold, the rows outside it, in the order of the table.

    Raises
    ------
    NotCovered
        If no table has such folds.
    """
    k = len(labels)
    seen = np.array([np.bincount(label, minlength=n_classes) for label in labels])
    total, left = np.divmod(seen.sum(axis=0), k - 1)
    if left.any() or (seen > total).any():
        raise NotCovered(NO_ORDER)
    size = total - seen
    start = np.cumsum(size, axis=0) - size
    first_of_class = np.cumsum(total) - total
    # A row is known by its class and its number in it.
    names = []
    for f, label in enumerate(labels):
        name = np.empty(len(label), dtype=np.int64)
        for c in range(n_classes):
            rank = np.arange(seen[f, c])
            rank += size[f, c] * (rank >= start[f, c])
            name[label == c] = first_of_class[c] + rank
        names.append(name)
    order = _merged(names, int(total.sum()))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return [place[name] for name in names]


def _merged(lists: Sequence[IntArray], n: int) -> IntArray:
    """Put numbers below ``n`` in the only order that agrees with those of all lists."""
    at = np.zeros(len(lists), dtype=np.int64)
    inside = np.zeros((len(lists), n), dtype=bool)
    for inside_list, numbers in zip(inside, lists, strict=True):
        inside_list[numbers] = True
    order = np.empty(n, dtype=np.int64)
    for i in range(n):
        heads = {int(x[j]) for x, j in zip(lists, at, strict=True) if j < len(x)}
        first = [
            h
            for h in heads
            if all(
                not inside[f, h] or (at[f] < len(x) and x[at[f]] == h) for f, x in enumerate(lists)
            )
        ]
        if len(first) != 1:
            raise NotCovered(NO_ORDER)
        order[i] = first[0]
        at += inside[:, first[0]]
    return order
