"""Sums of targets in the leaves of a regression, once it is known which rows there are.

A leaf of a tree or forest stores the mean of the targets of its rows. A leaf of a boosted model
adds -rate G / (n + l2), where G is the sum of what the trees before predicted less the target: the
model itself tells the first part. So each leaf says what the targets of its rows add up to.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import LinearConstraints
from treeleak.evidence.predictions import at_leaves, fitted, l2_at_leaves, margins
from treeleak.evidence.tolerances import TOLERANCES
from treeleak.partition import Geometry
from treeleak.release.release import Release
from treeleak.release.statistics import DRAWS, GRADIENT, MEAN, ROWS, VALUE, VARIANCE

MOST_ENTRIES = 2**26
"""Most (row, tree) pairs that are held."""


@dataclass(frozen=True, eq=False)
class TargetSums:
    """What leaves say of the targets of some rows: times @ y is ``right``, give or take ``off``."""

    times: csr_array
    """Shape (n_statements, n_rows). How often each row counts."""
    right: FloatArray
    off: FloatArray
    """Shape (n_statements,). Bounds of what the library's rounding makes of a sum."""
    full: BoolArray
    """Shape (n_statements,). Whether rows that are proved fill the leaf."""
    low: FloatArray
    high: FloatArray
    """Shape (n_rows,). Between which ends variances keep each target."""
    predicted: FloatArray
    """Shape (n_rows,). What the model predicts."""
    spread: float
    """How far apart means of leaves lie."""
    rounded: float = 0.0
    """Share of itself by which each target was rounded before all."""


def target_sums(
    release: Release,
    leaf: IntArray,
    draws: NDArray[Any] | None,
    proved: BoolArray,
    between: tuple[FloatArray, FloatArray] | None = None,
) -> TargetSums | None:
    """Say what the leaves of a regression add up over given rows.

    ``leaf``, shape (n_rows, n_trees): leaf (row of A) of each row. ``draws``, shape (n_trees,
    n_rows): how often each tree drew each row, 1 without it. ``between``: ends between which each
    target is known to lie, shape (n_rows,); sums are then known more exactly. Returns None where
    leaves say nothing of the kind.
    """
    leaf_sums = _LeafSums.of(release, leaf, draws)
    if leaf_sums is None:
        return None
    n_leaves, counted = len(leaf_sums.n), leaf_sums.n > 0
    n_rows = len(leaf)
    times = np.ones(leaf.shape) if draws is None else draws.T.astype(float)
    flat = leaf.ravel()

    def added(each: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(flat, (times * each).ravel(), n_leaves), dtype=float)

    held = added(np.ones(leaf.shape))
    usable = counted & (held > 0) & ~np.isnan(leaf_sums.mean_left)
    if not usable.any():
        return None
    before = leaf_sums.before
    right = leaf_sums.mean_left * leaf_sums.n + added(before)
    # Leaves of one row are rounded as all others: means of leaves tell how far targets lie apart.
    means = right[usable] / held[usable]
    middle, spread = float(np.median(means)), float(np.ptp(means))
    if not np.isfinite(right[usable]).all() or not 0 < spread < np.inf:
        return None
    # How far each row's target may be from what trees before predicted.
    left = np.abs(before - middle) + (1 + TOLERANCES.targets_apart) * spread
    if between is not None:
        ends = (np.abs(before - end[:, None]) for end in between)
        left = np.minimum(left, np.maximum(*ends))
    size = added(np.abs(before)) + held * (abs(middle) + spread)
    off = leaf_sums.of_sum * np.abs(leaf_sums.mean_left) * (
        leaf_sums.n + leaf_sums.l2
    ) + leaf_sums.of_row * added(left)
    off += (
        TOLERANCES.double_unit * (TOLERANCES.roundings + held) * size
        + TOLERANCES.unasked * held * spread
    )
    off += TOLERANCES.single_unit * (1 + TOLERANCES.targets_apart) * spread * leaf_sums.by_start
    low, high = _by_variance(release, leaf_sums, leaf, times)
    sure = np.bincount(flat, (times * proved[:, None]).ravel(), n_leaves)
    at = np.where(usable, np.cumsum(usable) - 1, -1)
    entry = (times > 0) & (at[leaf] >= 0)
    row, tree = np.nonzero(entry)
    matrix = csr_array(
        (times[row, tree], (at[leaf[row, tree]], row)), shape=(int(usable.sum()), n_rows)
    )
    return TargetSums(
        matrix, right[usable], off[usable], (sure == leaf_sums.n)[usable], low, high,
        leaf_sums.predicted(leaf), spread, leaf_sums.rounded,
    )  # fmt: skip


def squared_statements(geometry: Geometry, beyond: float) -> tuple[LinearConstraints, ...] | None:
    """Say what leaves sum up over rows with one of two targets, the first or the second class.

    These lie below and above what the model predicts for the row: by ``beyond``, in units of how
    far the means of the leaves of the first tree lie apart. Returns None where they are not apart.
    """
    release = geometry.release
    leaf_sums = _LeafSums.of(release, np.zeros((0, len(release.trees)), dtype=np.int64), None)
    if leaf_sums is None or not (leaf_sums.n >= 0).all() or np.isnan(leaf_sums.mean_left).any():
        return None
    n, spread = leaf_sums.n, float(np.ptp(leaf_sums.mean_left[: geometry.leaf_start[1]]))
    if not 0 < spread < np.inf:
        return None
    scale = np.sqrt(np.maximum(n, 1))
    return (
        LinearConstraints(ROWS, n, scale=scale),
        LinearConstraints(
            GRADIENT, -leaf_sums.mean_left * n,
            counts=partial(_beside_ends, release, beyond * spread),
            by_label=True, scale=TOLERANCES.sums_apart * spread * scale,
        ),
    )  # fmt: skip


def _beside_ends(
    release: Release, beyond: float, leaf: NDArray[Any], label: IntArray
) -> FloatArray:
    """What each row counts in each tree: the prediction before it, less the row's target."""
    before = margins(release, leaf).astype(float)
    predicted = before[:, -1] + at_leaves(release, VALUE)[leaf[:, -1]]
    ends = predicted + beyond * np.array([-1.0, 1.0])[label]
    return np.asarray(before - ends[:, None])


@dataclass(frozen=True, eq=False)
class _LeafSums:
    """What leaves (rows of A) say of the targets less what trees before predicted."""

    n: FloatArray
    """Shape (n_leaves,). Rows, or draws."""
    mean_left: FloatArray
    """Shape (n_leaves,). Their mean, where l2 is 0; NaN where it is not told."""
    before: FloatArray
    """Shape (n_rows, n_trees). What trees before predicted; 0 in a forest."""
    l2: FloatArray | float = 0.0
    of_sum: float = TOLERANCES.double_unit * TOLERANCES.roundings
    of_row: float = 0.0
    """Share of a sum, and of each of its parts, by which they may be rounded."""
    by_start: FloatArray | float = 0.0
    """Shape (n_leaves,). By how much a sum grows with the prediction before the first tree, where
    that was worked out from rounded numbers."""
    rounded: float = 0.0
    """As in :class:`TargetSums`."""

    def predicted(self, leaf: IntArray) -> FloatArray:
        """Predict about what the targets of rows are, as the trees together do."""
        each = self.before + np.nan_to_num(self.mean_left)[leaf]
        return np.asarray(each.mean(axis=1) if not self.before.any() else each[:, -1])

    @classmethod
    def of(cls, release: Release, leaf: IntArray, draws: NDArray[Any] | None) -> _LeafSums | None:
        """Read what leaves say, of targets themselves or of what is left of them."""
        if leaf.size > MOST_ENTRIES or release.classes:
            return None
        n, ensemble = at_leaves(release, DRAWS if draws is not None else ROWS), release.ensemble
        if draws is not None and np.isnan(n).all():
            n = at_leaves(release, ROWS)
        if ensemble is None or ensemble.fitting is None:
            return cls(n, at_leaves(release, MEAN), np.zeros(leaf.shape))
        ensemble, fitting = fitted(release)
        rate, start = ensemble.learning_rate, fitting.start
        if fitting.loss != "squared" or not rate or (start is not None and draws is not None):
            return None
        initial, first = np.zeros(len(n)), np.arange(len(n)) < len(release.trees[0].leaves)
        if start is not None:
            initial[first] = start[0]
        step, l2 = (at_leaves(release, VALUE) - initial) / rate, l2_at_leaves(release)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean_left = step * (n + l2) / n
        single = fitting.margins == "float32"
        return cls(
            n,
            mean_left,
            margins(release, leaf).astype(float),
            l2,
            TOLERANCES.roundings
            * (TOLERANCES.single_unit if single else TOLERANCES.double_unit)
            * fitting.rough,
            (TOLERANCES.single_unit if fitting.derivatives == "float32" else TOLERANCES.double_unit)
            * fitting.rough,
            0.0 if start is None else first * (n + l2) / rate,
            2 * TOLERANCES.single_unit if fitting.targets == "float32" else 0.0,
        )


def _by_variance(
    release: Release, leaf_sums: _LeafSums, leaf: IntArray, times: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Keep targets near the means of their leaves, as far as variances do.

    Of n draws with mean m and variance v, one that was drawn d times is no further from m than
    sqrt(v (n - d) / d).
    """
    low, high = np.full((2, len(leaf)), [[-np.inf], [np.inf]])
    variance = at_leaves(release, VARIANCE)
    if np.isnan(variance).all():
        return low, high
    mean = leaf_sums.mean_left
    # A variance is the difference of sums that were rounded, one child's those of its parent less
    # the other's.
    of_parent = partial(_at_parents, release)
    squares = of_parent(leaf_sums.n * (mean**2 + np.maximum(variance, 0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = (
            TOLERANCES.double_unit
            * (TOLERANCES.roundings + of_parent(leaf_sums.n))
            * squares
            / leaf_sums.n
        )
    for t in range(leaf.shape[1]):
        at, d = leaf[:, t], times[:, t]
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.sqrt((np.maximum(variance[at], 0) + noise[at]) * (leaf_sums.n[at] / d - 1))
        known = (d > 0) & ~np.isnan(near) & ~np.isnan(mean[at])
        centre = leaf_sums.before[:, t] + mean[at]
        near += TOLERANCES.unasked * (np.abs(centre) + np.sqrt(np.nanmax(variance)))
        low = np.where(known, np.fmax(low, centre - near), low)
        high = np.where(known, np.fmin(high, centre + near), high)
    return low, high


def _at_parents(release: Release, each: FloatArray) -> FloatArray:
    """Add up what leaves (rows of A) hold over all leaves below the parent of each."""
    begin, found = 0, []
    for tree in release.trees:
        leaves, below = tree.leaves, np.zeros(tree.n_nodes)
        below[leaves] = each[begin : begin + len(leaves)]
        begin += len(leaves)
        for v in np.flatnonzero(~tree.is_leaf)[::-1]:  # children stand behind their parents
            below[v] = below[tree.left[v]] + below[tree.right[v]]
        # A root that is a leaf is taken for its own parent.
        found.append(below[np.maximum(tree.parent[leaves], 0)])
    return np.concatenate(found)
