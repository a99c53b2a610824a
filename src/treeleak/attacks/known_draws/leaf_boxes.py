"""Leaves as boxes, and which leaves of different trees have a point in common.

Of an ordered attribute a leaf admits an interval of atoms, and maybe the atom for a missing value;
of any other it admits a set of atoms.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.known_draws import domain_kernels as kernels
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition import AttributeAtoms, Geometry, GridTooLarge

MAX_WORDS = 2**27
"""Most words of a table of leaves or of domains: 1 GiB."""


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
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    """Shape (n_leaves, n_ordered). The interval of each leaf (row of A); none where low > high."""
    gone: NDArray[np.uint8]
    """Shape (n_leaves, n_ordered). Whether a leaf admits a missing value."""
    members: NDArray[np.uint64]
    """Shape (n_leaves, n_set_words). Atoms of the attributes without order, as bits."""
    set_start: IntArray
    """Shape (n_sets + 1,). The words of each of these."""
    word_start: IntArray
    """Shape (n_trees + 1,). Where the leaves of each tree stand among the words of a domain."""

    @classmethod
    def of(cls, geometry: Geometry) -> LeafBoxes:
        """Write down what each leaf admits.

        Raises GridTooLarge if the table of leaves that meet would be too large.
        """
        radix, n_leaves = geometry.radix, int(geometry.leaf_start[-1])
        per_tree = -(-np.diff(geometry.leaf_start) // 64)
        word_start = np.append(0, np.cumsum(per_tree)).astype(np.int64)
        if n_leaves * int(word_start[-1]) > MAX_WORDS:
            raise GridTooLarge(f"{n_leaves:,} leaves: too many to compare each with each")
        place, missing = _kinds(geometry)
        words = [-(-int(radix[a]) // 64) for a in np.flatnonzero(place < 0)]
        set_start = np.append(0, np.cumsum(words)).astype(np.int64)
        low = np.zeros((n_leaves, int((place >= 0).sum())), dtype=np.int32)
        high, gone = np.full_like(low, -1), np.zeros(low.shape, dtype=np.uint8)
        members = np.zeros((n_leaves, int(set_start[-1])), dtype=np.uint64)
        kernels.leaf_sides(
            geometry.compiled, place, radix, missing, low, high, gone, members, set_start
        )
        return cls(geometry, place, missing, low, high, gone, members, set_start, word_start)

    @property
    def n_words(self) -> int:
        """Words of a domain."""
        return int(self.word_start[-1])

    @cached_property
    def meets(self) -> NDArray[np.uint64]:
        """Which leaves of other trees have a point in common with each; (n_leaves, n_words)."""
        out = np.full((len(self.low), self.n_words), ~np.uint64(0))
        radix = (self.geometry.radix - self.missing)[self.place >= 0]
        kernels.overlaps(
            self.geometry.leaf_start, self.word_start, self.low, self.high, self.gone,
            self.members, self.set_start, radix, out,
        )  # fmt: skip
        return out

    def common(self, leaves: NDArray[np.int32]) -> IntArray:
        """Lowest, middle and highest atom that all leaves of a line admit.

        Returns an array of shape (3, n_lines, n_attributes).
        """
        low, high = self.low[leaves].max(axis=1), self.high[leaves].min(axis=1)
        gone = self.gone[leaves].min(axis=1).astype(bool)
        held = np.bitwise_and.reduce(self.members[leaves], axis=1)
        out = np.empty((3, len(leaves), len(self.place)), dtype=np.int64)
        for a, p in enumerate(self.place):
            if p >= 0:
                absent, end = low[:, p] > high[:, p], self.geometry.radix[a] - 1
                out[0, :, a] = np.where(absent, end, low[:, p])
                out[1, :, a] = np.where(absent, end, (low[:, p] + high[:, p]) // 2)
                out[2, :, a] = np.where(absent | gone[:, p], end, high[:, p])
            else:
                words = np.ascontiguousarray(held[:, self.set_start[-1 - p] : self.set_start[-p]])
                bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
                out[:2, :, a] = bits.argmax(axis=1)
                out[2, :, a] = bits.shape[1] - 1 - bits[:, ::-1].argmax(axis=1)
        return out

    def within_one(self, leaf: NDArray[np.int32], drawn: BoolArray) -> BoolArray:
        """Whether all that some leaves admit lies in one leaf of every tree.

        ``leaf``, shape (n_lines, n_trees): a leaf (row of A) of every tree. ``drawn``, shape
        (n_lines, n_trees): which of them are meant.
        """
        left = np.full((len(leaf), self.n_words), ~np.uint64(0))
        for t in range(leaf.shape[1]):
            left[drawn[:, t]] &= self.meets[leaf[drawn[:, t], t]]
        n = np.add.reduceat(np.bitwise_count(left), self.word_start[:-1], axis=1, dtype=np.int64)
        one = np.asarray((n == 1).all(axis=1))
        if self.members.size or self.gone.any():
            # Sets, and intervals with a missing value beside them, may meet pairwise and not all.
            for i in np.flatnonzero(~one):
                one[i] = self._one_each(leaf[i, drawn[i]], left[i])
        return one

    def _one_each(self, leaves: NDArray[np.int32], left: NDArray[np.uint64]) -> bool:
        """Whether one leaf of every tree, of those in ``left``, meets what some leaves admit."""
        low, high = self.low[leaves].max(axis=0), self.high[leaves].min(axis=0)
        gone, held = (np.bitwise_and.reduce(x[leaves], axis=0) for x in (self.gone, self.members))
        slot = np.flatnonzero(np.unpackbits(left.view(np.uint8), bitorder="little"))
        tree = np.searchsorted(self.word_start, slot // 64, side="right") - 1
        e = self.geometry.leaf_start[tree] + slot - 64 * self.word_start[tree]
        tree, e = (x[e < self.geometry.leaf_start[tree + 1]] for x in (tree, e))
        some = np.maximum(self.low[e], low) <= np.minimum(self.high[e], high)
        meets = (some | ((self.gone[e] & gone) > 0)).all(axis=1)
        if self.members.size:
            shared = (self.members[e] & held) != 0
            meets &= np.logical_or.reduceat(shared, self.set_start[:-1], axis=1).all(axis=1)
        n = np.bincount(tree[meets], minlength=len(self.word_start) - 1)
        return bool((n == 1).all())


def _kinds(geometry: Geometry) -> tuple[IntArray, IntArray]:
    """Find the attributes of which every test sends the lower atoms to the left."""
    _, attribute, table, _, _, goes_left = geometry.compiled
    missing = np.array([_has_missing(part) for part in geometry.parts], dtype=np.int64)
    place, n_ordered, n_sets = np.zeros_like(missing), 0, 0
    for a, size in enumerate(geometry.radix):
        tests = np.unique(table[attribute == a])
        left = goes_left[tests[:, None] + np.arange(size - missing[a])].astype(np.int8)
        if (np.diff(left, axis=1) <= 0).all():
            place[a], n_ordered = n_ordered, n_ordered + 1
        else:
            n_sets += 1
            place[a], missing[a] = -n_sets, 0
    return place, missing


def _has_missing(part: AttributeAtoms) -> bool:
    return len(part) > 1 and bool(np.isnan(part.atoms[-1].values).all())
