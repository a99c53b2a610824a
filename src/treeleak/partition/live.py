"""All live cells of a grid of any size, where there are few: as boxes, not as points."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass
from treeleak.partition.boxes import Boxes
from treeleak.partition.cells import class_bits
from treeleak.partition.live_kernels import Walk, list_live

__all__ = ["MAX_LIVE", "LiveBoxes", "enumerate_live"]

MAX_LIVE = 2**28
"""Largest table of live boxes, in (box, atom) pairs: 256 MiB."""

_NODES, _ROOM = 20_000, 2**12
"""Steps between two looks at the clock, and boxes that they have room for."""


@dataclass(frozen=True, eq=False)
class LiveBoxes:
    """Every point that is alive for some class, as boxes that share no point.

    Without rules, each box is a cell. A rule may cut a cell into several.

    Attributes
    ----------
    boxes : bool array, shape (n_boxes, n_atoms)
        Atoms of each box, numbered through all attributes.
    alive : bool array, shape (n_boxes, n_classes)
        For which classes a row may lie there.
    atoms : int32 array, shape (n_boxes, n_attributes)
        A point in each box.
    signature : int32 array, shape (n_boxes, n_trees)
        Leaves of each box, as rows of A.
    """

    boxes: BoolArray
    alive: BoolArray
    atoms: NDArray[np.int32]
    signature: NDArray[np.int32]


def enumerate_live(
    boxes: Boxes, open_leaves: BoolArray, most: int, clock: Clock
) -> LiveBoxes | None:
    """List every live box of the grid, whatever its size, if there are at most ``most``.

    Boxes are parted by the tree that leaves the fewest leaves open; what no open leaf of some tree
    admits is dropped on the way.

    Parameters
    ----------
    boxes : Boxes
    open_leaves : bool array, shape (n_leaves, n_classes)
        Whether a row of the class may lie in the leaf (rows of A).
    most : int
        Most boxes; fewer are listed where they would take more room than :data:`MAX_LIVE`.
    clock : Clock

    Returns
    -------
    LiveBoxes or None
        None if there are more, or the clock stopped before it was clear.
    """
    layout, n_atoms = boxes.layout, boxes.n_atoms
    most = min(most, MAX_LIVE // max(n_atoms, 1))
    bits = class_bits(open_leaves.shape[1])
    everyone = np.uint64(bits.sum(dtype=np.uint64))
    mask = np.where(open_leaves, bits, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    n_frames = len(layout.leaf_start) + 1
    walk = Walk(
        alive=np.ones((n_frames, n_atoms), dtype=np.bool_),
        classes=np.full(n_frames, everyone),
        factor=np.full(n_frames, -1),
        leaf=np.zeros(n_frames, dtype=np.int64),
        depth=np.ones(1, dtype=np.int64),
    )
    own = np.append(mask, everyone)[layout.row]
    found: list[BoolArray] = [np.zeros((0, n_atoms), dtype=np.bool_)]
    marks: list[NDArray[np.uint64]] = [np.zeros(0, dtype=np.uint64)]
    held = 0
    while walk.depth[0]:
        if clock.stopped or held > most:
            return None
        room, own_marks = np.empty((_ROOM, n_atoms), np.bool_), np.empty(_ROOM, np.uint64)
        n = int(list_live(layout, own, walk, room, own_marks, _NODES))
        found.append(room[:n].copy())
        marks.append(own_marks[:n].copy())
        held += n
    if held > most:
        return None
    table = np.concatenate(found)
    starts = layout.atom_start
    atoms = np.stack(
        [table[:, a:b].argmax(axis=1) for a, b in pairwise(starts)],
        axis=1,
    ).astype(np.int32)
    alive = (np.concatenate(marks)[:, None] & bits) != 0
    return LiveBoxes(table, alive, atoms, boxes.geometry.trace_atoms(atoms))
