"""What all nodes of a boosted tree sum up over their rows: how many, and both derivatives.

Some files say it of leaves, some of all nodes, and of some it follows from steps and gains. What is
not said of a node follows from its children, or from its parent and the node beside it.
"""

from __future__ import annotations

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.private import dataclass
from treeleak.evidence.derived_hessians import ROUNDED, node_hessians
from treeleak.evidence.tolerances import TOLERANCES as ROUNDING
from treeleak.release.ensemble import Fitting
from treeleak.release.statistics import HESSIAN, ROWS, STEP, VALUE
from treeleak.release.tree import Tree

_DOUBLE = 1e-14, 1e-13
"""By how much sums may be off, as a share of them and beside that, where numbers are of double
precision."""
_HALF, _ADDED = 0.53, 4e-8
"""The same where numbers are of single precision: in units of the last place, and beside that."""
_ALIKE = 1e-3
"""The same in the first tree: sums tell whole numbers there, and its steps are less exact."""
_ROUNDED = 1e-13
"""How sums of so many numbers are rounded, as a share of their sizes."""
_ALL_OF_CLASS = 4.5e-8
"""By how much sums may be off for each row, as p - 1 is rounded in another way than p."""
_BLURRED, _BLURRED_ROOT = 1e-7, 1e-4
"""Share of itself from which on a sum that was derived says too little; and below the root."""
_BLURRED_SINGLE, _SINGLE = 1e-4, 2.0**-23
"""The first where steps and gains are of single precision, and the unit of these."""


@dataclass(frozen=True, eq=False)
class NodeTotals:
    """Sums at all nodes of a tree; NaN where they are not known."""

    rows: FloatArray
    second: FloatArray
    first: FloatArray
    off_second: FloatArray
    off_first: FloatArray
    step: FloatArray
    """What a node would add, and leaves do: so much for each second derivative, added to the first
    derivatives, comes to ``rest``."""
    rest: FloatArray
    """-l2 times the step."""
    off_rest: FloatArray
    """By how much that may be off, for each second derivative."""


@dataclass(frozen=True)
class Root:
    """Sums of both derivatives over all rows, and by how much they may be off."""

    second: float
    first: float
    off_second: float
    off_first: float


def node_totals(
    tree: Tree,
    step: FloatArray,
    fitting: Fitting,
    root: Root | None,
    n_rows: int,
    *,
    first: bool,
) -> NodeTotals:
    """Work out the sums.

    ``step``: what nodes would add (:func:`steps_of`). ``root``: sums over all rows, where they
    follow from the predictions before the tree. ``first``: whether all rows are alike yet, but for
    their classes.
    """
    leaf, l2 = tree.is_leaf, fitting.l2_at(tree)
    entry = tree.statistics.get(HESSIAN)
    if entry is not None:
        H, blur = entry.values.astype(float), np.zeros(tree.n_nodes)
        if fitting.margins == "float64":
            # Of inner nodes, such files give a few digits only.
            H[~leaf] = np.nan
    elif np.ptp(l2):
        H, blur = np.full(tree.n_nodes, np.nan), np.zeros(tree.n_nodes)
    else:
        single = fitting.margins == "float32"
        H, blur = node_hessians(tree, step, float(l2[0]), ROUNDED[fitting.margins])
        H = np.where(blur < (_BLURRED_SINGLE if single else _BLURRED), H, np.nan)
        if root is not None and single:
            _from_above(tree, step, float(l2[0]), root, n_rows, H, blur)
        elif root is not None and not l2.any():
            _below_root(tree, step, root, n_rows, H, blur)
    if root is not None:
        H[0] = root.second
    share, beside = _DOUBLE[0], _ALIKE if first else _DOUBLE[1]
    exact = fitting.margins == "float64" or first
    off = (share + blur) * (np.abs(H) + l2) + beside
    if not exact:
        off = _HALF * np.spacing(np.abs(H).astype(np.float32)) + _ADDED + blur * np.abs(H)
    if root is not None:
        off[0] += root.off_second
    H, off = _completed(tree, H, off)
    n, _ = _completed(tree, _rows(tree), np.zeros(tree.n_nodes))
    size = np.abs(H) + l2
    G = -step * (H + l2)
    off_step = share * np.abs(step) + beside / np.sqrt(1.0 + np.nan_to_num(size))
    if not exact:
        off_step = np.where(leaf, 2.0, 1.0) * _HALF * np.spacing(np.abs(step).astype(np.float32))
        off_step += _ADDED / (1.0 + size)
    off_first = off_step * size + np.abs(step) * off
    if root is not None:
        G[0], off_first[0] = root.first, _ALL_OF_CLASS * n_rows + root.off_first
    G, off_first = _completed(tree, G, off_first)
    return NodeTotals(n, H, G, off, off_first, step, -step * l2, off_step)


def _from_above(
    tree: Tree,
    step: FloatArray,
    l2: float,
    root: Root,
    n_rows: int,
    H: FloatArray,
    blur: FloatArray,
) -> None:
    """Derive what children have from their parents, in place, where gains say it less exactly.

    Steps of single precision are as exact as gains are, and gains are small differences.
    s_L (H_L + l2) + s_R (H_R + l2) = -G = s (H + l2), H_L + H_R = H; G follows from the predictions
    at the root.
    """
    H[0], blur[0] = root.second, root.off_second / max(root.second, _ADDED)
    for v in np.flatnonzero(~tree.is_leaf).tolist():  # parents stand first
        left, right = int(tree.left[v]), int(tree.right[v])
        a, b = step[left], step[right]
        if not abs(a - b) > ROUNDING.steps_apart * max(abs(a), abs(b)) or np.isnan(H[v]):
            continue
        whole, off = H[v] + l2, blur[v] * H[v]
        first, parent = (-root.first, 0.0) if v == 0 else (step[v] * whole, step[v])
        size = (abs(first) + max(abs(a), abs(b)) * whole) * _HALF * _SINGLE
        if v == 0:
            # What rows of two classes add to the root's sum is rounded in two ways.
            size += root.off_first + _ALL_OF_CLASS * n_rows
        in_left = (first - b * H[v] - l2 * (a + b)) / (a - b)
        for child, h, other in ((left, in_left, b), (right, H[v] - in_left, a)):
            missed = (size + abs(parent - other) * off) / abs(a - b) + _ADDED
            if h > 0 and missed / h < (_BLURRED_SINGLE if np.isnan(H[child]) else blur[child]):
                H[child], blur[child] = h, missed / h


def _below_root(
    tree: Tree,
    step: FloatArray,
    root: Root,
    n_rows: int,
    H: FloatArray,
    blur: FloatArray,
) -> None:
    """Derive what the root's children have, in place: s_L H_L + s_R H_R = -G, H_L + H_R = H."""
    left, right = int(tree.left[0]), int(tree.right[0])
    apart = step[left] - step[right]
    if not abs(apart) > ROUNDING.steps_apart * max(abs(step[left]), abs(step[right])):
        return
    steepest = np.abs(step[[left, right]]).max()
    size = (abs(root.first) + steepest * root.second) * _ROUNDED
    size += root.off_first + steepest * root.off_second
    # What rows of two classes add to the root's sum is rounded in two ways.
    off = (size + _ALL_OF_CLASS * n_rows) / abs(apart)
    hessian_left = (-root.first - step[right] * root.second) / apart
    for v, h in ((left, hessian_left), (right, root.second - hessian_left)):
        # Those of inner nodes follow more exactly from their children.
        if tree.is_leaf[v] and off < _BLURRED_ROOT * h:
            H[v], blur[v] = h, off / h


def steps_of(tree: Tree, rate: float, start: float) -> FloatArray:
    """Say what nodes would add, and leaves do, before it is multiplied by the learning rate.

    ``start``: what the values of leaves hold beside it. NaN where nothing is said.
    """
    value, step = tree.statistics.get(VALUE), tree.statistics.get(STEP)
    out = np.full(tree.n_nodes, np.nan)
    if step is not None:
        present = np.ones(tree.n_nodes, dtype=bool) if step.present is None else step.present
        out[present] = step.values[present]
    if value is not None:
        out[tree.is_leaf] = (value.values[tree.is_leaf] - start) / rate
    return out


def _rows(tree: Tree) -> FloatArray:
    entry = tree.statistics.get(ROWS)
    if entry is None:
        return np.full(tree.n_nodes, np.nan)
    n = entry.values.astype(float)
    return n if entry.present is None else np.where(entry.present, n, np.nan)


def _completed(tree: Tree, x: FloatArray, off: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Add up what children say, and take from a parent what the other child has.

    ``off``: by how much it may be off.
    """
    x, off = x.copy(), off.copy()
    inner = np.flatnonzero(~tree.is_leaf).tolist()
    for v in inner[::-1]:
        both = [int(tree.left[v]), int(tree.right[v])]
        if np.isnan(x[v]):
            x[v], off[v] = x[both].sum(), off[both].sum()
    for v in inner:
        for a, b in ((tree.left[v], tree.right[v]), (tree.right[v], tree.left[v])):
            if np.isnan(x[a]):
                x[a], off[a] = x[v] - x[b], off[v] + off[b]
    return x, off
