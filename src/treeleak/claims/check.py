"""Claims against the training rows, and what a claim says of each column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.claims.find import Claims
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.schema import Categorical, Numeric, Schema

NARROW = 0.05
"""Share of the range of a column that a pinned column may keep."""


@dataclass(frozen=True, eq=False)
class Checked:
    """Claims held against training rows.

    Attributes
    ----------
    true : bool array, shape (n_claims,)
        Whether exactly one row meets the predicate, of those that count; where it is not known
        which rows a tree drew, whether at least one of all rows does.
    person : int array
        Which row it is; -1 where that does not follow.
    alone : bool array, shape (n_rows,)
        Whether a row is the one of some leaf of one person, described or not.
    """

    true: BoolArray
    person: IntArray
    alone: BoolArray

    def people(self, chosen: BoolArray) -> int:
        """Count the different people that some true claims isolate."""
        person = self.person[chosen & self.true]
        return len(np.unique(person[person >= 0]))

    @property
    def everybody(self) -> int:
        """Count the different people whom described claims, or leaves of one person, isolate."""
        found = self.alone.copy()
        found[self.person[self.true & (self.person >= 0)]] = True
        return int(found.sum())


def check_claims(
    claims: Claims,
    X: NDArray[Any],
    labels: IntArray | None = None,
    draws: NDArray[Any] | None = None,
) -> Checked:
    """Hold claims against the training rows: each must hold of exactly one.

    Parameters
    ----------
    claims : Claims
    X : array, shape (n_rows, n_columns)
        In the columns of the model.
    labels : int array, optional
        Number of each row's class. Without them, claims of a class are held against all rows: at
        least one must meet them.
    draws : int array, shape (n_trees, n_rows), optional
        How often each tree of the release drew each row.
    """
    rows = claims.partition.encode(X)
    n = np.zeros(len(claims.node), dtype=np.int64)
    person = np.full(len(n), -1, dtype=np.int64)
    tree = claims.places[claims.partition.nodes.tree[claims.node]]
    known = claims.counted.all_rows or draws is not None
    by_class = labels is not None and (claims.label >= 0).any()
    for t in np.unique(tree) if draws is not None and not claims.counted.all_rows else [-1]:
        for y in np.unique(claims.label) if by_class else [-1]:
            mine = np.ones(len(n), dtype=bool)
            chosen = np.ones(len(rows), dtype=bool)
            if t >= 0 and draws is not None:
                mine &= tree == t
                chosen &= draws[t] > 0
            if by_class:
                mine &= claims.label == y
            numbers = np.flatnonzero(mine)
            if not len(numbers):
                continue
            for of_class in (False, True):
                part = numbers[claims.of_class[numbers] == of_class]
                # Who is alone among all must also be of the class that the counts say.
                of = chosen & (labels == y) if by_class and y >= 0 and of_class else chosen
                at = np.flatnonzero(of)
                found, last = claims.taken(part).fits(rows[at])
                n[part] = found
                met = found > 0
                person[part[met]] = at[last[met]]
                if by_class and y >= 0 and not of_class and known and labels is not None:
                    wrong = met & (labels[np.maximum(person[part], 0)] != y)
                    n[part[wrong]] = 0
    sure = known & (~claims.of_class | (labels is not None))
    true = np.where(sure, n == 1, n >= 1)
    return Checked(true, np.where(sure & true, person, -1), _alone(claims, rows, draws))


def _alone(claims: Claims, rows: NDArray[np.int32], draws: NDArray[Any] | None) -> BoolArray:
    """Say which rows are the only one that a tree saw in a leaf of one person."""
    counted, found = claims.counted, np.zeros(len(rows), dtype=bool)
    if not counted.all_rows and draws is None:
        return found
    leaves = claims.partition.apply(rows)
    for place, leaf in zip(claims.places, leaves.T, strict=True):
        seen = np.ones(len(rows), dtype=bool) if counted.all_rows or draws is None else (
            draws[place] > 0
        )  # fmt: skip
        held = np.bincount(leaf[seen], minlength=len(counted.people))
        found |= seen & (counted.people[leaf] == 1) & (held[leaf] == 1)
    return found


def pinned(claims: Claims, schema: Schema) -> IntArray:
    """Count the columns that each claim pins: to one value, or to 5 % of their range.

    The range is that of the schema; where it has no ends, from the lowest to the highest threshold.
    A column that may also be missing is not pinned.
    """
    partition, region = claims.partition, claims.region
    owner = {c: a for a in schema.attributes for c in a.columns}
    total = np.zeros(len(claims.node), dtype=np.int64)
    for c, name in enumerate(partition.release.feature_names):
        cuts, special = partition.cuts[c], int(partition.nodes.special[c])
        if c in partition.groups:
            sizes = [0, *(len(g) == 1 for g in partition.groups[c])]
            single = [1 << atom for atom, one in enumerate(sizes) if one]
            total += np.isin(region.bits[:, special], single)
            continue
        if not len(cuts):
            continue
        attribute = owner[name]
        low, high = attribute.bounds
        ends = np.concatenate([[low], cuts, [high]])
        down, up = ends[region.low[:, c]], ends[np.maximum(region.high[:, c], -1) + 1]
        open_ = region.bits[:, special] != 0 if special >= 0 else np.zeros(len(up), dtype=bool)
        there = region.low[:, c] <= region.high[:, c]
        total += there & ~open_ & _narrow(attribute, cuts, down, up, region.low[:, c] == 0)
    return total


def _narrow(
    attribute: Any, cuts: FloatArray, down: FloatArray, up: FloatArray, first: BoolArray
) -> BoolArray:
    """Say which intervals above ``down``, up to ``up``, are one value or a small part of all."""
    low, high = attribute.bounds
    if isinstance(attribute, Categorical):
        values = np.asarray(attribute.values)
        below = np.where(first, 0, np.searchsorted(values, down, side="right"))
        return np.asarray(np.searchsorted(values, up, side="right") - below <= 1)
    if isinstance(attribute, Numeric):
        low = low if np.isfinite(low) else cuts[0]
        high = high if np.isfinite(high) else cuts[-1]
        return np.asarray((up - down) <= NARROW * (high - low))
    least = np.where(first, low, np.floor(down) + 1)
    return np.asarray(np.floor(up) - least <= NARROW * (high - low))
