"""Sums of first derivatives, and of their squares, in leaves that say neither.

Inner nodes say both, leaves the variance alone. A leaf beside an inner node has what is left of
their parent's. Two leaves side by side share the parent's sum G so that the squares between them
come out: n_L n_R / n (m_L - m_R)^2 = S - n_L V_L - n_R V_R - G^2 / n, with means m and variances V.
That has two solutions; as a leaf steps by -G / H, and 0 < H <= n / 4, mostly one of them can be.
"""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition import Geometry
from treeleak.release.statistics import GRADIENT, VALUE, VARIANCE
from treeleak.release.tree import Tree

_BLURRED = 1e-6
"""A sum that rounding may move by more says too little."""
_OVER = 1e-6
"""By which share of it a second derivative may lie beyond what there can be."""


@dataclass(frozen=True, eq=False)
class NodeSums:
    """Sums at all nodes of a tree; NaN where they are not known."""

    first: FloatArray
    squares: FloatArray
    off: FloatArray
    """By how much either may be off."""
    open: IntArray
    """Inner nodes whose two leaves share their sums in a way that is not known."""


def node_sums(tree: Tree, rate: float, each: float, small: float) -> NodeSums | None:
    """Work out the sums; None for a tree that does not say these things.

    ``each`` and ``small``: how far a sum may be off for each row, and beside that.
    """
    gradient, variance = tree.statistics.get(GRADIENT), tree.statistics.get(VARIANCE)
    value, totals = tree.statistics.get(VALUE), tree.totals
    if gradient is None or variance is None or value is None or totals is None:
        return None
    n, V, s = totals.astype(float), variance.values, value.values / rate
    inner = ~tree.is_leaf if gradient.present is None else gradient.present & ~tree.is_leaf
    G = np.where(inner, gradient.values, np.nan)
    off, open_ = each * n + small, []
    for v in np.flatnonzero(inner).tolist():
        left, right = int(tree.left[v]), int(tree.right[v])
        if n[left] <= 0 or n[right] <= 0:
            continue
        if np.isnan(G[left]) and np.isnan(G[right]):
            G[left], blur = _shared(n, V, s, G[v], (v, left, right), off[v])
            G[right] = G[v] - G[left]
            off[left] = off[right] = off[v] + blur
            if np.isnan(G[left]):
                open_.append(v)
        elif np.isnan(G[left]) or np.isnan(G[right]):
            leaf, other = (left, right) if np.isnan(G[left]) else (right, left)
            G[leaf], off[leaf] = G[v] - G[other], off[v] + off[other]
    mean = np.divide(G, n, out=np.full(len(G), np.nan), where=n > 0)
    return NodeSums(G, n * (V + mean**2), (1 + 2 * np.abs(mean)) * off, np.array(open_, dtype=int))


@dataclass(frozen=True, eq=False)
class LeafSums:
    """Sums in all leaves (rows of A), NaN where they are not known, and of pairs of leaves."""

    first: FloatArray
    squares: FloatArray
    off: FloatArray
    place: IntArray
    """Shape (n_leaves,). Pair that a leaf is one of, -1 for none."""
    pairs: FloatArray
    """Shape (n_pairs, 3). The same three numbers of each pair whose leaves do not say them."""


def leaf_sums(geometry: Geometry, rate: float, each: float, small: float) -> LeafSums:
    """Work out the sums of all trees: parameters as for :func:`node_sums`."""
    n_leaves = int(geometry.leaf_start[-1])
    each_leaf, place = np.full((3, n_leaves), np.nan), np.full(n_leaves, -1)
    pairs: list[FloatArray] = []
    for begin, tree in zip(geometry.leaf_start.tolist(), geometry.release.trees, strict=False):
        known = node_sums(tree, rate, each, small)
        if known is None:
            continue
        every = np.array([known.first, known.squares, known.off])
        each_leaf[:, begin : begin + len(tree.leaves)] = every[:, tree.leaves]
        for v in known.open.tolist():
            both = np.searchsorted(tree.leaves, [tree.left[v], tree.right[v]])
            place[begin + both] = len(pairs)
            pairs.append(every[:, v])
    first, squares, off = each_leaf
    return LeafSums(first, squares, off, place, np.array(pairs).reshape(-1, 3))


def _shared(
    n: FloatArray, V: FloatArray, s: FloatArray, G: float, nodes: tuple[int, int, int], off: float
) -> tuple[float, float]:
    """Find the left one's sum of two leaves, and by how much it may be off."""
    v, left, right = nodes
    between = n[v] * V[v] - n[left] * V[left] - n[right] * V[right]
    apart = np.sqrt(max(between, 0.0) * n[v] / (n[left] * n[right]))
    blur = off / (2 * apart) if apart > 0 else np.inf
    if not blur < _BLURRED:
        return np.nan, 0.0
    possible = []
    for difference in (apart, -apart):
        left_sum = n[left] * (G + difference * n[right]) / n[v]
        if all(
            _steps(part, s[at], n[at]) for part, at in ((left_sum, left), (G - left_sum, right))
        ):
            possible.append(float(left_sum))
    return (possible[0], float(blur)) if len(possible) == 1 else (np.nan, 0.0)


def _steps(G: float, step: float, n: float) -> bool:
    """Whether a leaf with such a sum may take such a step."""
    if step == 0:
        return bool(abs(G) < _BLURRED)
    return bool(-_OVER < -G / step <= (1 + _OVER) * n / 4)
