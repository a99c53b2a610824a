"""Sums of second derivatives that a file does not hold, from what it says of steps and gains.

Without l2, a node with sums G and H would take the step s = -G / H, and its test gains
s_L^2 H_L + s_R^2 H_R - s^2 H. Sums of children add up to the node's: s H = s_L H_L + s_R H_R and
H = H_L + H_R. Two linear equations, from which H_L and H_R follow.
"""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.evidence.predictions import at_leaves
from treeleak.release.release import Release
from treeleak.release.statistics import GAIN, HESSIAN, STEP, VALUE
from treeleak.release.tree import Tree

_SHARP = 1e-4
"""Least difference between the steps of two children, as a share of them: nearer ones say too
little."""
_ROUNDED, _ADDED = 4e-15, 1e-15
"""By how much numbers may be off by rounding, as a share of the largest that they come from; and
what libraries add to sums, so that none is 0."""


def leaf_hessians(release: Release, rate: float | None, l2: float) -> tuple[FloatArray, FloatArray]:
    """Sums of second derivatives in all leaves (rows of A), and how far they may be off.

    As the file gives them, else as they follow from it; NaN where they do not. The second array
    holds shares of the first.
    """
    hessian = at_leaves(release, HESSIAN)
    off = np.zeros(len(hessian))
    if rate is None or l2:
        return hessian, off
    start = 0
    for tree in release.trees:
        stop = start + len(tree.leaves)
        if np.isnan(hessian[start]):
            derived, blur = _derived(tree, rate)
            hessian[start:stop], off[start:stop] = derived[tree.leaves], blur[tree.leaves]
        start = stop
    return hessian, off


def _derived(tree: Tree, rate: float) -> tuple[FloatArray, FloatArray]:
    """Derive the sums of all nodes whose parent is no root."""
    none = np.full(tree.n_nodes, np.nan)
    value, step, gain = (tree.statistics.get(q) for q in (VALUE, STEP, GAIN))
    if value is None or step is None or gain is None:
        return none, none
    s = np.where(tree.is_leaf, value.values / rate, step.values)
    if step.present is not None:
        s[~step.present & ~tree.is_leaf] = np.nan
    return node_hessians(tree, s)


def node_hessians(tree: Tree, s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Derive the sums of all nodes whose parent's step is known, and the shares they may be off.

    ``s``: the step of each node, NaN where it is not known.
    """
    none, gain = np.full(tree.n_nodes, np.nan), tree.statistics.get(GAIN)
    if gain is None:
        return none, none
    derivable = ~tree.is_leaf & ~np.isnan(s)
    if gain.present is not None:
        derivable = derivable & gain.present
    v = np.flatnonzero(derivable)
    left, right = tree.left[v], tree.right[v]
    a, b = s[left] - s[v], s[right] - s[v]
    # s_L^2 H_L + s_R^2 H_R - s^2 (H_L + H_R) = (a (s_L + s)) H_L + (b (s_R + s)) H_R, and
    # a H_L + b H_R = 0.
    spread = a - b
    sharp = np.abs(spread) > _SHARP * np.maximum(np.abs(s[left]), np.abs(s[right]))
    sharp &= (a * b < 0) & (gain.values[v] > 0)
    v, left, right = v[sharp], left[sharp], right[sharp]
    a, b = a[sharp], b[sharp]
    hessian_left = gain.values[v] / (a * (s[left] - s[right]))
    none[left], none[right] = hessian_left, -hessian_left * a / b
    off = np.full(tree.n_nodes, 0.0)
    scale = np.maximum(np.abs(s[left]), np.abs(s[right]))
    smallest = np.minimum(np.abs(a), np.abs(b))
    # A gain is the difference of numbers that may be far larger.
    terms = s[left] ** 2 * none[left] + s[right] ** 2 * none[right]
    rounded = _ROUNDED + _ADDED / np.minimum(none[left], none[right])
    off[left] = off[right] = rounded * (
        scale / np.maximum(smallest, 1e-300) + terms / gain.values[v]
    )
    return none, off
