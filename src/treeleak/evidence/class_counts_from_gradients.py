"""How many rows of its class lie in each leaf, once it is known which rows there are.

The sum of p - y over a leaf is in the file, or follows from what the leaf adds; the sum of p
follows from the rows. What is left is a whole number: if it is not, the rows are not the right
ones.

And which rows these are shows in the last digits. Libraries hold p and p - 1 in single precision,
rounded by themselves, so that the two are 1 apart up to some 1e-8, another number for each row and
tree; if the rounded numbers are added up in double precision, that is not lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import Equal
from treeleak.evidence.loss_sums import LossSums
from treeleak.evidence.predictions import at_leaves, chance, classes_of_trees, fitted, margins
from treeleak.evidence.tolerances import TOLERANCES
from treeleak.release.statistics import GRADIENT, VALUE

UNTOLD = -1
NO_CLASS = -1


@dataclass(frozen=True, eq=False)
class Positives:
    """Rows in each leaf of the class that its tree speaks of: with one output, the second one."""

    number: IntArray
    """Shape (n_leaves,). :data:`UNTOLD` where it cannot be said."""
    whole: bool
    """Whether all that can be told came out as whole numbers, from none to all of the leaf's
    rows."""


def class_counts_from_gradients(evidence: LossSums, leaf: NDArray[Any], m: IntArray) -> Positives:
    """Count the rows of its class in each leaf.

    ``leaf``, shape (n_cells, n_trees): leaves (rows of A) of the cells that hold rows; ``m``, shape
    (n_cells,): how many.
    """
    n_leaves = int(evidence.geometry.leaf_start[-1])
    held = np.bincount(leaf.ravel(), np.repeat(m, leaf.shape[1]), n_leaves).astype(float)
    _, fitting = fitted(evidence.geometry.release)
    number, whole = np.full(n_leaves, UNTOLD), True
    if evidence.weighted:
        # Of rows of two weights, sums tell no number of rows.
        return Positives(number, whole)
    if fitting.steps > 1:
        return _by_steps(evidence, leaf, m, held)
    none = np.full(len(leaf), NO_CLASS)
    for constraint in evidence.statements():
        leaves_alone = (
            constraint.place is None
            or np.bincount(constraint.place[constraint.place >= 0]).max() == 1
        )
        if (
            constraint.quantity != GRADIENT
            or not leaves_alone
            or not isinstance(constraint.law, Equal)
        ):
            continue
        place = np.arange(n_leaves) if constraint.place is None else constraint.place
        at = np.flatnonzero(place >= 0)
        # Were no row of the class, the left side would be greater by one for each that is.
        real = (constraint.left(leaf, none, m) - constraint.right)[place[at]]
        near = np.rint(real)
        allowed = np.broadcast_to(constraint.law.tolerance, constraint.right.shape)[place[at]]
        clear = allowed < TOLERANCES.half_row
        sound = np.abs(real - near) <= allowed + 1e-9
        sound &= (near >= 0) & (near <= held[at])
        whole &= bool((sound | ~clear).all())
        number[at] = np.where(sound & clear, near, UNTOLD)
    return Positives(number, whole)


@dataclass(frozen=True, eq=False)
class Digits:
    """What rows of a tree's class leave over in a sum, beyond what each changes it by: 1."""

    each: FloatArray
    """Shape (n_cells, n_trees). What each such row of a cell leaves over, in units of rounding."""
    sums: FloatArray
    """Shape (n_leaves,). What all of a leaf do; NaN where it is not known."""
    off: FloatArray
    """Shape (n_leaves,). By how much that may be off."""


def digits(evidence: LossSums, leaf: NDArray[Any], m: IntArray, number: IntArray) -> Digits:
    """Read the last digits of sums.

    Parameters as for :func:`class_counts_from_gradients`, and what that found.
    """
    n_leaves = len(number)
    each, sums = np.zeros(leaf.shape), np.full(n_leaves, np.nan)
    held = np.bincount(leaf.ravel(), np.repeat(m, leaf.shape[1]), n_leaves)
    release = evidence.geometry.release
    ensemble, fitting = fitted(release)
    # What a row counts may be its second derivative, times a step.
    step = np.abs(at_leaves(release, VALUE)) / (ensemble.learning_rate or 1.0)
    off = np.asarray(TOLERANCES.double_row * (1.0 + held * (1.0 + step)) / TOLERANCES.near_one)
    singly = fitting.derivatives == "float32" and fitting.margins == "float64"
    if fitting.steps > 1 or not singly:
        return Digits(each, sums, off)
    class_of_tree, none = classes_of_trees(release), np.full(len(leaf), NO_CLASS)
    for constraint in evidence.statements():
        if constraint.quantity != GRADIENT or constraint.counts is None:
            continue
        place = np.arange(n_leaves) if constraint.place is None else constraint.place
        at = np.flatnonzero((place >= 0) & (number != UNTOLD))
        without = constraint.counts(leaf, none)
        real = (constraint.right - constraint.left(leaf, none, m))[place[at]]
        sums[at] = (real + number[at]) / TOLERANCES.near_one
        here = np.isin(leaf, at)
        for c in np.unique(class_of_tree).tolist():
            of_class = constraint.counts(leaf, np.full(len(leaf), c)) - without + 1
            each = np.where(here & (class_of_tree == c), of_class / TOLERANCES.near_one, each)
    # Where all rows leave over the same, as in a first tree, that tells nothing of any.
    sums[leaf[:, np.ptp(each, axis=0) == 0]] = np.nan
    return Digits(each, sums, off)


def _by_steps(evidence: LossSums, leaf: NDArray[Any], m: IntArray, held: FloatArray) -> Positives:
    """Find the number for which the steps of the library end where the file says, by bisection.

    d <- d - G(d) / (H(d) + l2), G and H at the predictions moved by d; the more rows are of the
    second class, the greater is d.
    """
    geometry = evidence.geometry
    ensemble, fitting = fitted(geometry.release)
    margin = margins(geometry.release, leaf).astype(float)
    aim = at_leaves(geometry.release, VALUE) / (ensemble.learning_rate or np.nan)
    flat = leaf.ravel()
    weight = np.repeat(m, leaf.shape[1]).astype(float)

    def ends(number: FloatArray) -> FloatArray:
        d = np.zeros(len(held))
        for _ in range(fitting.steps):
            p = chance(margin.ravel() + d[flat])
            G = np.bincount(flat, weight * p, len(held)) - number
            H = np.bincount(flat, weight * p * (1 - p), len(held))
            d -= G / (H + fitting.l2)
        return d

    low, high = np.zeros(len(held)), held.copy()
    while (low < high).any():
        middle = np.floor((low + high) / 2)
        short = ends(middle) < aim - TOLERANCES.same_step * (1 + np.abs(aim))
        low, high = np.where(short & (low < high), middle + 1, low), np.where(short, high, middle)
    sound = np.abs(ends(low) - aim) <= TOLERANCES.same_step * (1 + np.abs(aim))
    return Positives(np.where(sound | (held == 0), low, UNTOLD).astype(np.int64), True)
