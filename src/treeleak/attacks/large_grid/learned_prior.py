"""What rows are like, learned from datasets: a prior over atoms for rows that walk.

A tree over the attributes (Chow and Liu 1968), of which those with many atoms are cut into a few
bins that hold about as many rows each. Within a bin, atoms are as likely as they were found to be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.schedule import SCHEDULE
from treeleak.attacks.large_grid.walk_kernels import LogPriorTables
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import FloatArray, IntArray


def learned(
    constraints: RowConstraints, samples: Sequence[NDArray[np.int32]], labels: Sequence[IntArray]
) -> LogPriorTables:
    """Fit what rows are like to datasets.

    ``samples``, shape (n_rows, n_attributes): atoms. ``labels``: shape (n_rows,).
    """
    start = constraints.masks.start
    rows, label = np.concatenate(samples).astype(np.int64), np.concatenate(labels)
    share = constraints.n_rows / max(len(rows), 1)
    bin_, within = np.zeros(start[-1], dtype=np.int64), np.zeros(start[-1])
    radix = []
    for a in range(len(start) - 1):
        columns = slice(start[a], start[a + 1])
        times = np.bincount(rows[:, a], minlength=start[a + 1] - start[a]).astype(float)
        bin_[columns], within[columns] = _binned(share * times)
        radix.append(int(bin_[columns].max(initial=0)) + 1)
    binned = np.column_stack([bin_[start[:-1] + rows], label])
    sizes = np.ones(sum(radix) + constraints.n_classes)
    tree = TreePrior.fitted(
        binned, constraints.n_rows, np.array([*radix, constraints.n_classes]), sizes
    )
    return _laid_out(constraints, tree, np.array(radix), bin_, within)


def near(constraints: RowConstraints, cost: FloatArray, strength: float) -> LogPriorTables:
    """Prefer, row by row, atoms that cost little; ``cost`` has the shape (n_rows, n_atoms)."""
    log_share = (-strength * (cost - cost.min(axis=1, keepdims=True))).astype(np.float32)
    line = np.arange(constraints.n_rows, dtype=np.int32)
    return constraints.flat._replace(log_share=log_share, line=line)


def _binned(times: FloatArray) -> tuple[IntArray, FloatArray]:
    """Bin of each atom of an attribute, and the log of its share of the bin."""
    n = len(times)
    if n <= SCHEDULE.bins:
        return np.arange(n), np.zeros(n)
    rank = (np.cumsum(times) - times / 2) / max(times.sum(), 1.0)
    wanted = np.minimum((rank * SCHEDULE.bins).astype(np.int64), SCHEDULE.bins - 1)
    bin_ = np.unique(wanted, return_inverse=True)[1].ravel()
    size = np.bincount(bin_)[bin_]
    smoothed = times + SCHEDULE.bin_doubt / size
    return bin_, np.log(smoothed / np.bincount(bin_, smoothed)[bin_])


def _laid_out(
    constraints: RowConstraints,
    tree: TreePrior,
    radix: IntArray,
    bin_: IntArray,
    within: FloatArray,
) -> LogPriorTables:
    """Lay a tree out as pairs of neighbours, each with log P(a, b) / (P(a) P(b))."""
    start, n_attributes = constraints.masks.start, len(radix)
    marginal = _marginals(tree)
    neighbours: list[list[tuple[int, FloatArray]]] = [[] for _ in range(n_attributes)]
    log_share = np.tile(within.astype(np.float32), (constraints.n_classes, 1))
    for a in range(n_attributes):
        columns = slice(start[a], start[a + 1])
        log_share[:, columns] += np.log(marginal[a])[bin_[columns]]
        up = int(tree.parent[a])
        if up < 0:
            continue
        ratio = tree.log_share[a] - np.log(marginal[a])
        if up == n_attributes:
            log_share[:, columns] += ratio[:, bin_[columns]]
        else:
            neighbours[a].append((up, ratio.T))
            neighbours[up].append((a, ratio))
    most, widest = max(max(map(len, neighbours), default=0), 1), int(radix.max(initial=1))
    neighbour = np.full((n_attributes, most), -1, dtype=np.int32)
    coupling = np.zeros((n_attributes, most, widest, widest), dtype=np.float32)
    for a, adjacent in enumerate(neighbours):
        for q, (other, table) in enumerate(adjacent):
            neighbour[a, q] = other
            coupling[a, q, : table.shape[0], : table.shape[1]] = table
    return LogPriorTables(
        log_share, constraints.label.astype(np.int32), bin_.astype(np.int32), neighbour, coupling
    )


def _marginals(tree: TreePrior) -> list[FloatArray]:
    """Probability of each atom of each attribute, the class included."""
    out: list[FloatArray] = [np.zeros(0)] * len(tree.parent)

    def fill(a: int) -> FloatArray:
        if not len(out[a]):
            table, up = np.exp(tree.log_share[a]), int(tree.parent[a])
            out[a] = table[0] if up < 0 else fill(up) @ table
        return out[a]

    for a in range(len(tree.parent)):
        fill(a)
    return out
