"""Which of an audit's columns and groups the releasable edition may show."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from treeleak.auditing.assessors.exposure import Behind
from treeleak.auditing.disclosure.disclosure import jointly_safe, remainders
from treeleak.auditing.disclosure.releasable import Suppression
from treeleak.core.arrays import BoolArray


def choose_publishable(
    behind: Behind,
    columns: Sequence[str],
    groups: Sequence[str],
    apart: BoolArray | None,
    few: Collection[str],
    threshold: int,
) -> Suppression:
    """Choose figures so that none follows of fewer people than the threshold.

    ``columns``: those of the exposure, in their order. ``groups``: for each group, the column that
    it is of. ``apart``, shape (n_people,): who stands apart from the others, where their errors
    would be told. ``few``: columns whose very name speaks of few rows: 0 and 1 by category.
    """
    # Columns in which few differ from the rest, or of which few were not given.
    # A share of nearly all rows tells how many the others are.
    sizes = np.column_stack([behind.others.sum(axis=0), behind.free])
    small = np.flatnonzero(((sizes > 0) & (sizes < threshold)).any(axis=1))
    hidden = set(few) | ({columns[k] for k in small.tolist()})
    publishable = np.array([g not in hidden for g in groups], dtype=bool)
    group_sets = behind.groups[:, publishable]
    sides = np.zeros((len(group_sets), 0), dtype=bool)
    if apart is not None:
        sides = np.column_stack([apart, ~apart])
    units = [None] * group_sets.shape[1] + [0] * sides.shape[1]
    jointly = jointly_safe(np.hstack([group_sets, sides]), units, threshold, behind.counted)
    size = sides[behind.counted].sum(axis=0)
    enough = ((size == 0) | (size >= threshold)).all()
    individual = bool(jointly[group_sets.shape[1] :].any() and enough)
    # How many rows a group has is a figure of its own, of people without an error, too.
    jointly = jointly[: group_sets.shape[1]]
    jointly[jointly] = jointly_safe(group_sets[:, jointly], [None] * int(jointly.sum()), threshold)
    publishable[publishable] = jointly
    return Suppression(
        groups=tuple(publishable.tolist()),
        individual=individual,
        hidden=frozenset(
            hidden | _nested(behind, columns, hidden, group_sets[:, jointly], threshold)
        ),
        named=frozenset(columns),
    )


def _nested(
    behind: Behind,
    columns: Sequence[str],
    hidden: Collection[str],
    groups: BoolArray,
    threshold: int,
) -> set[str]:
    """Columns from which, with what else is told, it follows how many few people are."""
    # The most common of many values is not named: that few have it tells of no one.
    common = len(behind.others) - behind.others.sum(axis=0)
    published = [k for k, c in enumerate(columns) if c not in hidden and common[k] >= threshold]
    sets = np.hstack([groups, behind.others[:, published]])
    left_out = remainders(sets, [-1] * groups.shape[1] + published, threshold)
    return {columns[k] for k in left_out}
