"""Compiled loop that lists the boxes which every tree leaves open, tree by tree."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeleak.core.compiled import njit

__all__ = ["Walk", "list_live"]


class Walk(NamedTuple):
    """Where the listing stands: one frame per tree or rule that was parted on the way down.

    Attributes
    ----------
    alive : bool array, shape (n_frames, n_atoms)
        Atoms left in each frame.
    classes : uint64 array, shape (n_frames,)
        Classes left, as bits.
    factor, leaf : int arrays, shape (n_frames,)
        The factor by which a frame is parted, -1 if that is not chosen yet, and its next leaf.
    depth : int array, shape (1,)
        Frames in use.
    """

    alive: Any
    classes: Any
    factor: Any
    leaf: Any
    depth: Any


@njit()
def _meets(j: int, lay: Any, alive: Any) -> Any:
    """Whether a leaf meets a box."""
    for p in range(lay.part_start[j], lay.part_start[j + 1]):
        b = lay.block[p]
        a = lay.attribute[b]
        shift = lay.offset[b] - lay.atom_start[a]
        some = False
        for i in range(lay.atom_start[a], lay.atom_start[a + 1]):
            if alive[i] and lay.admits[lay.table[p] + lay.group[shift + i]]:
                some = True
                break
        if not some:
            return False
    return True


@njit()
def _narrow(lay: Any, mask: Any, alive: Any, classes: Any, reached: Any) -> Any:
    """Drop atoms, in place, and classes that some factor leaves no place for.

    Returns the classes that are left, and the factor with the fewest open leaves: -1 if each has
    one only, which holds the box.
    """
    changed = True
    fewest, chosen = 0, -1
    while changed:
        changed = False
        fewest, chosen = len(mask) + 1, -1
        for f in range(len(lay.leaf_start) - 1):
            n_open = 0
            possible = np.uint64(0)
            for b in range(lay.factor_blocks[f], lay.factor_blocks[f + 1]):
                # Open leaves that admit each group.
                reached[lay.group_start[b] : lay.group_start[b + 1]] = 0
            for j in range(lay.leaf_start[f], lay.leaf_start[f + 1]):
                if mask[j] & classes == 0 or not _meets(j, lay, alive):
                    continue
                n_open += 1
                possible |= mask[j]
                for b in range(lay.factor_blocks[f], lay.factor_blocks[f + 1]):
                    reached[lay.group_start[b] : lay.group_start[b + 1]] += 1
                for p in range(lay.part_start[j], lay.part_start[j + 1]):
                    b = lay.block[p]
                    for g in range(lay.group_start[b], lay.group_start[b + 1]):
                        reached[g] -= not lay.admits[lay.table[p] + g]
            changed |= possible & classes != classes
            classes &= possible
            if classes == 0:
                return classes, -1
            if 1 < n_open < fewest:
                fewest, chosen = n_open, f
            for b in range(lay.factor_blocks[f], lay.factor_blocks[f + 1]):
                a = lay.attribute[b]
                shift = lay.offset[b] - lay.atom_start[a]
                for i in range(lay.atom_start[a], lay.atom_start[a + 1]):
                    if alive[i] and reached[lay.group[shift + i]] == 0:
                        alive[i] = False
                        changed = True
    return classes, chosen


@njit()
def list_live(lay: Any, mask: Any, walk: Any, boxes: Any, classes: Any, nodes: int) -> Any:
    """Write down live boxes and their classes until there is no room, or after so many nodes."""
    reached = np.zeros(lay.group_start[-1], dtype=np.int64)
    n = 0
    for _ in range(nodes):
        if walk.depth[0] == 0 or n == len(boxes):
            break
        top = walk.depth[0] - 1
        alive = walk.alive[top]
        if walk.factor[top] < 0:
            walk.classes[top], chosen = _narrow(lay, mask, alive, walk.classes[top], reached)
            if walk.classes[top] == 0 or chosen < 0:
                if walk.classes[top] != 0:
                    boxes[n, :] = alive
                    classes[n] = walk.classes[top]
                    n += 1
                walk.depth[0] -= 1
                continue
            walk.factor[top] = chosen
            walk.leaf[top] = lay.leaf_start[chosen]
        j = walk.leaf[top]
        if j == lay.leaf_start[walk.factor[top] + 1]:
            walk.depth[0] -= 1
            continue
        walk.leaf[top] += 1
        if mask[j] & walk.classes[top] == 0 or not _meets(j, lay, alive):
            continue
        walk.alive[top + 1, :] = alive
        for p in range(lay.part_start[j], lay.part_start[j + 1]):
            b = lay.block[p]
            a = lay.attribute[b]
            shift = lay.offset[b] - lay.atom_start[a]
            for i in range(lay.atom_start[a], lay.atom_start[a + 1]):
                if not lay.admits[lay.table[p] + lay.group[shift + i]]:
                    walk.alive[top + 1, i] = False
        walk.classes[top + 1] = walk.classes[top] & mask[j]
        walk.factor[top + 1] = -1
        walk.depth[0] += 1
    return n
