"""Pricing: the points of the grid with the largest sums of leaf weights, one leaf per tree.

Many good points at once come from :func:`best_points`, by climbing from many starts. The best one,
with a proof, comes from :func:`best_point`, by branch and bound over boxes of atoms.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray
from treeleak.core.clock import Clock, next_slice
from treeleak.core.private import dataclass
from treeleak.partition.boxes import Boxes
from treeleak.partition.pricing_kernels import Node, Search, climb_all, explore

_GAP = 1e-7
"""What the best point may lack, as a share of the largest weights of all trees together."""
_SWEEPS, _ROOT_SWEEPS = 2, 100
"""Sweeps over all prices: in a box, and before the first one is parted."""
_DEPTHS = 48
"""Depths of the search that keep prices of their own."""
_CLIMBS, _HOT, _STEPS = 12, 0.5, 6
"""Starts for the first point; hotness (in the weights' spread), and sweeps of each climb."""
_LONGEST_SLICE = 100_000
"""Boxes between two looks at the clock."""


@dataclass(frozen=True, eq=False)
class Best:
    """The best point found, and how much better another could be."""

    atoms: NDArray[np.int32]
    """Shape (n_attributes,). Atom of each attribute."""
    value: float
    """Sum of the weights of its leaves; -inf if no point was found."""
    upper: float
    """No point is worth more."""
    proved: bool
    """Whether no point is worth more than the largest of ``value`` and the bound asked for."""
    boxes: int
    """Boxes looked at."""
    others: NDArray[np.int32]
    """Shape (n_others, n_attributes). Points met on the way that are worth more than the bound
    asked for, if ``enough`` is given."""


def best_points(
    boxes: Boxes,
    weight: FloatArray,
    n: int,
    seed: int,
    starts: NDArray[np.int32] | None = None,
    hotness: float = _HOT,
) -> tuple[NDArray[np.int32], FloatArray]:
    """Find up to ``n`` different points with large sums of weights.

    Parameters
    ----------
    weight : float array, shape (n_leaves,)
        Weight of each row of A; -inf closes a leaf.
    n : int
        Climbs, and the most points given.
    starts : int32 array, shape (n_starts, n_attributes), optional
        Points from which to climb, in turn; random ones if not given.
    hotness : float
        How far a climb strays at first, in standard deviations of the weights.

    Returns
    -------
    atoms : int32 array, shape (n_points, n_attributes)
        Best first; none that lies in a closed leaf or breaks a rule.
    values : float array, shape (n_points,)
    """
    rng = np.random.default_rng(seed)
    radix = np.diff(boxes.layout.atom_start)
    if starts is None or not len(starts):
        points = rng.integers(0, radix, size=(n, len(radix)), dtype=np.int32)
    else:
        points = starts[np.arange(n) % len(starts)].astype(np.int32)
    own = boxes.weights(weight)
    usable = own[np.isfinite(own)]
    spread = float(usable.std()) if len(usable) else 0.0
    values = climb_all(boxes.layout, own, points, _STEPS, hotness * spread, rng)
    # The last sweeps are cold: every climb ends where no single attribute gains.
    values = climb_all(boxes.layout, own, points, _STEPS, 0.0, rng)
    points, values = points[values > -math.inf], values[values > -math.inf]
    _, first = np.unique(points, axis=0, return_index=True)
    order = first[np.argsort(-values[first], kind="stable")]
    return points[order], values[order]


def best_point(
    boxes: Boxes,
    weight: FloatArray,
    clock: Clock,
    bound: float = -math.inf,
    seed: int = 0,
    enough: int | None = None,
) -> Best:
    """Find the point with the largest sum of weights, and prove it.

    Parameters
    ----------
    weight : float array, shape (n_leaves,)
        Weight of each row of A; -inf closes a leaf.
    clock : Clock
        When it stops, ``upper`` still holds.
    bound : float
        Points that are not worth more are of no interest.
    enough : int, optional
        Stop, proved or not, after so many points that are worth more than ``bound``.

    Notes
    -----
    Holds 48 sets of prices (one per tree, tested attribute and atom) at most, and one set of atoms
    per box that waits: their number grows with the depth of the search, not with its length.
    """
    layout, own = boxes.layout, boxes.weights(weight)
    points, values = best_points(boxes, weight, _CLIMBS, seed, hotness=1.0)
    usable = np.where(np.isfinite(own), np.abs(own), 0.0)
    scale = sum(
        float(usable[a:b].max(initial=0.0))
        for a, b in zip(layout.leaf_start[:-1], layout.leaf_start[1:], strict=True)
    )
    gap = _GAP * max(scale, 1e-12)
    search = _started(boxes, bound, points, values, enough)
    node = _node(boxes)
    rng = np.random.default_rng(seed)
    looked, slice_, sweeps = 0, 1, _ROOT_SWEEPS
    while search.size[0] and search.n_pool[0] < len(search.pool) and not clock.stopped:
        before = clock.seconds
        looked += explore(layout, own, search, node, slice_, sweeps, gap, rng)
        sweeps = _SWEEPS
        slice_ = next_slice(slice_, clock.seconds - before, _LONGEST_SLICE)
    waiting = search.bound[: search.size[0]]
    upper = max(float(search.found[0]), float(waiting.max(initial=-math.inf))) + gap
    others = np.unique(search.pool[: search.n_pool[0]], axis=0)
    return Best(search.point, float(search.value[0]), upper, not len(waiting), looked, others)


def _started(
    boxes: Boxes, bound: float, points: NDArray[np.int32], values: FloatArray, enough: int | None
) -> Search:
    layout = boxes.layout
    n_attributes = len(layout.atom_start) - 1
    # Every parting leaves one more box to wait, and takes an atom of the box that is looked at.
    slots = boxes.n_atoms + 2
    best = float(values[0]) if len(values) else -math.inf
    return Search(
        alive=np.ones((slots, boxes.n_atoms), dtype=np.bool_),
        depth=np.zeros(slots, dtype=np.int64),
        bound=np.full(slots, np.inf),
        price=np.zeros((_DEPTHS, int(layout.offset[-1]))),
        size=np.ones(1, dtype=np.int64),
        point=points[0].copy() if len(points) else np.zeros(n_attributes, dtype=np.int32),
        value=np.array([best]),
        found=np.array([max(best, bound)]),
        pool=np.zeros((enough or 1, n_attributes), dtype=np.int32),
        n_pool=np.zeros(1, dtype=np.int64),
        asked=math.inf if enough is None else bound,
    )


def _node(boxes: Boxes) -> Node:
    layout = boxes.layout
    return Node(
        value=np.zeros(len(layout.row)),
        part_max=np.zeros(len(layout.leaf)),
        block_max=np.zeros(len(layout.attribute)),
        top=np.zeros(len(layout.leaf_start) - 1),
        best=np.zeros(len(layout.leaf_start) - 1, dtype=np.int64),
        group_max=np.zeros(int(layout.group_start[-1])),
        worth=np.zeros(int(layout.group_start[-1])),
        total=np.zeros(boxes.n_atoms),
        stamp=np.full(len(layout.row), -1, dtype=np.int64),
        left=np.zeros(boxes.n_atoms, dtype=np.int64),
        live=np.zeros(len(layout.row), dtype=np.int64),
        parts=np.zeros(len(layout.leaf), dtype=np.int64),
        n_live=np.zeros(len(layout.leaf_start) - 1, dtype=np.int64),
        n_parts=np.zeros(len(layout.attribute), dtype=np.int64),
    )
