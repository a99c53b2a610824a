"""Leaves as boxes, and which leaves of different trees have a point in common.

Of an ordered attribute a leaf admits an interval of atoms, and maybe the atom for a missing value;
of any other it admits a set of atoms.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws import box_kernels, domain_kernels
from treeleak.attacks.known_draws.box_kernels import Boxes, Forest
from treeleak.core.arrays import BoolArray, IntArray, packed
from treeleak.core.private import dataclass
from treeleak.partition import Geometry, GridTooLarge

MAX_WORDS = 2**27
"""Most words of a table of domains: 1 GiB; most sides of leaves."""
MAX_COMPARED = 2**25
"""Most words of the table of leaves that meet: 256 MiB."""
_BLOCK = 2**22
"""Sides of leaves that are looked up at once: a fraction of a second, between which alarms ring."""


@dataclass(frozen=True, eq=False)
class LeafBoxes:
    """The leaves of all trees as boxes."""

    geometry: Geometry
    place: IntArray
    """Shape (n_attributes,). Number of each attribute among the ordered ones; -1 - its number among
    the others."""
    missing: IntArray
    """Shape (n_attributes,). 1 where the attribute is ordered and its last atom is that of a
    missing value."""
    forest: Forest
    depth: int
    """More than the depth of any tree."""
    word_start: IntArray
    """Shape (n_trees + 1,). Where the leaves of each tree stand among the words of a domain."""
    compared: bool
    """Whether each leaf is compared with each; there may be too many for that."""

    @classmethod
    def of(cls, geometry: Geometry) -> LeafBoxes:
        """Write down what each leaf admits.

        Raises GridTooLarge if that is too much.
        """
        radix, n_leaves = geometry.radix, int(geometry.leaf_start[-1])
        if n_leaves * len(radix) > MAX_WORDS:
            raise GridTooLarge(f"{n_leaves:,} leaves of {len(radix):,} attributes: too many")
        per_tree = -(-np.diff(geometry.leaf_start) // 64)
        word_start = np.append(0, np.cumsum(per_tree)).astype(np.int64)
        place, missing = _attribute_places(geometry)
        depth = max(int(tree.depth.max()) for tree in geometry.release.trees) + 2
        forest = _forest(geometry, place, missing)
        box_kernels.leaf_sides(forest, _whole(radix, place, missing, forest.set_start), depth)
        compared = n_leaves * int(word_start[-1]) <= MAX_COMPARED
        return cls(geometry, place, missing, forest, depth, word_start, compared)

    @property
    def n_words(self) -> int:
        """Words of a domain."""
        return int(self.word_start[-1])

    @cached_property
    def meets(self) -> NDArray[np.uint64]:
        """Which leaves of other trees have a point in common with each; (n_leaves, n_words)."""
        out = np.full((int(self.geometry.leaf_start[-1]), self.n_words), ~np.uint64(0))
        radix = (self.geometry.radix - self.missing)[self.place >= 0]
        domain_kernels.overlaps(
            self.geometry.leaf_start, self.word_start, *self.forest.leaves, self.forest.set_start,
            radix, out,
        )  # fmt: skip
        return out

    def common(self, leaves: NDArray[np.int32]) -> IntArray:
        """Lowest, middle and highest atom that all leaves of a line admit.

        Returns an array of shape (3, n_lines, n_attributes).
        """
        boxes = self.forest.leaves
        sides = leaves.shape[1] * (boxes.low.shape[1] + boxes.members.shape[1])
        size = max(_BLOCK // max(sides, 1), 1)
        blocks = range(0, max(len(leaves), 1), size)
        return np.concatenate([self._common(leaves[i : i + size]) for i in blocks], axis=1)

    def _common(self, leaves: NDArray[np.int32]) -> IntArray:
        boxes = self.forest.leaves
        low, high = boxes.low[leaves].max(axis=1), boxes.high[leaves].min(axis=1)
        gone = boxes.gone[leaves].min(axis=1).astype(bool)
        out = np.empty((3, len(leaves), len(self.place)), dtype=np.int64)
        for a, p in enumerate(self.place):
            if p >= 0:
                absent, end = low[:, p] > high[:, p], self.geometry.radix[a] - 1
                out[0, :, a] = np.where(absent, end, low[:, p])
                out[1, :, a] = np.where(absent, end, (low[:, p] + high[:, p]) // 2)
                out[2, :, a] = np.where(absent | gone[:, p], end, high[:, p])
            else:
                inside = self.admitted(leaves, a)
                out[:2, :, a] = inside.argmax(axis=1)
                out[2, :, a] = inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=1)
        return out

    def admitted(self, leaves: NDArray[np.int32], attribute: int) -> BoolArray:
        """Which atoms of an attribute all leaves of a line admit, shape (n_lines, n_atoms)."""
        boxes, start, p = self.forest.leaves, self.forest.set_start, int(self.place[attribute])
        n_atoms = int(self.geometry.radix[attribute])
        if p < 0:
            words = np.bitwise_and.reduce(
                boxes.members[:, start[-1 - p] : start[-p]][leaves], axis=1
            )
            bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
            return bits[:, :n_atoms].astype(bool)
        atom = np.arange(n_atoms)
        low, high = boxes.low[leaves, p].max(axis=1), boxes.high[leaves, p].min(axis=1)
        out = (atom >= low[:, None]) & (atom <= high[:, None])
        if self.missing[attribute]:
            out[:, -1] |= boxes.gone[leaves, p].all(axis=1)
        return np.asarray(out)

    def within_one(self, leaf: NDArray[np.int32], drawn: BoolArray) -> BoolArray:
        """Whether all that some leaves admit lies in one leaf of every tree.

        ``leaf``, shape (n_lines, n_trees): a leaf (row of A) of every tree. ``drawn``, shape
        (n_lines, n_trees): which of them are meant.
        """
        out = np.zeros(len(leaf), dtype=bool)
        box_kernels.within_one(
            leaf, drawn, self.geometry.leaf_start, self.word_start, self.forest, self.depth, out
        )
        return out


def _forest(geometry: Geometry, place: IntArray, missing: IntArray) -> Forest:
    """Lay the trees out for kernels; of leaves, nothing is written yet."""
    root, attribute, _, left, right, _ = geometry.compiled
    words = [-(-int(geometry.radix[a]) // 64) for a in np.flatnonzero(place < 0)]
    set_start = np.append(0, np.cumsum(words)).astype(np.int64)
    n_nodes, n_leaves = len(attribute), int(geometry.leaf_start[-1])
    cut, gone_left = np.zeros(n_nodes, dtype=np.int32), np.zeros(n_nodes, dtype=bool)
    left_set = np.zeros((n_nodes, int(set_start[-1])), dtype=np.uint64)
    box_kernels.node_sides(
        geometry.compiled, place, geometry.radix, missing, set_start, cut, gone_left, left_set
    )
    low = np.zeros((n_leaves, int((place >= 0).sum())), dtype=np.int32)
    gone = np.zeros(low.shape, dtype=np.uint8)
    members = np.zeros((n_leaves, int(set_start[-1])), dtype=np.uint64)
    inner = attribute >= 0
    return Forest(
        root, np.where(inner, place[attribute], 0), np.where(inner, -1, left), left, right,
        cut, gone_left, left_set, set_start, Boxes(low, np.full_like(low, -1), gone, members),
    )  # fmt: skip


def _whole(radix: IntArray, place: IntArray, missing: IntArray, set_start: IntArray) -> Boxes:
    """The box of all points."""
    ordered = place >= 0
    high = (radix - 1 - missing)[ordered].astype(np.int32)[None]
    members = np.zeros((1, int(set_start[-1])), dtype=np.uint64)
    for a in np.flatnonzero(~ordered):
        all_atoms = packed(np.ones(int(radix[a]), dtype=bool))
        members[0, set_start[-1 - place[a]] : set_start[-place[a]]] = all_atoms
    return Boxes(np.zeros_like(high), high, missing[ordered].astype(np.uint8)[None], members)


def _attribute_places(geometry: Geometry) -> tuple[IntArray, IntArray]:
    """Find the attributes of which every test sends the lower atoms to the left."""
    _, attribute, table, _, _, goes_left = geometry.compiled
    missing = np.array(
        [len(p) > 1 and np.isnan(p.atoms[-1].values).all() for p in geometry.parts], dtype=np.int64
    )
    place, n_ordered, n_sets = np.zeros_like(missing), 0, 0
    for a, size in enumerate(geometry.radix):
        tests = np.unique(table[attribute == a])
        at = np.arange(size - missing[a])
        if all((np.diff(goes_left[first + at].astype(np.int8)) <= 0).all() for first in tests):
            place[a], n_ordered = n_ordered, n_ordered + 1
        else:
            n_sets += 1
            place[a], missing[a] = -n_sets, 0
    return place, missing
