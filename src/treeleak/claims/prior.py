"""How likely a person is to meet a predicate: columns taken as independent of each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.claims.boxes import MISSING, MOST_ATOMS, Boxes, Partition
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass

_ROUNDS = 30
_MOST_LEAVES = 50_000
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Prior:
    """The share of people in each atom of each column.

    Attributes
    ----------
    source : {"control", "counts"}
        Whether from rows of the population, or fitted to what the leaves count.
    shares : tuple of float array
        By atom; the last entry is the share of missing values.
    """

    source: str
    shares: tuple[FloatArray, ...]

    def weight(self, partition: Partition, boxes: Boxes) -> FloatArray:
        """Probability that a person lies in each box."""
        nodes, total = partition.nodes, np.ones(len(boxes.low))
        for c, share in enumerate(self.shares):
            total *= _within(share, c, nodes, boxes)
        return total


def _within(share: FloatArray, c: int, nodes: Any, boxes: Boxes) -> FloatArray:
    below = np.append(0.0, np.cumsum(share[:-1]))
    here = np.zeros(len(boxes.low))
    if nodes.top[c] >= 0:
        high = np.maximum(boxes.high[:, c] + 1, boxes.low[:, c])
        here = below[high] - below[boxes.low[:, c]]
    if (s := nodes.special[c]) >= 0:
        bits = boxes.bits[:, s]
        here = here + np.where(bits & MISSING, share[-1], 0.0)
        if nodes.top[c] < 0:
            for atom, p in enumerate(share[:-1]):
                here += np.where((bits >> atom) & 1, p, 0.0)
    return here


def prior_of_rows(partition: Partition, rows: NDArray[np.int32]) -> Prior:
    """Count rows of the population; each atom gets a part of one row more."""
    shares = []
    for c, n in enumerate(_atoms(partition)):
        # A missing value, -1, is the last.
        count = np.bincount(rows[:, c] % (n + 1), minlength=n + 1) + 1 / (n + 1)
        if not _may_miss(partition, c):
            count[-1] = 0.0
        shares.append(count / count.sum())
    return Prior("control", tuple(shares))


def prior_of_counts(partition: Partition, people: IntArray, seed: int) -> Prior:
    """Fit the shares to the counts of leaves.

    A leaf says of each person in it between which ends a column lies: an interval-censored
    observation. Of each column, this is the self-consistent estimate (Turnbull 1976) from all of
    them, which is right if columns are independent; a part of the leaves, drawn at random, stands
    for more than 50,000. It starts from equal shares of the atoms.
    """
    leaves = partition.leaves
    leaves = leaves[people[leaves] > 0]
    if len(leaves) > _MOST_LEAVES:
        leaves = np.random.default_rng(seed).choice(leaves, _MOST_LEAVES, replace=False)
    boxes, count = partition.boxes(leaves), people[leaves].astype(float)
    shares = []
    for c, n in enumerate(_atoms(partition)):
        share = np.full(n + 1, 1.0 / (n + _may_miss(partition, c)))
        if not _may_miss(partition, c):
            share[-1] = 0.0
        for _ in range(_ROUNDS if len(leaves) and n > 1 else 0):
            each = count / np.maximum(_within(share, c, partition.nodes, boxes), _LEAST)
            expected = share * _spread(each, c, n, partition.nodes, boxes)
            share = expected / expected.sum()
        shares.append(share)
    return Prior("counts", tuple(shares))


def _spread(each: FloatArray, c: int, n: int, nodes: Any, boxes: Boxes) -> FloatArray:
    """Add up, for each atom, what the boxes that hold it have of each."""
    out = np.zeros(n + 1)
    if nodes.top[c] >= 0:
        some = boxes.low[:, c] <= boxes.high[:, c]
        out += np.bincount(boxes.low[some, c], each[some], n + 1)
        out -= np.bincount(boxes.high[some, c] + 1, each[some], n + 1)
        out = np.maximum(np.cumsum(out), 0.0)
        out[-1] = 0.0
    if (s := nodes.special[c]) >= 0:
        bits = boxes.bits[:, s]
        out[-1] = each[(bits & MISSING) != 0].sum()
        for atom in range(n if nodes.top[c] < 0 else 0):
            out[atom] = each[((bits >> atom) & 1) != 0].sum()
    return out


def _atoms(partition: Partition) -> list[int]:
    """Atoms of each column."""
    return [
        len(partition.groups[c]) + 1 if c in partition.groups else len(cuts) + 1
        for c, cuts in enumerate(partition.cuts)
    ]


def _may_miss(partition: Partition, c: int) -> bool:
    s = partition.nodes.special[c]
    return bool(s >= 0 and (partition.nodes.bits[s] >> MOST_ATOMS) & 1)
