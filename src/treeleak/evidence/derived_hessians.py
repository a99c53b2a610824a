"""Sums of second derivatives that a file does not hold, from what it says of steps and gains.

A node with sums G and H would take the step s = -G / (H + l2), and its test gains
s_L^2 (H_L + l2) + s_R^2 (H_R + l2) - s^2 (H + l2). Sums of children add up to the node's:
s (H + l2) = s_L (H_L + l2) + s_R (H_R + l2) and H = H_L + H_R. Two linear equations, from which H_L
and H_R follow.
"""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.evidence.predictions import at_leaves, fitted
from treeleak.evidence.tolerances import TOLERANCES
from treeleak.release.release import Release
from treeleak.release.statistics import GAIN, HESSIAN, STEP, VALUE
from treeleak.release.tree import Tree

ROUNDED = {"float64": 4e-15, "float32": 5e-7}
"""By how much numbers may be off by rounding, as a share of the largest that they come from, by the
precision of steps and gains in the file."""


def leaf_hessians(release: Release, rate: float | None, l2: float) -> tuple[FloatArray, FloatArray]:
    """Sums of second derivatives in all leaves (rows of A), and how far they may be off.

    As the file gives them, else as they follow from it; NaN where they do not. The second array
    holds shares of the first.
    """
    hessian = at_leaves(release, HESSIAN)
    off, precision = np.zeros(len(hessian)), fitted(release)[1].derivatives
    if rate is None:
        return hessian, off
    start = 0
    for tree in release.trees:
        stop = start + len(tree.leaves)
        if np.isnan(hessian[start]):
            derived, blur = _derived(tree, rate, l2, ROUNDED[precision])
            hessian[start:stop], off[start:stop] = derived[tree.leaves], blur[tree.leaves]
        start = stop
    return hessian, off


def _derived(tree: Tree, rate: float, l2: float, rounded: float) -> tuple[FloatArray, FloatArray]:
    """Derive the sums of all nodes whose parent is no root."""
    none = np.full(tree.n_nodes, np.nan)
    value, step, gain = (tree.statistics.get(q) for q in (VALUE, STEP, GAIN))
    if value is None or step is None or gain is None:
        return none, none
    s = np.where(tree.is_leaf, value.values / rate, step.values)
    if step.present is not None:
        s[~step.present & ~tree.is_leaf] = np.nan
    return node_hessians(tree, s, l2, rounded)


def node_hessians(
    tree: Tree, s: FloatArray, l2: float = 0.0, rounded: float = ROUNDED["float64"]
) -> tuple[FloatArray, FloatArray]:
    """Derive the sums of all nodes whose parent's step is known, and the shares they may be off.

    ``s``: the step of each node, NaN where it is not known. ``rounded``: by how much steps and
    gains may be off by rounding.
    """
    found, blur = np.full(tree.n_nodes, np.nan), np.zeros(tree.n_nodes)
    gain = tree.statistics.get(GAIN)
    if gain is None:
        return found, found
    derivable = ~tree.is_leaf & ~np.isnan(s)
    if gain.present is not None:
        derivable = derivable & gain.present
    v = np.flatnonzero(derivable)
    children = np.stack([tree.left[v], tree.right[v]])
    step, other = s[children], s[children[::-1]]
    # With A = H_L + l2 and B = H_R + l2: (s_L - s) A + (s_R - s) B = -s l2, and
    # (s_L - s) (s_L - s_R) A = gain + l2 s s_R; the same with sides exchanged.
    change, spread = step - s[v], step - other
    scale = np.maximum(np.abs(step).max(axis=0), np.abs(s[v]))
    numerator = gain.values[v] + l2 * s[v] * other
    sharp = (
        (np.abs(spread[0]) > TOLERANCES.steps_apart * scale)
        & (change != 0).all(axis=0)
        & (gain.values[v] > 0)
    )
    total = np.divide(numerator, change * spread, out=np.zeros_like(step), where=sharp)
    sharp &= (total > l2).all(axis=0)
    # A gain is the difference of numbers that may be far larger.
    terms = (step**2 * total).sum(axis=0) + l2 * np.abs(s[v] * other)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = total - l2
        off = scale / np.abs(change) + scale / np.abs(spread) + terms / np.abs(numerator)
        off *= (rounded + TOLERANCES.added_to_sums / each.min(axis=0)) * total / each
    for side in range(2):
        found[children[side][sharp]] = each[side][sharp]
        blur[children[side][sharp]] = off[side][sharp]
    return found, blur
